"""The film of learning: the attention to three validation inputs at every validation.

It is recorded under teacher forcing, so the words stay the same while the attention moves.
`film.json` in the run folder holds the inputs, and for each validation the weights between their
words:

    inputs   the sides of each record, as the pages show them
    frames   per validation: its step, its loss, the weights and the answer of each input

At most `FRAMES` validations are kept: when there are more, every other one is dropped, and later
ones are recorded half as often. So the file stays below a megabyte, however long the training.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from jaxtyping import Float

from saccade.data.corpus import Item
from saccade.errors import SaccadeError
from saccade.files import read_json, write_file
from saccade.lens.formatting import readable_json
from saccade.lens.record import AttentionRecord
from saccade.tasks import Task
from saccade.training.run import Run

SCENES, CANDIDATES = 3, 12
"""Inputs of a film, and items that they are chosen from."""
FRAMES = 64
"""Validations that a film holds at most."""
LONGEST = 24
"""Words on a side of an input that is recorded."""
CELLS = 256
"""Cells of an image that is recorded."""


class Film:
    """The film of a training.

    Args:
        run: the run folder.
        task: the task in training.
        items: the validation items that predictions are made for, of which the first that are short
            enough are recorded.
    """

    def __init__(self, run: Run, task: Task, items: Sequence[Item]) -> None:
        self.run, self.task, self.items = run, task, items
        self.chosen: list[int] | None = None
        self.inputs: list[dict[str, object]] = []
        self.frames: list[dict[str, Any]] = []

    def restore(self) -> None:
        """Continue the film of a run that is resumed."""
        film = read_film(self.run)
        if film is not None:
            self.chosen, self.inputs, self.frames = film["chosen"], film["inputs"], film["frames"]

    def record(self, step: int, loss: float, answers: Sequence[str]) -> None:
        """Add a frame; nothing if the model has no attention, or all inputs are too long.

        Args:
            step: the updates made so far.
            loss: the validation loss.
            answers: the predictions for the items.
        """
        self.frames = [frame for frame in self.frames if frame["step"] < step]
        if not self._due(step):
            return
        if self.chosen is None:
            self.chosen = self._choose()
        if not self.chosen:
            return
        records = self._records(self.chosen)
        if len(self.frames) == FRAMES:
            self.frames = self.frames[::2]
        self.frames.append(
            {
                "step": step,
                "loss": round(loss, 5),
                "weights": [packed(weights_of(record)) for record in records],
                "answers": [answers[i] for i in self.chosen]
                if len(answers) > max(self.chosen)
                else [],
            }
        )
        film = {"chosen": self.chosen, "inputs": self.inputs, "frames": self.frames}
        write_file(self.run.film, readable_json(film).encode(), "the run itself is kept")

    def _due(self, step: int) -> bool:
        """Return whether a frame is due: as often as the frames so far, on average."""
        if len(self.frames) < 2:
            return True
        first, last = self.frames[0]["step"], self.frames[-1]["step"]
        return bool(step - last >= 0.99 * (last - first) / (len(self.frames) - 1))

    def _choose(self) -> list[int]:
        """Return the indices of the items to record, and keep their sides."""
        candidates = range(min(CANDIDATES, len(self.items)))
        with suppress(SaccadeError):  # a model without attention, or an unusable input
            records = self._records(candidates)
            chosen = [i for i in candidates if _fits(records[i])][:SCENES]
            self.inputs = [
                {
                    "read": records[i].read.view(),
                    "wrote": None if records[i].reads_itself else records[i].wrote.view(),
                    "right": " | ".join(self.items[i].references),
                }
                for i in chosen
            ]
            return chosen
        return []

    def _records(self, chosen: Sequence[int]) -> list[AttentionRecord]:
        items = [self.items[i] for i in chosen]
        outputs = [item.references[0] if item.references else "" for item in items]
        return self.task.records([self.task.input_of(item) for item in items], outputs)


def weights_of(record: AttentionRecord) -> Float[np.ndarray, "q k"]:
    """Return the weights that a film shows: between words, or in self-attention of the answer."""
    return record.glance()[None] if record.reads_itself else record.by_words()


def packed(weights: Float[np.ndarray, "q k"]) -> list[object]:
    """Return weights as their largest value, and bytes in base64 that are fractions of it."""
    most = float(weights.max(initial=0.0))
    levels = np.rint(255 * weights / (most or 1.0)).astype(np.uint8)
    return [round(most, 5), base64.b64encode(levels.tobytes()).decode()]


def read_film(run: Run) -> Mapping[str, Any] | None:
    """Return the film of a run; None if it has none, or the file is damaged."""
    try:
        film = read_json(run.film)
        frames, inputs = film["frames"], film["inputs"]
        complete = all(
            len(frame["weights"]) == len(inputs) and isinstance(frame["step"], int)
            for frame in frames
        )
        return film if complete and frames and inputs and film["chosen"] else None
    except (OSError, ValueError, KeyError, TypeError, SaccadeError):
        return None


def _fits(record: AttentionRecord) -> bool:
    read, wrote = len(record.read.words), len(record.wrote.words)
    if record.read.words_by_default:  # cells of an image, or steps
        return (
            bool(record.layers) and read <= CELLS and (record.reads_itself or 0 < wrote <= LONGEST)
        )
    return bool(record.layers) and 0 < read <= LONGEST and 0 < wrote <= LONGEST
