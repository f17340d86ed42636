"""Erasure by hand: with answers that depend on known parts of the input."""

import numpy as np
import pytest

from saccade.errors import WatchError
from saccade.lens.faithfulness.erasure import (
    FRACTIONS,
    GREY,
    Cells,
    Words,
    attended,
    erasable,
    erase,
)
from saccade.lens.record import AttentionRecord, ImageSide, Side

WORDS = Words("a b c d e f g h i j")


def of_words(*needed: str):
    """The share of the needed words that are there."""
    return lambda text: sum(word in text.split() for word in needed) / len(needed)


def weights(*places: int) -> np.ndarray:
    found = np.linspace(0.1, 0.0, 10)
    found[list(places)] += 1
    return found


def test_words_are_left_out_and_the_others_close_up():
    assert Words("the  red\thouse").only({0, 2}) == "the house"
    pair = Words(("one two", "three four"))
    assert pair.count == 4
    assert pair.only({1, 2}) == ("two", "three")
    assert pair.only(set()) == ("", "")


def test_cells_become_grey():
    pixels = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
    cells = Cells(ImageSide(pixels, (2, 2)))
    kept = cells.only({1})
    np.testing.assert_array_equal(kept[:2, 2:], pixels[:2, 2:])
    assert (kept[2:] == GREY).all()
    assert (kept[:2, :2] == GREY).all()
    np.testing.assert_array_equal(cells.only(range(4)), pixels)


def test_attention_that_points_at_what_matters():
    """One needed word of ten: it is among 1, 2 and 5 attended ones, so it is always lost or kept;
    the least attended never are it."""
    found = erase(WORDS, weights(3), of_words("d"), np.random.default_rng(0))
    assert found.comprehensiveness[0] == pytest.approx(1)
    assert found.comprehensiveness[2] == pytest.approx(0)
    assert found.sufficiency[0] == pytest.approx(0)
    assert found.sufficiency[2] == pytest.approx(1)


def test_means_over_the_shares():
    """Two needed words, attended as first and third: of 1, 2 and 5 words erased, the first takes
    ½, ½ and both."""
    order = weights()
    order[[4, 0, 9]] = 3, 2, 1.5
    found = erase(WORDS, order, of_words("e", "j"), np.random.default_rng(0))
    assert found.comprehensiveness[0] == pytest.approx((0.5 + 0.5 + 1) / 3)
    assert found.sufficiency[0] == pytest.approx((0.5 + 0.5 + 0) / 3)


def test_random_parts_lose_what_chance_would():
    generator = np.random.default_rng(0)
    found = [erase(WORDS, weights(3), of_words("d"), generator) for _ in range(400)]
    mean = np.mean([each.comprehensiveness[1] for each in found])
    assert mean == pytest.approx(np.mean(FRACTIONS), abs=0.05)


def test_each_input_is_asked_for_once():
    asked = []

    def probability(text: str) -> float:
        asked.append(text)
        return 0.5

    erase(Words("a b c"), np.array([0.3, 0.2, 0.1]), probability, np.random.default_rng(1))
    assert len(asked) == len(set(asked))
    assert "" not in asked  # something is always left


def test_attended_by_the_kind_of_record():
    read, wrote = Side.of_words(["a", "b"], stop="</s>"), Side.of_words(["x", "y"], stop="</s>")
    looks = np.array([[[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0, 0, 1]]])
    across = AttentionRecord(read, wrote, {"cross": looks})
    np.testing.assert_allclose(attended(across), [0.8, 0.8], atol=1e-6)
    text = Side(("[CLS]", "a", "b"), ("a", "b"), (None, 0, 1))
    itself = AttentionRecord(text, text, {"self": looks})
    np.testing.assert_allclose(attended(itself), [0.1, 0.05], atol=1e-6)  # half of its own row
    image = ImageSide(np.zeros((4, 4), np.uint8), (1, 3))
    cells = AttentionRecord(image, image, {"self": looks})
    np.testing.assert_allclose(attended(cells), cells.glance())


def test_an_input_that_is_not_its_records_is_refused():
    side = Side.of_words(["a", "b"])
    record = AttentionRecord(side, side, {"self": np.full((1, 2, 2), 0.5)})
    assert erasable("a b", record).count == 2
    with pytest.raises(WatchError, match="the input has 3 parts, but its record 2"):
        erasable("a b c", record)
