"""Tags carried over to translations: by hand, and balanced for any text and alignment."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.lens.alignment.extraction import word_spans
from saccade.lens.alignment.markup import find_tags, read_markup

TAG = re.compile(r"<(/?)([a-z]+)[^<>]*?(/?)>")


def carried(text: str, order: list[int] | None = None) -> str:
    """Carry the tags over to the same words in another order, which stand for a translation."""
    marked = read_markup(text)
    words = marked.text.split()
    order = list(range(len(words)))[::-1] if order is None else order
    answer = " ".join(words[i] for i in order)
    return marked.put_back(answer, {(source, target) for target, source in enumerate(order)})


@pytest.mark.parametrize(
    ("text", "order", "expected"),
    [
        ("the <b>red</b> house", [0, 2, 1], "the house <b>red</b>"),
        ("the <b>red house</b>", [0, 2, 1], "the <b>house red</b>"),
        (
            "<a href='x>y' id=\"1\">a <b>b</b></a> c",
            None,
            "c <a href='x>y' id=\"1\"><b>b</b> a</a>",
        ),
        ("a <b><i>b</i></b>", None, "<b><i>b</i></b> a"),
        ("<b>a</b> <i>b</i> c", None, "c <i>b</i> <b>a</b>"),
        ("a <br/>b c", None, "c <br/>b a"),
        ("a<br> b c", None, "c b a<br>"),
        ("a<br/>b", None, "<br/>b a"),
        ("<i>a</i><br/> b", None, "b <i>a</i><br/>"),
        ("<i>a<br/></i> b", None, "b <i>a<br/></i>"),
        ("a <!-- not <b> --> b", None, "<!-- not <b> -->b a"),
        ("1 < 2 & <u>a</u> &amp; &lt;b&gt;", None, "&lt;b&gt; &amp; <u>a</u> & 2 < 1"),
        ("un<b>do</b>ne x", None, "x <b>undone</b>"),
        ("a <a name='x'></a> b", None, "<a name='x'></a>b a"),
        ("x </b> y", None, "</b>y x"),
        ("no tags  at all", None, "all at tags no"),
    ],
)
def test_tags_are_carried_over(text, order, expected):
    assert carried(text, order) == expected


def test_an_element_encloses_its_words_and_those_between_them():
    marked = read_markup("he does <b>not</b> <i>eat</i>")
    links = {(0, 0), (1, 2), (2, 1), (2, 3), (3, 2)}
    assert marked.put_back("il ne mange pas", links) == "il <b>ne <i>mange</i> pas</b>"


def test_elements_that_would_cross_are_shortened():
    """<b> is aligned with targets 0 and 2, <i> with 1 and 3: <i> keeps one of them."""
    marked = read_markup("<b>a</b> <i>b</i>")
    tagged = marked.put_back("w x y z", {(0, 0), (0, 2), (1, 1), (1, 3)})
    assert tagged == "<b>w <i>x</i> y</b> z"


def test_overlapping_elements_end_with_their_parent():
    assert carried("<b>a <i>b</b> c</i>") == "c <b><i>b</i> a</b>"


def test_an_unaligned_element_goes_beside_its_neighbour():
    marked = read_markup("a <b>the</b> c")
    assert marked.put_back("x z", {(0, 0), (2, 1)}) == "x <b></b>z"
    assert marked.put_back("x", {(0, 0)}) == "x<b></b>"
    assert marked.put_back("x z", set()) == "<b></b>x z"
    assert read_markup("<p>a <br/></p>").put_back("", set()) == "<p><br/></p>"
    assert read_markup("<p>a <i>b</i></p>").put_back("x y", {(0, 1)}) == "x <p>y<i></i></p>"


def test_white_space_beside_tags_is_kept_once():
    assert read_markup("<p> a <b> b </b> c </p>").text == "a b c"
    assert carried("<p> a <b> b </b> c </p>") == "<p>c <b>b</b> a</p>"


def test_tags_in_a_translation_itself_are_escaped():
    assert read_markup("<b>a</b>").put_back("<i>x", {(0, 0)}) == "<b>&lt;i>x</b>"


texts = st.lists(
    st.sampled_from(["<b>", "</b>", "<i x='1'>", "</i>", "<br/>", "<u>", "</u>", "a", "b ", " c"]),
    max_size=14,
).map("".join)
links = st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14)


@given(texts, links, st.integers(0, 6))
def test_no_tag_is_lost_and_pairs_stay_balanced(text, alignment, words):
    marked = read_markup(text)
    assert not any(tag in marked.text for tag in ("<b>", "</b>", "<br/>", "<u>"))
    answer = " ".join("uvwxyz"[:words])
    tagged = marked.put_back(answer, {(s, t) for s, t in alignment if t < words})
    assert sorted(TAG.findall(tagged)) == sorted(TAG.findall(text))
    assert "".join(re.split(r"<[^<>]*>", tagged)).split() == answer.split()
    assert unbalanced(tagged) <= unbalanced(text)


def unbalanced(text: str) -> int:
    """Count the tags that close nothing or are never closed."""
    waiting, wrong = [], 0
    for close, name, alone in TAG.findall(text):
        if alone:
            continue
        if not close:
            waiting.append(name)
        elif name in waiting:
            while waiting.pop() != name:
                wrong += 1
        else:
            wrong += 1
    return wrong + len(waiting)


def test_words_of_an_element_are_counted_without_tags():
    marked = read_markup("a <b>b c</b> d")
    [element] = marked.elements
    assert element.words == (1, 3)
    assert len(word_spans(marked.text)) == 4


REFERENCE = re.compile(
    r"""<!--.*?-->|<(/?)([A-Za-z_][\w:.-]*)(?:\s(?:[^<>"']|"[^"]*"|'[^']*')*)?/?>""", re.DOTALL
)
"""The same tags as one expression, which is clear but takes quadratic time."""

fragments = st.lists(
    st.sampled_from(
        [
            "<b>",
            "</b",
            "<a ",
            "<!--",
            "-->",
            "<x:y",
            "/",
            ">",
            '"',
            "'",
            " ",
            "\n",
            "=",
            "é",
            "<",
            "-",
        ]
    ),
    max_size=16,
).map("".join)


@given(fragments)
def test_find_tags_equals_the_reference(text):
    tags = [(tag.start, tag.end, tag.name, tag.closing) for tag in find_tags(text)]
    assert tags == [
        (tag.start(), tag.end(), tag[2] or "", bool(tag[1])) for tag in REFERENCE.finditer(text)
    ]


@pytest.mark.parametrize(
    ("before", "repeated", "after"),
    [
        ("word", "<br />", "."),
        ("word", "<br />", " word"),
        ("", "<!--", ""),
        ("", "<!-- x -->", "x"),
        ("", "<a ", ">"),
        ("", "<a \"'", ""),
        ("<a ", "\"<a '\" '", ""),
        ("<a ", '"<a "', ""),
        ("", "<b>x", ""),
        ("", "<b>x</b> ", ""),
        ("", "<b>x <i>y</b> z</i> ", ""),
        ("", "</b>", ""),
        ("a", "<", "b"),
    ],
)
def test_time_is_linear_in_the_length(before, repeated, after):
    """Four times the text takes about four times as long, not sixteen; few words are aligned."""

    def seconds(count):
        text = before + repeated * count + after
        began = time.process_time()
        marked = read_markup(text)
        answer = " ".join(marked.text.split()[:40])
        marked.put_back(answer, {(i, (i * 7) % 40) for i in range(len(answer.split()))})
        return time.process_time() - began

    assert min(seconds(12) for _ in range(2)) < 0.1  # exponential time would end here
    short, long = (min(seconds(count) for _ in range(2)) for count in (300, 1200))
    assert long < 10 * short + 0.02


def test_elements_may_be_nested_deeper_than_the_recursion_limit():
    depth = 3000
    marked = read_markup("<b>" * depth + "x" + "</b>" * depth)
    assert marked.put_back("y", {(0, 0)}) == "<b>" * depth + "y" + "</b>" * depth
    assert marked.put_back("", set()) == "<b>" * depth + "</b>" * depth


@given(st.integers(2, 9), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=9))
def test_best_range_equals_an_exhaustive_search(words, links):
    """Each element gets the range with the most of its targets that crosses none before it."""
    text = " ".join(f"<b>{i}</b>" for i in range(9))
    tagged = read_markup(text).put_back(
        " ".join("uvwxyzrst"[:words]), {(s, t) for s, t in links if t < words}
    )
    placed = []
    for source in range(9):
        hits = sorted({t for s, t in links if s == source and t < words})
        ranges = [(i, j + 1) for i in hits for j in hits if i <= j]
        allowed = [r for r in ranges if not any(crosses(r, other) for other in placed)]
        if allowed:
            held = [(sum(a <= hit < b for hit in hits), a - b) for a, b in allowed]
            placed.append(allowed[held.index(max(held))])
    open_at, ranges = [], []
    for part in re.findall(r"<b></b>|</?b>|\w", tagged):
        if part == "<b>":
            open_at.append(len([p for p in ranges if p is None]))
        elif part == "</b>":
            ranges.append((open_at.pop(), len([p for p in ranges if p is None])))
        elif part != "<b></b>":
            ranges.append(None)
    assert sorted(p for p in ranges if p) == sorted(placed)


def crosses(one, other):
    (a, b), (c, d) = one, other
    return a < c < b < d or c < a < d < b
