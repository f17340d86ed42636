"""Everything that a comparison found: the page shows it, compare.json holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from saccade._version import __version__
from saccade.compare.measurements import Measured, Sample
from saccade.compare.statistics import Quality, Verdict, quality, verdict
from saccade.lens.record import AttentionRecord

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A sample and where it looked."""

    sample: Sample
    record: AttentionRecord | None


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A recipe that was trained, with what was measured of it.

    number     its place among the recipes as they were given
    measured   by the seeds of its trainings
    failed     why the others did not come to their end
    shown      answers of the first of them
    """

    name: str
    number: int
    measured: Mapping[int, Measured]
    failed: Mapping[int, str]
    shown: Sequence[Shown]

    @cached_property
    def qualities(self) -> dict[str, Quality]:
        """Every metric, over all its trainings."""
        any_training = next(iter(self.measured.values()))
        return {
            name: quality({s: m.scores[name] for s, m in self.measured.items()}, self.number)
            for name in any_training.scores
        }

    def by_length(self) -> list[dict[str, Any]]:
        """Quality by length of the input, the mean over its trainings."""
        rows = []
        for buckets in zip(*(each.by_length for each in self.measured.values()), strict=True):
            row = dict(buckets[0])
            for name in self.qualities.keys() & row.keys():
                row[name] = fmean(bucket[name] for bucket in buckets)
            rows.append(row)
        return rows

    def mean(self, part: str, name: str) -> float | None:
        """A number of its trainings ("training", "answering"), the mean of those that have it."""
        found = [getattr(getattr(each, part), name) for each in self.measured.values()]
        there = [number for number in found if number is not None]
        return fmean(there) if there else None

    @property
    def parameters(self) -> int:
        """How many numbers it learned."""
        return next(iter(self.measured.values())).parameters

    def as_json(self, first: Contender, best: Contender) -> dict[str, Any]:
        """As plain values, beside two others."""
        return {
            "name": self.name,
            "parameters": self.parameters,
            "metrics": {name: _without_resamples(q) for name, q in self.qualities.items()},
            "against_first": _verdicts_json(self, first),
            "against_best": _verdicts_json(self, best),
            "by_length": self.by_length(),
            "training": {seed: asdict(each.training) for seed, each in self.measured.items()},
            "answering": {seed: asdict(each.answering) for seed, each in self.measured.items()},
            "curves": {seed: each.curve for seed, each in self.measured.items()},
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Several recipes, trained on the same data with the same budget."""

    task: str
    data: str
    budget: str
    seeds: tuple[int, ...]
    entrants: Sequence[Contender]

    @cached_property
    def contenders(self) -> list[Contender]:
        """Those of which a training came to its end, in the order in which they were given."""
        return [each for each in self.entrants if each.measured]

    @property
    def failures(self) -> list[tuple[str, int, str]]:
        """Trainings that did not come to their end: name, seed and reason."""
        return [(e.name, seed, why) for e in self.entrants for seed, why in e.failed.items()]

    @cached_property
    def some(self) -> Measured:
        """Any training, for what all have in common."""
        return next(iter(self.contenders[0].measured.values()))

    @property
    def metric(self) -> str:
        """The metric that decides."""
        return self.some.comparison_metric

    @property
    def first(self) -> Contender:
        """The one that was given first."""
        return self.contenders[0]

    @cached_property
    def best(self) -> Contender:
        """The one with the best mean; of equal ones the first."""
        return max(self.contenders, key=lambda each: each.qualities[self.metric].worth)

    def summary(self) -> str:
        """Which is better, and by how much."""
        if not self.contenders:
            return "No training came to its end."
        metric, best = self.metric.replace("_", " "), self.best
        score = f"{best.qualities[self.metric]} on {self.some.items:,} items of {self.some.split}"
        others = [each for each in self.contenders if each is not best]
        if not others:
            return f"{best.name} has {metric} {score}; there is nothing to compare it with."
        verdicts = {each.name: against(best, each)[self.metric] for each in others}
        told = [each.told for each in verdicts.values()]
        if all(told):
            leads = f"{best.name} is the best by {metric}"
        elif any(told):
            leads = f"{best.name} comes out first by {metric}, though not beyond doubt"
        else:
            leads = f"None can be told to be the best by {metric}; {best.name} comes out first"
        beside = ". ".join(f"Against {name}: {each}" for name, each in verdicts.items())
        return f"{leads}: {score}. {beside}."

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        table: dict[str, Any] = {
            "format": FORMAT,
            "saccade": __version__,
            "summary": self.summary(),
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
            "split": self.some.split,
            "items": self.some.items,
            "metric": self.metric,
            "best": self.best.name,
            "recipes": [each.as_json(self.first, self.best) for each in self.contenders],
            "samples": [_sample_json(each) for each in self.samples()],
        }

    def samples(self) -> list[dict[str, Shown]]:
        """The same inputs answered by all, by their names."""
        every = [[(each.name, shown) for shown in each.shown] for each in self.contenders]
        return [dict(answers) for answers in zip(*every, strict=True)]


def against(one: Contender, other: Contender) -> dict[str, Verdict]:
    """One beside the other by each metric that both have."""
    shared = [name for name in one.qualities if name in other.qualities]
    return {name: verdict(one.qualities[name], other.qualities[name]) for name in shared}


def _verdicts_json(one: Contender, other: Contender) -> dict[str, Any]:
    if one is other:
        return {}
    return {
        name: asdict(found) | {"verdict": str(found)} for name, found in against(one, other).items()
    }


def _without_resamples(found: Quality) -> dict[str, Any]:
    return {name: value for name, value in asdict(found).items() if name != "resamples"}


def _sample_json(answers: Mapping[str, Shown]) -> dict[str, Any]:
    asked = next(iter(answers.values())).sample
    return {
        "input": asked.input,
        "references": list(asked.references),
        "answers": {
            name: {
                "answer": shown.sample.answer,
                "attention": None
                if shown.record is None
                else {
                    "read": list(shown.record.read.tokens),
                    "wrote": list(shown.record.wrote.tokens),
                    "weights": shown.record.mean().round(4).tolist(),
                },
            }
            for name, shown in answers.items()
        },
    }
