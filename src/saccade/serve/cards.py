"""Cards of models: what the page and /v1/models report of the run behind a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from saccade.errors import SaccadeError
from saccade.metrics.labels import metric_label, metric_text
from saccade.metrics.score import MetricScore
from saccade.tasks import Predictor
from saccade.training.run_folder import RunFolder
from saccade.training.validation_scores import ValidationScores

EXAMPLES = 4
"""Inputs to try a model with."""
LONGEST = 160
"""Characters of a text that is an example."""


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """The score and the cost of a model, and inputs to try it with.

    Attributes:
        metric: Name of the metric that matters most; "" if it was not measured.
        score: Its value on validation items, with its interval.
        items: Number of validation items.
        trained: Day on which training began, as YYYY-MM-DD; "" if unknown.
        parameters: Number of weights; None if unknown.
        examples: Inputs as JSON has them.
    """

    metric: str = ""
    score: MetricScore | None = None
    items: int = 0
    trained: str = ""
    parameters: int | None = None
    examples: Sequence[object] = ()

    @classmethod
    def of_run(cls, folder: Path, predictor: Predictor, *, examples: bool = True) -> ModelCard:
        """Return the card of a run, without torch; damaged files are left out.

        Args:
            folder: The run folder.
            predictor: Its task, or its engine.
            examples: Whether to show validation inputs that the run has kept.
        """
        run, scores, started = RunFolder(folder), ValidationScores(), ""
        with suppress(SaccadeError, OSError):
            scores = ValidationScores.read(run)
        with suppress(SaccadeError, OSError):
            started = "" if "imported" in run.about() else f"{run.begun_at():%Y-%m-%d}"
        return cls(
            metric=scores.metric,
            score=scores.scores.get(scores.metric),
            items=scores.items,
            trained=started,
            parameters=_count_parameters(run.weights),
            examples=examples_of(run, predictor) if examples else [],
        )

    @property
    def text(self) -> str:
        """The score for people, such as "BLEU 31.4 [29.9, 32.8]"; "" without one."""
        if self.score is None:
            return ""
        text = f"{metric_label(self.metric)} {metric_text(self.metric, self.score.value)}"
        if self.score.interval is None:
            return text
        ends = (metric_text(self.metric, end).removesuffix(" %") for end in self.score.interval)
        return f"{text} [{', '.join(ends)}]"


def examples_of(run: RunFolder, task: Predictor) -> list[object]:
    """Return a few inputs that the run has kept, as JSON: from short texts to long ones."""
    inputs: list[object] = []
    for item in run.samples():
        with suppress(SaccadeError, ValueError):
            inputs.append(_as_json(task.input_of(item), task.reads))
    pictures = task.reads == "image"
    short = [one for one in inputs if pictures or 0 < _length(one) <= LONGEST]
    distinct = list({str(one): one for one in short}.values())
    if not pictures:
        distinct.sort(key=_length)
    count = min(EXAMPLES, len(distinct))
    return [distinct[int((i + 0.5) / count * len(distinct))] for i in range(count)]


def _as_json(value: object, reads: str) -> object:
    """Return an input as requests have it: words of a text become a text."""
    match value:
        case [*texts] if reads == "pair":
            return [str(text) for text in texts]
        case [*texts]:
            return " ".join(map(str, texts))
    return str(value)


def _length(value: object) -> int:
    return sum(map(len, value)) if isinstance(value, list) else len(str(value))


def _count_parameters(weights: Path) -> int | None:
    """Return the number of weights in a file, from its header; None if it cannot be read."""
    try:
        with safe_open(weights, framework="numpy") as file:
            return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    except (OSError, SafetensorError):
        return None
