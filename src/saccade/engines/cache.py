"""What was made of a run for an engine: a folder beside it that is whole or not there.

    RUN/engines/ctranslate2-int8/  model.bin  config.json  *_vocabulary.json  tokenizer*.json
                                   engine.json (what it was made of, its files, its check)

It is made under another name and renamed when it is complete. One that was made of other weights or
by other versions, or that does not hold what was written, is made anew. Where the run's folder
cannot be written, it lies in the user's cache. That the engine died of it is kept, too.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import filelock

from saccade._version import __version__
from saccade.errors import EngineError
from saccade.files import atomic_folder, clean_up, fingerprint, read_json, write_pieces
from saccade.interop import ctranslate2
from saccade.interop.ctranslate2 import Check
from saccade.training.run import Run

log = logging.getLogger(__name__)

ABOUT = "engine.json"
WAIT = 600
"""Seconds to wait for another process that makes the same."""


@dataclass(frozen=True)
class Kept:
    """A folder that is whole, and how its answers compare; or what the engine died of."""

    folder: Path
    check: Check
    died: str | None = None


@dataclass(frozen=True)
class Cache:
    """The folders of one run; `elsewhere` is for runs that cannot be written to."""

    run: Run
    elsewhere: Path

    def get(self, name: str, make: Callable[[Path], Check], *, again: bool = False) -> Kept:
        """The folder of this name, found or made: `make` fills an empty one, and checks it.

        `again`: what the engine died of before is tried once more.
        """
        origin = self._origin()

        def known(place: Path) -> Kept | None:
            found = _read(place / name, origin)
            return None if found and found.died and again else found

        for place in self._places():
            if found := known(place):
                return found
        problems = []
        for place in self._places():
            try:
                with _locked(place, name):
                    return known(place) or _made(place / name, origin, make)
            except OSError as error:
                problems.append(f"{place}: {error.strerror or error}")
        raise EngineError(f"what {name} needs could not be written: {'; '.join(problems)}")

    def _places(self) -> tuple[Path, Path]:
        whole = str(self.run.folder.resolve()).encode()
        return self.run.folder / "engines", self.elsewhere / hashlib.sha256(whole).hexdigest()[:16]

    def _origin(self) -> dict[str, str]:
        """All that the folder depends on; an engine that works here may not elsewhere."""
        names = ["recipe.toml", "model.safetensors"]
        names += sorted(path.name for path in self.run.folder.glob("tokenizer*.json"))
        return {
            **{name: _digest(self.run.folder / name) for name in names},
            "saccade": __version__,
            "ctranslate2": ctranslate2.version(),
            "machine": f"{platform.machine()} {platform.node()}",
        }


@contextmanager
def _locked(place: Path, name: str) -> Iterator[None]:
    place.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(place / f".{name}.lock", timeout=WAIT):
            yield
    except filelock.Timeout:
        raise EngineError(f"another process has been making {place / name} for too long") from None


def _read(folder: Path, origin: dict[str, str]) -> Kept | None:
    """What lies there, if it was made of just this and is what was written."""
    try:
        about = read_json(folder / ABOUT)
        if about["origin"] != origin:
            return None
        for name, digest in about["files"].items():
            if _digest(folder / name) != digest:
                log.warning("%s is damaged, and is made again", folder / name)
                return None
        return Kept(folder, Check.from_plain(about["check"]), about.get("died"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("%s is damaged, and is made again: %s", folder, error)
        return None


def _made(folder: Path, origin: dict[str, str], make: Callable[[Path], Check]) -> Kept:
    clean_up(folder.parent, folder.name)  # after a process that was killed
    with atomic_folder(folder) as partial:
        found, died = _tried(partial, make)
        names = sorted(path.name for path in partial.iterdir())
        files = {name: _digest(partial / name) for name in names}
        about: dict[str, Any] = {"origin": origin, "files": files, "check": asdict(found)}
        about["died"] = died
        write_pieces(partial / ABOUT, json.dumps(about, indent=1).encode())
    return Kept(folder, found, died)


def _tried(folder: Path, make: Callable[[Path], Check]) -> tuple[Check, str | None]:
    """What `make` found, or what it died of, and then nothing is left in the folder."""
    try:
        return make(folder), None
    except ctranslate2.DiedError as error:
        for path in folder.iterdir():
            path.unlink()
        return Check(compared=0, same=0, tokens=0.0), str(error)


def _digest(path: Path) -> str:
    return fingerprint(path).sha256
