"""How every task answers: inputs are prepared, batched by length, answered, and looked into.

A task gives three steps: `prepare` turns inputs into examples, `answer` answers a batch of them,
and `look` returns where the model looked for a batch of answers. Checking, sorting, batching,
threads, progress and cancellation are here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from saccade.attention.watch import watch
from saccade.errors import DecodingError
from saccade.tasks._shared.parallel_batches import Rows, batch_size_for, side_by_side

if TYPE_CHECKING:
    from saccade.lens.record import AttentionRecord
    from saccade.lens.record.sides import AnySide

OnBatch = Callable[[int], None]
"""Called after each batch with the number of examples in it."""


@dataclass(frozen=True)
class Answer:
    """A model's prediction: the text, its mean log-probability, and where the model looked.

    A text that is not `finished` was cut at its maximum length. `tokens` are those that were
    generated, where the text alone does not determine them.
    """

    text: str
    score: float
    attention: AttentionRecord | None = None
    alternatives: tuple[Answer, ...] = ()
    finished: bool = True
    tokens: tuple[int, ...] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        """For people."""
        return self.text

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        table: dict[str, Any] = {"text": self.text, "score": self.score}
        if self.alternatives:
            table["alternatives"] = [other.as_json() for other in self.alternatives]
        return table


BLANK = Answer("", 0.0)
"""The answer to a blank input."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Example:
    """An input as a task reads it.

    number   of the input, from 0, for its seed and for messages
    length   in tokens; examples of similar length are answered together
    group    examples are answered together only if this is equal
    blank    there is nothing to answer
    """

    number: int
    length: int = 0
    group: Hashable = None
    blank: bool = False


def answer_all(
    examples: Sequence[Example],
    answer: Callable[[list[Any]], Sequence[Answer]],
    look: Callable[[list[Any], Sequence[Answer]], Sequence[AttentionRecord]] | None,
    device: torch.device,
    *,
    batch_size: int,
    on_batch: OnBatch | None,
) -> list[Any]:
    """Answer examples batch by batch, on a CPU several batches in parallel, and look into them."""
    require_batch_size(batch_size)
    answers: list[Any] = [BLANK] * len(examples)

    def answer_batch(rows: Rows) -> Sequence[Answer]:
        batch = [examples[i] for i in rows]
        with torch.no_grad():  # for the thread that this runs in
            found = answer(batch)
            if look is None:
                return found
            records = look(batch, found)
        pairs = zip(found, records, strict=True)
        return [replace(one, attention=record) for one, record in pairs]

    batches = batches_of(examples, batch_size_for(len(examples), batch_size, device))
    for rows, found in side_by_side(answer_batch, batches, device):
        for i, one in zip(rows, found, strict=True):
            answers[i] = one
        if on_batch is not None:
            on_batch(len(rows))
    return answers


def batches_of(examples: Sequence[Example], batch_size: int) -> list[Rows]:
    """Return the places of examples that are answered together: equal groups, similar lengths.

    The longest come first, so that no thread has a long batch left when the others are done.
    """
    groups: dict[Hashable, Rows] = {}
    for i, example in enumerate(examples):
        if not example.blank:
            groups.setdefault(example.group, []).append(i)
    batches = []
    for rows in groups.values():
        rows.sort(key=lambda i: -examples[i].length)
        batches += [rows[at : at + batch_size] for at in range(0, len(rows), batch_size)]
    return sorted(batches, key=lambda rows: -examples[rows[0]].length)


def self_attention(
    model: nn.Module, run: Callable[[], object], sides: Sequence[AnySide]
) -> list[AttentionRecord]:
    """Return where the tokens of each row looked at each other while `run` ran the model.

    `sides` are the rows, whose tokens stand before the padding.
    """
    from saccade.lens.record import AttentionRecord

    with torch.no_grad(), watch(model, device="cpu") as seen:
        run()
    records = []
    for row, side in enumerate(sides):
        n = len(side.tokens)
        weights = {name: seen[name].weights[row, :, :n, :n].numpy() for name in seen}
        records.append(AttentionRecord(side, side, weights))
    return records


def require_several(inputs: object) -> None:
    """Raise if one input is given where a list of inputs is expected."""
    from PIL import Image

    if isinstance(inputs, str | bytes | Path | Image.Image):
        raise DecodingError("predict takes several inputs, got one: put it into a list")


def require_batch_size(batch_size: int) -> None:
    """Raise unless at least one input is answered at a time."""
    if batch_size < 1:
        raise DecodingError(f"batch_size must be at least 1, got {batch_size}")


def require_no_options(options: Mapping[str, Any], known: Sequence[str] = ()) -> None:
    """Raise if there are options that a task does not have; `known` are the options it has."""
    if options:
        names = ", ".join((*known, "attention", "batch_size"))
        raise DecodingError(f"there is no option {next(iter(options))!r}; there are: {names}")
