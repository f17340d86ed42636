"""How far to believe a task's attention: measured over some items, each number with a sentence.

alignment_error_rate            against gold alignments, while the right answers are written
comprehensiveness, sufficiency  what erasing the attended part of the input does to the answer, and
                                the same compared with erasing random parts (`..._over_random`)
attention_entropy               how widely heads look
head_divergence                 how far the heads of a layer differ
head_importance                 what the loss gains when a head is silenced
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from saccade.attention.attend import Attend
from saccade.errors import WatchError
from saccade.lens.alignment.gold import Gold
from saccade.tasks._shared.base import Evaluation, Task
from saccade.tasks._shared.classifier import Classifier
from saccade.tasks._shared.seq2seq import WritingTask
from saccade.tasks.measures.aligning import align_both_ways, measure_alignment
from saccade.tasks.measures.erasing import measure_erasure
from saccade.tasks.measures.finding import Finding
from saccade.tasks.measures.heads import measure_heads
from saccade.tasks.text_to_text import TextToText

__all__ = ["MOST", "Finding", "align_both_ways", "require_measurable", "with_attention"]

MOST = 100
"""Items by which all but the alignment error rate is measured: from all over those there are."""


def require_measurable(task: Task) -> None:
    """Refuse tasks whose attention tells nothing of one answer, and models without any."""
    if not isinstance(task, WritingTask | Classifier):
        raise WatchError(
            f"attention is measured of tasks that translate, caption or label, not of {task.name}"
        )
    if not any(isinstance(part, Attend) for part in task.model.modules()):
        raise WatchError("this model has no attention to measure: no layer of it looks at anything")


def with_attention(
    task: Task,
    found: Evaluation,
    *,
    golds: Sequence[Gold] | None = None,
    back: TextToText | None = None,
    most: int = MOST,
) -> Evaluation:
    """An evaluation with the measures of the task's attention.

    `golds` are the right alignments of its items; `back` is a task of the other direction, whose
    alignments are joined with those of this one.
    """
    require_measurable(task)
    task.eval()
    findings: list[Finding] = []
    tables = {}
    if isinstance(task, TextToText):
        aligned, tables["candidates"] = measure_alignment(task, found.items, golds, back)
        findings += aligned
    some = found.items[:: -(-len(found.items) // most)]
    findings += measure_erasure(task, some)
    of_heads, tables["heads"] = measure_heads(task, some)
    findings += of_heads
    return replace(
        found,
        scores={**found.scores, **{each.score.name: each.score for each in findings}},
        meanings={**found.meanings, **{each.score.name: each.meaning for each in findings}},
        attention=tables,
    )
