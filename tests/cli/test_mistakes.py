"""Mistakes of a newcomer: each ends with one short message that names the remedy."""

import json
import os
import socket
import sys

import numpy as np
import pytest
from PIL import Image

import saccade
from saccade.data.sources import open_corpus
from saccade.errors import SaccadeError
from saccade.training import recipe as recipes
from saccade.training.console import Console
from saccade.training.run import Run
from tests.cli.conftest import begin

LONGEST = 520
"""Characters of a message without the paths in it."""
ROWS = [f"the {word} number {i}" for i, word in enumerate(["cat", "dog", "owl", "fox"] * 10)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Files with one mistake each."""
    folder = tmp_path_factory.mktemp("mistakes")
    labelled = "".join(f"{row},{'ab'[i % 2]}\n" for i, row in enumerate(ROWS))
    texts = {
        "good.csv": f"text,label\n{labelled}",
        "other.csv": f"remark,kind\n{labelled}",
        "wide.csv": "id,remark,kind\n"
        + "".join(f"{i},{row}\n" for i, row in enumerate(labelled.splitlines())),
        "empty.csv": "",
        "header.csv": "text,label\n",
        "no_labels.csv": "text,label\n" + "".join(f"{row},\n" for row in ROWS),
        "one_label.csv": "text,label\n" + "".join(f"{row},a\n" for row in ROWS),
        "twice.csv": "text,label,text\n" + "".join(f"{row},a,b\n" for row in ROWS),
        "quotes.csv": f'text,label\n{labelled}"never closed,a\n',
        "nan.csv": "text,label\n"
        + "".join(f"{row},{i / 3}\n" for i, row in enumerate(ROWS))
        + "x,nan\n",
        "wide_row.csv": f"text,label\n{labelled}one, two,a\n",
        "two_wide_rows.csv": f"text,label\n{labelled}one, two,a\nthree,b\nfour, five,a\nsix\n",
        "latin.csv": f"text,label\n{labelled}",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "latin.csv").write_bytes(texts["good.csv"].encode() + "caf\xe9,a\n".encode("latin-1"))
    (folder / "binary.csv").write_bytes(bytes(range(128, 256)) * 20)
    (folder / "photo.csv").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(500))
    (folder / "sheet.csv").write_bytes(b"PK\x03\x04" + bytes(500))
    (folder / "sheet.xlsx").write_bytes(b"PK\x03\x04" + bytes(500))
    (folder / "no_images" / "cats").mkdir(parents=True)
    (folder / "no_images" / "cats" / "a.txt").write_text("a cat")
    (folder / "nothing").mkdir()
    for name in ("cat", "dog"):
        (folder / "photos" / name).mkdir(parents=True)
        Image.new("L", (9, 7)).save(folder / "photos" / name / "1.png")
    (folder / "no_splits").mkdir()
    (folder / "no_splits" / "mine.csv").write_text(texts["good.csv"])
    return folder


TRAININGS = {
    "a wrong path": ("nowhere.csv", (), "nowhere.csv does not exist"),
    "unknown columns": ("other.csv", (), "--columns text=remark,label=kind"),
    "unknown columns of three": ("wide.csv", (), "--columns text=NAME,label=NAME"),
    "a wrong column": ("good.csv", ("--columns", "text=txt,label=label"), 'no column "txt"'),
    "a wrong name of a column": ("good.csv", ("--columns", "texts=text"), "texts"),
    "an invalid --columns": ("good.csv", ("--columns", "text"), "name=column"),
    "an empty file": ("empty.csv", (), "is empty"),
    "a header only": ("header.csv", (), "has no rows"),
    "one label": ("one_label.csv", (), "label"),
    "labels that are all empty": ("no_labels.csv", (), "each of its 40 rows has an empty column"),
    "a folder without images": ("no_images", ("cnn-small",), "None of its files is one of .png"),
    "images for a recipe of texts": ("photos", ("bert-mini",), "a recipe for images, such as"),
    "a folder of one table": ("no_splits", ("bert-mini",), "Rename mine.csv to train.csv, or"),
    "an empty folder": ("nothing", (), "nothing"),
    "a binary file": ("binary.csv", (), "not UTF-8 at byte offset 0"),
    "an image as a table": ("photo.csv", (), "an image"),
    "a spreadsheet as CSV": ("sheet.csv", (), ".xlsx"),
    "a damaged spreadsheet": ("sheet.xlsx", (), ".xlsx"),
    "an unknown recipe": ("good.csv", ("bert-minni",), "Did you mean bert-mini"),
    "a recipe of another task": ("good.csv", ("vit-tiny",), 'no column "image"'),
    "a typo in a key": ("good.csv", ("--set", "model.dmi=3"), "model.dmi"),
    "a key without a value": ("good.csv", ("--set", "model.dim"), "model.dim"),
    "a wrong value": ("good.csv", ("--set", "model.dim=wide"), "model.dim"),
    "no minutes": ("good.csv", ("--minutes", "0"), "training.minutes cannot be 0"),
    "a header with one name twice": ("twice.csv", (), 'two columns named "text"'),
    "a label that is not a number": ("nan.csv", (), "nan"),
    "quotes that do not end": ("quotes.csv", (), "quotes.csv:42"),
    "a row with too many fields": ("wide_row.csv", (), "wide_row.csv:42"),
    "several rows with a fault": ("two_wide_rows.csv", (), "3 of 44 rows cannot be read:"),
    "the last of several rows": ("two_wide_rows.csv", (), "two_wide_rows.csv:45: expected 2"),
    "another encoding": ("latin.csv", (), "iconv -f WINDOWS-1252 -t UTF-8 latin.csv"),
    "a pair for labels": ("good.csv", ("--pair", "en-fr"), "--pair"),
    "an unknown device": ("good.csv", ("--device", "gpu"), "gpu"),
    "a fraction above 1": ("good.csv", ("--valid-fraction", "10"), "--valid-fraction 0.1"),
    "--init of nothing": ("good.csv", ("--init", "nowhere"), "nowhere"),
    "--skip-broken of texts": (
        "good.csv",
        ("--skip-broken",),
        "--skip-broken is for images and vector files",
    ),
}


def assert_helpful(result, fragment):
    assert result.code == 2, result
    assert result.out == ""
    assert result.err.startswith(("error: ", "Usage: ")), result.err
    assert fragment in result.err, result.err
    words = [word for word in result.err.split() if os.sep not in word]
    assert len(" ".join(words)) <= LONGEST, result.err
    if log := os.environ.get("MISTAKES"):
        with open(log, "a") as file:
            file.write(f"{' '.join(sys.argv)}\n    {result.err}\n")


@pytest.mark.parametrize("mistake", TRAININGS)
def test_a_training_with(mistake, saccade, place, tmp_path):
    data, more, fragment = TRAININGS[mistake]
    recipe = [*more[:1], "--data"] if more and not more[0].startswith("-") else ["--data"]
    others = more[1:] if len(recipe) > 1 else more
    out = tmp_path / "run"
    result = saccade(
        "train", *recipe, place / data, "--out", out, "--quiet", "--max-steps", 1, *others
    )
    assert_helpful(result, fragment)
    assert not out.exists()


def test_a_run_that_exists(saccade, run, pairs):
    assert_helpful(saccade("train", "reverse", "--data", pairs, "--out", run), "--resume")


def test_a_folder_with_other_files(saccade, place):
    result = saccade("train", "--data", place / "good.csv", "--out", place, "--quiet")
    assert_helpful(result, "choose a new folder")
    assert not (place / ".lock").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(saccade, place, tmp_path):
    tmp_path.chmod(0o500)
    result = saccade("train", "--data", place / "good.csv", "--out", tmp_path / "run")
    tmp_path.chmod(0o700)
    assert_helpful(result, "cannot be written")


def test_a_file_as_a_folder_of_a_run(saccade, place):
    out = place / "good.csv" / "run"
    result = saccade("train", "--data", place / "good.csv", "--out", out, "--quiet")
    assert_helpful(result, str(out.parent))


@pytest.fixture(scope="module")
def unfinished(pairs, tmp_path_factory):
    """A run that has not been validated yet."""
    return begin(tmp_path_factory.mktemp("runs") / "begun", "reverse", pairs, weights=False)


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["predict", "{place}"], "not a run folder"),
        (["predict", "{place}/good.csv"], "is a file"),
        (["predict", "{place}/missing", "x"], "does not exist"),
        (["predict", "{run}", "--beem", "3", "x"], "No such option"),
        (["predict", "{run}", "--input", "{place}/missing.txt"], "missing.txt does not exist"),
        (["predict", "{run}", "--beam", "0", "x"], "greater than or equal to 1"),
        (
            ["predict", "{run}", "--skip-broken", "x"],
            "--skip-broken is for images and vector files",
        ),
        (["evaluate", "{run}", "--data", "{place}/good.csv"], "source"),
        (["evaluate", "{run}", "--data", "{pairs}", "--split", "tests"], "tests"),
        (["evaluate", "{unfinished}", "--data", "{pairs}"], "--resume"),
        (["predict", "{unfinished}", "x"], "has no weights yet"),
        (["export", "{photos}/run", "--to", "ctranslate2", "{place}/out"], "such as onnx"),
        (
            ["train", "bert-mini", "--data", "{pairs}", "--out", "{run}", "--resume"],
            "was begun for the task text_to_text",
        ),
        (["export", "{run}", "--to", "tflite", "{place}/out"], "tflite"),
        (["export", "{run}", "{place}/out"], "Format to write: ctranslate2, huggingface or onnx"),
        (["export", "{run}", "--to", "onnx", "{place}"], "is not empty"),
        (["compare", "rnn", "rnnn", "--data", "{pairs}", "--out", "{place}/c"], "rnnn"),
        (["inspect", "{place}/missing.csv"], "does not exist"),
        (["show", "{place}"], "not a run folder"),
        (["clean", "{place}"], "not a run folder"),
        (["import", "{place}", "--out", "{place}/run"], "config.json"),
        (["demo", "captions"], "caption"),
        (["trian"], "No such command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_with(arguments, fragment, saccade, run, unfinished, photos, pairs, place):
    places = {"run": run, "pairs": pairs, "place": place, "photos": photos}
    places["unfinished"] = unfinished
    result = saccade(*(argument.format(**places) for argument in arguments))
    assert_helpful(result, fragment.format(**places))


def test_a_folder_of_folders(saccade, photos):
    result = saccade("predict", photos / "run", photos / "data")
    assert_helpful(result, f"Files in sub-folders such as {photos / 'data' / 'cat'} are not read")


def test_a_used_port(saccade, run):
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        port = used.getsockname()[1]
        assert_helpful(saccade("serve", run, "--port", port), "--port")


def test_no_input_gives_no_prediction(saccade, run):
    result = saccade("predict", run, stdin=b"")
    assert (result.code, result.out) == (0, "")


@pytest.mark.parametrize(
    "text",
    ["a " * 3000, "\x00\x07\x1b[31m", "\U0001f9d1\u200d\U0001f680", ""],
    ids=["long", "control characters", "emoji", "empty"],
)
def test_strange_texts_are_predicted(saccade, run, text):
    result = saccade("predict", run, "--json", stdin=text.encode() + b"\n")
    assert result.code == 0, result.err
    [answer] = map(json.loads, result.lines)
    assert answer["input"] == text


def test_a_text_that_names_a_file(saccade, run, place):
    result = saccade("predict", run, "a b", place / "good.csv")
    assert result.code == 0
    assert len(result.lines) == 2
    assert "good.csv is a file, but this run reads texts: its name is the input" in result.err
    assert saccade("predict", run, "a b").err == ""


def test_a_text_with_a_slash_that_is_too_long_for_a_path(saccade, run):
    result = saccade("predict", run, "a b c/d " * 50)
    assert (result.code, len(result.lines)) == (0, 1), result.err


@pytest.mark.parametrize(
    "mistake", ["a wrong path", "an empty file", "a typo in a key", "quotes that do not end"]
)
def test_in_python(mistake, place, tmp_path):
    data, more, fragment = TRAININGS[mistake]
    with pytest.raises(SaccadeError) as raised:
        saccade.train(
            data=place / data,
            out=tmp_path / "run",
            changes=more[1:],
            console=Console(quiet=True),
        )
    assert fragment in str(raised.value)
    assert len(str(raised.value)) <= LONGEST + 4 * len(str(place))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A run that labels images, and a folder of two good and two broken ones."""
    folder = tmp_path_factory.mktemp("photos")
    for name, colour in {"cat": 40, "dog": 200}.items():
        (folder / "data" / name).mkdir(parents=True)
        Image.new("L", (9, 7), colour).save(folder / "data" / name / "1.png")
    recipe = recipes.load("cnn-small", ["model.widths=[4,8]", "model.blocks=1", "image.size=8"])
    corpus = open_corpus(folder / "data", recipe.options.columns, valid_fraction=0.0)
    task = recipe.options.create(corpus.splits["train"])
    (folder / "run").mkdir()
    Run(folder / "run").begin(recipe, task, {})
    Run(folder / "run").keep_best(task.model)
    (folder / "new").mkdir()
    for name in ("b.png", "d.png"):
        Image.new("L", (9, 7), 90).save(folder / "new" / name)
    (folder / "new" / "a.png").write_bytes(b"")
    (folder / "new" / "c.png").write_bytes((folder / "new" / "b.png").read_bytes()[:40])
    return folder


def test_broken_images_are_listed_together(saccade, photos):
    inputs = sorted(map(str, (photos / "new").iterdir()))
    lines = ("\n".join(inputs) + "\n").encode()
    (photos / "list.txt").write_bytes(lines)
    for arguments in ([photos / "new"], inputs, ["--input", photos / "list.txt"]):
        result = saccade("predict", photos / "run", *arguments)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith("error: 2 of 4 images cannot be used:")
        assert "a.png" in result.err
        assert "c.png" in result.err
        assert result.err.endswith("leave them out with --skip-broken.\n")


def test_broken_images_are_skipped(saccade, photos):
    result = saccade("predict", photos / "run", photos / "new", "--skip-broken")
    assert result.code == 0
    assert [line.split("\t")[0] for line in result.lines] == ["b.png", "d.png"]
    assert "2 of 4 images left out as broken, the first: " in result.err
    inputs = sorted(map(str, (photos / "new").iterdir()))
    result = saccade("predict", photos / "run", *inputs, "--skip-broken", "--json")
    assert [json.loads(line)["file"] for line in result.lines] == inputs[1::2]
    text = saccade("predict", photos / "run", "a text about a cat")
    assert text.err.endswith("does not exist; check the path; this run reads images\n")
    only = saccade("predict", photos / "run", inputs[0], "--skip-broken")
    assert only.code == 2
    assert only.err.startswith(f"error: {inputs[0]} is empty")
    assert only.err.count("\n") == 1


def test_vectors_of_another_width_are_broken_files(saccade, tmp_path):
    generator = np.random.default_rng(0)
    for name, width in (("a", 3), ("b", 3), ("c", 2), ("d", 3)):
        np.save(tmp_path / f"{name}.npy", generator.normal(size=(4, width)))
    (tmp_path / "train.tsv").write_text("vectors\tlabel\na.npy\tup\nb.npy\tdown\n")
    recipe = recipes.load("vector-classifier-rnn", ["model.dim=8", "model.encoder.dim=8"])
    corpus = open_corpus(tmp_path, recipe.options.columns, valid_fraction=0.0)
    (tmp_path / "run").mkdir()
    run = Run(tmp_path / "run")
    task = recipe.options.create(corpus.splits["train"])
    run.begin(recipe, task, {})
    run.keep_best(task.model)
    files = [str(tmp_path / f"{name}.npy") for name in "acd"]
    wrong = f"{files[1]} has vectors of 2 numbers; expected 3"
    result = saccade("predict", run.folder, *files)
    assert (result.code, result.out) == (2, "")
    assert wrong in result.err
    result = saccade("predict", run.folder, *files, "--skip-broken")
    assert [line.split("\t")[0] for line in result.lines] == files[::2]
    assert f"1 of 3 vector files left out as broken, the first: {wrong}" in result.err
    assert saccade("predict", run.folder, files[1]).err.startswith(f"error: {wrong}")
