"""saccade evaluate: the metrics of a run, as text and as JSON."""

import json
import re
from pathlib import Path

import pytest

from saccade.tasks.text_to_text import TextToText
from saccade.training import session


def test_prints_numbers_first_and_signatures_behind(saccade, run, pairs):
    result = saccade("evaluate", run, "--data", pairs)
    assert result.code == 0
    number = r"\d+\.\d"
    line = rf"exact_match {number} % \[{number}, {number}\]  nrefs:1\|bs:1000\|seed:12345\|"
    assert re.match(line, result.lines[0])
    assert "measured on 10 items" in result.lines
    assert "test: test.tsv (tab-separated)" in result.err
    assert 'source = column "source", target = column "target"' in result.err


def test_json_is_one_object_alone_on_stdout(saccade, run, pairs):
    result = saccade("evaluate", run, "--data", pairs, "--json")
    table = json.loads(result.out)
    assert result.out.count("\n") == 1
    assert table["items"] == 10
    assert 0 <= table["exact_match"] <= 1
    assert table["details"]["exact_match"]["signature"].startswith("nrefs:1")
    assert sum(bucket["count"] for bucket in table["by_length"]) == 10


def test_split_file_and_python_give_equal_results(saccade, run, pairs, tmp_path):
    answers = tmp_path / "answers.txt"
    inputs = [line.split("\t")[0] for line in (pairs / "test.tsv").read_text().splitlines()[1:]]
    file = saccade("evaluate", run, "--data", pairs / "test.tsv", "--json", "--output", answers)
    assert file.out == saccade("evaluate", run, "--data", pairs, "--json").out
    assert answers.read_text().splitlines() == saccade("predict", run, *inputs).lines
    assert session.evaluate(run, data=pairs)["exact_match"] == json.loads(file.out)["exact_match"]
    train = saccade("evaluate", run, "--data", pairs, "--split", "train", "--json")
    assert json.loads(train.out)["items"] == 70


def test_rows_with_the_same_source_are_references_of_one_item(saccade, run, tmp_path):
    written = saccade("predict", run, "a b").lines[0]
    path = tmp_path / "two.tsv"
    path.write_text(f"source\ttarget\na b\tnot this\na b\t{written}\n")
    table = json.loads(saccade("evaluate", run, "--data", path, "--json").out)
    assert (table["items"], table["exact_match"]) == (1, 1.0)


def test_beam_and_batch_size_are_accepted(saccade, run, pairs):
    assert saccade("evaluate", run, "--data", pairs, "--beam", 2, "--batch-size", 3).code == 0


def test_errors_name_what_is_missing(saccade, run, pairs, tmp_path):
    other = tmp_path / "other.tsv"
    other.write_text("first\tsecond\na\tb\n")
    for options, problem in (
        (["--data", tmp_path, "--split", "valid"], "has no valid.* or val.* or dev.*"),
        (
            ["--data", pairs, "--split", "best"],
            "there is no split 'best'; choose one of train, valid",
        ),
        (["--data", tmp_path / "no.tsv"], f"{tmp_path / 'no.tsv'} does not exist"),
        (["--data", other], 'has no column "source"'),
        (
            ["--data", other, "--columns", "source"],
            "is not a valid assignment",
        ),
        (["--data", other, "--columns", "source=first,target=third"], '"third"'),
        (["--data", "builtin:nothing"], "builtin:nothing does not exist"),
        (["--data", pairs, "--output", tmp_path / "no/x"], "does not exist"),
        ([], "'--data'"),
    ):
        result = saccade("evaluate", run, *options)
        assert (result.code, result.out) == (2, "")
        assert problem in result.err
    named = saccade("evaluate", run, "--data", other, "--columns", "source=first,target=second")
    assert "measured on 1 item" in named.lines


@pytest.mark.parametrize("content", [b"", b"source\ttarget\n", b"source\ttarget\na\t\xff\n"])
def test_raises_on_empty_or_unreadable_files(saccade, run, tmp_path: Path, content):
    path = tmp_path / "bad.tsv"
    path.write_bytes(content)
    result = saccade("evaluate", run, "--data", path)
    assert result.code == 2
    assert "bad.tsv" in result.err


def test_attention_measures_are_explained(saccade, run, pairs, tmp_path):
    gold = tmp_path / "gold.txt"
    rows = (pairs / "test.tsv").read_text().splitlines()[1:]
    lengths = [len(row.split("\t")[0].split()) for row in rows]
    backwards = [[(i + 1, n - i) for i in range(n)] for n in lengths]
    gold.write_text("".join(" ".join(f"{t}-{s}" for s, t in links) + "\n" for links in backwards))
    options = ["--attention", "--gold", gold, "--gold-from-1", "--gold-swapped"]
    result = saccade("evaluate", run, "--data", pairs, *options, "--reverse", run)
    assert result.code == 0
    for name in ("alignment_error_rate", "alignment_error_rate_joined", "comprehensiveness"):
        [at] = [i for i, line in enumerate(result.lines) if line.startswith(f"{name} ")]
        assert result.lines[at + 1].startswith("    ")
        assert result.lines[at + 1].endswith(".")
    assert "heads:" in result.lines
    table = json.loads(saccade("evaluate", run, "--data", pairs, *options, "--json").out)
    assert 0 <= table["alignment_error_rate"] <= 1
    assert table["details"]["sufficiency"]["meaning"].startswith("With nothing but the words")
    assert {"layer", "head", "entropy", "importance"} <= set(table["attention"]["heads"][0])


def test_gold_alignments_from_a_column_of_the_data(saccade, run, tmp_path):
    path = tmp_path / "gold.tsv"
    path.write_text("source\ttarget\talignment\na b\tb a\t0-1 1-0\nc\tc\t0-0\n")
    table = json.loads(saccade("evaluate", run, "--data", path, "--attention", "--json").out)
    assert 0 <= table["alignment_error_rate"] <= 1
    path.write_text("source\ttarget\talignment\na b\tb a\tnone\n")
    result = saccade("evaluate", run, "--data", path, "--attention")
    assert result.code == 2
    assert "gold.tsv:2: line 1 of the gold alignments" in result.err


def test_raises_on_unusable_gold_alignments_before_predicting(
    saccade, run, pairs, tmp_path, monkeypatch
):
    def predicted(task, items, **options):
        raise AssertionError("it predicted first")

    monkeypatch.setattr(TextToText, "evaluate", predicted)
    files = {"short": "0-0\n", "words": "0-0 nine\n" * 10, "far": "0-0 0-9\n" * 10}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    for options, problem in (
        (["--gold", tmp_path / "short"], "add --attention"),
        (["--attention", "--gold-from-1"], "describe the file of --gold, which is missing"),
        (["--attention", "--gold", tmp_path / "short"], "short: .* expected 10, got 1"),
        (["--attention", "--gold", tmp_path / "words"], "words: line 1 of the gold alignments"),
        (
            ["--attention", "--gold", tmp_path / "far"],
            "far for .*:2: .* target word 9, counted from 0",
        ),
        (["--attention", "--gold", tmp_path / "no.txt"], "there is no file"),
        (["--attention", "--reverse", tmp_path], "error"),
    ):
        result = saccade("evaluate", run, "--data", pairs, *options)
        assert (result.code, result.out) == (2, "")
        assert re.search(problem, result.err)
