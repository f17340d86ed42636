"""Tables in several files: which files belong together, their order, and errors."""

import gzip
import json
import re

import pytest

from saccade.data.sources import Column, open_corpus
from saccade.errors import DataError
from tests.data.task_columns import PAIR

TEXT = (Column("text", running=True),)


def write(path, numbers, header="source\ttarget"):
    """Write rows whose source is a number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [{"source": f"{n}", "target": "x"} for n in numbers]
    lines = [header, *(f"{n}\tx" for n in numbers)]
    if ".jsonl" in path.name:
        lines = list(map(json.dumps, records))
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def sources(data, split="train", **options):
    """Return the sources of a split, of which nothing is held out."""
    corpus = open_corpus(data, PAIR, valid_fraction=0.0, **options)
    return [int(row.values[0]) for row in corpus.splits[split]]


@pytest.mark.parametrize(
    "names",
    [
        ["train-00000-of-00003.tsv", "train-00001-of-00003.tsv", "train-00002-of-00003.tsv"],
        ["train_1.jsonl", "train_2.jsonl", "train_3.jsonl"],
        ["train.0.tsv.gz", "train.1.tsv.gz", "train.2.tsv.gz"],
        ["train/a.tsv", "train/b.tsv", "train/c.tsv"],
        ["part-0.jsonl.gz", "part-1.jsonl.gz", "part-2.jsonl.gz"],
    ],
)
def test_files_of_a_folder_are_one_table_in_order(tmp_path, names):
    for i, name in enumerate(names):
        write(tmp_path / name, [2 * i, 2 * i + 1])
    assert sources(tmp_path) == [0, 1, 2, 3, 4, 5]


def test_numbers_are_ordered_as_numbers(tmp_path):
    for i in range(11):
        write(tmp_path / f"train-{i}.tsv", [i])
    write(tmp_path / "valid-00000-of-00001.tsv", [70])
    corpus = open_corpus(tmp_path, PAIR)
    assert [int(row.values[0]) for row in corpus.splits["train"]] == [*range(11)]
    assert [row.where for row in corpus.splits["train"]][10] == f"{tmp_path}/train-10.tsv:2"
    assert corpus.splits["valid"].count() == 1
    assert "train-0.tsv (tab-separated) to train-10.tsv, 11 files" in corpus.summary


def test_a_pattern_is_one_table_or_one_per_split(tmp_path):
    for i in range(3):
        write(tmp_path / f"{i}" / "data.tsv", [i])
    write(tmp_path / "notes.txt", [])
    assert sources(tmp_path / "*" / "data.tsv") == [0, 1, 2]
    assert sources(f"{tmp_path}/**/*.tsv") == [0, 1, 2]
    assert sources(f"{tmp_path}/[12]/*") == [1, 2]
    for i, name in enumerate(("train-a", "train-b", "valid", "test")):
        write(tmp_path / "all" / f"{name}.tsv", [i])
    assert sources(f"{tmp_path}/all/*.tsv") == [0, 1]
    assert sources(f"{tmp_path}/all/*.tsv", "test") == [3]
    assert sources(f"{tmp_path}/all/t*st.tsv", "test", required=("test",)) == [3]


def test_rows_are_held_out_of_all_files(tmp_path):
    for i in range(4):
        write(tmp_path / f"part-{i}.tsv", range(100 * i, 100 * i + 100))
    whole = write(tmp_path / "whole" / "all.tsv", range(400))
    parts, one = (open_corpus(data, PAIR).splits for data in (tmp_path / "part-*.tsv", whole))
    for name in ("train", "valid"):
        assert [row.values for row in parts[name]] == [row.values for row in one[name]]
    assert parts["valid"].count() == 80


def test_digest_depends_on_content_and_order_not_on_the_place(tmp_path):
    def digest(folder, *contents):
        for i, numbers in enumerate(contents):
            write(tmp_path / folder / f"part-{i}.tsv", numbers)
        return open_corpus(tmp_path / folder, PAIR, valid_fraction=0.0).splits["train"].digest()

    first = digest("a", [1], [2])
    assert first == digest("b", [1], [2])
    assert len({first, digest("c", [2], [1]), digest("d", [1], [3])}) == 3


def test_numbered_files_beside_the_splits_do_not_matter(tmp_path):
    write(tmp_path / "train.tsv", [1])
    write(tmp_path / "old-0-of-3.tsv", [2])
    assert sources(tmp_path) == [1]


def test_a_folder_of_documents_stays_a_folder_of_documents(tmp_path):
    for name in ("train/1.txt", "train/2.txt", "valid.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"Text of {name}.\n")
    assert "train: 2 files of text" in open_corpus(tmp_path, TEXT).summary


@pytest.mark.parametrize(
    ("names", "pattern", "message"),
    [
        (["train-0-of-3.tsv", "train-2-of-3.tsv"], "", "has 2 files of train, but .* announce 3"),
        (["test-2016.tsv", "test-2017.tsv"], "", "has no train"),  # not numbered from 0 or 1
        (["a.tsv"], "*.jsonl", r"no file matches .*\*.jsonl; check the pattern"),
        (["a.md", "b.tsv"], "*", "a.md has an unknown suffix"),
        (["test.tsv", "more.tsv"], "*.tsv", "such as test.tsv, and some are not, such as more.tsv"),
        (["test.tsv", "valid.tsv"], "*.tsv", "is named after train, only after valid, test"),
        (["train.tsv", "train-0.tsv", "train-1.tsv"], "", "more than one file for train"),
    ],
)
def test_errors(tmp_path, names, pattern, message):
    for name in names:
        write(tmp_path / name, [1])
    with pytest.raises(DataError, match=message):
        open_corpus(tmp_path / pattern, PAIR)


def test_raises_if_the_columns_differ(tmp_path):
    write(tmp_path / "train-0.tsv", [1])
    write(tmp_path / "train-1.tsv", [1], header="src\ttgt")
    with pytest.raises(
        DataError, match=re.escape("train-1.tsv has other columns than train-0.tsv")
    ):
        open_corpus(tmp_path, PAIR)
