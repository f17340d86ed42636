"""The names of the files of a run folder, and those that can be read without torch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.errors import RunError, brief
from saccade.files import parse_json, read_json, read_text
from saccade.training.upgrade import FORMAT

if TYPE_CHECKING:
    from saccade.data.corpus import Item

BEGINNING = ".beginning"
"""Name of a file that marks a folder as not a run yet, until the first update is made."""


@dataclass(frozen=True)
class RunFolder:
    """A run folder, of which `Run` also reads and writes the recipe and the weights.

    Args:
        folder: its path; it need not exist yet.
    """

    folder: Path

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def metrics(self) -> Path:
        """File of the measurements, one JSON object per line."""
        return self.folder / "metrics.jsonl"

    @property
    def weights(self) -> Path:
        """File of the best weights."""
        return self.folder / "model.safetensors"

    @property
    def initial(self) -> Path:
        """File of the weights that were taken from another model, if there was a warm start."""
        return self.folder / "initial.safetensors"

    @property
    def sampled(self) -> Path:
        """File of some validation items, by which engines are compared."""
        return self.folder / "samples.jsonl"

    @property
    def film(self) -> Path:
        """File of the attention to some validation inputs at every validation."""
        return self.folder / "film.json"

    def exists(self) -> bool:
        """Return whether the folder holds a run that has begun."""
        return (self.folder / "run.json").exists() and not (self.folder / BEGINNING).exists()

    def about(self) -> dict[str, Any]:
        """Return what the run began with: its format, data, threads.

        Raises:
            RunError: if the folder is not a run, is damaged, or was written by a newer version.
        """
        path = self.folder / "run.json"
        try:
            about = read_json(path)
            number = int(about["format"])
        except (FileNotFoundError, NotADirectoryError):
            raise RunError(self._not_a_run()) from None
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise RunError(f"{path} is damaged: {brief(error)}. Restore it from a copy") from None
        if number > FORMAT:
            raise RunError(
                f"{self.folder} was written by a newer Saccade ({about.get('saccade')}, run format "
                f"{number}; this one reads up to {FORMAT}): upgrade Saccade to read it"
            )
        return dict(about)

    def begun_at(self) -> datetime:
        """Return when the run began, in local time; see `about` for its errors."""
        try:
            return datetime.fromisoformat(self.about()["started"]).astimezone()
        except (KeyError, TypeError, ValueError):  # a run of an older version
            modified = (self.folder / "run.json").stat().st_mtime
            return datetime.fromtimestamp(modified).astimezone()

    def languages(self) -> tuple[str, str] | None:
        """Return the source and target language of the training data, if run.json records them."""
        codes = self.about().get("languages")
        match codes:
            case [str() as source, str() as target]:
                return source, target
        return None

    def samples(self) -> list[Item]:
        """Return the kept items; none if the run is older, imported, or the file is damaged."""
        from saccade.data.corpus import Item

        try:
            rows = [parse_json(line) for line in read_text(self.sampled).splitlines()]
            return [
                Item(tuple(row["inputs"]), tuple(row["references"]), line)
                for line, row in enumerate(rows, start=1)
            ]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def _not_a_run(self) -> str:
        if not self.folder.exists():
            return f"the run folder {self.folder} does not exist; check the path"
        if not self.folder.is_dir():
            return f"{self.folder} is a file, not a run folder; give the folder that contains it"
        content = ", ".join(sorted(os.listdir(self.folder))[:6]) or "nothing"
        return (
            f"{self.folder} is not a run folder: it has no run.json, but {content}. Give a folder "
            "that `saccade train` or `saccade import` wrote"
        )
