"""A survey counts lengths, labels, scripts, images and faults of a corpus."""

import json
import tracemalloc
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from saccade.data.corpus import Corpus, Split
from saccade.data.sources import Column, open_corpus
from saccade.data.sources.columns import ColumnMatch
from saccade.data.sources.generated import GeneratedTable
from saccade.data.survey import notes, survey
from saccade.data.survey.facts import Lengths, quantile
from saccade.data.survey.scripts import scripts_of
from saccade.errors import DataError

TEXT, LABEL = Column("text"), Column("label", numbers=True)
PICTURE = Column("image", image=True)


def corpus_of(splits, columns=(TEXT, LABEL)):
    """Return a corpus of rows, given as lists of values by split."""
    match = ColumnMatch(columns, (0, 1), ("a", "b"), 2)
    tables = {
        name: GeneratedTable(name, match, partial(iter, rows)) for name, rows in splits.items()
    }
    return Corpus({name: Split(name, table) for name, table in tables.items()}, "rows")


def surveyed(splits, columns=(TEXT, LABEL), **options):
    return survey(corpus_of(splits, columns), columns, **options)


def test_counts_duplicates_with_their_places():
    rows = [("one", "a"), ("two", "b"), ("one", "a"), ("one  ", "a"), ("one", "b")]
    facts = surveyed({"train": rows})
    duplicates = facts.splits["train"].duplicates
    assert duplicates.count == 2  # spaces do not count, but the label does
    assert duplicates.first == ("train:3 repeats train:1", "train:4 repeats train:1")


def test_counts_contradictory_labels():
    rows = [("one", "a"), ("one", "b"), ("one", "b"), ("two", "a"), ("two", "a")]
    contradictions = surveyed({"train": rows}).splits["train"].contradictions
    assert contradictions.count == 3
    assert contradictions.first[0] == "train:1"


def test_counts_leaks_for_each_pair_of_splits():
    splits = {
        "train": [("one", "a"), ("two", "b")],
        "valid": [("three", "a"), ("two", "a")],
        "test": [("three", "a"), ("one", "a"), ("one", "a"), ("four", "b")],
    }
    leaks = surveyed(splits).leaks
    assert {(leak.split, leak.other): leak.count for leak in leaks} == {
        ("valid", "train"): 1,
        ("test", "train"): 2,
        ("test", "valid"): 1,
    }
    assert leaks[0].first == ("valid:2 is also train:2",)


def test_empty_rows_are_counted_and_compared_with_nothing():
    rows = [("", "a"), ("  ", "a"), ("one", ""), ("one", "a")]
    train = surveyed({"train": rows}).splits["train"]
    assert (train.empty.count, train.duplicates.count, train.rows) == (3, 0, 4)
    assert train.empty.first == ("train:1", "train:2", "train:3")
    assert train.labels.counts == {"a": 1}


def test_places_count_rows_after_empty_ones():
    rows = [("", "a"), ("one", "a"), ("", "a"), ("one", "a")]
    train = surveyed({"train": rows}).splits["train"]
    assert train.duplicates.first == ("train:4 repeats train:2",)


def test_labels_that_differ_in_case_or_spaces():
    labels = ["spam"] * 5 + ["Spam"] * 2 + ["SPAM ", "ham", "no  reply", "no reply"]
    rows = [(str(number), label) for number, label in enumerate(labels)]
    counts = surveyed({"train": rows}).splits["train"].labels
    assert counts.extra_spellings == 3
    assert counts.variants[0] == (("spam", 5), ("Spam", 2), ("SPAM ", 1))
    assert counts.single == ("SPAM", "ham", "no  reply", "no reply")
    assert counts.imbalance == 5


def test_numbers_are_summarised():
    rows = [(f"text {value}", value) for value in ("0.5", "1", "3")]
    counts = surveyed({"train": rows}).splits["train"].labels
    assert (counts.kind, counts.range) == ("numbers", (0.5, 1.5, 3.0))
    integers = [(f"text {value}", value) for value in ("1", "2", "1")]
    assert surveyed({"train": integers}).splits["train"].labels.counts == {"1": 2, "2": 1}


def test_several_labels_are_counted_one_by_one_and_may_be_empty():
    rows = [("one", "a, b"), ("two", "a"), ("three", "")]
    train = surveyed({"train": rows}, separator=",").splits["train"]
    assert train.labels.counts == {"a": 2, "b": 1}
    assert train.empty.count == 0


def test_too_many_labels_are_not_listed(monkeypatch):
    monkeypatch.setattr("saccade.data.survey.reading.MOST_LABELS", 3)
    rows = [(str(number), f"label {number}") for number in range(10)]
    counts = surveyed({"train": rows}).splits["train"].labels
    assert (counts.kind, counts.counts) == ("classes", {})


def test_reads_no_more_rows_than_requested():
    rows = [("one", "a")] * 10
    train = surveyed({"train": rows}, most=4).splits["train"]
    assert (train.rows, train.complete, train.duplicates.count) == (4, False, 3)
    assert surveyed({"train": rows}, most=10).complete


def test_broken_rows_are_reported_whether_or_not_they_stop_a_training(tmp_path):
    path = tmp_path / "data.tsv"
    path.write_text("text\tlabel\none\ta\ntwo\nthree\tb\nfour\n")
    for tolerant in (True, False):
        corpus = open_corpus(path, [TEXT, LABEL], valid_fraction=0.0, tolerant=tolerant)
        train = survey(corpus, [TEXT, LABEL]).splits["train"]
        assert (train.rows, train.complete, train.broken.count) == (2, True, 2)
        assert "data.tsv:3: expected 2 columns" in train.broken.first[0]
    with pytest.raises(DataError, match=r"(?s)2 of 4 rows cannot be read:.*tsv:3: .*tsv:5: "):
        list(corpus.splits["train"])


PAIR = Column("source"), Column("target")


@pytest.mark.parametrize(
    ("target", "repeats"),
    [
        pytest.param(lambda i: "abc"[i % 3], True, id="labels"),
        pytest.param(lambda i: f"answer {i % 3}", False, id="texts"),
        pytest.param(lambda i: f"word{i % 30}", False, id="many words"),
    ],
)
def test_targets_that_are_labels(target, repeats):
    rows = [(f"the text number {i}", target(i)) for i in range(90)]
    sentences = notes(surveyed({"train": rows}, PAIR))
    assert len(sentences) == repeats
    assert all("only 3 different words, like labels" in text for text in sentences)


def test_single_words_for_single_words_are_not_labels():
    rows = [(f"{'abcdefghi'[i % 9]}{i}", "xyz"[i % 3]) for i in range(90)]
    assert notes(surveyed({"train": rows}, PAIR)) == []


def test_names_columns_that_are_not_read(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("id,text,label,date\n1,one,a,x\n2,two,b,y\n")
    corpus = open_corpus(path, [TEXT, LABEL], valid_fraction=0.0)
    assert survey(corpus, [TEXT, LABEL]).splits["train"].unread == ("id", "date")


def test_lengths_are_words_or_for_single_words_characters():
    words = surveyed({"train": [("a b c", "x"), ("a b", "y")]}).splits["train"].lengths["text"]
    assert (words.unit, words.median, words.longest, words.characters) == ("words", 2, 3, 8)
    assert (words.different_words, words.longest_word) == (3, 1)
    letters = surveyed({"train": [("abc", "x"), ("ab", "y")]}).splits["train"].lengths["text"]
    assert (letters.unit, letters.longest, letters.one_word) == ("characters", 3, 1.0)


def test_histogram_counts_every_length_once():
    generator = np.random.default_rng(0)
    values, counts = np.unique(generator.geometric(0.05, 5000), return_counts=True)
    lengths = dict(zip(values.tolist(), counts.tolist(), strict=True))
    facts = Lengths.of(lengths | {1: 0}, lengths, None, 9)
    bars = facts.histogram
    assert len(bars) <= 8
    assert sum(count for *_, count in bars) == 5000 - counts[0]
    assert all(before[1] + 1 == after[0] for before, after in pairwise(bars))
    for low, high, count in bars:
        inside = sum(n for length, n in (lengths | {1: 0}).items() if low <= length <= high)
        assert inside == count


def test_quantile_is_the_smallest_value_that_covers_the_fraction():
    counts = {1: 50, 2: 45, 10: 5}
    assert [quantile(counts, fraction) for fraction in (0.5, 0.51, 0.95, 0.96, 1.0)] == [
        1,
        2,
        2,
        10,
        10,
    ]


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("Grüße, 12!", ["Latin"]),
        ("Привет мир", ["Cyrillic"]),
        ("漢字かなカナ", ["Han", "Hiragana", "Katakana"]),
        ("한국어", ["Hangul"]),
        ("ＡＢ αβγ", ["Greek", "Latin"]),
        ("12 + 3", []),
    ],
)
def test_scripts_by_unicode_names(text, scripts):
    fractions = scripts_of({letter: text.count(letter) for letter in text})
    assert list(fractions) == scripts
    assert sum(fractions.values()) == pytest.approx(1.0 if scripts else 0.0)


def picture(path, colour, size=(6, 4), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


def test_images_are_decoded_and_compared_by_content(tmp_path):
    for number in range(3):
        picture(tmp_path / f"train/cat/{number}.png", (number, 0, 90))
        picture(tmp_path / f"valid/cat/{number}.png", (50 + number, 0, 90))
        picture(tmp_path / f"train/dog/{number}.png", 60 * number, (8, 8), "L")
        picture(tmp_path / f"valid/dog/{number}.png", 60 * number + 1, (8, 8), "L")
    picture(tmp_path / "train/cat/copy.png", (0, 0, 90))
    picture(tmp_path / "valid/cat/leak.png", (1, 0, 90))
    (tmp_path / "train/dog/broken.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    columns = [PICTURE, LABEL]
    facts = survey(open_corpus(tmp_path, columns), columns)
    train = facts.splits["train"]
    images = train.images
    assert (images.count, images.broken.count, train.duplicates.count) == (8, 1, 1)
    assert "broken.png" in images.broken.first[0]
    assert "cat/copy.png repeats " in train.duplicates.first[0]
    assert images.modes == {"RGB": 4, "L": 3}
    assert images.sizes == {"6 × 4": 4, "8 × 8": 3}
    assert (images.smallest, images.largest, images.grey) == ((6, 4), (8, 8), False)
    assert [(leak.split, leak.count) for leak in facts.leaks] == [("valid", 1)]


def test_images_can_be_left_unopened(tmp_path):
    picture(tmp_path / "cat/0.png", 0)
    (tmp_path / "dog").mkdir()
    (tmp_path / "dog/0.png").write_bytes(b"broken")
    columns = [PICTURE, LABEL]
    corpus = open_corpus(tmp_path, columns, valid_fraction=0.0)
    train = survey(corpus, columns, open_images=False).splits["train"]
    assert train.images is None
    assert train.labels.counts == {"cat": 1, "dog": 1}


def test_an_image_with_several_captions_counts_once(tmp_path):
    picture(tmp_path / "a.png", 90, mode="L")
    (tmp_path / "train.tsv").write_text("image\ttext\na.png\tone\na.png\ttwo\na.png\tone\n")
    columns = [PICTURE, TEXT]
    train = survey(open_corpus(tmp_path / "train.tsv", columns, valid_fraction=0.0), columns)
    assert train.splits["train"].images.count == 1
    assert train.splits["train"].duplicates.count == 1
    assert train.splits["train"].images.grey


def test_rows_do_not_stay_in_memory():
    rows = 2_000
    generated = ((f"{number} " + 300 * "xxxxx", str(number % 3)) for number in range(rows))
    corpus = corpus_of({"train": generated})
    tracemalloc.start()
    facts = survey(corpus, [TEXT, LABEL])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert facts.splits["train"].rows == rows
    assert peak < 1e6  # the texts alone have 3 MB


def test_notes_name_each_fault_in_a_sentence():
    labels = ["a"] * 30 + ["b"] * 3 + ["B"]
    train = [(f"text {number}", label) for number, label in enumerate(labels)]
    splits = {"train": [*train, ("text 0", "a"), ("", "a")], "valid": [("text 1", "a")]}
    sentences = notes(surveyed(splits))
    beginnings = [
        "1 row with an empty column in train, left out of training; the first: train:36",
        "1 duplicate in train; the first: train:35 repeats train:1",
        '1 label of train differs only in case or spaces from another: "b" (3) and "B" (1)',
        '1 label of train has only one row: "B"',
        'the labels of train are imbalanced: "a" has 31 rows (89%), "B" has 1',
        "1 row of valid is also in train, so scores on valid are too high; the first: valid:1",
    ]
    assert len(sentences) == len(beginnings)
    for sentence, beginning in zip(sentences, beginnings, strict=True):
        assert sentence.startswith(beginning)


def test_data_without_faults_has_no_notes():
    rows = [(str(number), label) for number, label in enumerate("abab")]
    assert notes(surveyed({"train": rows})) == []


def test_vectors_of_another_width_are_named_with_their_row(tmp_path):
    widths = [3, 3, 2, 3, 3]
    rows = [{"vectors": [[0.5] * width] * n, "label": n} for n, width in enumerate(widths, 2)]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = (Column("vectors", vectors=True), Column("label", numbers=True, label=True))
    corpus = open_corpus(path, columns, valid_fraction=0.0)
    broken = survey(corpus, columns).splits["train"].vectors.broken
    assert broken.count == 1
    assert broken.first[0].startswith(f"{path}:3: 4 × 2 vectors has vectors of 2 numbers")


def test_labels_for_missing_values_are_counted():
    rows = [("one", "a"), ("two", "nan"), ("three", "None"), ("four", "none"), ("five", "N/A")]
    labels = surveyed({"train": rows}).splits["train"].labels
    assert (labels.kind, labels.missing.count) == ("classes", 3)
    assert labels.missing.first[0] == "train:2: nan"


def test_numbers_are_summarised_without_missing_values():
    rows = [("one", "0.5"), ("two", "NaN"), ("three", "1.5"), ("four", "inf")]
    facts = surveyed({"train": rows})
    labels = facts.splits["train"].labels
    assert (labels.kind, labels.range, labels.missing.count) == ("numbers", (0.5, 1.0, 1.5), 1)
    assert any("training stops there; the first: train:2: NaN" in note for note in notes(facts))


def test_labels_that_training_lacks_are_unknown():
    splits = {
        "train": [("one", "a"), ("two", "b")],
        "valid": [("three", "c"), ("four", "a")],
        "test": [("five", "c"), ("six", "d"), ("seven", "e"), ("eight", "d")],
    }
    facts = surveyed(splits)
    assert facts.splits["valid"].labels.unknown == ()
    assert facts.splits["test"].labels.unknown == ("d", "e")
    assert any(note.startswith("2 labels of test are not in the training") for note in notes(facts))


def test_a_single_label_is_a_fault():
    facts = surveyed({"train": [("one", "a"), ("two", "a")]})
    assert notes(facts) == ['all labels of train are "a"; a classifier needs at least two']


def test_broken_rows_are_counted_exactly_if_all_are(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": 1, "label": "a"}\n{"text": 2, "label": "b"}\n')
    corpus = open_corpus(path, (TEXT, LABEL), valid_fraction=0.0, tolerant=True)
    facts = survey(corpus, (TEXT, LABEL)).splits["train"]
    assert (facts.rows, facts.broken.count, facts.complete) == (0, 2, True)


def test_data_without_rows_cannot_be_surveyed(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("text\tlabel\n")
    with pytest.raises(DataError, match="has no rows"):
        survey(open_corpus(path, (TEXT, LABEL), valid_fraction=0.0), (TEXT, LABEL))
