"""Measures of a task's attention over some items, each number with a sentence about it.

alignment_error_rate            against gold alignments, under teacher forcing
comprehensiveness, sufficiency  the fall of an answer's probability when the attended part of the
                                input is erased, or kept alone; `..._over_random` compares with
                                erasing random parts
attention_entropy               how widely heads look
head_divergence                 how far the heads of a layer differ
head_importance                 the rise of the loss when a head is removed

`any_model` measures models that are not a task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from saccade.attention.attend import Attend
from saccade.data.corpus import Item
from saccade.errors import WatchError
from saccade.lens.alignment.gold import Gold
from saccade.lens.record import AttentionRecord
from saccade.tasks._shared.answering import Answer
from saccade.tasks._shared.base import Task
from saccade.tasks._shared.capabilities import Aligns, Measurable
from saccade.tasks._shared.evaluation import Evaluation
from saccade.tasks.measures.aligning import align_both_ways, measure_alignment
from saccade.tasks.measures.any_model import AttentionMeasures, Likely, measure_records
from saccade.tasks.measures.erasing import measure_erasure, probabilities_of
from saccade.tasks.measures.finding import Finding
from saccade.tasks.measures.heads import measure_heads

__all__ = [
    "MOST",
    "Finding",
    "align_both_ways",
    "belief",
    "erasure",
    "measure_answers",
    "require_measurable",
    "with_attention",
]

MOST = 100
"""Maximum number of items for all measures but the alignment error rate."""
BELIEF = ("comprehensiveness", "comprehensiveness_over_random")
"""The measures by which a picture of attention is judged."""


def belief(meanings: Mapping[str, str]) -> str:
    """Return how far to trust the attention of a model, in words; "" if it was not measured.

    Args:
        meanings: The sentences of the measures, by their names.
    """
    return " ".join(meanings[name] for name in BELIEF if name in meanings)


def require_measurable(task: Task) -> Measurable:
    """Return the task as a measurable one.

    Raises:
        WatchError: Its outputs have no probability, or its model has no attention.
    """
    if not isinstance(task, Measurable):
        raise WatchError(
            f"attention cannot be measured for the task {task.name}: answers need a reference and "
            "a probability, as those of translators, captioners and classifiers have; "
            "leave --attention out"
        )
    if not any(isinstance(part, Attend) for part in task.model.modules()):
        raise WatchError("this model has no attention to measure; use a model with attention")
    return task


def erasure(task: Task, items: Sequence[Item], *, most: int = MOST) -> list[Finding]:
    """Return comprehensiveness and sufficiency over some items; nothing without attention."""
    try:
        probabilities = probabilities_of(require_measurable(task))
    except WatchError:
        return []
    task.eval()
    return measure_erasure(task, _some(items, most), probabilities)


def measure_answers(
    task: Task,
    inputs: Sequence[Any],
    answers: Sequence[Answer],
    records: Sequence[AttentionRecord],
) -> AttentionMeasures:
    """Measure the attention of predictions, whose inputs have no references.

    Args:
        task: The task that predicted.
        inputs: Its inputs.
        answers: Its answers to them.
        records: Where it looked for each.

    Raises:
        WatchError: The attention of the task cannot be measured.
    """
    probabilities = probabilities_of(require_measurable(task))
    task.eval()

    def likely(answer: Answer) -> Likely:
        def values(some: Sequence[Any]) -> Sequence[float]:
            known = probabilities(some, answer.text)
            if known is None:
                raise WatchError(
                    f"attention cannot be measured, because the answer {answer.text!r} has no "
                    "probability: it is a number; leave --measure out"
                )
            return known

        return values

    with torch.no_grad():
        return measure_records(inputs, records, [likely(x) for x in answers], model=task.model)


def _some(items: Sequence[Item], most: int) -> Sequence[Item]:
    """Return at most `most` items, evenly spread."""
    return items[:: -(-len(items) // most)]


def with_attention(
    task: Task,
    evaluation: Evaluation,
    *,
    golds: Sequence[Gold] | None = None,
    back: Aligns | None = None,
    most: int = MOST,
) -> Evaluation:
    """Return an evaluation with the measures of the task's attention.

    Args:
        task: The task that was evaluated.
        evaluation: Its evaluation.
        golds: The gold alignments of the items, for tasks that align words.
        back: A task of the opposite direction, whose alignments are combined with the task's.
        most: Maximum number of items for all measures but the alignment error rate.

    Raises:
        WatchError: The attention of the task cannot be measured.
    """
    probabilities = probabilities_of(require_measurable(task))
    task.eval()
    findings: list[Finding] = []
    tables = {}
    if isinstance(task, Aligns):
        alignment, tables["candidates"] = measure_alignment(task, evaluation.items, golds, back)
        findings += alignment
    some = _some(evaluation.items, most)
    findings += measure_erasure(task, some, probabilities)
    of_heads, tables["heads"] = measure_heads(task, some)
    findings += of_heads
    return replace(
        evaluation,
        scores={**evaluation.scores, **{one.score.name: one.score for one in findings}},
        meanings={**evaluation.meanings, **{one.score.name: one.meaning for one in findings}},
        attention=tables,
    )
