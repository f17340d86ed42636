"""N-gram models: probabilities sum to one, and equal those counted by hand."""

import numpy as np
import pytest

from saccade.tasks._shared.ngrams import NgramModel

SIZE = 9
TEXT = np.random.default_rng(0).integers(0, 7, 200).tolist()
CONTEXTS = ([], [3], [8], [3, 4], [1, 2, 3, 8, 0], TEXT[:6], TEXT[-3:])


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_probabilities_sum_to_one_after_any_context(order):
    model = NgramModel(TEXT, SIZE, order)
    for context in CONTEXTS:
        p = [model.probabilities([*context, token])[-1] for token in range(SIZE)]
        assert sum(p) == pytest.approx(1)
        assert min(p) > 0


def test_distribution_equals_the_probabilities_of_single_tokens():
    model = NgramModel(TEXT, SIZE, 2)
    for token in (3, 8):
        alone = [model.probabilities([token, other])[-1] for other in range(SIZE)]
        assert model.following(token) == pytest.approx(alone)
    first = [model.probabilities([token])[-1] for token in range(SIZE)]
    assert model.following(None) == pytest.approx(first)


def test_bigram_by_hand():
    """The text 0 1 0 1 0 2 has the bigrams 01 (2), 10 (2) and 02 (1): D = 1 / (1 + 2 · 2) = 0.2.

    1 is preceded by one token, as are 0 and 2, so each has a continuation count of 1 of 3; all are
    1, so D of single tokens is 0.9 (at most): p(1) = 0.1 / 3 + 0.9 · 3 / 3 · 1 / 4.
    """
    model = NgramModel([0, 1, 0, 1, 0, 2], 4, 2)
    single = 0.1 / 3 + 0.9 / 4
    after_0 = (2 - 0.2) / 3 + 0.2 * 2 / 3 * single
    assert model.probabilities([1]) == pytest.approx([single])
    assert model.probabilities([0, 1])[1] == pytest.approx(after_0)
    assert model.probabilities([3]) == pytest.approx([0.9 / 4])


def test_longer_ngrams_predict_their_own_text_better():
    text = [0, 1, 2, 0, 2, 1] * 20
    loss = [-np.log(NgramModel(text, 3, n).probabilities(text)).mean() for n in (1, 2, 3)]
    assert loss[0] > loss[1] > loss[2]


def test_empty_text_and_a_single_token():
    model = NgramModel([1], 5, 3)
    assert len(model.probabilities([])) == 0
    assert model.probabilities([1, 1])[0] > model.probabilities([2])[0]
