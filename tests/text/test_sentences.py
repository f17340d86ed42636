"""Lines, sentences and halves: every character is in one span or is white space between two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.text.sentences import half_spans, line_spans, sentence_spans

TEXTS = st.text(st.sampled_from("ab AB.!?。？,;\n\t 3'\"”\u0301\u200d、é"), max_size=60)


def parts(text, spans):
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize("split", [line_spans, sentence_spans, half_spans])
@given(text=TEXTS)
def test_every_character_belongs_to_one_span_or_is_space(split, text):
    spans = split(text)
    assert all(part and part == part.strip() for part in parts(text, spans))
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    assert all(end <= start for end, start in zip(ends, starts, strict=True))
    assert not "".join(text[end:start] for end, start in zip(ends, starts, strict=True)).strip()


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
        ("It costs 3.50 dollars. Really?!", ["It costs 3.50 dollars.", "Really?!"]),
        ("Dr. Lee and Mrs. Ray met J. S. Bach.", ["Dr. Lee and Mrs. Ray met J. S. Bach."]),
        (
            "Am 3. Mai kam er, z.B. hier. Dann ging er.",
            ["Am 3. Mai kam er, z.B. hier.", "Dann ging er."],
        ),
        ("“Why?” he asked. “Go!” (Now.) Yes", ["“Why?” he asked.", "“Go!”", "(Now.)", "Yes"]),
        ("my cat . the dog ? so dr. lee", ["my cat .", "the dog ?", "so dr. lee"]),
        ("It was 1999. Then came more.", ["It was 1999.", "Then came more."]),
        ("今天很好。我们走吧！「好吗？」他说", ["今天很好。", "我们走吧！", "「好吗？」", "他说"]),
        ("كيف حالك؟ أنا بخير. شكرا", ["كيف حالك؟", "أنا بخير.", "شكرا"]),
        ("यह ठीक है। चलो।", ["यह ठीक है।", "चलो।"]),
        ("example.com and v2.0 are fine", ["example.com and v2.0 are fine"]),
        ("", []),
    ],
)
def test_sentences_of_several_scripts(text, sentences):
    assert parts(text, sentence_spans(text)) == sentences


def test_halves_are_cut_after_a_clause_between_words_or_between_letters():
    text = "one two three, four five six"
    assert parts(text, half_spans(text)) == ["one two three,", "four five six"]
    assert parts("aaa bbb ccc", half_spans("aaa bbb ccc")) == ["aaa bbb", "ccc"]
    assert parts("abcdef", half_spans("abcdef")) == ["abc", "def"]
    assert parts("abce\u0301fg", half_spans("abce\u0301fg")) == ["abc", "e\u0301fg"]


@pytest.mark.parametrize("text", ["." * 40_000, '."' * 20_000, ". " * 20_000, "a" * 40_000])
def test_time_is_linear(text):
    for split in (line_spans, sentence_spans, half_spans):
        split(text)  # seconds if it were not
