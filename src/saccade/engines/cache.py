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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

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
"""Seconds to wait for another process that builds the same folder."""


@dataclass(frozen=True)
class BuiltEngine:
    """A complete folder of an engine.

    Attributes:
        folder: The folder.
        check: The comparison of its answers with those of the model.
        died: The message of the crash, if the engine crashed; the folder is then empty.
    """

    folder: Path
    check: Check
    died: str | None = None


@dataclass(frozen=True)
class EngineCache:
    """The engine folders of one run.

    Attributes:
        run: The run.
        fallback: The folder for runs that are not writable.
    """

    run: Run
    fallback: Path

    def get(self, name: str, build: Callable[[Path], Check], *, retry: bool = False) -> BuiltEngine:
        """Return the folder of this name; build it if there is none.

        Args:
            name: The name of the folder.
            build: Called with an empty folder, which it fills and checks.
            retry: Whether to build it again after a crash.

        Raises:
            EngineError: The folder cannot be written, or another process takes too long.
        """
        origin = self._origin()

        def known(place: Path) -> BuiltEngine | None:
            built = _read(place / name, origin)
            return None if built and built.died and retry else built

        for place in self._places():
            if built := known(place):
                return built
        problems = []
        for place in self._places():
            try:
                with _locked(place, name):
                    return known(place) or _build(place / name, origin, build)
            except OSError as error:
                problems.append(f"{place}: {error.strerror or error}")
        raise EngineError(f"the files of {name} could not be written: {'; '.join(problems)}")

    def _places(self) -> tuple[Path, Path]:
        path = str(self.run.folder.resolve()).encode()
        return self.run.folder / "engines", self.fallback / hashlib.sha256(path).hexdigest()[:16]

    def _origin(self) -> dict[str, str]:
        """Return all that the folder depends on, the machine included."""
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
        raise EngineError(
            f"another process has been building {place / name} for {WAIT} s; try again later"
        ) from None


def _read(folder: Path, origin: dict[str, str]) -> BuiltEngine | None:
    """Return the folder, if it was built from this origin and is intact."""
    try:
        about = read_json(folder / ABOUT)
        if about["origin"] != origin:
            return None
        for name, digest in about["files"].items():
            if _digest(folder / name) != digest:
                log.warning("%s is damaged and is built again", folder / name)
                return None
        return BuiltEngine(folder, Check.from_plain(about["check"]), about.get("died"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("%s is damaged and is built again: %s", folder, error)
        return None


def _build(folder: Path, origin: dict[str, str], build: Callable[[Path], Check]) -> BuiltEngine:
    clean_up(folder.parent, folder.name)  # after a process that was killed
    with atomic_folder(folder) as partial:
        check, died = _try(partial, build)
        names = sorted(path.name for path in partial.iterdir())
        files = {name: _digest(partial / name) for name in names}
        about = {"origin": origin, "files": files, "check": asdict(check), "died": died}
        write_pieces(partial / ABOUT, json.dumps(about, indent=1).encode())
    return BuiltEngine(folder, check, died)


def _try(folder: Path, build: Callable[[Path], Check]) -> tuple[Check, str | None]:
    """Return the check, and the message of a crash, after which the folder is empty."""
    try:
        return build(folder), None
    except ctranslate2.DiedError as error:
        for path in folder.iterdir():
            path.unlink()
        return Check(compared=0, same=0, tokens=0.0), str(error)


def _digest(path: Path) -> str:
    return fingerprint(path).sha256
