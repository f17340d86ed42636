"""Measures of attention for any model: what it predicts, and where its records say it looked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import nn

from saccade.errors import WatchError
from saccade.lens.faithfulness.erasure import Erased, Keep, attended, erasable, erase
from saccade.lens.faithfulness.heads import without_head
from saccade.lens.formatting import in_columns
from saccade.lens.record import AttentionRecord
from saccade.tasks._shared.evaluation import TableRows
from saccade.tasks.measures.erasing import erasure_findings
from saccade.tasks.measures.finding import Finding, belief, mean
from saccade.tasks.measures.heads import HeadStatistics

Predict = Callable[[Sequence[Any]], Any]
"""Return the probabilities (inputs, answers) of inputs, or (inputs,) of a single answer."""
Likely = Callable[[Sequence[Any]], Sequence[float]]
"""Return the probability of one answer for each input."""
Attended = Callable[[AttentionRecord], Float[np.ndarray, " parts"]]
SHOWN = 10
"""Heads that are printed."""
PROBABILITY = "the probability of an answer"


@dataclass(frozen=True)
class AttentionMeasures:
    """How far the attention of a model can be trusted.

    Attributes:
        findings: Scores with a sentence each.
        heads: A table of all heads: entropy, divergence and, if it was measured, importance.
    """

    findings: tuple[Finding, ...]
    heads: TableRows

    @property
    def belief(self) -> str:
        """How far to trust the attention, in words."""
        return belief({one.score.name: one.meaning for one in self.findings})

    def __getitem__(self, name: str) -> float:
        return {one.score.name: one.score.value for one in self.findings}[name]

    def __str__(self) -> str:
        """Return the findings, and the heads that matter or differ most."""
        lines = [f"{one.score}\n    {one.meaning}" for one in self.findings]
        by = "importance" if "importance" in self.heads[0] else "divergence"
        rows = sorted(self.heads, key=lambda row: float(str(row[by] or 0)), reverse=True)[:SHOWN]
        cells = [list(rows[0]), *([_shown(x) for x in row.values()] for row in rows)]
        more = len(self.heads) - len(rows)
        last = [f"and {more} more heads"] if more else []
        return "\n".join([*lines, "", in_columns(cells), *last])

    def as_json(self) -> dict[str, object]:
        """Return everything as plain values."""
        scores = {
            one.score.name: {
                "value": one.score.value,
                "interval": one.score.interval,
                "signature": one.score.signature,
                "meaning": one.meaning,
            }
            for one in self.findings
        }
        return {"scores": scores, "heads": list(self.heads)}


def measure(
    predict: Predict,
    inputs: Sequence[Any],
    records: Sequence[AttentionRecord],
    *,
    model: nn.Module | None = None,
    seed: int = 0,
) -> AttentionMeasures:
    """Measure how far the attention of any model can be trusted.

    Parts of each input are erased: words are left out, the cells of an image become grey. The
    measures are how much the probability of the answer to the complete input falls without the most
    attended parts (comprehensiveness) and with nothing but them (sufficiency), each also for random
    and for the least attended parts. In self-attention the parts are ranked by attention
    rollout, otherwise by their sum over the words written. `saccade.lens.faithfulness` has the
    formulas.

    Args:
        predict: Returns the probabilities (n, answers) of n inputs, or (n,) of one answer; an array
            or a tensor. The answer to an input is the most probable one.
        inputs: The inputs: texts, pairs of texts or images. Erased images come as arrays
            (height, width, 3) of the record's image.
        records: Where the model looked for each input, such as `saccade.look` returns.
        model: The model that `predict` runs; with it the importance of each head is measured, by
            removing one after the other.
        seed: Seed of the random parts.

    Raises:
        WatchError: If inputs and records do not belong together, no input has two parts, or the
            records have different layers.

    Examples:
        >>> import numpy as np, saccade
        >>> from saccade.lens.record import AttentionRecord, Side
        >>> text = Side.of_words(["not", "good", "at", "all"])
        >>> looked = AttentionRecord(text, text, {"layer": np.full((1, 4, 4), 0.25)})
        >>> def predict(texts):
        ...     return np.array([0.9 if "not" in text else 0.2 for text in texts])
        >>> measures = saccade.measure(predict, ["not good at all"] * 3, [looked] * 3)
        >>> round(measures["comprehensiveness"], 2)
        0.7
    """

    def likely(given: Any) -> Likely:
        answer = int(np.argmax(_probabilities(predict, [given])[0]))
        return lambda some: _probabilities(predict, some)[:, answer].tolist()

    return measure_records(
        inputs, records, [likely(given) for given in inputs], model=model, seed=seed
    )


def measure_records(
    inputs: Sequence[Any],
    records: Sequence[AttentionRecord],
    likely: Sequence[Likely],
    *,
    model: nn.Module | None = None,
    attention: Attended = attended,
    outcome: str = PROBABILITY,
    seed: int = 0,
) -> AttentionMeasures:
    """Measure attention, with a function for the probability of the answer to each input.

    Args:
        inputs: The inputs.
        records: Where the model looked for each.
        likely: For each input, the function that returns the probability of its answer.
        model: The model, to measure the importance of heads.
        attention: Returns the attention to each part of an input.
        outcome: What `likely` returns, for the sentences.
        seed: Seed of the random parts.
    """
    keeps = _erasable(inputs, records)
    generator = np.random.default_rng(seed)
    statistics, erased = HeadStatistics(), list[Erased]()
    for keep, record, likely_for in zip(keeps, records, likely, strict=True):
        statistics.add(record.weights)
        if len(record.read.words) > 1:
            erased.append(erase(keep, attention(record), likely_for, generator))
    if not erased:
        raise WatchError("no input has two words or cells, so nothing can be erased; pass longer")
    findings = erasure_findings(erased, records[0].read.parts, outcome)
    findings += statistics.findings()
    if model is None:
        return AttentionMeasures(tuple(findings), statistics.rows())
    complete = [keep(range(len(r.read.words))) for keep, r in zip(keeps, records, strict=True)]
    falls = _falls_without(model, statistics.heads, complete, likely)
    findings.append(_importance(falls, outcome))
    rows = statistics.rows({head: float(own.mean()) for head, own in falls.items()})
    return AttentionMeasures(tuple(findings), rows)


def _erasable(inputs: Sequence[Any], records: Sequence[AttentionRecord]) -> list[Keep]:
    if len(inputs) != len(records) or not inputs:
        raise WatchError(
            f"each input needs a record: got {len(inputs)} inputs and {len(records)} records; "
            "pass one record per input"
        )
    if len({record.layers for record in records}) > 1:
        raise WatchError(
            "the records have different layers; measure texts and images one after the other"
        )
    return [erasable(given, record) for given, record in zip(inputs, records, strict=True)]


def _probabilities(predict: Predict, inputs: Sequence[Any]) -> Float[np.ndarray, "n answers"]:
    given = predict(inputs)
    values = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given, np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != len(inputs) or not np.isfinite(values).all():
        raise WatchError(
            f"predict must return finite probabilities ({len(inputs)}, answers) for {len(inputs)} "
            f"inputs, got an array {values.shape}; "
            "apply softmax to the logits"
        )
    return values


def _falls_without(
    model: nn.Module,
    heads: Sequence[tuple[str, int]],
    inputs: Sequence[Any],
    likely: Sequence[Likely],
) -> dict[tuple[str, int], Float[np.ndarray, " inputs"]]:
    """Return by how much the probability of each answer falls without each head."""

    def values() -> np.ndarray:
        return np.array([own([given])[0] for own, given in zip(likely, inputs, strict=True)])

    complete, falls = values(), {}
    for layer, head in heads:
        with without_head(model, layer, head):
            falls[layer, head] = complete - values()
    return falls


def _importance(
    falls: Mapping[tuple[str, int], Float[np.ndarray, " inputs"]], outcome: str
) -> Finding:
    layer, head = max(falls, key=lambda one: falls[one].mean())
    score = mean("head_importance", np.mean(list(falls.values()), 0), "fall")
    one = f"one of its {len(falls)} heads" if len(falls) > 1 else "its only head"
    return Finding(
        score,
        f"Without {one}, {outcome} falls by {score.value:.3f} on average; "
        f"without head {head} of {layer} it falls most, by {falls[layer, head].mean():.3f}.",
    )


def _shown(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
