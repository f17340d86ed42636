"""Tests of the unigram trainer: sums over spellings, EM, and comparison with the library."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from saccade.text import unigram
from saccade.text.unigram import _digamma, _Lattices, unigram_pieces
from tests.text.corpora import synthetic

PIECES = {"a": 0, "b": 1, "ab": 2, "ba": 3, "aba": 4}
P = np.array([0.3, 0.2, 0.25, 0.15, 0.1])


def _spellings(word):
    """Return all sequences of pieces that spell the word: the slow, obvious reference."""
    for cuts in itertools.product([False, True], repeat=len(word) - 1):
        bounds = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(word)]
        parts = [word[i:j] for i, j in itertools.pairwise(bounds)]
        if all(part in PIECES for part in parts):
            yield parts


def _total(word, allowed):
    spellings = (s for s in _spellings(word) if allowed.issuperset(s))
    return sum(math.prod(P[PIECES[piece]] for piece in spelling) for spelling in spellings)


def test_the_probability_of_a_word_by_hand():
    lattices = _Lattices(["ab", "aba"], PIECES)
    two, three = np.exp(lattices.log_probability(np.log(P)))
    assert two == pytest.approx(0.3 * 0.2 + 0.25)
    assert three == pytest.approx(0.3 * 0.2 * 0.3 + 0.25 * 0.3 + 0.3 * 0.15 + 0.1)


def test_the_probability_of_a_piece_spelled_with_others():
    lattices = _Lattices(["aba"], PIECES, allow_itself=False)
    [without] = np.exp(lattices.log_probability(np.log(P)))
    assert without == pytest.approx(0.3 * 0.2 * 0.3 + 0.25 * 0.3 + 0.3 * 0.15)


def test_expected_counts_equal_those_over_all_spellings():
    words, weights = ["abab", "b", "aababba", "ba"], np.array([3.0, 2.0, 1.0, 5.0])
    expected = np.zeros(len(PIECES))
    for word, weight in zip(words, weights, strict=True):
        shares = {tuple(s): math.prod(P[PIECES[p]] for p in s) for s in _spellings(word)}
        for spelling, share in shares.items():
            for piece in spelling:
                expected[PIECES[piece]] += weight * share / sum(shares.values())
    lattices = _Lattices(words, PIECES)
    assert lattices.expected(np.log(P), weights) == pytest.approx(expected, rel=1e-12)
    lattices.keep(np.array([True, True, True, True, False]))
    kept = np.exp(lattices.log_probability(np.log(P)))
    assert kept[2] == pytest.approx(_total("aababba", set(PIECES) - {"aba"}))
    assert kept[3] == pytest.approx(0.2 * 0.3 + 0.15)


def test_digamma_at_known_values():
    euler = 0.5772156649015329
    known = [-euler - 2 * math.log(2), -euler, 1 - euler, 1.5 - euler]
    assert _digamma(np.array([0.5, 1.0, 2.0, 3.0])) == pytest.approx(known, abs=1e-7)


def test_frequent_words_become_pieces():
    counts = {"house": 50, "boat": 50, "houseboat": 20, "xyz": 1}
    pieces = dict(unigram_pieces(counts, 14))
    assert len(pieces) == 14
    assert {"house", "boat"} <= set(pieces)
    assert set("housebatxyz") <= set(pieces)  # every character, so every word can be spelled
    assert "xyz" not in pieces
    assert list(pieces.values()) == sorted(pieces.values(), reverse=True)


def test_a_size_below_the_alphabet_keeps_frequent_characters():
    assert [piece for piece, _ in unigram_pieces({"a": 9, "b": 5, "c": 1}, 2)] == ["a", "b"]


def test_the_order_of_the_words_does_not_matter():
    counts = Counter(word for text in synthetic(300) for word in text.split())
    turned = dict(reversed(counts.items()))
    assert unigram_pieces(counts, 400) == unigram_pieces(turned, 400)


def test_long_words_are_split_for_training(monkeypatch):
    monkeypatch.setattr(unigram, "_CUT", 8)
    assert unigram._parts({"abcdefgh" * 3 + "ab": 4, "ab": 1}) == {"abcdefgh": 12, "ab": 5}
    assert not any("ha" in piece for piece, _ in unigram_pieces({"abcdefgh" * 3: 4}, 12))


def test_no_worse_than_the_trainer_of_the_library():
    texts = synthetic(1500)
    counts = Counter(word for text in texts for word in text.split())
    library = Backend(models.Unigram())
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=600, show_progress=False))
    ours = Backend(models.Unigram([("?", 0.0), *unigram_pieces(counts, 600)], unk_id=0))
    ours.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    theirs_length, length = (
        sum(len(encoding.ids) for encoding in backend.encode_batch(texts))
        for backend in (library, ours)
    )
    assert ours.get_vocab_size() == 601
    assert length < 1.02 * theirs_length
