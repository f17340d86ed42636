"""Copies of a run folder on machines that do not share it with the first process.

Process 0 writes the run folder. Machines with a shared folder see the same files; every other
machine gets a copy at the same path, after each checkpoint. So no machine holds the only copy, and
after a restart process 0 may be on another machine: it fetches the newest copy first.

What arrives is written into a folder of its own, and moved to its place when it is complete. A
crash in between leaves either the old files, or new files that the next start moves.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from saccade.errors import RunError
from saccade.files import disk_errors, fingerprint, sync_folder
from saccade.training import checkpoint
from saccade.training.distributed import World
from saccade.training.run import Run
from saccade.training.run_folder import BEGINNING

INCOMING, COMPLETE = ".incoming", "COMPLETE"
"""Folder of files that have arrived, and the file in it that marks them as complete."""
PIECE = 2**24
"""Bytes that are sent at a time."""

Listing = dict[str, list[Any]]
"""Size and SHA-256 of files by their path in the run folder."""


@dataclass(frozen=True)
class _Seen:
    """The content of a machine's run folder: when its run was started, and its newest step."""

    rank: int
    started: str | None
    step: int


class Copies:
    """The copies of a run folder on other machines.

    Args:
        run: the run folder; at the same path on each machine, shared or not.
        world: the processes that train together.
    """

    def __init__(self, run: Run, world: World) -> None:
        self.run, self.world = run, world
        self.holders: tuple[int, ...] = ()  # the leaders of machines with a copy
        self.known: Listing | None = None  # the files that all copies have
        self.stats: dict[str, tuple[int, int]] = {}  # the size and time of each when it was sent
        self.meetings = count()

    @property
    def any(self) -> bool:
        """Whether there are machines that do not share the run folder."""
        return bool(self.holders)

    @property
    def holds(self) -> bool:
        """Whether this process writes the copy of its machine."""
        return self.world.rank in self.holders

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keep a copy inside the block, if this process writes one; remove it if no run began."""
        if not self.holds:
            yield
            return
        with self.run.locked(), self.run.provisional():
            yield

    def prepare(self, *, resume: bool) -> None:
        """Find the machines that need a copy; let all have the newest one, if a run is resumed.

        Raises:
            RunError: if machines have different runs, or if one has a run that is not resumed.
        """
        if self.world.leads:
            finish_move(self.run.folder)
        if self.world.between_leaders is not None:
            self.holders = self._find_holders()
        if not self.any:
            return
        seen = [_Seen(**entry) for entry in self._exchange(self._look())]
        with_run = [one for one in seen if one.started is not None]
        if len({one.started for one in with_run}) > 1:
            raise RunError(
                f"{self.run.folder} holds different runs on the machines of this training; remove "
                "all but one, or choose another folder with --out"
            )
        if not with_run or not resume:
            if with_run and seen[0].started is None:
                raise RunError(
                    f"{self.run.folder} already holds a run on another machine; resume it with "
                    "--resume, or choose another folder with --out"
                )
            return
        newest = max(with_run, key=lambda one: (one.step, one.rank == 0))
        if newest.rank != 0:
            with self.run.locked() if self.world.first or self.holds else ExitStack():
                self._transfer(source=newest.rank)
        self.world.wait()

    def send(self) -> None:
        """Wait for the first process, and bring all copies up to date with its folder."""
        self.world.wait()
        if self.any:
            self._transfer(source=0)
            self.world.wait()

    def _look(self) -> dict[str, Any]:
        """Return what this machine has."""
        if not self.run.exists():
            return {"rank": self.world.rank, "started": None, "step": -1}
        steps = checkpoint.steps(self.run.checkpoints)
        started = str(self.run.about().get("started"))
        return {"rank": self.world.rank, "started": started, "step": steps[-1] if steps else 0}

    def _find_holders(self) -> tuple[int, ...]:
        """Return the leaders that do not see a file that the first process writes."""
        folder, world = self.run.folder, self.world
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        mark = world.from_first(lambda: f".shared-{uuid.uuid4().hex}")
        try:
            if world.first:
                with suppress(OSError):  # a folder that cannot be written is an error elsewhere
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / mark).touch()
            world.wait()
            sees = folder.is_dir() and mark in os.listdir(folder)
            entries = self._exchange({"rank": world.rank, "sees": sees})
        finally:
            if world.first:
                (folder / mark).unlink(missing_ok=True)
                with suppress(OSError):
                    for path in missing:
                        path.rmdir()
        world.wait()
        return tuple(entry["rank"] for entry in entries if entry["rank"] and not entry["sees"])

    def _exchange(self, own: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the entries of the leaders of all machines, in every process."""
        assert self.world.store is not None
        number = next(self.meetings)
        keys = {rank: f"saccade/machine/{number}/{rank}" for rank in self.world.leaders}
        if self.world.leads:
            self.world.store.set(keys[self.world.rank], json.dumps(own))
        self.world.wait()
        return [json.loads(self.world.store.get(keys[rank])) for rank in self.world.leaders]

    def _transfer(self, source: int) -> None:
        """Send the files of one leader's folder to the others, where they differ."""
        known = self._compare(source) if self.known is None else self.known
        if not self.world.leads:
            self.known = known
        elif self.world.rank == source:
            self.known = self._send(known)
        else:
            self.known = self._receive(source, write=self.holds or self.world.first)

    def _compare(self, source: int) -> Listing:
        """Return the files that all copies have as the source has them, and -1 for other files."""
        reads = self.holds or self.world.rank in (0, source)
        own = {"rank": self.world.rank, "files": listing(self.run.folder) if reads else None}
        entries = {entry["rank"]: entry["files"] for entry in self._exchange(own)}
        right = entries.pop(source)
        others = [files for files in entries.values() if files is not None]
        same = {
            path: listed
            for path, listed in right.items()
            if all(files.get(path) == listed for files in others)
        }
        wrong = {path for files in others for path in files} - same.keys()
        return same | {path: [-1, ""] for path in wrong}

    def _send(self, known: Listing) -> Listing:
        now, changed = Listing(), list[str]()
        for path, stat in stats(self.run.folder).items():
            if path in known and known[path][0] >= 0 and self.stats.get(path, stat) == stat:
                now[path] = known[path]
            else:
                changed.append(path)
            self.stats[path] = stat
        removed = sorted(known.keys() - now.keys() - set(changed))
        new = {path: [self.stats[path][0], ""] for path in changed}
        header = json.dumps({"changed": new, "removed": removed, "known": now}).encode()
        self._broadcast_bytes(header, self.world.rank)
        for path in changed:
            with (self.run.folder / path).open("rb") as file:
                for size in _pieces(self.stats[path][0]):
                    piece = torch.frombuffer(bytearray(file.read(size)), dtype=torch.uint8)
                    self._broadcast(piece, self.world.rank)
        return now | new

    def _receive(self, source: int, *, write: bool) -> Listing:
        """Receive files; `write` is false on a machine that shares the folder with another."""
        header = json.loads(self._broadcast_bytes(None, source))
        folder = self.run.folder
        incoming = folder / INCOMING
        with ExitStack() as stack:
            if write:
                stack.enter_context(disk_errors(folder, "the copy before it is kept"))
                shutil.rmtree(incoming, ignore_errors=True)
                incoming.mkdir(parents=True)
            for path, (size, _) in header["changed"].items():
                file = None
                if write:
                    target = incoming / "files" / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    file = stack.enter_context(target.open("wb"))
                for length in _pieces(size):
                    piece = torch.empty(length, dtype=torch.uint8)
                    self._broadcast(piece, source)
                    if file is not None:
                        file.write(piece.numpy().data)
                if file is not None:
                    file.flush()
                    os.fsync(file.fileno())
                    file.close()
            if write:
                (incoming / COMPLETE).write_text(json.dumps(header["removed"]))
                sync_folder(incoming)
                finish_move(folder)
        return {**header["known"], **header["changed"]}

    def _broadcast(self, piece: torch.Tensor, source: int) -> None:
        distributed.broadcast(piece, source, group=self.world.between_leaders)

    def _broadcast_bytes(self, content: bytes | None, source: int) -> bytes:
        size = torch.tensor([len(content or b"")])
        self._broadcast(size, source)
        if content is None:
            content = bytes(int(size))
        piece = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        self._broadcast(piece, source)
        return piece.numpy().tobytes()


def finish_move(folder: Path) -> None:
    """Move files that have arrived to their place; remove them if they are not complete."""
    incoming = folder / INCOMING
    if not incoming.exists():
        return
    if (incoming / COMPLETE).exists():
        for path in json.loads((incoming / COMPLETE).read_text()):
            (folder / path).unlink(missing_ok=True)
            with suppress(OSError):  # the folder has other files
                (folder / path).parent.rmdir()
        arrived = incoming / "files"
        paths = [path.relative_to(arrived) for path in arrived.rglob("*") if path.is_file()]
        for path in sorted(paths):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            os.replace(arrived / path, folder / path)
        for parent in {folder / path.parent for path in paths}:
            sync_folder(parent)
        (incoming / COMPLETE).unlink()
    shutil.rmtree(incoming, ignore_errors=True)


def stats(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size and time of each file of a run, by its path in the folder."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    places = {path.relative_to(folder).as_posix(): path.stat() for path in paths}
    return {
        place: (stat.st_size, stat.st_mtime_ns)
        for place, stat in sorted(places.items())
        if place == BEGINNING or not any(part.startswith(".") for part in Path(place).parts)
    }


def listing(folder: Path) -> Listing:
    """Return the size and SHA-256 of each file of a run, by its path in the folder."""
    fingerprints = {path: fingerprint(folder / path) for path in stats(folder)}
    return {path: [one.bytes, one.sha256] for path, one in fingerprints.items()}


def _pieces(size: int) -> Iterator[int]:
    """Yield the sizes of the pieces of a file."""
    for start in range(0, size, PIECE):
        yield min(PIECE, size - start)
