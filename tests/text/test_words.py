"""Words of plain text, divided as the training data is. Checklist B8."""

import pytest

from saccade.text import WordSplitter


def words(splitter, text):
    return [text[start:end] for start, end in splitter.split(text)]


def test_punctuation_that_the_data_separates_is_a_word():
    splitter = WordSplitter.learn(
        ["He", "said", ":", "“", "Go", ",", "now", "!", "”", "(", "twice", ")", "."]
    )
    expected = ["“", "Come", ",", "now", "!", "”", "he", "said", "(", "once", ")", "."]
    assert words(splitter, "“Come, now!” he said (once).") == expected


def test_punctuation_that_the_data_keeps_stays():
    splitter = WordSplitter.learn(["Go,", "now!", "He", "said:", "no.", "Go,", "no.", "Ok."])
    assert words(splitter, "Come, now. Go!") == ["Come,", "now.", "Go!"]


def test_abbreviations_endings_and_hyphens_follow_the_data():
    data = [
        "Mr.",
        "Lee",
        "did",
        "n't",
        "see",
        "Mr.",
        "Wu",
        "'s",
        "well",
        "-",
        "known",
        "dog",
        ".",
        "It",
        "'s",
        "new",
        "-",
        "ish",
        ".",
    ]
    splitter = WordSplitter.learn(data)
    expected = ["Mr.", "Ode", "had", "n't", "Ann", "'s", "blue", "-", "green", "hat", "."]
    assert words(splitter, "Mr. Ode hadn't Ann's blue-green hat.") == expected


def test_marks_before_and_after_words_follow_the_data():
    splitter = WordSplitter.learn(["@ann", "#now", "5%", "of", "@bob", "'s", "7%", "."])
    assert words(splitter, "@zed: 9% #later.") == ["@zed", ":", "9%", "#later", "."]


@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
def test_blank_text_has_no_words(text):
    assert WordSplitter().split(text) == []


@pytest.mark.parametrize("text", ["a--b ...!?", "'s", "-", "“”", "naïve 👍🏽 x", "it's 'tis"])
def test_words_cover_all_text_but_white_space_in_order(text):
    splitter = WordSplitter.learn(["it", "'s", "-", "x", "a"])
    spans = splitter.split(text)
    assert all(start < end for start, end in spans)
    assert spans == sorted(spans)
    assert "".join(text[start:end] for start, end in spans) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cafe\u0301, no", ["cafe\u0301", ",", "no"]),
        ("हिन्दी!", ["हिन्दी", "!"]),
        ("👩\u200d👩\u200d👧 hi", ["👩\u200d👩\u200d👧", "hi"]),
        ("ok👍🏽❤️", ["ok", "👍🏽", "❤️"]),
        ("😀😀", ["😀", "😀"]),
        ("\u0301", ["\u0301"]),
    ],
)
def test_accents_and_parts_of_an_emoji_stay_with_their_letter(text, expected):
    assert words(WordSplitter.learn(["no", "ok"]), text) == expected


def test_facts_make_the_same_splitter_and_damaged_ones_raise():
    splitter = WordSplitter.learn(["@ann", "'s", "Mr.", "Mr.", "-", "5%"])
    assert WordSplitter.from_facts(splitter.facts()) == splitter
    for damaged in ({"before": 3}, {"known": "abc"}, {"endings": [1]}):
        with pytest.raises(ValueError, match="must be"):
            WordSplitter.from_facts(damaged)
