"""Gold alignments of both forms of file."""

import pytest

from saccade.errors import MetricError
from saccade.lens.alignment.gold import Gold, read_gold


def gold(sure, possible=()):
    return Gold(frozenset(sure), frozenset(possible))


def test_a_line_for_each_pair_with_sure_and_possible_links():
    lines = ["0-0 1p2 2?1\n", "", "3-4"]
    assert read_gold(lines, count=3) == [
        gold({(0, 0)}, {(1, 2), (2, 1)}),
        gold(()),
        gold({(3, 4)}),
    ]


def test_numbers_from_1_and_sides_the_other_way_round():
    assert read_gold(["1-2 3p1"], count=1, first=1, swapped=True) == [gold({(1, 0)}, {(0, 2)})]
    assert read_gold(["1-2"], count=1, swapped=True) == [gold({(2, 1)})]


def test_a_line_for_each_link():
    lines = ["0001 1 1 S", "1 2 3 P", "3 1 2", "3 4 0 S", "", "0003 2 2 P 0.5"]
    assert read_gold(lines, count=4) == [
        gold({(0, 0)}, {(1, 2)}),
        gold(()),
        gold({(0, 1)}, {(1, 1)}),
        gold(()),
    ]
    assert read_gold(["1 2 3 S"], count=1, swapped=True) == [gold({(2, 1)})]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["0-0", "1-1"], "got 2 lines for 1 pairs"),
        (["0-0 1x1"], "line 1 of the gold alignments: .*'1x1'"),
        (["1 1 1 S", "one 1 1 S"], "line 2 of the gold alignments should be 'sentence source"),
        (["2 1 1 S"], "is of sentence pair 2, but there are 1"),
        (["0 1 1 S"], "is of sentence pair 0"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(lines, said):
    with pytest.raises(MetricError, match=said):
        read_gold(lines, count=1)


def test_a_0_where_numbers_count_from_1_is_refused():
    with pytest.raises(MetricError, match=r"line 2 .* has a 0"):
        read_gold(["1-1", "0-1"], count=2, first=1)
