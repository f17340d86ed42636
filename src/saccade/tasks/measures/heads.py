"""Heads measured: how widely they look, how they differ, and the loss without each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float

from saccade.attention.watch import watch
from saccade.data.corpus import Item
from saccade.lens.faithfulness.heads import divergence, entropy, without_head
from saccade.metrics.score import MetricScore
from saccade.tasks._shared.base import Task
from saccade.tasks._shared.evaluation import TableRows
from saccade.tasks.measures.finding import Finding, batches, mean, signature


class HeadStatistics:
    """Entropy and divergence of all heads over several items."""

    def __init__(self) -> None:
        self._bits: dict[str, list[np.ndarray]] = {}
        self._apart: dict[str, list[np.ndarray]] = {}

    def add(self, weights: Mapping[str, Float[np.ndarray, "heads queries keys"]]) -> None:
        """Add the weights of an item, by layer; all items have the same layers."""
        for layer, own in weights.items():
            self._bits.setdefault(layer, []).append(entropy(own))
            self._apart.setdefault(layer, []).append(divergence(own))

    @property
    def heads(self) -> list[tuple[str, int]]:
        """All heads: the name of the layer, and the number in it."""
        return [(layer, head) for layer, own in self._bits.items() for head in range(len(own[0]))]

    def findings(self) -> list[Finding]:
        """Return the mean entropy of a head and the mean divergence of two heads of a layer."""
        wide = mean("attention_entropy", _item_means(self._bits.values()), "bits")
        findings = [
            Finding(
                wide,
                f"The attention of a head has an entropy of {wide.value:.2f} bits on average, as "
                f"if it were spread evenly over {2**wide.value:.1f} tokens, cells or steps.",
            )
        ]
        several = [_pair_means(layer) for layer in self._apart.values() if layer[0].size > 1]
        if several:
            differ = mean("head_divergence", np.mean(several, 0), "Jensen-Shannon|bits")
            findings.append(
                Finding(
                    differ,
                    f"Two heads of a layer differ by {differ.value:.3f} bits on average; 0 means "
                    "that all look alike, 1 that no two look at the same tokens.",
                )
            )
        return findings

    def rows(self, importance: Mapping[tuple[str, int], float] | None = None) -> TableRows:
        """Return a table of all heads."""
        return [
            {
                "layer": layer,
                "head": head,
                "entropy": float(np.mean([item[head] for item in self._bits[layer]])),
                "divergence": _from_others(self._apart[layer], head),
                **({} if importance is None else {"importance": importance[layer, head]}),
            }
            for layer, head in self.heads
        ]


def measure_heads(task: Task, items: Sequence[Item]) -> tuple[list[Finding], TableRows]:
    """Measure the heads while the right answers are given; also return a table of all heads."""
    statistics = HeadStatistics()
    for item in items:
        batch = task.force([task.input_of(item)], [item.references[0]])
        with torch.no_grad(), watch(task.model, device="cpu") as seen:
            task(batch.to(task.device))
        statistics.add({layer: seen[layer].weights[0].numpy() for layer in seen})
    losses, complete = _losses_without(task, items, statistics.heads)
    importance = {head: loss - complete for head, loss in losses.items()}
    findings = [*statistics.findings(), _importance(importance, len(items))]
    return findings, statistics.rows(importance)


def _importance(rises: dict[tuple[str, int], float], items: int) -> Finding:
    layer, head = max(rises, key=rises.__getitem__)
    rise = float(np.mean(list(rises.values())))
    one = f"one of its {len(rises)} heads" if len(rises) > 1 else "its only head"
    return Finding(
        MetricScore(
            name="head_importance", value=rise, signature=signature(f"items:{items}|nats")(0, 0)
        ),
        f"The loss rises by {rise:.3f} on average without {one}; without "
        f"head {head} of {layer} it rises most, by {rises[layer, head]:.3f}.",
    )


@torch.no_grad()
def _losses_without(
    task: Task, items: Sequence[Item], heads: Sequence[tuple[str, int]]
) -> tuple[dict[tuple[str, int], float], float]:
    """Return the mean loss without each head, and that with all of them."""
    forced = [
        task.force(
            [task.input_of(item) for item in some], [item.references[0] for item in some]
        ).to(task.device)
        for some in batches(items)
    ]

    def loss() -> float:
        parts = [task(batch) for batch in forced]
        return float(sum(part.total for part in parts)) / sum(part.count for part in parts)

    losses = {}
    for layer, head in heads:
        with without_head(task.model, layer, head):
            losses[layer, head] = loss()
    return losses, loss()


def _item_means(layers: Iterable[list[np.ndarray]]) -> Float[np.ndarray, " items"]:
    """Return the mean over the heads of all layers."""
    return np.concatenate([np.stack(layer) for layer in layers], 1).mean(1)


def _pair_means(layer: list[np.ndarray]) -> Float[np.ndarray, " items"]:
    """Return the mean over all pairs of different heads."""
    heads = len(layer[0])
    return np.stack(layer).sum((1, 2)) / (heads * (heads - 1))


def _from_others(layer: list[np.ndarray], head: int) -> float | None:
    """Return how far a head is from the others of its layer; None if there are no others."""
    others = len(layer[0]) - 1
    return float(np.mean([item[head].sum() / others for item in layer])) if others else None
