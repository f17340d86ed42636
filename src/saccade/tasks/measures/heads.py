"""Heads measured: how widely they look, how they differ, and what the loss is without one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Float

from saccade.attention.watch import watch
from saccade.data.corpus import Item
from saccade.lens.faithfulness.heads import divergence, entropy, without_head
from saccade.metrics.score import MetricScore
from saccade.tasks._shared.base import Task
from saccade.tasks.measures.finding import Finding, Rows, batches, mean, signature


def measure_heads(task: Task, items: Sequence[Item]) -> tuple[list[Finding], Rows]:
    """How widely heads look, how they differ, and what they are worth, while the right answer is
    given."""
    bits: dict[str, list[np.ndarray]] = {}
    apart: dict[str, list[np.ndarray]] = {}
    for item in items:
        batch = task.force([task.input_of(item)], [item.references[0]])
        with torch.no_grad(), watch(task.model, device="cpu") as seen:
            task(batch.to(next(task.parameters()).device))
        for layer in seen:
            weights = seen[layer].weights[0].numpy()
            bits.setdefault(layer, []).append(entropy(weights))
            apart.setdefault(layer, []).append(divergence(weights))
    losses, whole = _losses_without(task, items, {k: len(v[0]) for k, v in bits.items()})
    rows: Rows = [
        {
            "layer": layer,
            "head": head,
            "entropy": float(np.mean([each[head] for each in bits[layer]])),
            "divergence": _from_others(apart[layer], head),
            "importance": loss - whole,
        }
        for (layer, head), loss in losses.items()
    ]
    wide = mean("attention_entropy", _item_means(bits.values()), "bits")
    findings = [
        Finding(
            wide,
            f"A head's look has {wide.value:.2f} bits on average, as if it were shared evenly "
            f"among {2**wide.value:.1f} tokens or cells.",
        )
    ]
    if several := [_pair_means(each) for each in apart.values() if each[0].size > 1]:
        differ = mean("head_divergence", np.mean(several, 0), "Jensen-Shannon|bits")
        findings.append(
            Finding(
                differ,
                f"Two heads of a layer differ by {differ.value:.3f} bits on average: 0 would be "
                "that all look alike, 1 that no two look at the same tokens.",
            )
        )
    return [*findings, _importance(rows, len(items))], rows


def _importance(rows: Rows, items: int) -> Finding:
    top = max(rows, key=lambda row: row["importance"])
    rise = float(np.mean([row["importance"] for row in rows]))
    return Finding(
        MetricScore(
            name="head_importance", value=rise, signature=signature(f"items:{items}|nats")(0, 0)
        ),
        f"Without one of its {len(rows)} heads the loss rises by {rise:.3f} on average, most "
        f"without head {top['head']} of {top['layer']}: by {top['importance']:.3f}.",
    )


@torch.no_grad()
def _losses_without(
    task: Task, items: Sequence[Item], numbers: dict[str, int]
) -> tuple[dict[tuple[str, int], float], float]:
    """The mean loss without each head, and that with all of them."""
    device = next(task.parameters()).device
    forced = [
        task.force(
            [task.input_of(item) for item in some], [item.references[0] for item in some]
        ).to(device)
        for some in batches(items)
    ]

    def loss() -> float:
        found = [task(batch) for batch in forced]
        return float(sum(each.total for each in found)) / sum(each.count for each in found)

    losses = {}
    for layer, number in numbers.items():
        for head in range(number):
            with without_head(task.model, layer, head):
                losses[layer, head] = loss()
    return losses, loss()


def _item_means(layers: Iterable[list[np.ndarray]]) -> Float[np.ndarray, " items"]:
    """Over the heads of all layers."""
    return np.concatenate([np.stack(each) for each in layers], 1).mean(1)


def _pair_means(layer: list[np.ndarray]) -> Float[np.ndarray, " items"]:
    """Over all pairs of different heads."""
    heads = len(layer[0])
    return np.stack(layer).sum((1, 2)) / (heads * (heads - 1))


def _from_others(layer: list[np.ndarray], head: int) -> float | None:
    """How far a head is from the others of its layer, if there are any."""
    others = len(layer[0]) - 1
    return float(np.mean([each[head].sum() / others for each in layer])) if others else None
