"""The verdict of a comparison: whether the models have learned, and whether one is better.

    better        the best recipe is significantly better than all others
    tie           no recipe is significantly better than all others, but the best has learned
    not_learned   no recipe is better than a trivial baseline: their order means nothing

A recipe has learned if it is significantly better than the best trivial baseline, such as the
majority class, and by at least a hundredth of what the baseline lacks to a perfect score (of a
loss or an error rate, a hundredth of the baseline's). Without a baseline it has learned if its
validation loss has fallen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeVar, runtime_checkable

from saccade.compare.measurements import Measurements
from saccade.compare.statistics import Quality, Verdict, quality, verdict
from saccade.tasks import Baseline
from saccade.training.learning_curve import still_improving

Outcome = Literal["better", "tie", "not_learned"]

LEAST = 0.01
"""The fraction of what a trivial baseline lacks that a model must be better by."""
TOPS = {"bleu": 100.0, "chrf": 100.0, "cider": 10.0}
"""The perfect values of metrics, by the first word of their names; others have 1."""
NOT_QUALITY = {"expected_calibration_error", "loss", "perplexity", "pointing"}
"""Metrics that do not rank recipes: of calibration, of attention, or per token."""
BASELINE_SEED = 10_000
"""The seed for resampling a baseline's only training; recipes have theirs from 0."""


@runtime_checkable
class MeasuredRecipe(Protocol):
    """A recipe with its measurements; see `Contender`."""

    @property
    def name(self) -> str:
        """The name of the recipe."""
        ...

    @property
    def measured(self) -> Mapping[int, Measurements]:
        """Measurements by seed."""
        ...

    @property
    def first(self) -> Measurements:
        """Measurements of the first training."""
        ...

    @property
    def qualities(self) -> Mapping[str, Quality]:
        """Every metric over all training runs."""
        ...


RecipeT_co = TypeVar("RecipeT_co", bound=MeasuredRecipe, covariant=True)


@runtime_checkable
class Contest(Protocol[RecipeT_co]):
    """Recipes that were trained on the same data; see `Comparison`."""

    @property
    def metric(self) -> str:
        """The metric that ranks the recipes."""
        ...

    @property
    def best(self) -> RecipeT_co:
        """The recipe with the best mean."""
        ...

    @property
    def contenders(self) -> Sequence[RecipeT_co]:
        """All recipes with a complete training."""
        ...


def best_baseline(contender: MeasuredRecipe, metric: str, *, trivial: bool) -> Baseline | None:
    """Return the best baseline of a recipe by a metric, among all or among the trivial ones.

    Args:
        contender: The recipe.
        metric: The metric.
        trivial: Consider trivial baselines only.
    """
    measured = [
        baseline
        for baseline in contender.first.baselines
        if metric in baseline.scores and (baseline.kind == "trivial" or not trivial)
    ]
    return max(measured, key=lambda b: baseline_quality(b, metric).worth, default=None)


def against_baseline(contender: MeasuredRecipe, baseline: Baseline, metric: str) -> Verdict:
    """Compare a recipe with a baseline on the same items."""
    return verdict(contender.qualities[metric], baseline_quality(baseline, metric))


def learned(contender: MeasuredRecipe, metric: str) -> bool:
    """Return whether a recipe is better than a trivial baseline."""
    baseline = best_baseline(contender, metric, trivial=True)
    if baseline is None:
        return any(_loss_fell(m.curve) for m in contender.measured.values())
    difference = against_baseline(contender, baseline, metric)
    score = baseline.scores[metric]
    top = TOPS.get(metric.split("_", maxsplit=1)[0], 1.0)
    room = abs(top - score.value) if score.higher_is_better else abs(score.value)
    chance = difference.p_value is not None and not difference.significant
    return not chance and difference.gain > LEAST * room


def outcome(comparison: Contest[MeasuredRecipe]) -> Outcome:
    """Return the verdict of a comparison."""
    metric = comparison.metric
    if not learned(comparison.best, metric):
        return "not_learned"
    others = [c for c in comparison.contenders if c is not comparison.best]
    best = comparison.best.qualities[metric]
    leads = all(verdict(best, other.qualities[metric]).significant for other in others)
    return "better" if leads else "tie"


def disagreements(comparison: Contest[MeasuredRecipe]) -> dict[str, str]:
    """Return the metrics that rank another recipe first, each with the name of that recipe.

    Metrics whose difference is as uncertain as that of the comparison metric are left out.
    """
    metric, best = comparison.metric, comparison.best
    others: dict[str, str] = {}
    for name in best.qualities:
        rivals = [c for c in comparison.contenders if name in c.qualities]
        if name == metric or name in NOT_QUALITY or len(rivals) < 2:
            continue
        first = max(rivals, key=lambda contender: contender.qualities[name].worth)
        if first.qualities[name].worth == best.qualities[name].worth:
            continue
        pairs = (verdict(first.qualities[key], best.qualities[key]) for key in (name, metric))
        if any(difference.significant or difference.p_value is None for difference in pairs):
            others[name] = first.name
    return others


def improving(contender: MeasuredRecipe, metric: str) -> bool:
    """Return whether a training run of a recipe was still improving steeply when it ended."""
    baseline = best_baseline(contender, metric, trivial=True)
    return any(
        still_improving(
            measurements.curve,
            metric,
            higher_is_better=contender.qualities[metric].higher_is_better,
            start=None if baseline is None else baseline.scores[metric].value,
        )
        for measurements in contender.measured.values()
    )


def baselines_of(contenders: Iterable[MeasuredRecipe]) -> list[Baseline]:
    """Return the baselines of all recipes; those of the same name and scores once."""
    different: dict[tuple[object, ...], Baseline] = {}
    for contender in contenders:
        for baseline in contender.first.baselines:
            different.setdefault((baseline.name, *baseline.values().items()), baseline)
    return list(different.values())


def baseline_quality(baseline: Baseline, metric: str) -> Quality:
    """Return a metric of a baseline, as that of a recipe with one training."""
    return quality({0: baseline.scores[metric]}, BASELINE_SEED)


def _loss_fell(curve: Sequence[dict[str, object]]) -> bool:
    losses = [value for r in curve if isinstance(value := r.get("valid_loss"), int | float)]
    return len(losses) < 2 or min(losses[1:]) < losses[0]
