"""Options that no vocabulary can keep to are refused, with what is allowed."""

import subprocess
import sys

import pytest

from saccade.errors import SaccadeError, TextError
from saccade.text import VocabularyConfig


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 262}, "size 262 is too small: 7 control tokens and 256 bytes .* at least 263"),
        ({"kind": "unigram", "size": 0}, "at least 263"),
        ({"kind": "word", "size": 7}, "7 control tokens and one entry .* at least 8"),
        ({"kind": "token", "size": -1}, "at least 8"),
        ({"min_count": 0}, "min_count must be at least 1, got 0"),
    ],
)
def test_nonsense_is_refused(options, said):
    with pytest.raises(TextError, match=said) as caught:
        VocabularyConfig(**options)
    assert isinstance(caught.value, SaccadeError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(("kind", "least"), [("bpe", 263), ("unigram", 263), ("character", 8)])
def test_the_smallest_size_is_the_one_that_is_named(kind, least):
    assert VocabularyConfig(kind=kind, size=least).smallest == least


def test_an_unknown_kind_is_refused_with_those_that_there_are():
    # in a process of its own, where annotations are not checked
    code = "from saccade.text import VocabularyConfig; VocabularyConfig(kind='sentencepiece')"
    run = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, encoding="utf-8"
    )
    assert "TextError: no vocabulary of kind 'sentencepiece'; there are bpe, unigram" in run.stderr
