"""Sets: do two numbers of a set add up to 21? (input without order; accuracy)

    python examples/named_tasks/sets.py

Without positions attention reads a set: every order of the numbers has the same logits. The largest
change of a logit over random orders is printed, for the trained model and, to compare, for the same
recipe with positions. A linear model cannot see which numbers come together.
"""

import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from named_task import SMALL_READER, NamedTask, Trained

from saccade.data.corpus import Item
from saccade.tasks import Task

SUM, SIZE = 21, 5
SETS, ORDERS = 20, 10
"""The number of sets whose order is changed, and of random orders of each."""


def sample(chance: random.Random) -> tuple[str, str]:
    """Return five numbers below 21, and whether two of them add up to 21."""
    pairs = [(low, SUM - low) for low in range(1, SUM // 2 + 1)]
    chosen = [chance.choice(pair) for pair in chance.sample(pairs, SIZE)]
    complete = chance.random() < 0.5
    if complete:
        chosen[1] = SUM - chosen[0]
    chosen.sort()
    random.Random(str(chosen)).shuffle(chosen)  # one order per set, so that no set occurs twice
    return " ".join(map(str, chosen)), "yes" if complete else "no"


def largest_change(task: Task, items: Sequence[Item]) -> float:
    """Return the largest change of a logit when the numbers of a set are shuffled."""
    chance, largest = random.Random(1), 0.0
    for item in items[:SETS]:
        [text] = item.inputs
        numbers = text.split()
        orders = [text, *(" ".join(chance.sample(numbers, SIZE)) for _ in range(ORDERS))]
        batch = task.force(orders, ["yes"] * len(orders))
        with torch.no_grad():
            logits = task.model.eval()(batch.tokens, batch.mask, batch.segments)
        largest = max(largest, (logits - logits[0]).abs().max().item())
    return largest


def more(trained: Trained) -> Iterator[str]:
    """Yield how far the order of the numbers changes a logit."""
    items = trained.evaluation.items
    with tempfile.TemporaryDirectory() as folder:
        ordered = replace(TASK, changes=CHANGES).train(Path(folder), trained.steps, Path(folder))
    score = ordered.evaluation.scores["accuracy"].value
    yield f"to compare: with learned positions, accuracy {score:.3f}"
    yield f"largest change of a logit over {ORDERS} orders of {SETS} sets"
    yield f"  without positions   {largest_change(trained.task, items):.1e}"
    yield f"  with positions      {largest_change(ordered.task, items):.1e}"


CHANGES = (*SMALL_READER, 'metrics.names=["accuracy"]')
TASK = NamedTask(
    docstring=__doc__,
    columns=("text", "label"),
    sample=sample,
    metrics=("accuracy",),
    recipe="bert-mini",
    changes=(*CHANGES, 'model.encoder.position={kind="none"}'),
    steps=250,
    more=more,
)

if __name__ == "__main__":
    TASK.main()
