"""The report of a training run as a page: a dashboard whose first screen holds the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from saccade.lens.page.document import document
from saccade.lens.page.view import json_of

Record = Mapping[str, Any]
"""A row of a table: values by name."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The number that the report is about.

    Attributes:
        metric: the name of the metric.
        value: its value, for people.
        interval: its 95 % confidence interval, for people; may be empty.
        items: the number of items it was measured on.
        verdict: a sentence about the result.
        good: whether the model beats its baseline; None if there is none.
        chart: the model beside its baselines.
    """

    metric: str
    value: str
    interval: str
    items: str
    verdict: str
    good: bool | None
    chart: Markup | None


@dataclass(frozen=True, kw_only=True)
class Confusions:
    """A confusion matrix.

    Attributes:
        names: the names of its columns.
        rows: for each right label its name, its counts with their shades, and its recall.
    """

    names: Sequence[str]
    rows: Sequence[tuple[str, Sequence[tuple[int, int]], str]]


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A confident mistake.

    Attributes:
        words: the words of the input with the shades of their weights; empty if it has none.
        image: a data URL of the input, if it is an image.
        row: the row of the table of mistakes.
    """

    words: Sequence[tuple[str, int]] = ()
    image: str = ""
    row: Record


@dataclass(frozen=True, kw_only=True)
class Report:
    """The content of a report.

    Attributes:
        title: its title.
        about: a line about the model and the data.
        result: the result; None without validation items.
        remarks: further sentences about it.
        cost: what the training cost, by name.
        curves: charts of the training, by title.
        confusions: the confusion matrix, if there are few classes.
        lengths: the chart of quality by length of the input.
        mistakes: the most confident mistakes; None if the report may not quote any.
        predictions: inputs, predictions and references; None if the report may not quote any.
        belief: sentences about how far to trust the attention.
        film: the film of learning; None if there is none.
        details: tables that are folded, by title.
        updates: charts of the updates, which are folded.
        recipe: the text of the recipe.
    """

    title: str
    about: str
    result: Result | None
    remarks: Sequence[str]
    cost: Record
    curves: Mapping[str, Markup]
    confusions: Confusions | None
    lengths: Markup | None
    mistakes: Sequence[Mistake] | None
    predictions: Sequence[Record] | None
    belief: Sequence[str]
    film: Mapping[str, Any] | None
    details: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    updates: Sequence[Markup] = ()
    recipe: str = ""


def report_page(report: Report) -> str:
    """Return the page, which needs no other file."""
    film = "" if report.film is None else json_of(report.film)
    return document("lens/page/report.html", title=report.title, report=report, film=film)
