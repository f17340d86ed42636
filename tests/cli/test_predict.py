"""saccade predict: inputs, output, and the effect of each option."""

import gzip
import importlib
import io
import json
import logging
import math
import os
import re
import sys
from pathlib import Path

import pytest

from saccade.cli.inputs import InputFolder
from saccade.lens.record import AttentionRecord
from tests.cli.conftest import Call, begin, letters
from tests.engines import tiny

predict = importlib.import_module("saccade.cli.predict")  # the package has the verb by that name
INPUTS = ["a b c d", "p", "c a", "n o p a b c d e f", "d"]


@pytest.fixture
def answers(saccade: Call, run: Path) -> list[str]:
    """Predictions of the run for INPUTS."""
    result = saccade("predict", run, *INPUTS)
    assert (result.code, result.err) == (0, "")
    assert len(result.lines) == len(INPUTS)
    assert len(set(result.lines)) > 1
    return result.lines


def test_arguments_file_and_stdin_give_equal_predictions(saccade, run, answers, tmp_path):
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
def test_order_and_batch_size_do_not_change_predictions(saccade, run, options):
    inputs = letters(20)
    together = saccade("predict", run, *inputs, *options)
    seed = ["--seed", 13] if "--sample" in options else []
    assert saccade("predict", run, inputs[13], *options, *seed).lines == [together.lines[13]]
    for size in (1, 7):
        assert saccade("predict", run, *inputs, *options, "--batch-size", size) == together


@pytest.mark.parametrize("options", [[], ["--sample", "--seed", 5]])
def test_outputs_of_shards_are_the_output_of_all_inputs(saccade, run, tmp_path, options):
    path = tmp_path / "inputs.txt"
    path.write_text("\n".join(letters(5)))
    together = saccade("predict", run, "--input", path, *options)
    for count in (2, 7):  # with 7 parts of 5 inputs, some are empty
        parts = [f"{i}/{count}" for i in range(1, count + 1)]
        split = [
            saccade("predict", run, "--input", path, "--shard", part, *options) for part in parts
        ]
        assert [part.code for part in split] == [0] * count
        assert "".join(part.out for part in split) == together.out
    arguments = [saccade("predict", run, *letters(5), "--shard", f"{i}/2") for i in (1, 2)]
    assert [len(part.lines) for part in arguments] == [2, 3]


def test_shards_of_a_folder_are_parts_of_its_names(saccade, run, tmp_path):
    for i, text in enumerate(letters(5)):
        (tmp_path / f"{i}.txt").write_text(text)
    together = saccade("predict", run, f"{tmp_path}/")
    parts = [saccade("predict", run, f"{tmp_path}/", "--shard", f"{i}/2").out for i in (1, 2)]
    assert "".join(parts) == together.out


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/2/3"])
def test_raises_on_an_invalid_shard(saccade, run, shard):
    result = saccade("predict", run, "a", f"--shard={shard}")
    assert (result.code, result.out) == (2, "")
    assert f"--shard {shard} is not a part of the inputs: expected i/n" in result.err


def test_raises_on_a_shard_of_stdin(saccade, run):
    result = saccade("predict", run, "--shard", "1/2", stdin=b"a\n")
    assert (result.code, result.out) == (2, "")
    assert "unknown for stdin; use --input FILE" in result.err


def test_chunks_do_not_change_samples(saccade, run, monkeypatch):
    inputs = "\n".join(letters(11)).encode()
    together = saccade("predict", run, "--sample", "--seed", 5, stdin=inputs)
    monkeypatch.setattr(predict, "CHUNK", 4)
    assert saccade("predict", run, "--sample", "--seed", 5, stdin=inputs) == together


def test_output_file(saccade, run, answers, tmp_path):
    path = tmp_path / "answers.txt"
    result = saccade("predict", run, *INPUTS, "--output", path)
    assert (result.code, result.out) == (0, "")
    assert path.read_text() == "".join(f"{text}\n" for text in answers)


def test_json_is_one_object_per_line(saccade, run, answers):
    result = saccade("predict", run, *INPUTS, "", "--json", "--align")
    tables = [json.loads(line) for line in result.lines]
    assert [table["input"] for table in tables] == [*INPUTS, ""]
    assert [table["text"] for table in tables] == [*answers, ""]
    assert all(table["score"] < 0 for table in tables[:-1])
    expected = {"input", "text", "score", "confidence", "truncated", "alignment", "spans"}
    assert all(set(table) == expected for table in tables)
    for table in tables:
        links = [tuple(map(int, link.split("-"))) for link in table["alignment"].split()]
        assert len(links) == len(table["spans"])
        for (source, target), spans in zip(links, table["spans"], strict=True):
            assert table["input"][slice(*spans["input"])] == table["input"].split()[source]
            assert table["text"][slice(*spans["text"])] == table["text"].split()[target]


def test_reverse_joins_alignments_of_both_directions(saccade, run):
    alone = saccade("predict", run, *INPUTS, "--align")
    joined = saccade("predict", run, *INPUTS, "", "--reverse", run)
    assert [line.split("\t")[0] for line in joined.lines[:-1]] == [
        line.split("\t")[0] for line in alone.lines
    ]
    assert joined.lines[-1] == "\t"
    assert all(re.fullmatch(r"(\d+-\d+ ?)*", line.split("\t")[1]) for line in joined.lines)


def test_markup_carries_tags_over(saccade, run, answers):
    tagged = [f"<b>{text}</b> <br/>" for text in INPUTS]
    result = saccade("predict", run, *tagged, "<i></i>", "--markup")
    assert result.code == 0
    assert [re.sub(r"<[^<>]*>", "", line).strip() for line in result.lines] == [*answers, ""]
    assert all(line.count("<b>") == line.count("</b>") == 1 for line in result.lines[:-1])
    assert all("<br/>" in line for line in result.lines[:-1])
    assert result.lines[-1] == "<i></i>"


@pytest.mark.parametrize("option", [["--align"], ["--n-best", "2"], ["--reverse", "x"]])
def test_markup_raises_with_align_and_n_best(saccade, run, option):
    result = saccade("predict", run, "<b>a</b>", "--markup", *option)
    assert result.code == 2
    assert "--markup cannot be combined with --align, --reverse or --n-best" in result.err


def test_n_best_prints_as_many_lines_per_input(saccade, run):
    result = saccade("predict", run, "a b c", "", "p o", "--n-best", 3)
    assert len(result.lines) == 9
    assert len(set(result.lines[:3])) == 3
    assert result.lines[3:6] == ["", "", ""]
    [table] = map(json.loads, saccade("predict", run, "a b c", "--n-best", 3, "--json").lines)
    assert [table["text"], *(other["text"] for other in table["alternatives"])] == result.lines[:3]
    scores = [table["score"], *(other["score"] for other in table["alternatives"])]
    assert scores == sorted(scores, reverse=True)


def test_n_best_and_beam(saccade, run):
    assert saccade("predict", run, "a b", "--n-best", 7).code == 0  # implies a wider beam
    result = saccade("predict", run, "a b", "--n-best", 3, "--beam", 2)
    assert result.code == 2
    assert "beam of at least that many" in result.err


def test_sampling_options(saccade, run):
    inputs = letters(20)
    greedy = saccade("predict", run, *inputs, "--beam", 1)
    sampled = saccade("predict", run, *inputs, "--sample", "--seed", 1)
    assert sampled == saccade("predict", run, *inputs, "--sample", "--seed", 1)
    assert sampled != saccade("predict", run, *inputs, "--sample", "--seed", 2)
    assert sampled != greedy
    assert saccade("predict", run, *inputs, "--sample", "--temperature", 0) == greedy
    assert saccade("predict", run, *inputs, "--temperature", 0) == greedy  # implies --sample
    assert saccade("predict", run, *inputs, "--top-k", 1) == greedy
    assert saccade("predict", run, *inputs, "--top-p", 1e-6) == greedy


@pytest.mark.parametrize(
    ("options", "result"),
    [
        (["--sample", "--beam", "2"], "sampling has no beams"),
        (["--sample", "--n-best", "2"], "--n-best needs beam search"),
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
def test_invalid_options_exit_with_2_and_a_reason(saccade, run, options, result):
    ended = saccade("predict", run, "a b", *options)
    assert (ended.code, ended.out) == (2, "")
    assert result in ended.err


def test_max_length_limits_the_tokens(saccade, run):
    for most in (1, 2, 3):
        result = saccade("predict", run, *INPUTS, "--max-length", most)
        assert all(len(line.split()) <= most for line in result.lines)


def test_align_appends_links_between_existing_words(saccade, run, answers):
    result = saccade("predict", run, *INPUTS, "", "--align")
    assert result.lines[-1] == "\t"
    for text, answer, line in zip(INPUTS, answers, result.lines, strict=False):
        written, links = line.split("\t")
        assert written == answer
        pairs = [re.fullmatch(r"(\d+)-(\d+)", link) for link in links.split()]
        assert all(pairs)
        assert pairs or not answer
        assert all(int(link[1]) < len(text.split()) for link in pairs)
        assert all(int(link[2]) < len(answer.split()) for link in pairs)


@pytest.mark.parametrize("ending", [".png", ".svg", ".json"])
def test_attention_is_written_for_each_input(saccade, run, answers, tmp_path, ending):
    result = saccade("predict", run, *INPUTS[:2], "--attention", tmp_path / f"deep/look{ending}")
    assert result.lines == answers[:2]
    beginning = {".png": b"\x89PNG", ".svg": b"<?xml", ".json": b"{"}[ending]
    for name, text in (("look", INPUTS[0]), ("look-2", INPUTS[1])):
        assert (tmp_path / f"deep/{name}{ending}").read_bytes().startswith(beginning)
        record = AttentionRecord.load(tmp_path / f"deep/{name}.json")
        assert record.read.words == tuple(text.split())


def test_attention_of_all_inputs_is_one_page(saccade, run, answers, tmp_path):
    path = tmp_path / "deep" / "look.html"
    result = saccade("predict", run, *INPUTS, "--batch-size", 2, "--attention", path)
    assert result.lines == answers
    assert [file.name for file in path.parent.iterdir()] == ["look.html"]
    text = path.read_text(encoding="utf-8")
    models = json.loads(text.split('id="inputs">')[1].split("</script>")[0])
    assert [" ".join(model["read"]["words"]) for (model,) in models] == INPUTS
    assert saccade("predict", run, "--attention", tmp_path / "none.html").code == 0
    assert not (tmp_path / "none.html").exists()


def test_empty_and_blank_inputs(saccade, run):
    assert saccade("predict", run, stdin=b"").out == ""
    result = saccade("predict", run, stdin=b"\n   \na b\n\n")
    assert (result.lines[0], result.lines[1], result.lines[3]) == ("", "", "")
    assert result.lines[2] != ""
    assert len(result.lines) == 4


def test_very_long_line_is_cut_with_a_warning(saccade, run, caplog):
    with caplog.at_level(logging.WARNING):
        lines = b"a b\n" + b"a " * 50_000 + b"\n"
        result = saccade("predict", run, "--no-split-long", stdin=lines)
    assert result.code == 0
    assert len(result.lines) == 2
    assert "the first is input 2: of its 50000 tokens, only the first 256" in caplog.text


def test_unicode_is_preserved(saccade, run):
    odd = "ä 👍🏽 עברית \u2028 \x85 \x00 中文 </s> a"
    result = saccade("predict", run, "--json", stdin=f"{odd}\n".encode())
    assert json.loads(result.out)["input"] == odd


@pytest.mark.parametrize("way", ["stdin", "file", "argument"])
def test_errors_name_invalid_utf8(saccade, run, tmp_path, way):
    content = b"a b\nc \xff d\n"
    if way == "stdin":
        result = saccade("predict", run, stdin=content)
        assert "stdin, line 2: not UTF-8 at byte offset 2" in result.err
    elif way == "file":
        (tmp_path / "in.txt").write_bytes(content)
        result = saccade("predict", run, "--input", tmp_path / "in.txt")
        assert "in.txt:2: not UTF-8 at byte offset 2" in result.err
    else:
        result = saccade("predict", run, os.fsdecode(b"c \xff d"))
        assert "text 1 of 1" in result.err
    assert result.code == 2


def test_raises_on_invalid_run_folders(saccade, pairs, tmp_path):
    for folder, problem in (
        (tmp_path / "nowhere", "does not exist; check the path"),
        (pairs, "is not a run folder: it has no run.json, but test.tsv, train.tsv"),
        (begin(tmp_path / "new", "reverse", pairs, weights=False), "has no weights yet"),
    ):
        result = saccade("predict", folder, "a")
        assert (result.code, result.out) == (2, "")
        assert problem in result.err


def test_raises_on_damaged_weights(saccade, pairs, tmp_path):
    folder = begin(tmp_path / "damaged", "reverse", pairs)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    result = saccade("predict", folder, "a")
    assert result.code == 2
    assert "model.safetensors cannot be read" in result.err


def test_raises_on_attention_of_a_model_without_it(saccade, without_attention, tmp_path):
    assert saccade("predict", without_attention, "a b").code == 0
    for option in (["--align"], ["--attention", tmp_path / "x.png"]):
        result = saccade("predict", without_attention, "a b", *option)
        assert (result.code, result.out) == (2, "")
        assert "this model has no attention" in result.err


def test_raises_on_unreadable_input_and_unwritable_output(saccade, run, tmp_path):
    kept = tmp_path / "kept.txt"
    kept.write_text("a b\n")
    for options, problem in (
        (
            ["--input", tmp_path / "no.txt", "--output", kept],
            "no.txt does not exist; check the path",
        ),
        (["--input", run], "holds no .txt files"),
        (["--input", kept, "--output", kept], "would overwrite the --input"),
        (["a", "--output", tmp_path / "no/x.txt"], "cannot be written: No such file"),
        (["a", "--output", tmp_path], "cannot be written: Is a directory"),
    ):
        result = saccade("predict", run, *options)
        assert result.code == 2
        assert problem in result.err
    assert kept.read_text() == "a b\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_exits_with_74(saccade, run):
    result = saccade("predict", run, "a b", "--output", "/dev/full")
    assert result.code == 74
    assert "the disk is full; /dev/full is incomplete" in result.err


def test_raises_without_any_input(saccade, run):
    result = saccade("predict", run, stdin=None)
    assert result.code == 2
    assert "stdin is closed; pass inputs as arguments" in result.err


class _Terminal(io.TextIOWrapper):
    def __init__(self, content: bytes = b"") -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        return self.buffer.getvalue().decode()


def test_prompts_when_stdin_is_a_keyboard(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", _Terminal(b"a b\n"))
    predict.run(run)
    out, err = capsys.readouterr()
    assert err == "Reading inputs from the keyboard, one per line; Ctrl-D ends.\n"
    assert out.count("\n") == 1


@pytest.mark.parametrize("to_file", [True, False])
def test_progress_is_hidden_if_the_terminal_shows_predictions(run, monkeypatch, tmp_path, to_file):
    monkeypatch.setenv("TERM", "xterm")
    console, path, output = _Terminal(), tmp_path / "in.txt", tmp_path / "out.txt"
    path.write_text("\n".join(letters(9)))
    monkeypatch.setattr(sys, "stderr", console)
    monkeypatch.setattr(sys, "stdout", _Terminal())
    predict.run(run, input_=path, output=output if to_file else None)
    assert ("predicted:" in console.text()) == to_file
    if to_file:
        assert len(output.read_text().splitlines()) == 9


def test_a_folder_of_texts_is_predicted_by_name(saccade, run, answers, tmp_path):
    (tmp_path / "b.txt").write_text(INPUTS[1] + "\n")
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + INPUTS[0].encode())
    (tmp_path / "notes.md").write_text("not an input")
    expected = [f"a.txt\t{answers[0]}", f"b.txt\t{answers[1]}"]
    assert saccade("predict", run, f"{tmp_path}/").lines == expected
    assert saccade("predict", run, "--input", tmp_path).lines == expected
    lines = saccade("predict", run, "--input", tmp_path, "--json").lines
    records = [json.loads(line) for line in lines]
    assert [(record["file"], record["input"]) for record in records] == [
        ("a.txt", INPUTS[0]),
        ("b.txt", INPUTS[1]),
    ]


def test_raises_on_a_folder_without_inputs(saccade, run, tmp_path):
    result = saccade("predict", run, "--input", tmp_path)
    assert result.code == 2
    assert "holds no .txt files" in result.err
    assert saccade("predict", run, "--stream", f"{tmp_path}/").code == 2


def test_a_text_like_the_name_of_a_folder_is_a_text(saccade, run, tmp_path, monkeypatch):
    (tmp_path / "abc").mkdir()
    monkeypatch.chdir(tmp_path)
    assert saccade("predict", run, "abc").code == 0


def test_a_folder_of_images_is_read_by_name(tmp_path):
    for name in ("b.PNG", "a.jpg", "c.txt", ".hidden.png"):
        (tmp_path / name).write_bytes(b"")
    folder = InputFolder.of([str(tmp_path)], None, "image")
    assert folder.names == ["a.jpg", "b.PNG"]
    assert list(folder.chunks(1)) == [[f"{tmp_path}/a.jpg"], [f"{tmp_path}/b.PNG"]]
    assert InputFolder.of([f"{tmp_path}/a.jpg"], None, "image") is None
    assert InputFolder.of(["a" * 10_000], None, "image") is None


@pytest.fixture(scope="module")
def moods(tmp_path_factory):
    """Data with 1 rare label of 20, and a run on it that has not been trained."""
    folder = tmp_path_factory.mktemp("moods")
    rows = [("text", "label"), *((f"text {i}", "sad" if i == 7 else "calm") for i in range(20))]
    small = ("dim=16", "encoder.num_layers=1", "encoder.num_heads=2", "encoder.hidden_dim=16")
    changes = [f"model.{change}" for change in small]
    tiny.made(folder / "run", "bert-mini", rows, *changes, "text.vocabulary.size=300", noise=0.1)
    return folder / "rows.tsv", folder / "run"


def test_labels_on_a_terminal_have_their_confidence(saccade, moods, tmp_path, monkeypatch):
    run = moods[1]
    with monkeypatch.context() as patch:
        patch.setattr(predict, "_on_terminal", lambda: True)
        [line] = saccade("predict", run, "text 1").lines
    label, confidence = re.fullmatch(r"(calm|sad)  (\d+) %", line).groups()
    [table] = map(json.loads, saccade("predict", run, "text 1", "--json").lines)
    assert table["label"] == label
    assert table["confidence"] == table["probabilities"][label]
    assert f"{100 * table['confidence']:.0f}" == confidence
    assert table["score"] < 0
    assert saccade("predict", run, "text 1").lines == [label]
    assert saccade("predict", run, stdin=b"text 1\n").lines == [label]
    saccade("predict", run, "text 1", "--output", tmp_path / "labels.txt")
    assert (tmp_path / "labels.txt").read_text() == f"{label}\n"


def test_evaluate_prints_precision_and_recall_per_class(saccade, moods):
    data, run = moods
    result = saccade("evaluate", run, "--data", data)
    assert result.code == 0
    table = [line.split() for line in result.lines]
    assert ["class", "precision", "recall", "F1", "support"] in table
    [calm] = [row for row in table if row[0] == "calm"]
    assert calm[-1] == "19"
    assert "95.0 % of the labels are 'calm', so accuracy says little" in result.err
    report = json.loads(saccade("evaluate", run, "--data", data, "--json").out)
    assert [row["label"] for row in report["per_class"]] == ["calm", "sad"]
    assert set(report["per_class"][0]) == {"label", "precision", "recall", "f1", "support"}
    assert "balanced accuracy" in report["remarks"][0]


def test_json_of_generated_text_has_the_geometric_mean_of_its_tokens(saccade, run):
    [table] = map(json.loads, saccade("predict", run, "a b", "--beam", 1, "--json").lines)
    assert 0 < table["confidence"] < 1
    assert table["confidence"] == pytest.approx(math.exp(table["score"]))  # length_penalty is 1


def test_json_marks_cut_inputs_and_lines_come_back_as_lines(saccade, run):
    long = "a b c " * 400
    [table] = map(json.loads, saccade("predict", run, long, "--json", "--no-split-long").lines)
    assert table["truncated"] is True
    [table] = map(json.loads, saccade("predict", run, long, "--json", "--split-long").lines)
    assert table["truncated"] is False
    assert len(table["pieces"]) > 1
    several = saccade("predict", run, "a b c\n\np o")
    assert several.lines == [
        *saccade("predict", run, "a b c").lines,
        "",
        *saccade("predict", run, "p o").lines,
    ]
    aligned = saccade("predict", run, "a b c\n\np o", "--align", "--json")
    [table] = map(json.loads, aligned.lines)
    for link, spans in zip(table["alignment"].split(), table["spans"], strict=True):
        source, target = map(int, link.split("-"))
        assert "a b c\n\np o"[slice(*spans["input"])] == "abcpo"[source]
        assert table["text"][slice(*spans["text"])] == table["text"].split()[target]
