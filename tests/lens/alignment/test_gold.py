"""Gold alignment files of both formats."""

import pytest

from saccade.errors import MetricError
from saccade.lens.alignment.gold import Gold, read_gold


def gold(sure, possible=()):
    return Gold(frozenset(sure), frozenset(possible))


def test_reads_one_line_per_sentence_pair_with_sure_and_possible_links():
    lines = ["0-0 1p2 2?1\n", "", "3-4"]
    assert read_gold(lines, count=3) == [
        gold({(0, 0)}, {(1, 2), (2, 1)}),
        gold(()),
        gold({(3, 4)}),
    ]


def test_reads_numbers_from_1_and_swapped_sides():
    assert read_gold(["1-2 3p1"], count=1, first=1, swapped=True) == [gold({(1, 0)}, {(0, 2)})]
    assert read_gold(["1-2"], count=1, swapped=True) == [gold({(2, 1)})]


def test_reads_one_line_per_link():
    lines = ["0001 1 1 S", "1 2 3 P", "3 1 2", "3 4 0 S", "", "0003 2 2 P 0.5"]
    assert read_gold(lines, count=4) == [
        gold({(0, 0)}, {(1, 2)}),
        gold(()),
        gold({(0, 1)}, {(1, 1)}),
        gold(()),
    ]
    assert read_gold(["1 2 3 S"], count=1, swapped=True) == [gold({(2, 1)})]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["0-0", "1-1"], "expected 1, got 2"),
        (["0-0 1x1"], "line 1 of the gold alignments: .*'1x1'"),
        (["1 1 1 S", "one 1 1 S"], "line 2 of the gold alignments must be 'sentence source"),
        (["2 1 1 S"], "about sentence pair 2, but the pairs are numbered from 1 to 1"),
        (["0 1 1 S"], "about sentence pair 0"),
    ],
)
def test_raises_with_the_line_that_is_not_valid(lines, message):
    with pytest.raises(MetricError, match=message):
        read_gold(lines, count=1)


def test_raises_on_a_0_where_numbers_count_from_1():
    with pytest.raises(MetricError, match=r"line 2 .* has a 0"):
        read_gold(["1-1", "0-1"], count=2, first=1)
