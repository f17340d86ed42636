"""Invalid options of a vocabulary raise, with what is allowed."""

import subprocess
import sys

import pytest

from saccade.errors import SaccadeError, TextError
from saccade.text import VocabularyConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 262}, "size 262 is too small: 7 control tokens and 256 bytes .* at least 263"),
        ({"kind": "unigram", "size": 0}, "at least 263"),
        ({"kind": "word", "size": 7}, "7 control tokens and one entry .* at least 8"),
        ({"kind": "token", "size": -1}, "at least 8"),
        ({"min_count": 0}, "min_count must be at least 1, got 0"),
    ],
)
def test_raises_on_invalid_options_of_a_vocabulary(options, message):
    with pytest.raises(TextError, match=message) as caught:
        VocabularyConfig(**options)
    assert isinstance(caught.value, SaccadeError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(("kind", "least"), [("bpe", 263), ("unigram", 263), ("character", 8)])
def test_the_smallest_size_in_the_message_is_accepted(kind, least):
    assert VocabularyConfig(kind=kind, size=least).smallest == least


def test_raises_on_an_unknown_kind_with_the_valid_ones():
    # in its own process, where annotations are not checked
    code = "from saccade.text import VocabularyConfig; VocabularyConfig(kind='sentencepiece')"
    run = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, encoding="utf-8"
    )
    assert "'sentencepiece' is not a valid kind of vocabulary; use one of: bpe, uni" in run.stderr
