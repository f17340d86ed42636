"""The sets that need no download: always the same, their splits apart, their French right."""

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from functools import lru_cache
from itertools import pairwise

import pytest

from saccade.data import builtin
from saccade.data.builtin import _phrases_words as words
from saccade.data.sources import Column, open_corpus
from saccade.errors import DataError
from tests.data.wanted import PAIR

SPLITS = ("train", "valid", "test")
has_dictionary = importlib.util.find_spec("pocketsphinx") is not None
needs_dictionary = pytest.mark.skipif(not has_dictionary, reason="pocketsphinx is not installed")


def rows_of(name, columns=("source", "target"), hash_seed="0"):
    """The rows of every split, made in a process of its own, where no annotations are checked."""
    code = f"""
import json
from saccade.data.sources import Column, open_corpus
corpus = open_corpus("builtin:{name}", [Column(name) for name in {columns}])
print(json.dumps({{name: [row.values for row in split] for name, split in corpus.splits.items()}}))
"""
    said = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    ).stdout
    return {split: list(map(tuple, rows)) for split, rows in json.loads(said).items()}


read = lru_cache(rows_of)


def test_each_file_is_a_set_with_a_line_about_it():
    assert set(builtin.descriptions()) >= {"copy", "phrases", "pronounce", "reverse"}
    assert all(line and "\n" not in line for line in builtin.descriptions().values())


def test_the_list_is_light():
    code = (
        "import sys; from saccade.data.builtin import descriptions; descriptions(); "
        "sys.exit(bool({'torch', 'pocketsphinx'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_set_is_refused_with_those_there_are():
    with pytest.raises(DataError, match="no builtin:nothing; there are copy, phrases"):
        open_corpus("builtin:nothing", PAIR)
    with pytest.raises(DataError, match="no builtin:_letters"):
        open_corpus("builtin:_letters", PAIR)
    with pytest.raises(DataError, match=r'builtin:copy has no column "label"'):
        open_corpus("builtin:copy", (Column("label"),))


@pytest.mark.parametrize("name", ["copy", "reverse"])
def test_letters(name):
    found = read(name)
    assert [len(found[split]) for split in SPLITS] == [20_000, 500, 500]
    every = [row for split in SPLITS for row in found[split]]
    assert len({source for source, _ in every}) == len(every)
    for source, target in every:
        letters = source.split(" ")
        assert 1 <= len(letters) <= 12
        assert all(re.fullmatch("[a-z]", letter) for letter in letters)
        assert target.split(" ") == (letters if name == "copy" else letters[::-1])
    lengths = [len(source.split()) for source, _ in found["test"]]
    assert min(lengths) <= 3
    assert max(lengths) == 12


@needs_dictionary
def test_pronounce():
    found = read("pronounce")
    counts = [len(found[split]) for split in SPLITS]
    assert sum(counts) > 130_000
    assert counts[0] / sum(counts) == pytest.approx(0.9, abs=0.01)
    assert counts[1] / sum(counts) == pytest.approx(0.05, abs=0.005)
    word_sets = [{word for word, _ in found[split]} for split in SPLITS]
    assert sum(map(len, word_sets)) == len(set().union(*word_sets))
    spoken = {}
    for split in SPLITS:
        for word, phonemes in found[split]:
            assert re.fullmatch("[a-z']+", word)
            spoken.setdefault(word, []).append(phonemes)
    assert spoken["hello"] == ["HH AH L OW", "HH EH L OW"]
    assert len({phoneme for many in spoken.values() for p in many for phoneme in p.split()}) == 39


def test_pronounce_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r'pip install "saccade\[demo\]"'):
        open_corpus("builtin:pronounce", PAIR).splits["train"].count()


@pytest.mark.parametrize("name", ["reverse", "phrases"])
def test_the_same_in_every_process(name):
    assert rows_of(name, hash_seed="1") == read(name)


def test_made_sets_never_change():
    """Scores on them are comparable from version to version only if the rows are the same."""
    digests = {}
    for name in ("reverse", "phrases"):
        rows = [row for split in SPLITS for row in read(name)[split]]
        digests[name] = hashlib.sha256(repr(rows).encode()).hexdigest()[:16]
    assert digests == {"reverse": "ebc785b009a101b1", "phrases": "e5102db3ea927ef8"}


# phrases


@pytest.fixture(scope="module")
def sentences():
    found = read("phrases", ("source", "target", "alignment"))
    return [row for split in SPLITS for row in found[split]]


def test_phrases_are_distinct_and_their_splits_apart(sentences):
    found = read("phrases")  # the third column, the alignment, is there only for those who ask
    assert [len(found[split]) for split in SPLITS] == [7000, 500, 500]
    assert [row[:2] for row in sentences] == [row for split in SPLITS for row in found[split]]
    assert len({source for source, _, _ in sentences}) == 8000


def test_every_word_is_aligned_and_none_beyond_the_end(sentences):
    for source, target, alignment in sentences:
        pairs = [tuple(map(int, pair.split("-"))) for pair in alignment.split()]
        assert {i for i, _ in pairs} == set(range(len(source.split())))
        assert {j for _, j in pairs} == set(range(len(target.split())))


def word_pairs(row):
    source, target, alignment = row
    english, french = source.split(), target.split()
    pairs = (pair.split("-") for pair in alignment.split())
    return {(english[int(i)], french[int(j)]) for i, j in pairs}


def test_words_are_aligned_to_their_meaning(sentences):
    """Nouns and adjectives, which have one meaning each, stand for nothing else."""
    meanings = {}
    for noun in (*words.ADULTS, *words.CHILDREN, *words.ANIMALS, *words.THINGS, *words.PLACES):
        for english, french in zip(noun.english, noun.french, strict=True):
            meanings.setdefault(english, set()).add(french)
    for adjective in (*words.COLOURS, *words.QUALITIES, *words.MOODS):
        meanings[adjective.english] = set(adjective.forms)
    checked = 0
    for row in sentences:
        for english, french in word_pairs(row):
            if english in meanings:
                assert french.split("'")[-1] in meanings[english], row
                checked += 1
    assert checked > 10_000


def test_nothing_is_left_unclipped_or_uncontracted(sentences):
    vowel = "[aeiouyéèêâîôûh]"
    for _, french, _ in sentences:
        assert not re.search(rf"\b(le|la|je|ne|me|de|ce|ma) {vowel}", french), french
        assert not re.search(r"\b(de|à) (le|les)\b(?! [a-zé]+(e|es|ons|ez|ent|it|t)\b)", french)
        assert not re.search(r"[ldjnm]'[^aeiouéèêâîôûh]", french), french
        assert not re.search(
            r"\b(beau|vieux|nouveau) (?=[aeiouéèêâîôûh])[^ ]+[^sx ](?: |$)", french
        ), french
        assert not re.search(rf"\bce {vowel}", french), french


def test_what_goes_with_a_feminine_or_plural_noun_agrees(sentences):
    gender = {}
    for noun in (*words.ADULTS, *words.CHILDREN, *words.ANIMALS, *words.THINGS, *words.PLACES):
        gender[noun.french[0]] = noun.feminine
    for _, french, _ in sentences:
        tokens = french.replace("'", "' ").split()
        for before, word in pairwise(tokens):
            if before in {"un", "le", "ce", "cet", "du", "au"} and word in gender:
                assert not gender[word], french
            if before in {"une", "la", "cette", "ma"} and word in gender:
                assert gender[word], french


@pytest.mark.parametrize(
    ("pattern", "at_least"),
    [
        (r"\bne .* pas\b|\bn'\w+ pas\b", 1000),
        (r"\bjamais\b", 500),
        (r"\bplus\b", 500),
        (r"\b(lui|leur) (donne|montre)", 100),
        (r"\bpas d[e']", 100),
        (r"\b(du|au|aux)\b", 100),
        (r"\b(vieil|bel|nouvel|cet)\b", 50),
    ],
)
def test_what_makes_french_hard_is_there(sentences, pattern, at_least):
    assert sum(bool(re.search(pattern, french)) for _, french, _ in sentences) >= at_least
