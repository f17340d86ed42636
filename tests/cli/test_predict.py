"""saccade predict: where inputs come from, where answers go, and what each option changes."""

import gzip
import importlib
import io
import json
import logging
import os
import re
import sys
from pathlib import Path

import pytest

from saccade.lens.record import AttentionRecord
from tests.cli.conftest import Call, begin, letters

predict = importlib.import_module("saccade.cli.predict")  # the package has the verb by that name
INPUTS = ["a b c d", "p", "c a", "n o p a b c d e f", "d"]


@pytest.fixture
def answers(saccade: Call, run: Path) -> list[str]:
    """What the run says to INPUTS."""
    said = saccade("predict", run, *INPUTS)
    assert (said.code, said.err) == (0, "")
    assert len(said.lines) == len(INPUTS)
    assert len(set(said.lines)) > 1
    return said.lines


def test_arguments_a_file_and_stdin_get_the_same_answers(saccade, run, answers, tmp_path):
    path = tmp_path / "inputs.txt"
    path.write_text("\n".join(INPUTS))
    packed = tmp_path / "inputs.txt.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert saccade("predict", run, "--input", path).lines == answers
    assert saccade("predict", run, "--input", packed).lines == answers
    assert saccade("predict", run, stdin=path.read_bytes()).lines == answers
    assert saccade("predict", run, stdin=path.read_bytes() + b"\n").lines == answers
    windows = b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n")
    assert saccade("predict", run, stdin=windows).lines == answers


@pytest.mark.parametrize("options", [[], ["--beam", "1"], ["--beam", "3"], ["--sample"]])
def test_answers_come_in_the_order_of_the_inputs_whatever_the_batches(saccade, run, options):
    inputs = letters(20)
    together = saccade("predict", run, *inputs, *options)
    seed = ["--seed", 13] if "--sample" in options else []
    assert saccade("predict", run, inputs[13], *options, *seed).lines == [together.lines[13]]
    for size in (1, 7):
        assert saccade("predict", run, *inputs, *options, "--batch-size", size) == together


def test_chunks_do_not_change_what_is_drawn(saccade, run, monkeypatch):
    inputs = "\n".join(letters(11)).encode()
    whole = saccade("predict", run, "--sample", "--seed", 5, stdin=inputs)
    monkeypatch.setattr(predict, "CHUNK", 4)
    assert saccade("predict", run, "--sample", "--seed", 5, stdin=inputs) == whole


def test_output_file(saccade, run, answers, tmp_path):
    path = tmp_path / "answers.txt"
    said = saccade("predict", run, *INPUTS, "--output", path)
    assert (said.code, said.out) == (0, "")
    assert path.read_text() == "".join(f"{text}\n" for text in answers)


def test_json_is_one_object_a_line(saccade, run, answers):
    said = saccade("predict", run, *INPUTS, "", "--json", "--align")
    tables = [json.loads(line) for line in said.lines]
    assert [table["input"] for table in tables] == [*INPUTS, ""]
    assert [table["text"] for table in tables] == [*answers, ""]
    assert all(table["score"] < 0 for table in tables[:-1])
    wanted = {"input", "text", "score", "alignment", "spans"}
    assert all(set(table) == wanted for table in tables)
    for table in tables:
        links = [tuple(map(int, link.split("-"))) for link in table["alignment"].split()]
        assert len(links) == len(table["spans"])
        for (source, target), spans in zip(links, table["spans"], strict=True):
            assert table["input"][slice(*spans["input"])] == table["input"].split()[source]
            assert table["text"][slice(*spans["text"])] == table["text"].split()[target]


def test_alignments_joined_with_a_run_of_the_other_direction(saccade, run):
    alone = saccade("predict", run, *INPUTS, "--align")
    joined = saccade("predict", run, *INPUTS, "", "--reverse", run)
    assert [line.split("\t")[0] for line in joined.lines[:-1]] == [
        line.split("\t")[0] for line in alone.lines
    ]
    assert joined.lines[-1] == "\t"
    assert all(re.fullmatch(r"(\d+-\d+ ?)*", line.split("\t")[1]) for line in joined.lines)


def test_tags_are_carried_over(saccade, run, answers):
    tagged = [f"<b>{text}</b> <br/>" for text in INPUTS]
    said = saccade("predict", run, *tagged, "<i></i>", "--markup")
    assert said.code == 0
    assert [re.sub(r"<[^<>]*>", "", line).strip() for line in said.lines] == [*answers, ""]
    assert all(line.count("<b>") == line.count("</b>") == 1 for line in said.lines[:-1])
    assert all("<br/>" in line for line in said.lines[:-1])
    assert said.lines[-1] == "<i></i>"


@pytest.mark.parametrize("option", [["--align"], ["--n-best", "2"], ["--reverse", "x"]])
def test_tags_come_alone(saccade, run, option):
    said = saccade("predict", run, "<b>a</b>", "--markup", *option)
    assert said.code == 2
    assert "--markup gives one text with tags" in said.err


def test_n_best_gives_as_many_lines_for_each_input(saccade, run):
    said = saccade("predict", run, "a b c", "", "p o", "--n-best", 3)
    assert len(said.lines) == 9
    assert len(set(said.lines[:3])) == 3
    assert said.lines[3:6] == ["", "", ""]
    [table] = map(json.loads, saccade("predict", run, "a b c", "--n-best", 3, "--json").lines)
    assert [table["text"], *(other["text"] for other in table["alternatives"])] == said.lines[:3]
    scores = [table["score"], *(other["score"] for other in table["alternatives"])]
    assert scores == sorted(scores, reverse=True)


def test_n_best_and_beam(saccade, run):
    assert saccade("predict", run, "a b", "--n-best", 7).code == 0  # widens the beam by itself
    refused = saccade("predict", run, "a b", "--n-best", 3, "--beam", 2)
    assert refused.code == 2
    assert "beam of at least that many" in refused.err


def test_sampling_options(saccade, run):
    inputs = letters(20)
    greedy = saccade("predict", run, *inputs, "--beam", 1)
    drawn = saccade("predict", run, *inputs, "--sample", "--seed", 1)
    assert drawn == saccade("predict", run, *inputs, "--sample", "--seed", 1)
    assert drawn != saccade("predict", run, *inputs, "--sample", "--seed", 2)
    assert drawn != greedy
    assert saccade("predict", run, *inputs, "--sample", "--temperature", 0) == greedy
    assert saccade("predict", run, *inputs, "--temperature", 0) == greedy  # means --sample
    assert saccade("predict", run, *inputs, "--top-k", 1) == greedy
    assert saccade("predict", run, *inputs, "--top-p", 1e-6) == greedy


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--sample", "--beam", "2"], "sampling has no beams"),
        (["--sample", "--n-best", "2"], "--n-best is for beam search"),
        (["--sample", "--top-p", "0"], "top_p must be above 0"),
        (["--sample", "--temperature", "nan"], "temperature"),
        (["--sample", "--seed", str(2**64)], "a seed must be between"),
        (["--beam", "0"], "'--beam'"),
        (["--batch-size", "0"], "'--batch-size'"),
        (["--max-length", "none"], "'--max-length'"),
        (["--input", "x.txt"], "not both"),
        (["--device", "toaster"], "'toaster' cannot be used"),
        (["--attention", "map.doc"], ".png"),
        (["--loud"], "No such option: --loud"),
    ],
)
def test_wrong_options_end_with_2_and_say_why(saccade, run, options, said):
    ended = saccade("predict", run, "a b", *options)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_max_length(saccade, run):
    for most in (1, 2, 3):
        said = saccade("predict", run, *INPUTS, "--max-length", most)
        assert all(len(line.split()) <= most for line in said.lines)


def test_align_adds_links_between_words_that_are_there(saccade, run, answers):
    said = saccade("predict", run, *INPUTS, "", "--align")
    assert said.lines[-1] == "\t"
    for text, answer, line in zip(INPUTS, answers, said.lines, strict=False):
        written, links = line.split("\t")
        assert written == answer
        found = [re.fullmatch(r"(\d+)-(\d+)", link) for link in links.split()]
        assert all(found)
        assert found or not answer
        assert all(int(link[1]) < len(text.split()) for link in found)
        assert all(int(link[2]) < len(answer.split()) for link in found)


@pytest.mark.parametrize("ending", [".png", ".svg", ".json"])
def test_attention_is_written_for_each_input(saccade, run, answers, tmp_path, ending):
    said = saccade("predict", run, *INPUTS[:2], "--attention", tmp_path / f"deep/look{ending}")
    assert said.lines == answers[:2]
    beginning = {".png": b"\x89PNG", ".svg": b"<?xml", ".json": b"{"}[ending]
    for name, text in (("look", INPUTS[0]), ("look-2", INPUTS[1])):
        assert (tmp_path / f"deep/{name}{ending}").read_bytes().startswith(beginning)
        record = AttentionRecord.load(tmp_path / f"deep/{name}.json")
        assert record.read.words == tuple(text.split())


def test_attention_of_all_inputs_is_one_page(saccade, run, answers, tmp_path):
    path = tmp_path / "deep" / "look.html"
    said = saccade("predict", run, *INPUTS, "--batch-size", 2, "--attention", path)
    assert said.lines == answers
    assert [file.name for file in path.parent.iterdir()] == ["look.html"]
    text = path.read_text(encoding="utf-8")
    found = json.loads(text.split('id="inputs">')[1].split("</script>")[0])
    assert [" ".join(model["read"]["words"]) for (model,) in found] == INPUTS
    assert saccade("predict", run, "--attention", tmp_path / "none.html").code == 0
    assert not (tmp_path / "none.html").exists()


def test_empty_blank_and_no_input(saccade, run):
    assert saccade("predict", run, stdin=b"").out == ""
    said = saccade("predict", run, stdin=b"\n   \na b\n\n")
    assert (said.lines[0], said.lines[1], said.lines[3]) == ("", "", "")
    assert said.lines[2] != ""
    assert len(said.lines) == 4


def test_a_very_long_line_is_cut_and_that_is_said(saccade, run, caplog):
    with caplog.at_level(logging.WARNING):
        said = saccade("predict", run, stdin=b"a b\n" + b"a " * 50_000 + b"\n")
    assert said.code == 0
    assert len(said.lines) == 2
    assert "input 2 has 50000 tokens; it was cut to the 256" in caplog.text


def test_unicode_goes_through(saccade, run):
    odd = "ä 👍🏽 עברית \u2028 \x85 \x00 中文 </s> a"
    said = saccade("predict", run, "--json", stdin=f"{odd}\n".encode())
    assert json.loads(said.out)["input"] == odd


@pytest.mark.parametrize("way", ["stdin", "file", "argument"])
def test_what_is_not_utf8_is_named(saccade, run, tmp_path, way):
    content = b"a b\nc \xff d\n"
    if way == "stdin":
        said = saccade("predict", run, stdin=content)
        assert "stdin, line 2: not UTF-8 at byte offset 2" in said.err
    elif way == "file":
        (tmp_path / "in.txt").write_bytes(content)
        said = saccade("predict", run, "--input", tmp_path / "in.txt")
        assert "in.txt:2: not UTF-8 at byte offset 2" in said.err
    else:
        said = saccade("predict", run, os.fsdecode(b"c \xff d"))
        assert "text 1 of 1" in said.err
    assert said.code == 2


def test_wrong_run_folders(saccade, pairs, tmp_path):
    for folder, problem in (
        (tmp_path / "nowhere", "there is no run folder"),
        (pairs, "is not a run folder: it has no run.json, but test.tsv, train.tsv"),
        (begin(tmp_path / "new", "reverse", pairs, weights=False), "has no weights yet"),
    ):
        said = saccade("predict", folder, "a")
        assert (said.code, said.out) == (2, "")
        assert problem in said.err


def test_damaged_weights_are_refused(saccade, pairs, tmp_path):
    folder = begin(tmp_path / "damaged", "reverse", pairs)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    said = saccade("predict", folder, "a")
    assert said.code == 2
    assert "model.safetensors cannot be read" in said.err


def test_attention_of_a_model_without_it_is_refused(saccade, without_attention, tmp_path):
    assert saccade("predict", without_attention, "a b").code == 0
    for option in (["--align"], ["--attention", tmp_path / "x.png"]):
        said = saccade("predict", without_attention, "a b", *option)
        assert (said.code, said.out) == (2, "")
        assert "this model has no attention" in said.err


def test_files_that_cannot_be_read_or_written(saccade, run, tmp_path):
    kept = tmp_path / "kept.txt"
    kept.write_text("a b\n")
    for options, problem in (
        (["--input", tmp_path / "no.txt", "--output", kept], "no.txt cannot be read: No such file"),
        (["--input", tmp_path], "Is a directory"),
        (["--input", kept, "--output", kept], "would overwrite the --input"),
        (["a", "--output", tmp_path / "no/x.txt"], "cannot be written: No such file"),
        (["a", "--output", tmp_path], "cannot be written: Is a directory"),
    ):
        said = saccade("predict", run, *options)
        assert said.code == 2
        assert problem in said.err
    assert kept.read_text() == "a b\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_ends_with_74(saccade, run):
    said = saccade("predict", run, "a b", "--output", "/dev/full")
    assert said.code == 74
    assert "the disk is full: /dev/full is not whole" in said.err


def test_no_stdin_at_all(saccade, run):
    said = saccade("predict", run, stdin=None)
    assert said.code == 2
    assert "there is no input" in said.err


class _Terminal(io.TextIOWrapper):
    def __init__(self, content: bytes = b"") -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    def said(self) -> str:
        return self.buffer.getvalue().decode()


def test_at_a_keyboard_it_says_that_it_reads(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", _Terminal(b"a b\n"))
    predict.run(run)
    out, err = capsys.readouterr()
    assert err == "Reading from the keyboard, an input a line; Ctrl-D ends it.\n"
    assert out.count("\n") == 1


@pytest.mark.parametrize("to_file", [True, False])
def test_progress_is_shown_where_it_disturbs_no_answers(run, monkeypatch, tmp_path, to_file):
    monkeypatch.setenv("TERM", "xterm")
    console, path, output = _Terminal(), tmp_path / "in.txt", tmp_path / "out.txt"
    path.write_text("\n".join(letters(9)))
    monkeypatch.setattr(sys, "stderr", console)
    monkeypatch.setattr(sys, "stdout", _Terminal())
    predict.run(run, input_=path, output=output if to_file else None)
    assert ("answered:" in console.said()) == to_file
    if to_file:
        assert len(output.read_text().splitlines()) == 9
