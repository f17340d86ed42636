"""K9. The heads of a layer do not all become the same.

Source: a common claim, as in Vaswani et al. 2017, "Attention is all you need", section 3.2.2.

Measured: a Transformer (2+2 layers of 4 heads) trained on `builtin:phrases`, three seeds; the mean
Jensen-Shannon divergence between two heads of a layer while 40 test sentences are translated,
before and after training. 0 bits means that both attend alike, 1 that they attend to different
words.

Holds if: in every layer of every seed, the divergence after training is at least as large as before
training, when heads differ by chance alone.
"""

from statistics import fmean

import numpy as np
import torch
from claim import Claim, Outcome, Trials, between, judged, lines, trained

import saccade
from saccade.data.builtin import phrases
from saccade.lens.faithfulness.heads import divergence
from saccade.tasks import Task

SENTENCES = 40
SMALL = (
    "text.source.kind=word",
    "model.dim=64",
    *(f"model.{side}.num_layers=2" for side in ("encoder", "decoder")),
    *(f"model.{side}.dropout=0.1" for side in ("encoder", "decoder")),
    "training.optim.warmup=50",
)


def measure(trials: Trials) -> Outcome:
    """Measure the divergence in every layer, before and after training."""
    before, after = (
        [
            divergences(
                trained("transformer-tiny", "builtin:phrases", SMALL, steps=steps, seed=seed)
            )
            for seed in range(trials.seeds)
        ]
        for steps in (0, trials.steps)
    )
    layers = list(after[0])
    divergence_by_layer = {
        when: {i: [run[layer] for run in runs] for i, layer in enumerate(layers)}
        for when, runs in (("before training", before), ("after training", after))
    }
    pairs = zip(before, after, strict=True)
    chart = lines(divergence_by_layer, x="layer", y="Jensen-Shannon divergence (bits)")
    chart.axes[0].set_xticks(range(len(layers)), [short(layer) for layer in layers], rotation=15)
    mean = {
        when: fmean(value for values in by.values() for value in values)
        for when, by in divergence_by_layer.items()
    }
    return Outcome(
        verdict=judged(all(new[layer] >= old[layer] for old, new in pairs for layer in layers)),
        figures="the divergence between two heads of a layer is "
        f"{mean['before training']:.3f} bits before training and {mean['after training']:.3f} "
        f"after it; layers and seeds: {between([v for run in before for v in run.values()], '.3f')}"
        f" and {between([v for run in after for v in run.values()], '.3f')}",
        numbers={"layers": layers, "divergence": divergence_by_layer},
        chart=chart,
    )


def divergences(task: Task) -> dict[str, float]:
    """Return the divergence of each layer in bits, averaged over pairs of heads and sentences."""
    by_layer: dict[str, list[float]] = {}
    task.eval()
    for source, target, _ in list(phrases.rows("test"))[:SENTENCES]:
        with torch.no_grad(), saccade.watch(task.model) as seen:
            task(task.force([source], [target]))
        for layer in seen:
            matrix = divergence(seen[layer].weights[0].numpy())
            pairs = np.triu_indices(len(matrix), 1)
            by_layer.setdefault(layer, []).append(float(matrix[pairs].mean()))
    return {layer: fmean(values) for layer, values in by_layer.items()}


def short(layer: str) -> str:
    """Shorten encoder.layers.0.self_attention to encoder 0 self."""
    side, _, number, kind = layer.split(".")
    return f"{side} {number} {kind.removesuffix('_attention')}"


CLAIM = Claim(
    file=__file__,
    docstring=__doc__,
    measure=measure,
    full=Trials(seeds=3, steps=400),
    quick=Trials(seeds=1, steps=1),
)

if __name__ == "__main__":
    CLAIM.main()
