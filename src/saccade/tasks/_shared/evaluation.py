"""Evaluations: the metrics of a task over some items, and the answers they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from saccade.data.corpus import Item
from saccade.metrics import ClassificationMetricsConfig, Tally, TextMetricsConfig, by_length
from saccade.metrics.score import IntervalsConfig, MetricScore, scores_of

TableRows = Sequence[Mapping[str, object]]
"""The rows of a table, each with its values by column."""


@dataclass(frozen=True)
class Evaluation:
    """The metrics of a task over some items, and the answers they come from.

    Attributes:
        scores: The metrics, by name.
        answers: The text of each answer.
        items: The items, in the order of the answers.
        by_length: The metrics of items of similar length, one row per bucket of lengths.
        tables: Other rows worth reading, such as the most confident mistakes, by title.
        meanings: A sentence about the meaning of a metric, by its name, if it is not well known.
        attention: The measures of each head and alignment candidate, by title, if attention was
            measured.
        engine: The engine that generated the answers.
        per_class: Precision, recall, F1 and support of each class, if there are classes.
        remarks: Sentences about what the metrics do not show.
    """

    scores: dict[str, MetricScore]
    answers: list[str]
    items: list[Item]
    by_length: list[dict[str, Any]] = field(default_factory=list)
    tables: Mapping[str, TableRows] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)
    attention: Mapping[str, TableRows] = field(default_factory=dict)
    engine: str = "eager"
    per_class: Sequence[Mapping[str, object]] = ()
    remarks: Sequence[str] = ()

    def values(self) -> dict[str, float]:
        """Return the numbers, by the names of their metrics."""
        return {name: score.value for name, score in self.scores.items()}

    def without_samples(self) -> Evaluation:
        """Return the evaluation without the tables that quote inputs."""
        tables = {
            title: rows
            for title, rows in self.tables.items()
            if not any("input" in row for row in rows)
        }
        return replace(self, tables=tables)

    def as_json(self) -> dict[str, object]:
        """Return plain values: the numbers, then their details."""
        table = {
            **self.values(),
            "items": len(self.items),
            "details": {name: self._detail(name) for name in self.scores},
            "by_length": self.by_length,
            "engine": self.engine,
        }
        more = {
            "per_class": self.per_class,
            "remarks": self.remarks,
            "attention": self.attention,
        }
        return {**table, **{name: value for name, value in more.items() if value}}

    def _detail(self, name: str) -> dict[str, object]:
        score = self.scores[name]
        meaning = {"meaning": self.meanings[name]} if name in self.meanings else {}
        return {"signature": score.signature, "interval": score.interval, **meaning}


def evaluation_of(
    items: list[Item],
    answers: list[str],
    tallies: Mapping[str, Tally],
    metrics: IntervalsConfig | TextMetricsConfig | ClassificationMetricsConfig,
    *,
    quick: bool,
    texts: Sequence[str] = (),
    without_lengths: Mapping[str, Tally] | None = None,
    tables: Mapping[str, TableRows] | None = None,
    remarks: Sequence[str] = (),
    engine: str = "eager",
) -> Evaluation:
    """Return the evaluation of some answers.

    Args:
        items: The items.
        answers: The answer to each item.
        tallies: What each metric counted for each item.
        metrics: The number of resamples of confidence intervals, and their seed.
        quick: Whether to leave out intervals and the metrics by length.
        texts: The texts by whose length items are grouped; none if they are not.
        without_lengths: Tallies that are not divided by length.
        tables: Other rows worth reading, by title.
        remarks: Sentences about what the metrics do not show.
        engine: The engine that generated the answers.
    """
    every = {**tallies, **(without_lengths or {})}
    return Evaluation(
        scores_of(every, 0 if quick else metrics.samples, metrics.seed),
        answers,
        items,
        by_length(tallies, texts) if texts and not quick else [],
        tables=tables or {},
        remarks=remarks,
        engine=engine,
    )
