"""Tests of counting by chunks: the same as counting complete texts, which are read once."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.errors import TextError
from saccade.text import VocabularyConfig, counting, training
from saccade.text.counting import count_pieces

KINDS = ("bpe", "character", "token")
AWKWARD = st.text(
    st.sampled_from("ab1.,é\u0301\u0338 \t\n\r\x0b\x1c\x85\xa0\u2003\u3000İJ\u030c中の")
)


def _split(kind, *, lowercase=False):
    config = VocabularyConfig(kind=kind, lowercase=lowercase)
    normalizer = training.normalizers.Sequence(training._normalizers(config))
    splitter = training._splitter(kind)
    return lambda text: [p for p, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))]


@settings(deadline=None)
@given(
    st.lists(AWKWARD | st.text(st.characters(exclude_categories=["Cs"])), max_size=4),
    st.sampled_from(KINDS),
    st.booleans(),
)
def test_counting_chunks_equals_counting_complete_texts(texts, kind, lowercase):
    split = _split(kind, lowercase=lowercase)
    prefix = " " if kind == "bpe" else ""
    whole = Counter(piece for text in texts if text for piece in split(prefix + text))
    assert count_pieces(texts, split, prefix=prefix) == whole


def test_few_chunks_are_in_memory(monkeypatch):
    texts = [f"word{i} and{i % 7}" for i in range(500)]
    split = _split("bpe")
    at_once = count_pieces(texts, split)
    monkeypatch.setattr(counting, "_MOST_CHUNKS", 10)
    assert count_pieces(iter(texts), split) == at_once


def test_progress_reports_the_number_of_texts_read(monkeypatch):
    monkeypatch.setattr(counting, "_REPORT_EVERY", 10)
    seen = []
    count_pieces((str(i) for i in range(25)), _split("bpe"), progress=seen.append)
    assert seen == [10, 20, 25]


def test_raises_on_invalid_text_with_its_number():
    with pytest.raises(TextError, match=r"text 2 of the training texts .* U\+D800 at character 3"):
        count_pieces(["good", "bad\ud800"], _split("bpe"))
    with pytest.raises(TextError, match="text 1 of the training texts is NoneType, not str"):
        count_pieces(iter([None]), _split("bpe"))
    with pytest.raises(TextError, match="got one string"):
        count_pieces("one string", _split("bpe"))
