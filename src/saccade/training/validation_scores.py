"""The scores of the best weights on validation items, in evaluation.json of a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from saccade.errors import RunError, brief
from saccade.files import read_json
from saccade.lens.formatting import readable_json
from saccade.metrics.score import MetricScore
from saccade.training import manifest
from saccade.training.run_folder import RunFolder

if TYPE_CHECKING:
    from saccade.tasks import Evaluation, Task

EVALUATION = "evaluation.json"
"""The file of a run folder with the scores of its best weights on the validation set."""
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class ValidationScores:
    """The content of evaluation.json.

    Attributes:
        metric: The metric that matters most.
        scores: The scores of the best weights, by metric.
        items: The number of validation items they were measured on.
        examples: The number of examples that were encoded, by split.
        belief: How far to trust the attention of the model, in words; "" if it was not measured.
    """

    metric: str = ""
    scores: Mapping[str, MetricScore] = field(default_factory=dict)
    items: int = 0
    examples: Mapping[str, int] = field(default_factory=dict)
    belief: str = ""

    @classmethod
    def read(cls, run: RunFolder) -> ValidationScores:
        """Return the content of a run's file; an empty one if the run has no such file.

        Raises:
            RunError: if the file is damaged.
        """
        path = run.folder / EVALUATION
        try:
            table = read_json(path)
            return cls(
                metric=str(table["metric"]),
                scores={name: _score(name, entry) for name, entry in table["scores"].items()},
                items=int(table["items"]),
                examples={str(name): int(count) for name, count in table["examples"].items()},
                belief=str(table.get("belief", "")),
            )
        except (FileNotFoundError, NotADirectoryError):
            return cls()
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise RunError(
                f"{path} cannot be read: {type(error).__name__}: {brief(error)}. Restore "
                "it from a copy"
            ) from None


def keep_scores(
    run: RunFolder,
    task: Task,
    evaluation: Evaluation,
    examples: Mapping[str, int],
    belief: str = "",
) -> None:
    """Write evaluation.json into a run folder.

    Args:
        run: the run folder.
        task: the task with its best weights.
        evaluation: its evaluation on validation items.
        examples: the number of examples by split.
        belief: how far to trust the attention of the task, in words.
    """
    table = {
        "format": FORMAT,
        "metric": task.comparison_metric,
        "split": "valid",
        "items": len(evaluation.items),
        "examples": dict(examples),
        "scores": {name: score_json(score) for name, score in evaluation.scores.items()},
        "belief": belief,
    }
    contents = {EVALUATION: readable_json(table).encode()}
    manifest.replace_files(run.folder, contents, "the run itself is kept")


def score_json(score: MetricScore) -> dict[str, Any]:
    """Return a score as JSON has it."""
    return {
        "value": score.value,
        "interval": score.interval,
        "signature": score.signature,
        "higher_is_better": score.higher_is_better,
    }


def _score(name: str, entry: Mapping[str, Any]) -> MetricScore:
    interval = entry["interval"]
    return MetricScore(
        name=name,
        value=float(entry["value"]),
        signature=str(entry["signature"]),
        interval=None if interval is None else (float(interval[0]), float(interval[1])),
        higher_is_better=bool(entry["higher_is_better"]),
    )
