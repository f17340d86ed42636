"""Alignments from weights, symmetrised, and as text."""

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.errors import MetricError, ShapeError
from saccade.lens.alignment.align_by import AlignBy
from saccade.lens.alignment.extraction import (
    both_ways,
    from_pharaoh,
    strongest,
    symmetrise,
    to_pharaoh,
    word_spans,
)

links = st.frozensets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20)


def test_links_each_target_word_to_its_strongest_source_word():
    weights = np.array([[0.1, 0.7, 0.2], [0.6, 0.2, 0.2], [0.0, 0.0, 0.0], [0.4, 0.1, 0.4]])
    assert strongest(weights) == {
        (1, 0),
        (0, 1),
        (0, 3),
    }  # of equals the first
    assert strongest(weights, threshold=0.6) == {(1, 0), (0, 1)}
    assert strongest(weights, threshold=0.61) == {(1, 0)}


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_weights_give_no_links(shape):
    assert strongest(np.zeros(shape)) == set()


def test_symmetrise_by_hand():
    forward = {(0, 0), (1, 1), (2, 3), (5, 0)}
    backward = {(0, 0), (1, 1), (2, 2), (0, 1)}
    assert symmetrise(forward, backward, "intersection") == {(0, 0), (1, 1)}
    assert symmetrise(forward, backward, "union") == forward | backward
    # (2, 2) is a neighbour of (1, 1) with new words; (2, 3) of (2, 2) with a new target;
    # both words of (0, 1) are aligned already; (5, 0) has no neighbour
    assert symmetrise(forward, backward) == {(0, 0), (1, 1), (2, 2), (2, 3)}


def test_final_adds_distant_links_that_align_a_word():
    """(5, 4) aligns two new words, (1, 5) a new target, (0, 1) none."""
    forward, backward = {(0, 0), (1, 1), (5, 4), (1, 5)}, {(0, 0), (1, 1), (0, 1)}
    assert symmetrise(forward, backward, "grow-diag") == {(0, 0), (1, 1)}
    assert symmetrise(forward, backward, "grow-diag-final") == {(0, 0), (1, 1), (5, 4), (1, 5)}


def test_grow_diag_adds_direct_neighbours_before_diagonal_ones():
    """From (1, 1), (1, 2) aligns target 2 first, after which (2, 2) still aligns source 2."""
    assert symmetrise({(1, 1), (1, 2)}, {(1, 1), (2, 2)}) == {(1, 1), (1, 2), (2, 2)}
    # both neighbours of (0, 0) align a new word
    assert symmetrise({(0, 0), (0, 1), (1, 1)}, {(0, 0), (1, 0)}) == {(0, 0), (0, 1), (1, 0)}


@given(links, links)
def test_grow_diag_lies_between_intersection_and_union(forward, backward):
    grown = symmetrise(forward, backward)
    assert forward & backward <= grown <= forward | backward
    assert grown == symmetrise(backward, forward)
    assert bool(grown) == bool(forward & backward)


@given(links)
def test_pharaoh_round_trip(alignment):
    line = to_pharaoh(alignment)
    assert from_pharaoh(line) == alignment
    shifted = {(i + 1, j + 1) for i, j in alignment}
    assert from_pharaoh(to_pharaoh(shifted), first=1) == alignment


def test_pharaoh_format():
    assert to_pharaoh({(10, 0), (2, 3), (2, 1)}) == "2-1 2-3 10-0"
    assert from_pharaoh("0-0 1-2\t1-2\n") == {(0, 0), (1, 2)}
    assert from_pharaoh("") == set() == from_pharaoh(" \n")
    assert to_pharaoh([]) == ""


@pytest.mark.parametrize(
    ("line", "first", "message"),
    [
        ("0-0 1:2", 0, "'1:2' is not a link such as '0-0', in '0-0 1:2'"),
        ("0-0-1", 0, "'0-0-1'"),
        ("-1-2", 0, "'-1-2'"),
        ("a-b", 0, "'a-b'"),
        ("٣-١", 0, "'٣-١'"),
        ("9" * 5000 + "-1", 0, "as i-j pairs"),
        ("1-1 0-2", 1, "'0-2' has a 0, but words are counted from 1"),
        ("\ufeff0-0", 0, "i-j pairs"),
    ],
)
def test_raises_on_lines_that_are_not_alignments(line, first, message):
    with pytest.raises(MetricError, match=message):
        from_pharaoh(line, first=first)


def test_raises_on_weights_that_are_not_a_matrix():
    with pytest.raises(ShapeError, match=r"\(2,\)"):
        strongest.__wrapped__(np.ones(2))  # without the check of shape annotations


def test_from_pharaoh_with_the_target_first():
    assert from_pharaoh("1-2 3-1", first=1, swapped=True) == {(1, 0), (0, 2)}


def test_both_ways_by_hand():
    """Rows choose 0, 0, 1; column 0 chooses row 0, column 1 row 2, column 2 row 1."""
    weights = np.array([[0.9, 0.1, 0.0], [0.7, 0.1, 0.2], [0.2, 0.8, 0.0]])
    forward, backward = both_ways(weights)
    assert forward == {(0, 0), (0, 1), (1, 2)}
    assert backward == {(0, 0), (1, 2), (2, 1)}
    assert both_ways(weights, threshold=0.75) == ({(0, 0), (1, 2)}, {(0, 0), (1, 2)})


def test_word_spans():
    assert word_spans("  né\tdeux\u3000x") == [(2, 4), (5, 9), (10, 11)]
    assert word_spans(" ") == []


def test_align_by_round_trip():
    by = AlignBy(layer="decoder.cross", head=2, shift=True, join="union")
    assert AlignBy.of(asdict(by)) == by
    assert AlignBy.of({}) == AlignBy()
    assert str(by) == "decoder.cross, head 2, when the word is the decoder's input"
    assert (
        str(AlignBy()) == "mean of all layers, mean of heads, when the word is the decoder's output"
    )


@pytest.mark.parametrize(
    "table", [{"layer": 1}, {"head": "x"}, {"shift": None}, {"join": "mean"}, {"other": 1}]
)
def test_align_by_raises_on_invalid_tables(table):
    with pytest.raises(ValueError, match=r"cannot be|not known"):
        AlignBy.of(table)
