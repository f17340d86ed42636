"""The manifest of a run folder: the size and SHA-256 of each file that training wrote.

    MANIFEST.json  {"files": {"model.safetensors": {"bytes": ..., "sha256": ...}, ...}}

A file is replaced in three steps: the manifest lists the new fingerprint beside the old one (under
"replaced"), the file gets its name, the manifest drops the old fingerprint. So a crash at any
moment leaves a file that the manifest accepts. Files that a manifest does not list, and all files
of runs from before there were manifests, are not checked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from saccade.errors import RunError, brief
from saccade.files import (
    KEPT,
    Content,
    Fingerprint,
    atomic_file,
    fingerprint,
    read_json,
    write_file,
    write_pieces,
)

MANIFEST = "MANIFEST.json"
TRIES = 3
"""Attempts at comparing a file while training replaces it."""


@dataclass(frozen=True)
class Manifest:
    """The fingerprints of files by name, and those of files that are being replaced."""

    files: Mapping[str, Fingerprint] = field(default_factory=dict)
    replaced: Mapping[str, tuple[Fingerprint, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Return the manifest of a folder; an empty one if there is none."""
        path = folder / MANIFEST
        try:
            table = read_json(path)
            if not isinstance(table, dict) or not table.keys() <= {"files", "replaced"}:
                raise ValueError('it must hold "files" and at most "replaced"')
            files = {
                _plain_name(name): Fingerprint.from_json(entry)
                for name, entry in table["files"].items()
            }
            replaced = {
                _plain_name(name): tuple(map(Fingerprint.from_json, entries))
                for name, entries in table.get("replaced", {}).items()
            }
            return cls(files, replaced)
        except (FileNotFoundError, NotADirectoryError):
            return cls()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"{path} is damaged: {brief(error)}. Restore it from a copy, or run "
                f"`saccade accept {folder}` to trust the files as they are now"
            ) from None

    def write(self, folder: Path, kept: str = KEPT) -> None:
        """Write the manifest into a folder."""
        table: dict[str, object] = {"files": {n: x.to_json() for n, x in self.files.items()}}
        if self.replaced:
            table["replaced"] = {n: [x.to_json() for x in old] for n, old in self.replaced.items()}
        write_file(folder / MANIFEST, json.dumps(table, indent=1).encode(), kept)

    def accepts(self, name: str) -> tuple[Fingerprint, ...]:
        """Return the accepted fingerprints of a file; none if it is not listed."""
        listed = (self.files[name],) if name in self.files else ()
        return listed + self.replaced.get(name, ())


def replace_files(folder: Path, contents: Mapping[str, Content], kept: str = KEPT) -> None:
    """Write files of a run and list them; a crash leaves each as it was or as it is to be.

    Args:
        folder: the run folder.
        contents: what to write, by the files' names.
        kept: part of an error, about the old files.
    """
    with ExitStack() as stack:
        new = {
            name: write_pieces(stack.enter_context(atomic_file(folder / name, kept)), content)
            for name, content in contents.items()
        }
        before = Manifest.read(folder)
        old = {name: before.accepts(name) for name in new if before.accepts(name)}
        files = {**before.files, **new}
        Manifest(files, {**before.replaced, **old}).write(folder, kept)
    left = {name: listed for name, listed in before.replaced.items() if name not in new}
    Manifest(files, left).write(folder, kept)


def forget(folder: Path, names: Collection[str]) -> None:
    """Drop files that are about to be removed from the manifest."""
    before = Manifest.read(folder)
    files = {name: entry for name, entry in before.files.items() if name not in names}
    replaced = {name: entries for name, entries in before.replaced.items() if name not in names}
    if files != before.files:
        Manifest(files, replaced).write(folder)


def require_intact(folder: Path, names: Iterable[str] | None = None) -> None:
    """Raise a RunError if a file is not what the manifest lists.

    Args:
        folder: the run folder.
        names: the files to check; all that the manifest lists if left out.
    """
    listed = Manifest.read(folder)
    if names is None:  # a listed file that is missing fails where it is read, if it is needed
        names = [name for name in os.listdir(folder) if name in listed.files]
    for name in names:
        path = folder / name
        for attempt in range(TRIES):
            accepted = (Manifest.read(folder) if attempt else listed).accepts(name)
            if not accepted or _fingerprint(path, accepted) in accepted:
                break
        else:
            raise RunError(
                f"{path} is damaged or was changed: its SHA-256 is not the one in {MANIFEST}. "
                f"Restore the file from a copy; if the change was made on purpose, run "
                f"`saccade accept {folder}`"
            )


def accept(folder: Path) -> list[str]:
    """List the files as they are now; return the names of those that have changed."""
    try:
        before = Manifest.read(folder).files
    except RunError:
        before = {}
    other = {MANIFEST, "run.json", "film.json"}  # which change while the weights do not
    names = [path.name for path in folder.glob("*.safetensors")]
    names += [path.name for path in folder.glob("*.json") if path.name not in other]
    try:
        now = {name: fingerprint(folder / name) for name in sorted(names)}
    except OSError as error:
        raise RunError(
            f"{error.filename} cannot be read: {error.strerror}. Restore it from a copy"
        ) from None
    Manifest(now).write(folder)
    return [name for name in now if now[name] != before.get(name)]


def _fingerprint(path: Path, accepted: tuple[Fingerprint, ...]) -> Fingerprint | None:
    """Return the fingerprint of a file; None, without reading it, if its size differs."""
    try:
        if path.stat().st_size not in {one.bytes for one in accepted}:
            return None
        return fingerprint(path)
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}. Restore it from a copy") from None


def _plain_name(name: str) -> str:
    if not name or Path(name).name != name:
        raise ValueError(f"{name!r:.80} is not the name of a file in this folder")
    return name
