"""Erasure by hand: answers that depend on known parts of the input."""

import numpy as np
import pytest

from saccade.errors import WatchError
from saccade.lens.faithfulness.erasure import FRACTIONS, attended, erasable, erase
from saccade.lens.record import AttentionRecord, ImageSide, Side
from saccade.lens.record.sides import GREY


def record_of(side):
    size = len(side.tokens)
    return AttentionRecord(side, side, {"self": np.full((1, size, size), 1 / size)})


def text_parts(text):
    words = text.split() if isinstance(text, str) else " ".join(text).split()
    return erasable(text, record_of(Side.of_words(words)))


TEN_WORDS = text_parts("a b c d e f g h i j")


def fraction_of(*needed: str):
    """Return probabilities: the fraction of the needed words that are present in each text."""
    return lambda texts: [
        sum(word in text.split() for word in needed) / len(needed) for text in texts
    ]


def weights(*most_attended: int) -> np.ndarray:
    values = np.linspace(0.1, 0.0, 10)
    values[list(most_attended)] += 1
    return values


def test_erased_words_are_left_out_and_the_others_close_up():
    assert text_parts("the  red\thouse")({0, 2}) == "the house"
    pair = text_parts(("one two", "three four"))
    assert pair({1, 2}) == ("two", "three")
    assert pair(set()) == ("", "")


def test_erased_cells_become_grey():
    pixels = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
    keep = erasable("photo.png", record_of(ImageSide(pixels, (2, 2))))
    kept = keep({1})
    np.testing.assert_array_equal(kept[:2, 2:], pixels[:2, 2:])
    assert (kept[2:] == GREY).all()
    assert (kept[:2, :2] == GREY).all()
    np.testing.assert_array_equal(keep(range(4)), pixels)


def test_attention_to_what_matters_is_comprehensive_and_sufficient():
    """One needed word of ten: it is among 1, 2 and 5 attended ones, so it is always lost or kept;
    it is never among the least attended ones."""
    erased = erase(TEN_WORDS, weights(3), fraction_of("d"), np.random.default_rng(0))
    assert erased.comprehensiveness[0] == pytest.approx(1)
    assert erased.comprehensiveness[2] == pytest.approx(0)
    assert erased.sufficiency[0] == pytest.approx(0)
    assert erased.sufficiency[2] == pytest.approx(1)


def test_both_measures_are_means_over_the_fractions():
    """Two needed words, attended as first and third: erasing 1, 2 and 5 words loses ½, ½ and all
    of the probability."""
    order = weights()
    order[[4, 0, 9]] = 3, 2, 1.5
    erased = erase(TEN_WORDS, order, fraction_of("e", "j"), np.random.default_rng(0))
    assert erased.comprehensiveness[0] == pytest.approx((0.5 + 0.5 + 1) / 3)
    assert erased.sufficiency[0] == pytest.approx((0.5 + 0.5 + 0) / 3)


def test_random_parts_lose_what_chance_predicts():
    generator = np.random.default_rng(0)
    trials = [erase(TEN_WORDS, weights(3), fraction_of("d"), generator) for _ in range(400)]
    mean = np.mean([erased.comprehensiveness[1] for erased in trials])
    assert mean == pytest.approx(np.mean(FRACTIONS), abs=0.05)


def test_each_erased_input_is_scored_once():
    scored = []

    def probabilities(texts):
        scored.extend(texts)
        return [0.5] * len(texts)

    erase(text_parts("a b c"), np.array([0.3, 0.2, 0.1]), probabilities, np.random.default_rng(1))
    assert len(scored) == len(set(scored))
    assert "" not in scored  # at least one part is always kept


def test_attended_sums_over_the_answer_or_takes_its_token():
    read, wrote = Side.of_words(["a", "b"], stop="</s>"), Side.of_words(["x", "y"], stop="</s>")
    looks = np.array([[[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0, 0, 1]]])
    cross = AttentionRecord(read, wrote, {"cross": looks})
    np.testing.assert_allclose(attended(cross), [0.8, 0.8], atol=1e-6)
    text = Side(("[CLS]", "a", "b"), ("a", "b"), (None, 0, 1))
    self_attention = AttentionRecord(text, text, {"self": looks})
    np.testing.assert_allclose(attended(self_attention), [0.1, 0.05], atol=1e-6)  # half its row
    image = ImageSide(np.zeros((4, 4), np.uint8), (1, 3))
    cells = AttentionRecord(image, image, {"self": looks})
    np.testing.assert_allclose(attended(cells), cells.glance())


def test_raises_on_an_input_of_another_record():
    record = record_of(Side.of_words(["a", "b"]))
    assert erasable("a b", record)({0, 1}) == "a b"
    with pytest.raises(WatchError, match="the input has 3 words, but its attention record has 2"):
        erasable("a b c", record)
