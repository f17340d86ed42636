"""Attention records of a batch: the weights of a model while it runs, row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from saccade.attention.watch import watch
from saccade.errors import WatchError
from saccade.models.pooling import AttentionPooling

if TYPE_CHECKING:
    from saccade.lens.record import AttentionRecord
    from saccade.lens.record.sides import AnySide, Side


def self_attention(
    model: nn.Module, run: Callable[[], object], sides: Sequence[AnySide]
) -> list[AttentionRecord]:
    """Return the self-attention of the tokens of each row while `run` runs the model.

    Args:
        model: The model.
        run: Run the model on a padded batch.
        sides: The tokens of each row, without padding.
    """
    return _records(model, run, sides, sides)


def classifier_attention(
    model: nn.Module, run: Callable[[], object], sides: Sequence[AnySide]
) -> list[AttentionRecord]:
    """Return the attention of a classifier while `run` runs it.

    With attention pooling it is that of the learned queries; without, the self-attention of the
    tokens of each row. The arguments are those of `self_attention`.
    """
    from saccade.lens.record import Side

    pooling = getattr(model, "pooling", None)
    if not isinstance(pooling, AttentionPooling):
        return self_attention(model, run, sides)
    queries = Side.of_words(pooling.query_names)
    return _records(model, run, sides, [queries] * len(sides), ["pooling"])


def cross_attention(
    model: nn.Module,
    run: Callable[[], object],
    read: Sequence[AnySide],
    wrote: Sequence[Side],
    layers: Sequence[str],
) -> list[AttentionRecord]:
    """Return the attention of the written tokens of each row to its input while `run` is called.

    Args:
        model: The model.
        run: Run the model on a padded batch.
        read: The tokens of each row that are looked at, without padding.
        wrote: The tokens of each row that look, without padding.
        layers: The names of the attentions that look at what was read.

    Raises:
        WatchError: There are no such attentions.
    """
    if not layers:
        raise WatchError(
            "this model has no attention: it never looks back at what it read; "
            "use a model with attention"
        )
    return _records(model, run, read, wrote, layers)


def _records(
    model: nn.Module,
    run: Callable[[], object],
    read: Sequence[AnySide],
    wrote: Sequence[AnySide],
    layers: Sequence[str] | None = None,
) -> list[AttentionRecord]:
    from saccade.lens.record import AttentionRecord

    with torch.no_grad(), watch(model, layers=layers, device="cpu") as seen:
        run()
    return [
        AttentionRecord(
            from_,
            to,
            {
                name: seen[name].weights[row, :, : len(to.tokens), : len(from_.tokens)].numpy()
                for name in layers or seen
            },
        )
        for row, (from_, to) in enumerate(zip(read, wrote, strict=True))
    ]
