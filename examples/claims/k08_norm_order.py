"""K8. With pre-norm, a Transformer is more stable and trains at higher learning rates.

Source: Xiong et al. 2020, "On layer normalization in the Transformer architecture".

Measured: the recipe `gpt-char` (8 layers of width 64, blocks of 64) on `builtin:pydoc` with
`norm_order` "pre" and "post", at a constant learning rate from the first update (no warm-up, no
clipping), at three learning rates and with three seeds. A model counts as trained if its loss on
the test texts is at least 0.3 nats below the entropy of single characters; a training run whose
loss becomes NaN gets the loss of the uniform distribution.

Holds if: the highest learning rate at which all seeds train is higher with pre-norm than with
post-norm.
"""

import math
from collections import Counter
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from claim import Claim, Outcome, Trials, judged, lines, trained

import saccade
from saccade.data.builtin import pydoc
from saccade.errors import TrainingError

DATA = "builtin:pydoc"
Order = Literal["pre", "post"]
ORDERS: tuple[Order, ...] = ("pre", "post")
SMALL = (
    "text.block=64",
    "model.dim=64",
    "model.decoder.num_layers=8",
    "model.decoder.hidden_dim=256",
    "model.decoder.dropout=0.0",
    "training.batch_tokens=512",
    "training.optim.schedule=constant",
    "training.optim.warmup=0",
    "training.optim.clip=0.0",
)


@dataclass(frozen=True, kw_only=True)
class Size(Trials):
    """Trials at each of these learning rates."""

    rates: tuple[float, ...]


def measure(size: Size) -> Outcome:
    """Measure the loss of both orders at every rate, and the highest rate at which each trains."""
    frequencies = Counter("".join(text for (text,) in pydoc.rows("test")))
    total = frequencies.total()
    single = -sum(n / total * math.log(n / total) for n in frequencies.values())
    losses: dict[str, dict[float, list[float]]] = {
        order: {
            rate: [loss(order, rate, size.steps, seed) for seed in range(size.seeds)]
            for rate in size.rates
        }
        for order in ORDERS
    }
    largest = {
        order: max((rate for rate in size.rates if max(by[rate]) <= single - 0.3), default=0.0)
        for order, by in losses.items()
    }
    shown = {
        order: " ".join(f"{fmean(by[rate]):.2f}" for rate in size.rates)
        for order, by in losses.items()
    }
    rates = " ".join(f"{rate:g}" for rate in size.rates)
    return Outcome(
        verdict=judged(largest["pre"] > largest["post"]),
        figures=f"at learning rates {rates}, the loss is {shown['pre']} with pre-norm and "
        f"{shown['post']} with post-norm (single characters: {single:.2f}); all seeds train up to "
        f"{largest['pre']:g} with pre-norm and {largest['post']:g} with post-norm",
        numbers={"loss": losses, "loss_of_single_characters": single, "largest_rate": largest},
        chart=lines(losses, x="learning rate", y="loss (nats per character)", log="x"),
    )


def loss(order: Order, rate: float, steps: int, seed: int) -> float:
    """Train a model and return its loss on the test texts."""
    changes = [*SMALL, f"model.decoder.norm_order={order}", f"training.learning_rate={rate}"]
    try:
        task = trained("gpt-char", DATA, changes, steps=steps, seed=seed)
    except TrainingError:
        return math.log(len(Counter("".join(text for (text,) in pydoc.rows("train")))))
    return saccade.evaluate(task, data=DATA, quick=True)["loss"]


CLAIM = Claim(
    file=__file__,
    docstring=__doc__,
    measure=measure,
    full=Size(seeds=3, steps=250, rates=(1e-3, 3e-3, 1e-2)),
    quick=Size(seeds=1, steps=1, rates=(1e-3,)),
)

if __name__ == "__main__":
    CLAIM.main()
