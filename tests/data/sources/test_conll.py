"""CoNLL columns, and lists in other formats. Checklist B8."""

import gzip
import json

import pytest

from saccade.data.sources import open_corpus
from saccade.data.sources.columns import Column
from saccade.errors import DataError, WrongTaskError

WORDS = Column("words", ("tokens",), sequence=True)
TAGS = Column("tags", ("ner_tags",), numbers=True, sequence=True)
EXPECTED = [("Ann sings", "B-PER O"), ("in Paris .", "O B-LOC O")]


def read(path, **options):
    corpus = open_corpus(path, (WORDS, TAGS), valid_fraction=0.0, **options)
    return list(corpus.splits["train"])


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_sentences_end_at_blank_lines(tmp_path):
    text = "\nAnn\tB-PER\nsings\tO\n\n \nin\tO\nParis\tB-LOC\n.\tO"
    rows = read(write(tmp_path / "a.conll", text))
    assert [row.values for row in rows] == EXPECTED
    assert [row.line for row in rows] == [2, 6]


def test_spaces_separate_columns_and_document_marks_are_left_out(tmp_path):
    text = "-DOCSTART- -X- O\n\nAnn NNP B-PER\nsings VBZ O\n\nin IN O\nParis NNP B-LOC\n. . O\n"
    path = write(tmp_path / "a.conll", text)
    assert [row.values for row in read(path)] == EXPECTED
    tags = [row.values[1] for row in read(path, columns="words=1,tags=2")]
    assert tags == ["NNP VBZ", "IN NNP ."]


@pytest.mark.parametrize("space", ["\t", " "])
def test_comments_are_left_out_and_a_hash_sign_is_a_word(tmp_path, space):
    lines = ["# text = Ann sings", "# id 1", "Ann|B-PER", "sings|O", "", "# the second one"]
    lines += ["in|O", "#|O", "#tag|O", "Paris|B-LOC", ""]
    text = "\r\n".join(lines).replace("|", space)
    rows = read(write(tmp_path / "a.conll", text))
    assert [row.values for row in rows] == [EXPECTED[0], ("in # #tag Paris", "O O O B-LOC")]
    assert [row.line for row in rows] == [3, 7]


def test_packed_files_are_splits_of_a_folder(tmp_path):
    for name in ("train", "dev"):
        content = f"{name}\tX\n".encode()
        (tmp_path / f"{name}.conll.gz").write_bytes(gzip.compress(content))
    corpus = open_corpus(tmp_path, (WORDS, TAGS))
    assert [row.values for row in corpus.splits["valid"]] == [("dev", "X")]


def test_conllu_has_words_and_parts_of_speech_without_ranges_and_comments(tmp_path):
    lines = ["# text = Don't", "1-2\tDon't" + "\t_" * 8, "1\tDo\tdo\tAUX" + "\t_" * 6]
    lines += ["2\tn't\tnot\tPART" + "\t_" * 6, "2.1\tx" + "\t_" * 8, ""]
    path = write(tmp_path / "a.conllu", "\n".join(lines))
    assert [row.values for row in read(path)] == [("Do n't", "AUX PART")]


def test_a_word_with_a_space_stays_one_word(tmp_path):
    path = write(tmp_path / "a.conll", "1 000\tNUM\neuros\tNOUN\n")
    assert [row.values[0].split(" ") for row in read(path)] == [["1\u00a0000", "euros"]]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "parquet", "csv"])
def test_other_formats_have_lists_or_spaces(tmp_path, suffix):
    rows = [
        {"tokens": words.split(), "ner_tags": tags.split(), "id": i}
        for i, (words, tags) in enumerate(EXPECTED)
    ]
    path = tmp_path / f"a.{suffix}"
    if suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif suffix == "json":
        path.write_text(json.dumps(rows))
    elif suffix == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("words,tags\n" + "".join(f"{words},{tags}\n" for words, tags in EXPECTED))
    assert [row.values for row in read(path)] == EXPECTED


def test_tags_may_be_numbers(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"words": ["a", "b"], "tags": [0, 3]}\n')
    assert [row.values for row in read(path)] == [("a b", "0 3")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.conll", "Ann\tX\nsings\n", r"a\.conll:2: expected 2 columns.*found 1.*Add the tag"),
        ("a.conll", "Ann\tX\nsings\t \n", r"a\.conll:2: tags is empty"),
        ("a.conll", "Ann\tX\n\tX\n", r"a\.conll:2: words is empty"),
        ("a.conll", "Ann\tX\nsings\tX\tO\n", r"a\.conll:2: expected 2 columns.*found 3"),
        ("a.conll", "Ann\nsings\n", r"a\.conll:1: expected at least 2 columns \(words, tags\)"),
        ("a.conll", "\n\n", "has no words"),
        ("a.jsonl", '{"words": ["a"]}\n', 'has no column "tags"'),
        ("a.jsonl", '{"words": ["a", ""], "tags": ["X", "Y"]}\n', 'element 2 of "words" is empty'),
        ("a.jsonl", '{"words": ["a", null], "tags": ["X", "Y"]}\n', r"a\.jsonl:1, element 2"),
        ("a.jsonl", '{"words": {"a": 1}, "tags": ["X"]}\n', r"a\.jsonl:1: expected text"),
    ],
)
def test_broken_files_raise_with_their_line(tmp_path, name, text, message):
    path = write(tmp_path / name, text)
    with pytest.raises(DataError, match=message):
        read(path)


def test_columns_of_conll_are_assigned_by_number(tmp_path):
    path = write(tmp_path / "a.conll", "Ann\tX\n")
    with pytest.raises(DataError, match="--columns words=1,tags=2"):
        read(path, columns="words=form,tags=ner")
    with pytest.raises(DataError, match="assigns tags to column 3"):
        read(path, columns="words=1,tags=3")


def test_other_tasks_reject_conll(tmp_path):
    path = write(tmp_path / "a.conll", "Ann\tX\n")
    with pytest.raises(WrongTaskError, match="one word per line"):
        open_corpus(path, (Column("text"), Column("label")))
