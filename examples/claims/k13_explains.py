"""K13. Attention explains the decision.

Source: a common claim, disputed: Jain and Wallace 2019, "Attention is not explanation"; Wiegreffe
and Pinter 2019, "Attention is not not explanation".

Measured: by erasure (DeYoung et al. 2020, "ERASER"): comprehensiveness, the fall of the probability
of an answer without the most attended words, minus its fall without random words; for a small
Transformer on `builtin:phrases` (translation, cross-attention) and one on `builtin:mood`
(classification, attention rollout). For the translator, also the alignment error rate against its
gold alignments.

Reported: these scores, with their 95 % intervals. What they must be for "explains" is a matter of
judgement; a fall no different from that of random words would speak against it.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from claim import Claim, Outcome, trained, write_table
from k09_heads_differ import SMALL

from saccade.data.builtin import Builtin, mood, phrases
from saccade.lens.drawing.chart import COLOURS, Chart
from saccade.metrics.score import MetricScore
from saccade.tasks import Evaluation
from saccade.training.session import AttentionOptions, assess

FALL, OVER = "comprehensiveness", "comprehensiveness_over_random"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A recipe on a built-in data set, and its options of prediction."""

    data: Builtin
    recipe: str
    changes: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


SUBJECTS = {
    "phrases": Subject(data=phrases, recipe="transformer-tiny", changes=SMALL, options={"beam": 1}),
    "mood": Subject(
        data=mood,
        recipe="bert-mini",
        changes=(
            "text.vocabulary.size=1000",
            "model.dim=128",
            "model.encoder.num_layers=2",
            "model.encoder.hidden_dim=256",
            "model.encoder.norm_order=pre",
            "training.learning_rate=1e-3",
            "training.batch_tokens=1024",
        ),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Size:
    """The number of updates, and of test items to measure."""

    steps: int
    items: int


def measure(size: Size) -> Outcome:
    """Measure the scores of both models."""
    evaluations = {name: assessed(name, size) for name in SUBJECTS}
    error = evaluations["phrases"].scores["alignment_error_rate"]
    falls = "; ".join(
        f"on {name}, the probability falls by {result.scores[FALL].value:.2f} without the attended "
        f"words, {with_interval(result.scores[OVER])} more than without random words"
        for name, result in evaluations.items()
    )
    return Outcome(
        verdict="reported",
        figures=f"{falls}; alignment error rate on phrases {with_interval(error)}",
        numbers={
            name: {"scores": result.values(), "details": result.as_json()["details"]}
            for name, result in evaluations.items()
        },
        chart=intervals({name: result.scores[OVER] for name, result in evaluations.items()}),
    )


def assessed(name: str, size: Size) -> Evaluation:
    """Train a task on a built-in set and measure its attention on some of the test rows."""
    subject, data = SUBJECTS[name], f"builtin:{name}"
    task = trained(subject.recipe, data, subject.changes, steps=size.steps, seed=0)
    rows = islice(subject.data.rows("test"), size.items)
    with tempfile.TemporaryDirectory() as folder:
        path = write_table(Path(folder) / "test.tsv", subject.data.COLUMNS, rows)
        return assess(task, data=path, attention=AttentionOptions(), **subject.options)


def with_interval(score: MetricScore) -> str:
    """Return a score with its interval."""
    low, high = score.interval or (score.value, score.value)
    return f"{score.value:.2f} [{low:.2f}, {high:.2f}]"


def intervals(scores: dict[str, MetricScore]) -> Chart:
    """Draw each score with its interval."""
    chart = Chart({}, figsize=(6.4, 1.8))
    axes = chart.add_subplot()
    for row, score in enumerate(scores.values()):
        axes.plot(score.interval or (score.value,) * 2, (row, row), color=COLOURS[row], lw=2)
        axes.plot([score.value], [row], "o", color=COLOURS[row])
    axes.axvline(0, color="#888", linewidth=0.8)
    axes.set_yticks(range(len(scores)), list(scores))
    axes.set_ylim(len(scores) - 0.5, -0.5)
    axes.set_xlabel("comprehensiveness minus that of random words")
    return chart


CLAIM = Claim(
    file=__file__,
    docstring=__doc__,
    measure=measure,
    full=Size(steps=800, items=300),
    quick=Size(steps=1, items=4),
)

if __name__ == "__main__":
    CLAIM.main()
