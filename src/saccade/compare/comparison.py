"""Results of a comparison, as the page shows them and compare.json holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from saccade._version import __version__
from saccade.compare.measurements import Measurements, Record, Sample
from saccade.compare.outcome import (
    Outcome,
    against_baseline,
    baseline_quality,
    baselines_of,
    best_baseline,
    disagreements,
    improving,
    learned,
    outcome,
)
from saccade.compare.statistics import Quality, Verdict, quality, verdict
from saccade.lens.record import AttentionRecord
from saccade.metrics.labels import metric_label, metric_text

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class ShownSample:
    """A sample with its attention record, if the model has attention."""

    sample: Sample
    record: AttentionRecord | None


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A recipe that was trained, with its measurements.

    number     position among the recipes as given, from 0
    measured   measurements by seed
    failed     reasons of failed training runs by seed
    shown      samples of its first training
    """

    name: str
    number: int
    measured: Mapping[int, Measurements]
    failed: Mapping[int, str]
    shown: Sequence[ShownSample]

    @cached_property
    def qualities(self) -> dict[str, Quality]:
        """Every metric over all training runs."""
        return {
            name: quality({s: m.scores[name] for s, m in self.measured.items()}, self.number)
            for name in self.first.scores
        }

    @property
    def first(self) -> Measurements:
        """Measurements of the first training."""
        return next(iter(self.measured.values()))

    @property
    def parameters(self) -> int:
        """Number of trained parameters."""
        return self.first.parameters

    def by_length(self) -> list[Record]:
        """Return quality by input length, as means over the training runs."""
        rows = []
        for buckets in zip(*(m.by_length for m in self.measured.values()), strict=True):
            row = dict(buckets[0])
            for name in self.qualities.keys() & row.keys():
                row[name] = fmean(bucket[name] for bucket in buckets)
            rows.append(row)
        return rows

    def mean(self, part: str, name: str) -> float | None:
        """Return the mean of a number ("training" or "answering") over the runs that have it."""
        values = [getattr(getattr(m, part), name) for m in self.measured.values()]
        known = [value for value in values if value is not None]
        return fmean(known) if known else None

    def as_json(self, first: Contender, best: Contender, metric: str) -> Record:
        """Return plain values, with the differences from the first and from the best recipe.

        Whether it has learned, and was still improving, is judged by `metric`.
        """
        return {
            "name": self.name,
            "parameters": self.parameters,
            "metrics": {name: _without_resamples(q) for name, q in self.qualities.items()},
            "against_first": _verdicts_json(self, first),
            "against_best": _verdicts_json(self, best),
            "against_baselines": {
                baseline.name: _verdict_json(against_baseline(self, baseline, metric))
                for baseline in self.first.baselines
                if metric in baseline.scores
            },
            "learned": learned(self, metric),
            "still_improving": improving(self, metric),
            "attention": self.first.attention,
            "by_length": self.by_length(),
            "training": {seed: asdict(m.training) for seed, m in self.measured.items()},
            "answering": {seed: asdict(m.answering) for seed, m in self.measured.items()},
            "curves": {seed: m.curve for seed, m in self.measured.items()},
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Several recipes, trained on the same data with the same budget.

    Attributes:
        task: Name of the common task.
        data: The data, as it was given.
        budget: Limits of each training in words.
        seeds: Random seeds with which each recipe was trained.
        entrants: All recipes, also those whose training runs failed.
    """

    task: str
    data: str
    budget: str
    seeds: tuple[int, ...]
    entrants: Sequence[Contender]

    @cached_property
    def contenders(self) -> list[Contender]:
        """Recipes with at least one complete training, in the given order."""
        return [contender for contender in self.entrants if contender.measured]

    @property
    def failures(self) -> list[tuple[str, int, str]]:
        """Failed training runs: name, seed and reason."""
        return [(e.name, seed, reason) for e in self.entrants for seed, reason in e.failed.items()]

    @property
    def metric(self) -> str:
        """The metric that ranks the recipes."""
        return self.first.first.comparison_metric

    @property
    def split(self) -> str:
        """The split of the data on which all were measured."""
        return self.first.first.split

    @property
    def items(self) -> int:
        """The number of items in that split."""
        return self.first.first.items

    @property
    def first(self) -> Contender:
        """The recipe given first."""
        return self.contenders[0]

    @cached_property
    def best(self) -> Contender:
        """The recipe with the best mean; the first of equal ones."""
        return max(self.contenders, key=lambda contender: contender.qualities[self.metric].worth)

    @cached_property
    def verdict(self) -> Outcome:
        """Whether one recipe is "better", it is a "tie", or they have "not_learned" enough."""
        return outcome(self) if self.contenders else "not_learned"

    def remarks(self) -> list[str]:
        """Return sentences about what to keep in mind: baselines, other metrics, more training."""
        label, best = metric_label(self.metric), self.best
        remarks = []
        baseline = best_baseline(best, self.metric, trivial=False)
        if baseline is not None and self.verdict != "not_learned":
            difference = against_baseline(best, baseline, self.metric)
            value = f"{label} {metric_text(self.metric, baseline.scores[self.metric].value)}"
            if difference.gain > 0 and (difference.significant or difference.p_value is None):
                remarks.append(f"The best baseline ({baseline.name}) has {value}")
            else:
                remarks.append(
                    f"No recipe beats the {baseline.kind} baseline {baseline.name} with {value}: "
                    f"{best.name} is not significantly better. A pretrained model (--init), more "
                    "data, a smaller recipe or more minutes may help"
                )
        for metric, name in disagreements(self).items():
            remarks.append(
                f"The metrics disagree: {label} ranks {best.name} first, {metric_label(metric)} "
                f"ranks {name} first"
            )
        if unfinished := [c.name for c in self.contenders if improving(c, self.metric)]:
            were = "was" if len(unfinished) == 1 else "were"
            remarks.append(
                f"{', '.join(unfinished)} {were} still improving steeply when training ended: a "
                "larger budget may change the result"
            )
        return remarks

    def summary(self) -> str:
        """Return which recipe is better, by how much, and whether that is significant."""
        if not self.contenders:
            return "No training was completed."
        return ". ".join([self._lead(), *self.remarks()]) + "."

    def _lead(self) -> str:
        label, best = metric_label(self.metric), self.best
        score = f"{best.qualities[self.metric]} on {self.items:,} items of {self.split}"
        others = [contender for contender in self.contenders if contender is not best]
        if self.verdict == "not_learned":
            baseline = best_baseline(best, self.metric, trivial=True)
            if baseline is None:
                reason = "the validation loss of the best one did not fall"
            else:
                value = baseline_quality(baseline, self.metric)
                reason = f"the trivial baseline {baseline.name} has {label} {value}"
            return (
                f"No recipe has learned enough to be compared ({label}). {best.name} has {score}, "
                f"and {reason}. Train longer (--minutes), with more data, or from a pretrained "
                "model (--init)"
            )
        if not others:
            return f"{best.name} has {label} {score}. No other recipe was trained"
        verdicts = {
            contender.name: verdicts_of(best, contender)[self.metric] for contender in others
        }
        significant = [v.significant for v in verdicts.values()]
        if all(significant):
            lead = f"{best.name} is the best ({label}): {score}"
        elif any(significant):
            lead = f"{best.name} leads ({label}), but not significantly over all others: {score}"
        else:
            lead = (
                f"No recipe is significantly better than the others ({label}). "
                f"{best.name} leads: {score}"
            )
        return ". ".join(
            [lead, *(f"Against {name}: {v.in_words(self.metric)}" for name, v in verdicts.items())]
        )

    def as_json(self) -> dict[str, Any]:
        """Return plain values, as compare.json holds them."""
        table: Record = {
            "format": FORMAT,
            "saccade": __version__,
            "summary": self.summary(),
            "verdict": self.verdict,
            "task": self.task,
            "data": self.data,
            "budget": self.budget,
            "seeds": list(self.seeds),
            "failed": [
                {"name": name, "seed": seed, "reason": why} for name, seed, why in self.failures
            ],
        }
        if not self.contenders:
            return table
        return table | {
            "split": self.split,
            "items": self.items,
            "metric": self.metric,
            "best": self.best.name,
            "remarks": self.remarks(),
            "disagreements": disagreements(self),
            "baselines": [baseline.as_json() for baseline in baselines_of(self.contenders)],
            "recipes": [
                contender.as_json(self.first, self.best, self.metric)
                for contender in self.contenders
            ],
            "samples": [_sample_json(samples) for samples in self.samples()],
        }

    def samples(self) -> list[dict[str, ShownSample]]:
        """Return the same inputs as predicted by every recipe, by its name."""
        by_recipe = [
            [(contender.name, shown) for shown in contender.shown] for contender in self.contenders
        ]
        return [dict(samples) for samples in zip(*by_recipe, strict=True)]


def verdicts_of(one: Contender, other: Contender) -> dict[str, Verdict]:
    """Compare one recipe with the other by each metric that both have."""
    common = [name for name in one.qualities if name in other.qualities]
    return {name: verdict(one.qualities[name], other.qualities[name]) for name in common}


def _verdicts_json(one: Contender, other: Contender) -> Record:
    if one is other:
        return {}
    return {name: _verdict_json(v) for name, v in verdicts_of(one, other).items()}


def _verdict_json(difference: Verdict) -> Record:
    return asdict(difference) | {"verdict": str(difference)}


def _without_resamples(quality: Quality) -> Record:
    return {name: value for name, value in asdict(quality).items() if name != "resamples"}


def _sample_json(by_recipe: Mapping[str, ShownSample]) -> Record:
    sample = next(iter(by_recipe.values())).sample
    return {
        "input": sample.input,
        "references": list(sample.references),
        "answers": {
            name: {"answer": shown.sample.answer, "attention": _attention_json(shown.record)}
            for name, shown in by_recipe.items()
        },
    }


def _attention_json(record: AttentionRecord | None) -> Record | None:
    if record is None:
        return None
    return {
        "read": list(record.read.tokens),
        "wrote": list(record.wrote.tokens),
        "weights": record.mean().round(4).tolist(),
    }
