"""Alignments measured: against gold, of one run or of two of both directions joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from saccade.data.corpus import Item
from saccade.lens.alignment.error_rate import alignment_counts, alignment_error_rate
from saccade.lens.alignment.extraction import AlignBy, Link, symmetrise
from saccade.lens.alignment.gold import Gold
from saccade.lens.alignment.selection import Candidate, candidates
from saccade.lens.record import AttentionRecord
from saccade.metrics.score import Tally
from saccade.tasks.measures.finding import AT_ONCE, Finding, Rows, signature
from saccade.tasks.text_to_text import TextToText

RANKED = 100
"""Sentence pairs by which candidates are ranked."""


def align_both_ways(
    task: TextToText, back: TextToText, sources: Sequence[str], targets: Sequence[str]
) -> list[set[Link]]:
    """Pairs of words (source, target) that a task and one of the other direction find together."""
    there, again = _links(task, sources, targets), _links(back, targets, sources)
    return [
        symmetrise(one, {(s, t) for t, s in other}) for one, other in zip(there, again, strict=True)
    ]


def _links(task: TextToText, sources: Sequence[str], targets: Sequence[str]) -> list[set[Link]]:
    records = _records(task, sources, targets)
    by = _aligned_by(task, records)
    return [record.alignment(by) for record in records]


def _records(
    task: TextToText, sources: Sequence[str], targets: Sequence[str]
) -> list[AttentionRecord]:
    """Where the targets look at the sources, a batch at a time."""
    starts = range(0, len(sources), AT_ONCE)
    parts = [slice(start, start + AT_ONCE) for start in starts]
    return [record for part in parts for record in task.records(sources[part], targets[part])]


def _aligned_by(task: TextToText, records: Sequence[AttentionRecord]) -> AlignBy:
    """What was found out when the task was trained, or else what is best on these records."""
    if task.align_by != AlignBy():
        return task.align_by
    return candidates(records[:RANKED])[0].by


def measure_alignment(
    task: TextToText,
    items: Sequence[Item],
    golds: Sequence[Gold] | None,
    back: TextToText | None,
) -> tuple[list[Finding], Rows]:
    """The error rate, if the right links are known, and what words could be aligned by."""
    sources, targets = [item.inputs[0] for item in items], [item.references[0] for item in items]
    records = _records(task, sources, targets)
    by = _aligned_by(task, records)
    rows = [_candidate_row(each, records, golds) for each in candidates(records[:RANKED])]
    if golds is None:
        return [], rows
    findings = [_alignment_error("", [r.alignment(by) for r in records], golds, str(by))]
    if back:
        joined = align_both_ways(task, back, sources, targets)
        findings.append(_alignment_error("_joined", joined, golds, "runs of both directions"))
    return findings, rows


def _candidate_row(
    each: Candidate, records: Sequence[AttentionRecord], golds: Sequence[Gold] | None
) -> dict[str, Any]:
    row = {
        "layer": each.by.layer or "mean",
        "head": "mean" if each.by.head is None else each.by.head,
        "when": "read" if each.by.shift else "written",
        "agreement": each.agreement,
    }
    if golds is None:
        return row
    links = [record.alignment(each.by) for record in records]
    error = alignment_error_rate(links, [g.sure for g in golds], [g.possible for g in golds])
    return {**row, "alignment_error_rate": error}


def _alignment_error(
    suffix: str, links: Sequence[set[Link]], golds: Sequence[Gold], by: str
) -> Finding:
    counts = alignment_counts(links, [g.sure for g in golds], [g.possible for g in golds])
    tally = Tally(
        name=f"alignment_error_rate{suffix}",
        counts=counts,
        value=lambda sums: 1 - float(sums[0] / sums[1]) if sums[1] else 0.0,
        signature=signature(f"by:{by}"),
        higher_is_better=False,
    )
    score = tally.score()
    return Finding(
        score,
        f"Of the links between words that attention or the gold alignments have, {score.value:.1%} "
        f"are not in the other (by {by}); 0 would be perfect.",
    )
