"""Tests of trained vocabularies: their entries, and the same file every time."""

import json
import os
import subprocess
import sys

import pytest

from saccade.errors import TextError
from saccade.text import Tokenizer, VocabularyConfig
from tests.text.corpora import SENTENCES, synthetic

KINDS = ("bpe", "unigram", "word", "character", "token")


def _train(texts, kind="bpe", size=600, **options):
    return Tokenizer.train(texts, VocabularyConfig(kind=kind, size=size, **options))


TWICE = """
import sys
from itertools import permutations
from saccade.text import Tokenizer, VocabularyConfig
sys.path.insert(0, sys.argv[1])
from corpora import synthetic
texts = synthetic(2500)
for kind in ("bpe", "unigram", "word"):
    tokenizer = Tokenizer.train(texts, VocabularyConfig(kind=kind, size=2000))
    print(kind, len(tokenizer), tokenizer.digest)
equals = ["".join(word) for word in permutations("abcde", 4)] * 2  # nothing but ties
for kind in ("bpe", "unigram", "word"):
    tokenizer = Tokenizer.train(equals, VocabularyConfig(kind=kind, size=290))
    print(kind, len(tokenizer), tokenizer.digest)
"""


def test_two_processes_write_the_same_file():
    def run(seed, threads):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads}
        command = [sys.executable, "-c", TWICE, os.path.dirname(__file__)]
        return subprocess.run(command, env=environment, check=True, capture_output=True).stdout

    first = run("1", "1")
    assert len(first.splitlines()) == 6
    assert first == run("2", "2")


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_the_texts_does_not_matter(kind):
    texts = synthetic(200)
    assert _train(texts, kind).to_string() == _train(iter(texts[::-1]), kind).to_string()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], [""], ["", ""]])
def test_raises_without_text(kind, texts):
    with pytest.raises(TextError, match="without text"):
        _train(texts, kind)


def test_white_space_has_no_tokens():
    with pytest.raises(TextError, match="white space"):
        _train([" \n ", "\t"], "token")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("size", [263, 264, 300])
def test_small_vocabularies_contain_bytes_and_little_else(kind, size):
    tokenizer = _train(SENTENCES * 3, kind, size)
    assert len(tokenizer) == size
    for text in SENTENCES:
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_size_larger_than_the_texts_need_is_allowed(kind):
    tokenizer = _train(["aaab aaab"], kind, 9000)
    assert 263 <= len(tokenizer) < 290
    learned = [piece.strip("▁") for piece in tokenizer.pieces(range(263, len(tokenizer)))]
    assert all(piece in "aaab" for piece in learned)


def test_bpe_merges_by_hand():
    # ' ab' is ▁+a+b: the pairs (▁,a) and (a,b) come 5 times each and tie; the lower bytes go first
    tokenizer = _train(["ab ab ab ab abc"], "bpe", 266, min_count=2)
    assert tokenizer.pieces(range(263, len(tokenizer))) in (["ab", "▁ab"], ["▁a", "▁ab"])
    assert tokenizer.pieces(tokenizer.encode("abc ab")) == ["▁ab", "c", "▁ab"]


def test_a_pair_seen_once_is_never_merged():
    assert len(_train(["abcdef"], "bpe", 9000, min_count=1)) == 263
    assert len(_train(["ab ab ab"], "bpe", 9000, min_count=4)) == 263


def test_words_are_ordered_by_count_then_by_letters():
    tokenizer = _train(["b a b c, c a b"], "word", 10)
    assert tokenizer.pieces(range(7, 10)) == ["▁b", "▁a", "▁c"]
    assert tokenizer.decode(tokenizer.encode("c a, b")) == "c a ⁇ b"


def test_rare_entries_are_unknown():
    tokenizer = _train(["K AE T", "K AE R"], "token", 50, min_count=2)
    assert len(tokenizer) == 9
    assert tokenizer.pieces(tokenizer.encode("T K R AE")) == ["⁇", "▁K", "⁇", "▁AE"]
    with pytest.raises(TextError, match="min_count = 3 times, the most frequent 2 times"):
        _train(["K AE T", "K AE R"], "token", 50, min_count=3)


def test_a_million_equal_words_are_counted_in_packs():
    tokenizer = _train(("ab " * 100 for _ in range(100)), "bpe", 265)
    assert tokenizer.pieces(tokenizer.encode("ab")) == ["▁ab"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_has_no_added_tokens_that_text_could_become(kind):
    content = json.loads(_train(SENTENCES, kind).to_string())
    assert content["added_tokens"] == []
    assert content["truncation"] is None
    assert content["padding"] is None


def test_importing_text_needs_no_torch():
    code = "import sys, saccade.text; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
