"""Word alignments measured against gold alignments, of one run or of both directions combined."""

from __future__ import annotations

from collections.abc import Sequence

from saccade.data.corpus import Item
from saccade.lens.alignment.align_by import AlignBy
from saccade.lens.alignment.error_rate import alignment_counts, alignment_error_rate
from saccade.lens.alignment.extraction import Link, symmetrise
from saccade.lens.alignment.gold import Gold
from saccade.lens.alignment.selection import Candidate, candidates
from saccade.lens.record import AttentionRecord
from saccade.metrics.score import Tally
from saccade.tasks._shared.capabilities import Aligns
from saccade.tasks._shared.evaluation import TableRows
from saccade.tasks.measures.finding import BATCH, Finding, signature

RANKED = 100
"""The number of sentence pairs that candidates are ranked by."""


def align_both_ways(
    task: Aligns, back: Aligns, sources: Sequence[str], targets: Sequence[str]
) -> list[set[Link]]:
    """Return the word alignments (source, target) of a task and one of the opposite direction.

    Args:
        task: A task that aligns.
        back: A task of the opposite direction.
        sources: The texts that `task` reads.
        targets: The texts that `task` writes.
    """
    forward, backward = _links(task, sources, targets), _links(back, targets, sources)
    return [
        symmetrise(one, {(s, t) for t, s in other})
        for one, other in zip(forward, backward, strict=True)
    ]


def _links(task: Aligns, sources: Sequence[str], targets: Sequence[str]) -> list[set[Link]]:
    records = _records(task, sources, targets)
    by = _aligned_by(task, records)
    return [record.alignment(by) for record in records]


def _records(task: Aligns, sources: Sequence[str], targets: Sequence[str]) -> list[AttentionRecord]:
    """Return where the targets look at the sources, computed batch by batch."""
    starts = range(0, len(sources), BATCH)
    parts = [slice(start, start + BATCH) for start in starts]
    return [record for part in parts for record in task.records(sources[part], targets[part])]


def _aligned_by(task: Aligns, records: Sequence[AttentionRecord]) -> AlignBy:
    """Return the attention that was chosen in training, or the best one on these records."""
    if task.align_by != AlignBy():
        return task.align_by
    return candidates(records[:RANKED])[0].by


def measure_alignment(
    task: Aligns,
    items: Sequence[Item],
    golds: Sequence[Gold] | None,
    back: Aligns | None,
) -> tuple[list[Finding], TableRows]:
    """Return the error rate, if there are gold alignments, and a table of candidates.

    Args:
        task: The task.
        items: The items to align.
        golds: The gold alignment of each item; None without any.
        back: The task of the opposite direction, whose alignments are joined; None for none.
    """
    sources, targets = [item.inputs[0] for item in items], [item.references[0] for item in items]
    records = _records(task, sources, targets)
    by = _aligned_by(task, records)
    rows = [_candidate_row(one, records, golds) for one in candidates(records[:RANKED])]
    if golds is None:
        return [], rows
    findings = [_alignment_error("", [r.alignment(by) for r in records], golds, str(by))]
    if back:
        combined = align_both_ways(task, back, sources, targets)
        findings.append(_alignment_error("_joined", combined, golds, "runs of both directions"))
    return findings, rows


def _candidate_row(
    candidate: Candidate, records: Sequence[AttentionRecord], golds: Sequence[Gold] | None
) -> dict[str, object]:
    by = candidate.by
    row: dict[str, object] = {
        "layer": by.layer or "mean",
        "head": "mean" if by.head is None else by.head,
        "when": "read" if by.shift else "written",
        "agreement": candidate.agreement,
    }
    if golds is None:
        return row
    links = [record.alignment(by) for record in records]
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
        f"{score.value:.1%} of the word links of attention and gold alignments are only in one of "
        f"them (attention: {by}); 0 would be perfect.",
    )
