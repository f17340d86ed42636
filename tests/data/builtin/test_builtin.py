"""Built-in data sets: reproducible, with disjoint splits and right labels."""

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from saccade.data import builtin
from saccade.data.builtin import _mood_words as mood_words
from saccade.data.builtin import _phrases_words as words
from saccade.data.builtin import digits
from saccade.data.sources import Column, open_corpus
from saccade.errors import DataError
from tests.data.task_columns import PAIR

SPLITS = ("train", "valid", "test")
PAIRS, LABELLED = ("source", "target"), ("text", "label")
PICTURED, CAPTIONED = ("image", "label"), ("image", "text")
has_digits = importlib.util.find_spec("sklearn") is not None
needs_digits = pytest.mark.skipif(not has_digits, reason="scikit-learn is not installed")
has_dictionary = importlib.util.find_spec("pocketsphinx") is not None
needs_dictionary = pytest.mark.skipif(not has_dictionary, reason="pocketsphinx is not installed")


def rows_of(name, columns=PAIRS, hash_seed="0"):
    """Return the rows of every split, read in a process without runtime type checks."""
    code = f"""
import json
from saccade.data.sources import Column, open_corpus
corpus = open_corpus("builtin:{name}", [Column(name) for name in {columns}])
print(json.dumps({{name: [row.values for row in split] for name, split in corpus.splits.items()}}))
"""
    output = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    ).stdout
    return {split: list(map(tuple, rows)) for split, rows in json.loads(output).items()}


read = lru_cache(rows_of)


def test_every_data_set_has_a_description():
    assert set(builtin.descriptions()) >= {
        "copy",
        "digits",
        "mood",
        "phrases",
        "pronounce",
        "pydoc",
        "red_circle",
        "reverse",
        "shapes",
    }
    assert all(line and "\n" not in line for line in builtin.descriptions().values())


def test_listing_data_sets_imports_no_heavy_packages():
    code = (
        "import sys; from saccade.data.builtin import descriptions; descriptions(); "
        "sys.exit(bool({'torch', 'pocketsphinx', 'sklearn', 'PIL'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_code_digest_covers_the_modules():
    assert builtin.code_digest() != hashlib.sha256(b"").hexdigest()


def test_raises_on_an_unknown_data_set_and_lists_the_known():
    with pytest.raises(DataError, match=r"builtin:nothing does not exist; .* are copy, digits"):
        open_corpus("builtin:nothing", PAIR)
    with pytest.raises(DataError, match="builtin:_shared does not exist"):
        open_corpus("builtin:_shared", PAIR)
    with pytest.raises(DataError, match=r'builtin:copy has no column "label"'):
        open_corpus("builtin:copy", (Column("label"),))


@pytest.mark.parametrize("name", ["copy", "reverse"])
def test_letter_pairs_are_right_and_distinct(name):
    dataset = read(name)
    assert [len(dataset[split]) for split in SPLITS] == [20_000, 500, 500]
    every = [row for split in SPLITS for row in dataset[split]]
    assert len({source for source, _ in every}) == len(every)
    for source, target in every:
        letters = source.split(" ")
        assert 1 <= len(letters) <= 12
        assert all(re.fullmatch("[a-z]", letter) for letter in letters)
        assert target.split(" ") == (letters if name == "copy" else letters[::-1])
    lengths = [len(source.split()) for source, _ in dataset["test"]]
    assert min(lengths) <= 3
    assert max(lengths) == 12


@pytest.mark.parametrize("name", ["copy", "reverse"])
def test_letter_pairs_have_gold_alignments(name):
    for source, target, alignment in read(name, (*PAIRS, "alignment"))["test"]:
        letters, links = source.split(), [link.split("-") for link in alignment.split()]
        assert sorted(int(target) for _, target in links) == list(range(len(letters)))
        assert [letters[int(i)] for i, _ in sorted(links, key=lambda link: int(link[1]))] == (
            target.split()
        )


@needs_dictionary
def test_pronounce_has_distinct_words_per_split():
    dataset = read("pronounce")
    counts = [len(dataset[split]) for split in SPLITS]
    assert sum(counts) > 130_000
    assert counts[0] / sum(counts) == pytest.approx(0.9, abs=0.01)
    assert counts[1] / sum(counts) == pytest.approx(0.05, abs=0.005)
    word_sets = [{word for word, _ in dataset[split]} for split in SPLITS]
    assert sum(map(len, word_sets)) == len(set().union(*word_sets))
    spoken = {}
    for split in SPLITS:
        for word, phonemes in dataset[split]:
            assert re.fullmatch("[a-z']+", word)
            spoken.setdefault(word, []).append(phonemes)
    assert spoken["hello"] == ["HH AH L OW", "HH EH L OW"]
    assert len({phoneme for many in spoken.values() for p in many for phoneme in p.split()}) == 39


def test_pronounce_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r'pip install "saccade-attention\[demo\]"'):
        open_corpus("builtin:pronounce", PAIR).splits["train"].count()


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("reverse", PAIRS),
        ("phrases", PAIRS),
        ("mood", LABELLED),
        ("pydoc", ("text",)),
        pytest.param("digits", PICTURED, marks=needs_digits),
        ("shapes", CAPTIONED),
    ],
)
def test_rows_are_the_same_in_every_process(name, columns):
    assert rows_of(name, columns, hash_seed="1") == read(name, columns)


def test_synthetic_data_sets_never_change():
    """Scores are comparable between versions only if the rows are the same."""
    digests = {}
    for name, columns in (
        ("reverse", PAIRS),
        ("phrases", PAIRS),
        ("mood", LABELLED),
        ("red_circle", PICTURED),
        ("shapes", CAPTIONED),
    ):
        dataset = read(name, columns)
        rows = [row for split in SPLITS for row in dataset[split]]
        digests[name] = hashlib.sha256(repr(rows).encode()).hexdigest()[:16]
    assert digests == {
        "reverse": "ebc785b009a101b1",
        "phrases": "e5102db3ea927ef8",
        "mood": "b6b5e2f8b0ac87bc",
        "red_circle": "ae38aeccbf2eadc2",
        "shapes": "f2a3e271f3b02b48",
    }


# phrases


@pytest.fixture(scope="module")
def sentences():
    dataset = read("phrases", ("source", "target", "alignment"))
    return [row for split in SPLITS for row in dataset[split]]


def test_phrases_are_distinct_across_splits(sentences):
    dataset = read("phrases")  # without the third column, the alignment
    assert [len(dataset[split]) for split in SPLITS] == [7000, 500, 500]
    assert [row[:2] for row in sentences] == [row for split in SPLITS for row in dataset[split]]
    assert len({source for source, _, _ in sentences}) == 8000


def test_every_word_is_aligned_within_the_sentence(sentences):
    for source, target, alignment in sentences:
        pairs = [tuple(map(int, pair.split("-"))) for pair in alignment.split()]
        assert {i for i, _ in pairs} == set(range(len(source.split())))
        assert {j for _, j in pairs} == set(range(len(target.split())))


def word_pairs(row):
    source, target, alignment = row
    english, french = source.split(), target.split()
    pairs = (pair.split("-") for pair in alignment.split())
    return {(english[int(i)], french[int(j)]) for i, j in pairs}


def test_words_are_aligned_to_their_translation(sentences):
    """Nouns and adjectives have one translation each."""
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


def test_french_elisions_and_contractions_are_complete(sentences):
    vowel = "[aeiouyéèêâîôûh]"
    for _, french, _ in sentences:
        assert not re.search(rf"\b(le|la|je|ne|me|de|ce|ma) {vowel}", french), french
        assert not re.search(r"\b(de|à) (le|les)\b(?! [a-zé]+(e|es|ons|ez|ent|it|t)\b)", french)
        assert not re.search(r"[ldjnm]'[^aeiouéèêâîôûh]", french), french
        assert not re.search(
            r"\b(beau|vieux|nouveau) (?=[aeiouéèêâîôûh])[^ ]+[^sx ](?: |$)", french
        ), french
        assert not re.search(rf"\bce {vowel}", french), french


def test_french_determiners_agree_with_the_noun(sentences):
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
def test_difficult_french_constructions_are_frequent(sentences, pattern, at_least):
    assert sum(bool(re.search(pattern, french)) for _, french, _ in sentences) >= at_least


# pydoc


def test_pydoc_has_every_topic_once_unchanged():
    from pydoc_data.topics import topics

    dataset = read("pydoc", ("text",))
    every = [text for split in SPLITS for (text,) in dataset[split]]
    assert sorted(every) == sorted(topics.values())
    by_name = [topics[name] for name in sorted(topics)]
    for split in SPLITS:
        mine = [text for (text,) in dataset[split]]
        assert mine == [text for text in by_name if text in mine]


def test_pydoc_is_split_about_eight_to_one_to_one():
    dataset = read("pydoc", ("text",))
    sizes = {split: sum(len(text) for (text,) in dataset[split]) for split in SPLITS}
    fractions = {split: size / sum(sizes.values()) for split, size in sizes.items()}
    assert 0.7 < fractions["train"] < 0.9
    assert all(0.04 < fractions[split] < 0.2 for split in ("valid", "test"))


def test_no_paragraph_of_pydoc_is_in_two_splits():
    """Many topics are chapters of another: `compound` contains `async` verbatim."""
    dataset = read("pydoc", ("text",))
    paragraphs = [
        {
            part.strip()
            for (text,) in dataset[split]
            for part in text.split("\n\n")
            if len(part) > 99
        }
        for split in SPLITS
    ]
    assert len(set().union(*paragraphs)) == sum(map(len, paragraphs))


def test_raises_if_pydoc_topics_are_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(DataError, match=r"reads pydoc_data\.topics, which this Python"):
        open_corpus("builtin:pydoc", (Column("text"),)).splits["train"].count()


# mood


def test_mood_sentences_are_distinct_and_balanced():
    dataset = read("mood", LABELLED)
    assert [len(dataset[split]) for split in SPLITS] == [24000, 750, 750]
    assert len({text for split in SPLITS for text, _ in dataset[split]}) == 25500
    for split in SPLITS:
        counts = Counter(label for _, label in dataset[split])
        assert set(counts) == {"happy", "sad", "angry", "calm"}
        assert max(counts.values()) <= 1.1 * min(counts.values())


def test_mood_texts_are_sentences():
    for split in SPLITS:
        for text, _ in read("mood", LABELLED)[split]:
            assert re.fullmatch(r"[A-Z][A-Za-z', -]+\.", text), text
            assert "  " not in text
            assert 4 <= len(text.split()) <= 30


def deciding(text):
    """Return the clause that decides the mood of a sentence."""
    clause = text[0].lower() + text[1:-1]
    for opening in mood_words.OPENINGS:
        clause = clause.removeprefix(f"{opening} ")
    if clause.startswith("although "):
        return clause.split(", ")[1]
    clause = re.split(", although |, even though ", clause)[0]
    clause = re.split(", but |, yet ", clause)[-1]
    others = [other.subject for other in mood_words.OTHERS]
    halves = re.split(", while |, whereas ", clause)
    return next(half for half in halves if not any(other in half for other in others))


def mood_of(clause):
    """Return the only mood that a clause names, or its opposite if it is negated."""
    more = re.search(r"more ([\w-]+) than", clause) or re.search(r"less .* than ([\w-]+)", clause)
    strong = re.search(rf"({'|'.join(mood_words.STRONG)}) ([\w-]+)", clause)
    if more:
        clause = more[1]
    elif " and " in clause:
        clause = strong[2]
    named = set()
    for mood, ways in mood_words.MOODS.items():
        effects = [way.format(me="me", my="my") for pair in ways.effects for way in pair]
        named_words = {*ways.feelings, *ways.qualities} & set(clause.split())
        if named_words or any(effect in clause for effect in effects):
            named.add(mood)
    (mood,) = named
    negations = (*mood_words.NOT_SO, *mood_words.NEVER_DID, *mood_words.NOT_DO)
    negated = re.search(rf"\b({'|'.join(negations)})\b", clause)
    return mood_words.OPPOSITE[mood] if negated else mood


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("The soup was not at all dreary.", "happy"),
        ("In short, the flight was lovely, but the beach did not calm me down.", "angry"),
        ("Although the flight made me swear, I was glad about the beach.", "happy"),
        ("I was a bit angry and truly sad about the bill.", "sad"),
        ("The match made my sister shout, whereas it slowed my pulse.", "calm"),
    ],
)
def test_the_mood_of_sentences_by_hand(text, label):
    assert mood_of(deciding(text)) == label


def test_the_mood_follows_from_the_sentence():
    for split in SPLITS:
        for text, label in read("mood", LABELLED)[split]:
            assert mood_of(deciding(text)) == label, text


def test_a_bag_of_words_cannot_predict_the_mood():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    linear = pytest.importorskip("sklearn.linear_model")
    dataset = read("mood", LABELLED)
    bags, scores = text.CountVectorizer(), {}
    learner = linear.LogisticRegression(max_iter=300)
    learner.fit(
        bags.fit_transform([row[0] for row in dataset["train"]]), [r[1] for r in dataset["train"]]
    )
    for split in SPLITS:
        counts = bags.transform([row[0] for row in dataset[split]])
        scores[split] = learner.score(counts, [row[1] for row in dataset[split]])
    assert all(0.35 < score < 0.7 for score in scores.values()), scores


# images


@pytest.fixture
def no_cached_digits():
    """Clear the cache of digits before and after the test."""
    digits._digits.cache_clear()
    yield
    digits._digits.cache_clear()


@needs_digits
def test_digits_equal_scikit_learn():
    reference = importlib.import_module("sklearn.datasets").load_digits()
    dataset = read("digits", PICTURED)
    every = dict(row for split in SPLITS for row in dataset[split])
    assert every == {f"builtin:digits/{i}": str(label) for i, label in enumerate(reference.target)}
    for number in (0, 1, 777, 1796):
        image = builtin.image(f"builtin:digits/{number}")
        assert (image.mode, image.size) == ("RGB", (8, 8))
        levels = np.asarray(image) / 255 * 16
        assert levels == pytest.approx(np.stack([reference.images[number]] * 3, 2), abs=0.04)


@needs_digits
def test_digits_are_split_by_their_images():
    dataset = read("digits", PICTURED)
    fractions = [len(dataset[split]) / 1797 for split in SPLITS]
    assert fractions == pytest.approx([0.75, 0.1, 0.15], abs=0.02)
    for split in SPLITS:
        assert len({label for _, label in dataset[split]}) == 10
    images = [
        {digits.image(name).tobytes() for name, _ in dataset[split]} for split in ("valid", "test")
    ]
    assert not images[0] & images[1]


def test_digits_without_scikit_learn_name_the_extra(monkeypatch, no_cached_digits):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for ask in (lambda: list(digits.rows("train")), lambda: digits.image("builtin:digits/0")):
        with pytest.raises(DataError, match=r'pip install "saccade-attention\[demo\]"'):
            ask()


@needs_digits
def test_digits_of_another_version_name_the_missing_file(monkeypatch, no_cached_digits):
    monkeypatch.setattr(digits, "INSIDE", Path("elsewhere.csv"))
    with pytest.raises(DataError, match=r"scikit-learn has no .*elsewhere\.csv"):
        list(digits.rows("test"))


def test_shapes_have_one_caption_per_image():
    dataset = read("shapes", CAPTIONED)
    assert [len(dataset[split]) for split in SPLITS] == [24000, 500, 500]
    names = [name for split in SPLITS for name, _ in dataset[split]]
    assert names == [f"builtin:shapes/{number}" for number in range(25000)]
    seen = {caption for _, caption in dataset["train"]}
    new = [caption for _, caption in dataset["test"] if caption not in seen]
    assert len(new) > 400  # short captions recur with other images


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("builtin:nothing/3", "builtin:nothing does not exist; the built-in data sets are copy"),
        ("builtin:_shapes_drawing/3", "builtin:_shapes_drawing does not exist"),
        ("builtin:reverse/3", "builtin:reverse/3 does not exist: builtin:reverse has no images"),
        pytest.param(
            "builtin:digits/1797", "builtin:digits/0 to builtin:digits/1796", marks=needs_digits
        ),
        ("builtin:shapes/two", "the image 'builtin:shapes/two' does not exist"),
        ("builtin:shapes", "the image 'builtin:shapes' does not exist"),
    ],
)
def test_raises_on_missing_images(name, message):
    with pytest.raises(DataError, match=message):
        builtin.image(name)
