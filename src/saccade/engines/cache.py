"""The files of an engine: a folder beside the run that is complete or does not exist.

    RUN/engines/ctranslate2-int8/  model.bin  config.json  *_vocabulary.json  tokenizer*.json
                                   engine.json (what it was built from, its files, its check)

A folder is built under another name and renamed when it is complete. It is built again if it was
built from other weights or by other versions, or if a file is damaged. If the run folder is not
writable, the folder is in the user's cache. A crash of the engine is remembered as well.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from saccade._version import __version__
from saccade.errors import EngineError
from saccade.files import atomic_folder, clean_up, fingerprint, read_json, write_pieces
from saccade.interop import ctranslate2
from saccade.interop.ctranslate2 import Check
from saccade.training.run_folder import RunFolder

log = logging.getLogger(__name__)

ABOUT = "engine.json"
FORMAT = "2"
"""The version of what `ABOUT` holds; folders of other versions are built again."""
WAIT = 600
"""Seconds to wait for another process that builds the same folder."""

Report = Callable[..., None]
"""A method of a logger."""
Stamp = list[int]
"""The size of a file, the times of its last changes, and its inode."""
Known = Mapping[str, tuple[Stamp, str]]
"""The stamps and the SHA-256 of files, by their names."""


@dataclass(frozen=True)
class BuiltEngine:
    """A complete folder of an engine.

    Attributes:
        folder: The folder.
        check: The comparison of its answers with those of the model.
        died: The message of the crash, if the engine crashed; the folder is then empty.
        record: What is kept beside the files, by the program that built them.
    """

    folder: Path
    check: Check
    died: str | None = None
    record: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineCache:
    """The engine folders of one run.

    Attributes:
        run: The run.
        fallback: The folder for runs that are not writable.
    """

    run: RunFolder
    fallback: Path

    def get(
        self,
        name: str,
        build: Callable[[Path], Check],
        *,
        retry: bool = False,
        record: Callable[[], Mapping[str, Any]] = dict,
    ) -> BuiltEngine:
        """Return the folder of this name; build it if there is none.

        Args:
            name: The name of the folder.
            build: Called with an empty folder, which it fills and checks.
            retry: Whether to build it again after a crash.
            record: Return what is to be kept beside the files.

        Raises:
            EngineError: The folder cannot be written, or another process takes too long.
        """

        def known(place: Path) -> BuiltEngine | None:
            built = self._read(place / name)
            return None if built and built.died and retry else built

        for place in self._places():
            if built := known(place):
                return built
        stamps = self._stamps()  # before the files are read, so that a change is noticed
        origin = self._origin({})
        problems = []
        for place in self._places():
            try:
                with _locked(place, name):
                    if built := known(place):
                        return built
                    return _build(place / name, origin, stamps, build, record)
            except OSError as error:
                problems.append(f"{place}: {error.strerror or error}")
        raise EngineError(f"the files of {name} could not be written: {'; '.join(problems)}")

    def built(self, name: str) -> BuiltEngine | None:
        """Return the folder of this name; None if there is none."""
        read = (self._read(place / name, log.debug) for place in self._places())
        return next((built for built in read if built is not None), None)

    def _places(self) -> tuple[Path, Path]:
        path = str(self.run.folder.resolve()).encode()
        return self.run.folder / "engines", self.fallback / hashlib.sha256(path).hexdigest()[:16]

    def _names(self) -> list[str]:
        """Return the files of the run that an engine depends on."""
        vocabularies = sorted(path.name for path in self.run.folder.glob("tokenizer*.json"))
        return ["recipe.toml", "model.safetensors", *vocabularies]

    def _stamps(self) -> dict[str, Stamp]:
        return {name: _stamp(self.run.folder / name) for name in self._names()}

    def _origin(self, known: Known) -> dict[str, str]:
        """Return all that the folder depends on, the machine included."""
        return {
            **{name: _digest(self.run.folder / name, known) for name in self._names()},
            "saccade": __version__,
            "ctranslate2": ctranslate2.version(),
            "machine": f"{platform.machine()} {platform.node()}",
            "format": FORMAT,
        }

    def _read(self, folder: Path, report: Report = log.warning) -> BuiltEngine | None:
        """Return a folder, if it was built from the files of the run and is intact.

        A file that has the size, the times and the inode of when the folder was built is not read.
        """
        try:
            about = read_json(folder / ABOUT)
            origin, files = about["origin"], about["files"]
            if origin.get("format") != FORMAT:
                return None
            if origin != self._origin(_known(about["stamps"]["origin"], origin)):
                return None
            known = _known(about["stamps"]["files"], files)
            for name, digest in files.items():
                if _digest(folder / name, known) != digest:
                    report("%s is damaged and is built again", folder / name)
                    return None
            check = Check.from_plain(about["check"])
            return BuiltEngine(folder, check, about["died"], about["record"])
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            report("%s is damaged and is built again: %s", folder, error)
            return None


class RunWeights:
    """The weights of a run, which training may replace at any time."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self._seen = self._read_stat()

    def require_same(self) -> None:
        """Raise if the file was replaced since this object was created."""
        if self._read_stat() != self._seen:
            raise EngineError(
                f"the weights of {self.run.folder} changed while an engine was built; try again"
            )

    def _read_stat(self) -> Stamp | None:
        try:
            size, modified, _, inode = _stamp(self.run.weights)
        except OSError:
            return None
        return [size, modified, inode]


@contextmanager
def _locked(place: Path, name: str) -> Iterator[None]:
    import filelock

    place.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(place / f".{name}.lock", timeout=WAIT):
            yield
    except filelock.Timeout:
        raise EngineError(
            f"another process has been building {place / name} for {WAIT} s; try again later"
        ) from None


def _build(
    folder: Path,
    origin: Mapping[str, str],
    stamps: Mapping[str, Stamp],
    build: Callable[[Path], Check],
    record: Callable[[], Mapping[str, Any]],
) -> BuiltEngine:
    clean_up(folder.parent, folder.name)  # after a process that was killed
    with atomic_folder(folder) as partial:
        check, died = _try(partial, build)
        names = sorted(path.name for path in partial.iterdir())
        kept = {} if died else record()
        about = {
            "origin": origin,
            "files": {name: _digest(partial / name, {}) for name in names},
            "stamps": {
                "origin": stamps,
                "files": {name: _stamp(partial / name) for name in names},
            },
            "check": asdict(check),
            "died": died,
            "record": kept,
        }
        write_pieces(partial / ABOUT, json.dumps(about, indent=1).encode())
    return BuiltEngine(folder, check, died, kept)


def _try(folder: Path, build: Callable[[Path], Check]) -> tuple[Check, str | None]:
    """Return the check, and the message of a crash, after which the folder is empty."""
    try:
        return build(folder), None
    except ctranslate2.DiedError as error:
        for path in folder.iterdir():
            path.unlink()
        return Check(compared=0, same=0, tokens=0.0), str(error)


def _stamp(path: Path) -> Stamp:
    """Return what changes with a file, without reading it."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _known(stamps: Mapping[str, Stamp], digests: Mapping[str, str]) -> Known:
    return {name: (stamp, digests[name]) for name, stamp in stamps.items()}


def _digest(path: Path, known: Known) -> str:
    """Return the SHA-256 of a file, without reading it if its stamp is known."""
    stamp, digest = known.get(path.name, (None, ""))
    return digest if stamp == _stamp(path) else fingerprint(path).sha256
