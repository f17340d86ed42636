"""Bracket F1: trees worked by hand, texts that are not trees, and an independent loop (I9)."""

import random
from collections import Counter

import pytest

from saccade.errors import MetricError
from saccade.metrics import TextMetricsConfig, bracket_f1
from saccade.metrics.brackets import Bracket, parse_tree

MAN, DOG, PRIDE = "(NP (D the) (N man))", "(NP (D a) (N dog))", "(PP (P with) (NP (N pride)))"
FLAT = f"(S {MAN} (VP (V saw) {DOG} {PRIDE}))"
NESTED = f"(S {MAN} (VP (V saw) (NP {DOG} {PRIDE})))"


def score(prediction, *references):
    return bracket_f1([prediction], [list(references)], samples=0).value


def test_the_brackets_of_a_tree_by_hand():
    tree = parse_tree(FLAT)
    assert tree is not None
    assert tree.words == ("the", "man", "saw", "a", "dog", "with", "pride")
    assert tree.brackets == Counter(
        Bracket(*bracket)
        for bracket in [
            *(("S", 0, 7), ("NP", 0, 2), ("VP", 2, 7)),
            *(("NP", 3, 5), ("PP", 5, 7), ("NP", 6, 7)),
        ]
    )


def test_another_attachment_by_hand_I9():
    """6 brackets of FLAT are all among the 7 of NESTED, which adds (NP, 3, 7): 2 · 6 / 13."""
    assert score(FLAT, NESTED) == pytest.approx(12 / 13)
    assert score(NESTED, FLAT) == pytest.approx(12 / 13)
    assert score(NESTED, NESTED) == 1


def test_wrong_labels_and_spans_by_hand():
    right = "(S (NP (D a) (N b)) (VP (V c) (NP (N d))))"  # S 0 4, NP 0 2, VP 2 4, NP 3 4
    assert score("(S (VP (D a) (N b)) (VP (V c) (NP (N d))))", right) == 3 / 4
    assert score("(S (NP (D a)) (VP (N b) (V c) (NP (N d))))", right) == 2 / 4
    assert score("(S (D a) (N b) (V c) (N d))", right) == pytest.approx(2 * 1 / (1 + 4))
    assert score("(S (NP (X a) (X b)) (VP (X c) (NP (X d))))", right) == 1  # tags do not count


def test_a_bracket_that_occurs_twice_counts_twice():
    twice, once = "(S (S (D a) (N b)))", "(S (D a) (N b))"
    assert score(twice, once) == pytest.approx(2 / 3)
    assert score(twice, twice) == 1


@pytest.mark.parametrize("outer", ["( {})", "(TOP {})", "(ROOT {})"])
def test_the_label_around_a_tree_does_not_count(outer):
    assert parse_tree(outer.format(FLAT)) == parse_tree(FLAT)


NOT_TREES = [
    *("", "the man", "(S (D a)", "(S (D a)))", "(S (D a)) (S (D a))", "a (S (D a))", "S (D a)"),
    *("()", "(S)", "(S () (D a))", ")(", "(S (D a) (", "(("),
]


@pytest.mark.parametrize("text", NOT_TREES)
def test_other_texts_are_not_trees_and_have_no_brackets(text):
    assert parse_tree(text) is None
    assert score(text, FLAT) == 0
    with pytest.raises(MetricError, match="the reference of item 1 is not a tree"):
        bracket_f1([FLAT, FLAT], [[FLAT], [text]])


def test_a_tree_over_other_words_has_no_right_bracket():
    assert score(FLAT.replace("dog", "cat"), FLAT) == 0
    assert score("(S (NP (D the) (N man)))", FLAT) == 0


def test_items_are_summed_and_not_averaged():
    """2 · (6 + 1) of 12 + 3 brackets: a long tree counts more than a short one."""
    pairs = [FLAT, "(S (D a) (N b))"], [[FLAT], ["(S (S (D a) (N b)))"]]
    assert bracket_f1(*pairs, samples=0).value == pytest.approx(14 / 15)


def test_the_closest_reference_counts_in_any_order():
    assert score(FLAT, NESTED, FLAT) == score(FLAT, FLAT, NESTED) == 1


def test_white_space_does_not_matter_and_depth_is_not_limited():
    assert parse_tree(FLAT.replace("(", " ( ").replace(")", " )\n")) == parse_tree(FLAT)
    deep = "(S " * 50_000 + "(D a) (N b)" + ")" * 50_000
    assert parse_tree(deep).brackets[Bracket("S", 0, 2)] == 50_000


def test_equals_a_recursive_computation():
    chance = random.Random(0)
    for _ in range(200):
        tree = _random_tree(chance, 4)
        expected: Counter[Bracket] = Counter()
        _walk(tree, 0, expected)
        assert parse_tree(_text(tree)).brackets == expected


def test_a_recipe_can_choose_it():
    tallies = TextMetricsConfig(names=("bracket_f1", "exact_match")).tally([FLAT], [[NESTED]])
    result = tallies["bracket_f1"].score(samples=0)
    assert (result.value, result.higher_is_better) == (pytest.approx(12 / 13), True)
    assert result.signature.startswith("nrefs:1|brackets:labelled|saccade:")


def _random_tree(chance, depth):
    """Return a label and its children: trees or words."""
    children = [
        _random_tree(chance, depth - 1) if depth and chance.random() < 0.5 else "w"
        for _ in range(chance.randint(1, 3))
    ]
    return chance.choice(["A", "B", "TOP"]), children


def _text(tree):
    if isinstance(tree, str):
        return tree
    label, children = tree
    return f"({label} {' '.join(map(_text, children))})"


def _walk(tree, start, brackets):
    """Count the brackets of a tree and return the place after its last word."""
    if isinstance(tree, str):
        return start + 1
    label, children = tree
    end = start
    for child in children:
        end = _walk(child, end, brackets)
    if label != "TOP" and children not in (["w"],):
        brackets[Bracket(label, start, end)] += 1
    return end
