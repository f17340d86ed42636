"""The pointing game, for tasks that read images whose objects have known boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from jaxtyping import Float
from numpy import ndarray

from saccade.data import builtin
from saccade.data.corpus import Item
from saccade.lens.faithfulness.pointing import Pointing, pointing_game
from saccade.metrics import ClassificationMetricsConfig, TextMetricsConfig
from saccade.metrics.captions import pointing_tally
from saccade.tasks._shared.evaluation import Evaluation
from saccade.tasks._shared.images import as_image

POINTED = 64
"""The number of images that are looked at together."""
Maps = Callable[[Sequence[Item]], Sequence[Float[ndarray, "words cells"]]]
"""Return the attention of each item's words to the cells of its image."""


def point(items: Sequence[Item], maps: Maps, grid: tuple[int, int]) -> Pointing | None:
    """Return how often attention points at objects, over the images with known boxes.

    It is None if there are none.
    """
    boxes = {item.inputs[0]: builtin.boxes(item.inputs[0]) for item in items}
    known = [item for item in items if boxes[item.inputs[0]]]
    if not known:
        return None
    weights = [x for at in range(0, len(known), POINTED) for x in maps(known[at : at + POINTED])]
    size = as_image(known[0].inputs[0], 1).size[::-1]
    return pointing_game(weights, [boxes[item.inputs[0]] for item in known], grid, size)


def with_pointing(
    evaluation: Evaluation,
    pointing: Pointing,
    *,
    objects: str,
    sentence: str,
    metrics: TextMetricsConfig | ClassificationMetricsConfig,
) -> Evaluation:
    """Return an evaluation with the result of a pointing game beside that of chance.

    Args:
        evaluation: The evaluation.
        pointing: The result.
        objects: The name of the number of objects in the table, such as "object words".
        sentence: The meaning of the rate, which stands at {rate}.
        metrics: The options of the confidence interval.
    """
    score = pointing_tally(pointing.counts).score(samples=metrics.samples, seed=metrics.seed)
    signature = f"{score.signature}|chance:{pointing.chance:.4f}"
    rate = sentence.format(rate=f"{score.value:.1%}")
    meaning = f"{rate}; by chance it would be {pointing.chance:.1%}."
    row = {
        objects: pointing.count,
        "looked at their object": pointing.rate,
        "by chance": pointing.chance,
    }
    return replace(
        evaluation,
        scores={**evaluation.scores, score.name: replace(score, signature=signature)},
        meanings={**evaluation.meanings, score.name: meaning},
        tables={**evaluation.tables, "The pointing game": [row]},
    )
