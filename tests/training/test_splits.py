"""Splits of training runs: the record in run.json, old runs, held-out rows, images."""

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from saccade.data.sources import open_corpus
from saccade.errors import BrokenImagesError, DataError, RunError
from saccade.training import session
from saccade.training.console import Console
from saccade.training.run import Run

SMALL = (
    "model.encoder.num_layers=1",
    "model.encoder.num_heads=2",
    "model.dim=8",
    "model.encoder.hidden_dim=8",
    "text.vocabulary.size=300",
    "text.max_length=16",
)
IMAGES = ("image.size=4", "model.widths=[2,2]", "model.blocks=1")


class Lines(Console):
    """A console that keeps its lines."""

    def __init__(self):
        super().__init__(quiet=True)
        self.lines = []

    def notify(self, text):
        self.lines.append(text)


def train(data, out, changes=SMALL, recipe="bert-mini", **options):
    console = Lines()
    options = {"max_steps": 1, "device": "cpu", "cache": out.parent / "cache", **options}
    session.train(recipe, data=data, out=out, changes=changes, console=console, **options)
    return console.lines


def write(path: Path, rows) -> Path:
    path.write_text("text\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in rows))
    return path


def about(run):
    return json.loads((run / "run.json").read_text())


ROWS = [(f"word{i} and {'good' if i % 2 else 'bad'}", "ny"[i % 2]) for i in range(60)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A file with a rare label and an empty one, and a run trained on it."""
    folder = tmp_path_factory.mktemp("splits")
    data = write(folder / "data.tsv", [*ROWS, ("once", "rare"), ("nothing", " ")])
    return data, folder / "run", train(data, folder / "run")


def test_run_json_records_the_split(trained):
    _, run, lines = trained
    assert about(run)["split"] == {
        "rule": "stratified",
        "fraction": None,
        "seed": 0,
        "rows": {"train": 50, "valid": 12},
        "empty": 1,
        "shared": 0,
        "labels": {
            "n": {"train": 24, "valid": 6},
            "rare": {"train": 1, "valid": 0},
            "y": {"train": 24, "valid": 6},
        },
        "remarks": [
            'the label "rare" has only one row, which stays in training: validation cannot '
            "measure it"
        ],
    }
    assert about(run)["split"]["remarks"][0] in lines
    assert any("label is empty" in line for line in lines)


def test_evaluating_valid_of_the_training_file_measures_the_held_out_rows(trained):
    data, run, _ = trained
    task, lines = session.load(run), []

    def measured(split, file=data):
        lines.clear()
        evaluation = session.assess(task, data=file, split=split, run=run, notify=lines.append)
        return len(evaluation.answers)

    assert measured("valid") == 12
    assert f"measuring only the 12 rows that training held out of {data}" in lines
    assert measured("test") == 61
    assert any("--split valid measures only the 12 rows that were held out" in x for x in lines)
    assert "left out 1 row with an empty label" in lines
    other = write(data.parent / "other.tsv", ROWS[:8])
    assert measured("valid", other) == 8
    assert any("which is not the data that the run was trained on" in line for line in lines)
    assert measured("test", other) == 8
    assert len(lines) == 1
    with_path = session.evaluate(run, data=data, split="valid")
    assert with_path == session.assess(task, data=data, split="valid", run=run).values()


def test_resuming_keeps_the_split(trained, tmp_path, caplog):
    data, run, _ = trained
    shutil.copytree(run, tmp_path / "run")
    run = tmp_path / "run"
    before = about(run)
    with caplog.at_level(logging.WARNING):
        train(data, run, resume=True, max_steps=2)
    assert "data has changed" not in caplog.text
    assert about(run) == before
    with pytest.raises(RunError, match=r"--valid-fraction was the default, not 0\.3"):
        train(data, run, resume=True, max_steps=3, valid_fraction=0.3)


def test_a_run_without_a_record_resumes_with_the_old_rule(tmp_path, caplog):
    data = write(tmp_path / "data.tsv", ROWS)
    train(data, tmp_path / "old", split_rule="hash")
    run, record = tmp_path / "old", about(tmp_path / "old")
    assert record.pop("split")["rule"] == "hash"
    (run / "run.json").write_text(json.dumps(record))
    with caplog.at_level(logging.WARNING):
        lines = train(data, run, resume=True, max_steps=2)
    assert "data has changed" not in caplog.text
    assert "Held out for validation: 3 of 60 rows." in lines[0]
    assert Run(run).splitting() == {"rule": "hash", "valid_fraction": None, "seed": 0}
    assert session.evaluate(run, data=data, split="valid")


def test_a_run_of_format_2_resumes(tmp_path, caplog):
    run = tmp_path / "run"
    shutil.copytree(Path(__file__).with_name("format_2") / "text_classification", run)
    names = json.loads((run / "labels.json").read_text())["names"]
    rows = [(f"sentence {i}", names[i % len(names)]) for i in range(60)]
    data = write(tmp_path / "data.tsv", rows)
    options = Run(run).recipe().options
    old = open_corpus(data, options.columns, rule="hash").splits
    record = about(run)
    record["data"] = {name: split.digest() for name, split in old.items()}
    (run / "run.json").write_text(json.dumps(record))
    with caplog.at_level(logging.WARNING):
        lines = train(data, run, (), run / "recipe.toml", resume=True)
    assert "data has changed" not in caplog.text
    assert "Held out for validation: 3 of 60 rows." in lines[0]


@pytest.mark.parametrize("split", [7, {"rule": "stratified", "fraction": "x"}, {}, None])
def test_a_damaged_record_is_reported(tmp_path, split):
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text(json.dumps({"format": 2, "split": split}))
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        Run(run).splitting()


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.5, 7.0])
def test_raises_on_fractions_without_rows(tmp_path, fraction):
    data = write(tmp_path / "data.tsv", ROWS)
    with pytest.raises(DataError, match="must be above 0 and below 1"):
        train(data, tmp_path / "run", valid_fraction=fraction)


def test_a_fraction_is_held_out_and_recorded(tmp_path):
    train(write(tmp_path / "data.tsv", ROWS), tmp_path / "run", valid_fraction=0.5)
    split = about(tmp_path / "run")["split"]
    assert (split["fraction"], split["rows"]) == (0.5, {"train": 30, "valid": 30})


def test_labels_and_leaks_of_a_given_validation_set(tmp_path):
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "train.tsv", [*ROWS[:40], ("no label", "")])
    write(tmp_path / "data" / "valid.tsv", [*ROWS[38:], ("new", "unseen"), ("no label too", "")])
    lines = train(tmp_path / "data", tmp_path / "run")
    labels = json.loads((tmp_path / "run" / "labels.json").read_text())["names"]
    assert labels == ["n", "unseen", "y"]
    assert any("2 of 24 validation rows have inputs" in line for line in lines)
    assert any('"unseen" has no row in the training set' in line for line in lines)
    split = about(tmp_path / "run")["split"]
    assert (split["rule"], split["shared"], split["empty"]) == ("given", 2, 2)
    evaluated = session.evaluate(tmp_path / "run", data=tmp_path / "data", split="valid")
    assert evaluated["accuracy"] >= 0


@pytest.mark.parametrize("kind", ["auto", "number"])
def test_decimal_commas_are_explained(tmp_path, kind):
    data = write(tmp_path / "data.tsv", [(f"t{i}", f"{i},5") for i in range(30)])
    with pytest.raises(DataError, match=r"data\.tsv:2: .*'0,5'.*decimal .*3\.5"):
        train(data, tmp_path / "run", (*SMALL, f"labels.kind={kind}"))


def test_numbers_are_split_without_strata(tmp_path):
    data = write(tmp_path / "data.tsv", [(f"t{i}", f"{i}.5") for i in range(30)])
    train(data, tmp_path / "run")
    split = about(tmp_path / "run")["split"]
    assert split["rows"] == {"train": 24, "valid": 6}
    assert "labels" not in split


@pytest.fixture
def photos(tmp_path):
    """24 images in two folders, four of which are broken in different ways."""
    chance = np.random.default_rng(0)
    for i in range(24):
        folder = tmp_path / "photos" / ("dark", "light")[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        low = 130 * (i % 2)
        pixels = chance.integers(low, low + 120, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    broken = [tmp_path / "photos" / "dark" / f"{i}.png" for i in (0, 2)]
    broken += [tmp_path / "photos" / "light" / f"{i}.png" for i in (1, 3)]
    broken[0].write_bytes(b"")
    broken[1].write_bytes(broken[1].read_bytes()[:60])
    broken[2].write_text("not an image")
    broken[3].write_bytes(broken[3].read_bytes()[:40])
    return tmp_path / "photos", broken


@pytest.mark.parametrize("scale", ["half", "data"])
def test_all_broken_images_are_listed_at_once(photos, tmp_path, scale):
    folder, broken = photos
    changes = (*IMAGES, f"image.scale={scale}")
    with pytest.raises(BrokenImagesError, match=r"^4 of 24 images cannot be used:") as caught:
        train(folder, tmp_path / "run", changes, "cnn-small")
    assert all(str(path) in str(caught.value) for path in broken)
    assert "--skip-broken" in str(caught.value)


def test_broken_images_can_be_skipped(photos, tmp_path):
    folder, _ = photos
    lines = train(folder, tmp_path / "run", IMAGES, "cnn-small", skip_broken=True)
    assert any("4 of 24 images left out as broken, the first: " in line for line in lines)
    record = about(tmp_path / "run")
    assert record["skipped_images"] == {"train": 4}
    assert record["split"]["rows"] == {"train": 16, "valid": 4}
    task = session.load(tmp_path / "run")
    options = {"data": folder, "skip_broken": True, "run": tmp_path / "run"}
    assert len(session.assess(task, **options).answers) == 20
    assert len(session.assess(task, split="valid", **options).answers) == 4
    for path in folder.rglob("*.png"):
        path.write_bytes(b"")
    with pytest.raises(BrokenImagesError, match=r"^24 of 24 images"):
        train(folder, tmp_path / "other", IMAGES, "cnn-small", skip_broken=True)


def test_missing_images_of_a_table_are_listed_and_skipped(photos, tmp_path):
    folder, _ = photos
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.png"))
    rows = "".join(f"{name}\t{name.split('/')[0]}\n" for name in [*names, "a.png", "b.png"])
    for split in ("train", "valid"):
        (folder / f"{split}.tsv").write_text("image\tlabel\n" + rows)
    with pytest.raises(BrokenImagesError, match=r"^4 of 52 images cannot be used:") as caught:
        train(folder, tmp_path / "run", IMAGES, "cnn-small")
    assert f"{folder}/train.tsv:26" in str(caught.value)
    assert f"{folder}/valid.tsv:27" in str(caught.value)
    train(folder, tmp_path / "run", IMAGES, "cnn-small", skip_broken=True)
    assert about(tmp_path / "run")["skipped_images"] == {"train": 6, "valid": 6}
    with pytest.raises(DataError, match="--skip-broken is for images"):
        train(write(tmp_path / "data.tsv", ROWS), tmp_path / "text", skip_broken=True)
