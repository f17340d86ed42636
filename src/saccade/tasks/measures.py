"""How far to believe a task's attention: measured over some items, each number with a sentence.

alignment_error_rate            against gold alignments, while the right answers are written
comprehensiveness, sufficiency  what erasing the attended part of the input does to the answer, and
                                the same compared with erasing random parts (`..._over_random`)
attention_entropy               how widely heads look
head_divergence                 how far the heads of a layer differ
head_importance                 what the loss gains when a head is silenced
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from saccade._version import __version__
from saccade.attention.watch import watch
from saccade.data.corpus import Item
from saccade.errors import WatchError
from saccade.lens.align import AlignBy, Link, symmetrise
from saccade.lens.choosing import Candidate, candidates
from saccade.lens.erasure import SHARES, Erased, attended, erasable, erase
from saccade.lens.gold import Gold
from saccade.lens.heads import divergence, entropy, without_head
from saccade.lens.measure import alignment_counts, alignment_error_rate
from saccade.lens.record import AttentionRecord, ImageSide
from saccade.metrics.score import Score, Tally, ratio
from saccade.tasks.base import Evaluation, Task
from saccade.tasks.classifier import Classifier
from saccade.tasks.text_to_text import TextToText
from saccade.tasks.writing import WritingTask

MOST = 100
"""Items by which all but the alignment error rate is measured: from all over those there are."""
AT_ONCE = 32
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Finding:
    """A score, and one sentence that says what its number means."""

    score: Score
    meaning: str


def with_attention(
    task: Task[Any],
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
    if not isinstance(task, WritingTask | Classifier):
        raise WatchError(
            f"attention is measured of tasks that translate, caption or label, not of {task.name}"
        )
    task.eval()
    findings, tables = [], {}
    if isinstance(task, TextToText):
        aligned, tables["candidates"] = _alignment(task, found.items, golds, back)
        findings += aligned
    some = found.items[:: -(-len(found.items) // most)]
    findings += _erasure(task, some)
    of_heads, tables["heads"] = _heads(task, some)
    findings += of_heads
    return replace(
        found,
        scores={**found.scores, **{each.score.name: each.score for each in findings}},
        meanings={**found.meanings, **{each.score.name: each.meaning for each in findings}},
        attention=tables,
    )


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
    return [record for part in parts for record in task.look(sources[part], targets[part])]


def _aligned_by(task: TextToText, records: Sequence[AttentionRecord]) -> AlignBy:
    """What was found out when the task was trained, or else what is best on these records."""
    if task.align_by != AlignBy():
        return task.align_by
    return candidates(records[:MOST])[0].by


def _alignment(
    task: TextToText,
    items: Sequence[Item],
    golds: Sequence[Gold] | None,
    back: TextToText | None,
) -> tuple[list[Finding], Rows]:
    sources, targets = [item.inputs[0] for item in items], [item.references[0] for item in items]
    records = _records(task, sources, targets)
    by = _aligned_by(task, records)
    rows = [_candidate_row(each, records, golds) for each in candidates(records[:MOST])]
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
        signature=_signature(f"by:{by}"),
        higher_is_better=False,
    )
    score = tally.score()
    return Finding(
        score,
        f"Of the links between words that attention or the gold alignments have, {score.value:.1%} "
        f"are not in the other (by {by}); 0 would be perfect.",
    )


def _erasure(task: Task[Any], items: Sequence[Item]) -> list[Finding]:
    """What erasing parts of the input does, where answers have a probability."""
    found: list[Erased] = []
    parts = "words"
    generator = np.random.default_rng(0)
    for some in _batches(items):
        inputs = [_input(item) for item in some]
        for given, answer in zip(inputs, task.predict(inputs, attention=True), strict=True):
            record = answer.attention
            numeric = isinstance(task, Classifier) and not answer.probabilities
            if record is None or numeric or len(record.read.words) < 2:
                continue
            parts = "cells" if isinstance(record.read, ImageSide) else "words"
            likely = _probability_of(task, answer.text)
            found.append(erase(erasable(given, record), attended(record), likely, generator))
    if not found:
        return []
    without, alone = (
        np.array([getattr(each, name) for each in found])
        for name in ("comprehensiveness", "sufficiency")
    )
    erased = f"{parts} it looked at most"
    return [
        *_against_random("comprehensiveness", without, f"Without the {erased}", parts, better=1),
        *_against_random("sufficiency", alone, f"With nothing but the {erased}", parts, better=-1),
    ]


def _against_random(
    name: str,
    falls: Float[np.ndarray, "items kinds"],
    begin: str,
    parts: str,
    *,
    better: int,
) -> Iterator[Finding]:
    """How far the probability falls, and how much further than with random parts."""
    options = f"{parts}|shares:{','.join(map(str, SHARES))}"
    own = _mean(name, falls[:, 0], options, higher_is_better=better > 0)
    chance, least = falls[:, 1:].mean(0).tolist()
    yield Finding(
        own,
        f"{begin}, the probability of an answer falls by {own.value:.3f}; with random {parts} in "
        f"their place by {chance:.3f}, with the least attended by {least:.3f}.",
    )
    more = _mean(
        f"{name}_over_random", falls[:, 0] - falls[:, 1], options, higher_is_better=better > 0
    )
    low, high = sorted(better * end for end in more.interval or (-1.0, 1.0))
    verdict = "cannot be told from random ones"
    if low > 0 or high < 0:
        verdict = f"matter {'more' if low > 0 else 'less'} than random ones"
    yield Finding(
        more,
        f"By this the attended {parts} {verdict}: the fall differs by {more.value:+.3f} from that "
        f"with random {parts}.",
    )


def _probability_of(task: Task[Any], output: str) -> Callable[[Any], float]:
    """How likely the task gives this output to an input; of a text, the mean of its tokens."""

    @torch.no_grad()
    def probability(given: Any) -> float:
        loss = task(task.force([given], [output]).to(next(task.parameters()).device))
        return math.exp(-float(loss.total) / loss.count)

    return probability


def _heads(task: Task[Any], items: Sequence[Item]) -> tuple[list[Finding], Rows]:
    """How widely heads look, how they differ, and what they are worth, while the right answer is
    given."""
    bits: dict[str, list[np.ndarray]] = {}
    apart: dict[str, list[np.ndarray]] = {}
    for item in items:
        batch = task.force([_input(item)], [item.references[0]])
        with torch.no_grad(), watch(task.model, device="cpu") as seen:
            task(batch.to(next(task.parameters()).device))
        for layer in seen:
            weights = seen[layer].weights[0].numpy()
            bits.setdefault(layer, []).append(entropy(weights))
            apart.setdefault(layer, []).append(divergence(weights))
    losses, whole = _losses_without(task, items, {k: len(v[0]) for k, v in bits.items()})
    rows: Rows = [
        {
            "layer": layer,
            "head": head,
            "entropy": float(np.mean([each[head] for each in bits[layer]])),
            "divergence": _from_others(apart[layer], head),
            "importance": loss - whole,
        }
        for (layer, head), loss in losses.items()
    ]
    wide = _mean("attention_entropy", _item_means(bits.values()), "bits")
    findings = [
        Finding(
            wide,
            f"A head's look has {wide.value:.2f} bits on average, as if it were shared evenly "
            f"among {2**wide.value:.1f} tokens or cells.",
        )
    ]
    if several := [_pair_means(each) for each in apart.values() if each[0].size > 1]:
        differ = _mean("head_divergence", np.mean(several, 0), "Jensen-Shannon|bits")
        findings.append(
            Finding(
                differ,
                f"Two heads of a layer differ by {differ.value:.3f} bits on average: 0 would be "
                "that all look alike, 1 that no two look at the same tokens.",
            )
        )
    return [*findings, _importance(rows, len(items))], rows


def _importance(rows: Rows, items: int) -> Finding:
    top = max(rows, key=lambda row: row["importance"])
    mean = float(np.mean([row["importance"] for row in rows]))
    signature = _signature(f"items:{items}|nats")(0, 0)
    return Finding(
        Score(name="head_importance", value=mean, signature=signature),
        f"Without one of its {len(rows)} heads the loss rises by {mean:.3f} on average, most "
        f"without head {top['head']} of {top['layer']}: by {top['importance']:.3f}.",
    )


@torch.no_grad()
def _losses_without(
    task: Task[Any], items: Sequence[Item], heads: dict[str, int]
) -> tuple[dict[tuple[str, int], float], float]:
    """The mean loss without each head, and that with all of them."""
    device = next(task.parameters()).device
    batches = [
        task.force([_input(item) for item in some], [item.references[0] for item in some]).to(
            device
        )
        for some in _batches(items)
    ]

    def loss() -> float:
        found = [task(batch) for batch in batches]
        return float(sum(each.total for each in found)) / sum(each.count for each in found)

    losses = {}
    for layer, number in heads.items():
        for head in range(number):
            with without_head(task.model, layer, head):
                losses[layer, head] = loss()
    return losses, loss()


def _item_means(layers: Iterable[list[np.ndarray]]) -> Float[np.ndarray, " items"]:
    """Over the heads of all layers."""
    return np.concatenate([np.stack(each) for each in layers], 1).mean(1)


def _pair_means(layer: list[np.ndarray]) -> Float[np.ndarray, " items"]:
    """Over all pairs of different heads."""
    heads = len(layer[0])
    return np.stack(layer).sum((1, 2)) / (heads * (heads - 1))


def _from_others(layer: list[np.ndarray], head: int) -> float | None:
    """How far a head is from the others of its layer, if there are any."""
    others = len(layer[0]) - 1
    return float(np.mean([each[head].sum() / others for each in layer])) if others else None


def _mean(
    name: str,
    values: Float[np.ndarray, " items"],
    options: str,
    *,
    higher_is_better: bool = True,
) -> Score:
    return Tally(
        name=name,
        counts=np.stack([values, np.ones(len(values))], 1),
        value=ratio,
        signature=_signature(f"items:{len(values)}|{options}"),
        higher_is_better=higher_is_better,
    ).score()


def _signature(options: str) -> Callable[[int, int], str]:
    def signature(samples: int, seed: int) -> str:
        drawn = f"bs:{samples}|seed:{seed}|" if samples else ""
        return f"{drawn}{options}|saccade:{__version__}"

    return signature


def _input(item: Item) -> str | tuple[str, ...]:
    return item.inputs[0] if len(item.inputs) == 1 else item.inputs


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for at in range(0, len(items), AT_ONCE):
        yield items[at : at + AT_ONCE]
