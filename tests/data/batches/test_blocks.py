"""Blocks of text: every token is predicted once, from the one before it."""

import time

import numpy as np
import pytest

from saccade.data.batches.blocks import in_stream, pack, packed

START, STOP = 1, 2


def documents(chance, count):
    """Return documents of tokens 3 to 98 with stop tokens: concatenated, and as a list."""
    texts = [[*chance.integers(3, 99, chance.integers(0, 40)), STOP] for _ in range(count)]
    return np.concatenate(texts).astype(np.uint16), texts


@pytest.mark.parametrize("length", [2, 3, 8, 9, 10, 16, 17, 57])
def test_a_stream_is_cut_into_blocks(length):
    tokens = np.arange(100, 100 + length, dtype=np.uint16)
    blocks = in_stream(tokens, 8)
    assert blocks.sizes.tolist() == [len(tokens[i + 1 : i + 9]) for i in range(0, length - 1, 8)]
    taken = blocks.take(range(len(blocks)))
    assert taken.following.tolist() == tokens[1:].tolist()
    assert taken.tokens.tolist() == tokens[:-1].tolist()
    assert taken.sizes.tolist() == blocks.sizes.tolist()
    assert not taken.document.any()


@pytest.mark.parametrize("length", [0, 1])
def test_a_stream_without_anything_to_predict(length):
    blocks = in_stream(np.zeros(length, np.uint16), 8)
    assert len(blocks) == len(blocks.sizes) == 0


def test_shifted_blocks_stay_within_the_text():
    blocks = in_stream(np.arange(20, dtype=np.uint16), 8)
    taken = blocks.take([2, 0, 1, 1], [7, 3, 2, 7])
    assert taken.sizes.tolist() == [3, 8, 8, 8]
    assert np.split(taken.following, [3, 11, 19])[0].tolist() == [17, 18, 19]
    assert np.split(taken.following, [3, 11, 19])[1].tolist() == list(range(4, 12))
    assert np.split(taken.following, [3, 11, 19])[2].tolist() == list(range(11, 19))
    assert np.split(taken.following, [3, 11, 19])[3].tolist() == list(range(12, 20))
    assert (taken.tokens == taken.following - 1).all()


def test_packing_by_hand():
    tokens = np.array([5, 6, 7, 8, 9, STOP, 10, STOP, 11, 12, STOP, 13], np.uint16)
    blocks = packed(tokens, 4, start=START, stop=STOP)
    assert blocks.sizes.tolist() == [4, 4, 4]
    taken = blocks.take([0, 1, 2])
    #                                 cut off at 4  | [11 12 /] [13]      | [9 /] [10 /]
    assert taken.tokens.tolist() == [START, 5, 6, 7, START, 11, 12, START, 8, 9, START, 10]
    assert taken.following.tolist() == [5, 6, 7, 8, 11, 12, STOP, 13, 9, STOP, 10, STOP]
    assert taken.document.tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1]
    assert blocks.take([2, 0]).following.tolist() == [9, STOP, 10, STOP, 5, 6, 7, 8]


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_every_token_of_every_document_is_predicted_once(size):
    tokens, texts = documents(np.random.default_rng(size), 60)
    blocks = packed(tokens, size, start=START, stop=STOP)
    assert blocks.sizes.max() <= size
    taken = blocks.take(np.arange(len(blocks)))
    assert sorted(taken.following.tolist()) == sorted(tokens.tolist())
    before = [(a, b) for text in texts for a, b in zip([START, *text], text, strict=False)]
    assert sorted(zip(taken.tokens, taken.following, strict=True)) == sorted(before)


def test_packing_of_an_incomplete_document_and_of_none():
    blocks = packed(np.array([5, 6, 7], np.uint16), 2, start=START, stop=STOP)
    assert blocks.take([0, 1]).following.tolist() == [5, 6, 7]
    assert len(packed(np.empty(0, np.uint16), 2, start=START, stop=STOP)) == 0


def slow_pack(sizes, room):
    """Pack by first-fit decreasing, one object at a time."""
    bins, free = np.empty(len(sizes), int), []
    for i in np.argsort(-sizes, kind="stable"):
        fitting = [b for b, left in enumerate(free) if left >= sizes[i]]
        if not fitting:
            free.append(room)
        bins[i] = fitting[0] if fitting else len(free) - 1
        free[bins[i]] -= sizes[i]
    return bins


@pytest.mark.parametrize("seed", range(40))
def test_packing_is_first_fit_decreasing(seed):
    chance = np.random.default_rng(seed)
    room = int(chance.integers(1, 30))
    sizes = chance.integers(1, room + 1, chance.integers(0, 60))
    assert pack(sizes, room).tolist() == slow_pack(sizes, room).tolist()


def test_packing_of_many_pieces_is_fast_and_tight():
    sizes = np.random.default_rng(0).integers(1, 513, 100_000)
    began = time.process_time()
    bins = pack(sizes, 512)
    assert time.process_time() - began < 2
    assert np.bincount(bins, sizes).max() <= 512
    assert bins.max() + 1 < 1.01 * sizes.sum() / 512
