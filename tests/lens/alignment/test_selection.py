"""Selection of the attention that aligns words, by the agreement of both directions."""

import numpy as np
import pytest

from saccade.errors import WatchError
from saccade.lens.alignment.align_by import AlignBy
from saccade.lens.alignment.selection import agreement, candidates
from saccade.lens.record import AttentionRecord, Side

SHARP = np.eye(4)[[2, 0, 1, 3]]
STUCK = np.eye(4)[[0, 0, 0, 3]]  # every word attends to the first


def record(**layers: np.ndarray) -> AttentionRecord:
    """Return a record of three words and a stop token on each side."""
    side = Side.of_words(["a", "b", "c"], stop="</s>")
    wrote = Side.of_words(["x", "y", "z"], stop="</s>")
    return AttentionRecord(side, wrote, layers)


def test_agreement_by_hand():
    """Rows choose 0, 0, 1, columns rows 0 and 2: (0, 0) and (1, 2) are in both, of 3 + 2."""
    weights = np.array([[0.9, 0.1, 0, 0], [0.8, 0.1, 0, 0.1], [0, 1.0, 0, 0], [0, 0, 0, 1]])
    both = agreement([record(one=weights[None])], AlignBy(layer="one"))
    assert both == pytest.approx(2 * 2 / 5)


def test_a_sharp_layer_ranks_before_a_stuck_one():
    best, *rest = candidates([record(stuck=STUCK[None], sharp=SHARP[None])] * 3)
    assert best.by == AlignBy(layer="sharp", join="grow-diag-final")
    assert best.agreement == 1.0
    assert [other.agreement for other in rest] == sorted((x.agreement for x in rest), reverse=True)
    assert {other.by.layer for other in rest} == {"stuck", "sharp", None}


def test_a_layer_that_aligns_one_step_later_is_shifted():
    late = np.vstack([np.full((1, 4), 0.25), SHARP[:3]])  # one step late
    best, *_ = candidates([record(late=late[None])])
    assert best.by == AlignBy(layer="late", shift=True, join="grow-diag-final")
    assert record(late=late[None]).alignment(best.by) == {(2, 0), (0, 1), (1, 2)}


def test_prefers_one_head_only_if_the_mean_is_worse():
    mixed = np.stack([SHARP, STUCK, STUCK])
    best, *_ = candidates([record(mixed=mixed)])
    assert best.by.head == 0
    assert candidates([record(same=np.stack([SHARP, SHARP]))])[0].by.head is None


def test_prefers_the_mean_to_a_head_that_is_hardly_better():
    both, one = np.stack([SHARP, SHARP]), np.stack([SHARP, 9 * STUCK])
    few, many = ([record(layer=one), *[record(layer=both)] * count] for count in (4, 60))
    assert candidates(few)[0].by.head == 0
    best, *rest = candidates(many)
    assert best.by.head is None
    assert 0 < max(other.agreement for other in rest) - best.agreement < 0.02


def test_raises_on_records_without_attention():
    for records in ([], [record()]):
        with pytest.raises(WatchError, match="these records hold none"):
            candidates(records)
    assert agreement([record(none=np.zeros((1, 4, 4)))], AlignBy()) == 0.0
