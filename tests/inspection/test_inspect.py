"""An inspection reports planted faults exactly, and is shown as text, JSON and a page."""

import json

import pytest
from PIL import Image

from saccade.errors import DataError
from saccade.inspection import cost, inspect
from saccade.inspection.cost import Trial, measure_cost, perform
from saccade.training import recipe as recipes

SMALL = (
    "model.dim=16",
    "model.encoder.num_layers=1",
    "model.encoder.num_heads=2",
    "model.encoder.hidden_dim=16",
    "text.vocabulary.size=300",
    "training.batch_tokens=256",
    "training.max_steps=50",
)
LABELS = ("sport", "culture", "science")


def planted_rows():
    """Return 60 rows, then 5 duplicates, 2 spellings of other labels and an empty row."""
    rows = [f"a text about subject number {i},{LABELS[i % 3]}" for i in range(60)]
    spellings = ["another text in capitals,Sport", "another text with a capital,Science"]
    return [*rows, *rows[3:8], *spellings, ",culture"]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Data with 5 duplicates, 3 leaks, 2 variants of labels and 1 empty row."""
    folder = tmp_path_factory.mktemp("planted")
    rows = planted_rows()
    valid = [f"a question about subject number {i},{LABELS[i % 3]}" for i in range(9)]
    (folder / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (folder / "valid.csv").write_text("\n".join(["text,label", *valid, *rows[10:13]]) + "\n")
    return folder


@pytest.fixture(scope="module")
def inspection(planted):
    return inspect(planted, changes=SMALL, trial=0.2)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of 12 images, 4 of them broken."""
    folder = tmp_path_factory.mktemp("photos")
    for name in ("cat", "dog"):
        (folder / name).mkdir()
        for number in range(6):
            colour = (number * 9, 40 * (name == "dog"), 200)
            Image.new("RGB", (20 + number, 16), colour).save(folder / name / f"{number}.png")
    for name in ("cat/0.png", "cat/1.png", "dog/5.png"):
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])
    (folder / "dog/4.png").write_bytes(b"")
    return folder


def test_planted_faults_are_reported_exactly(inspection):
    train, valid = inspection.survey.splits["train"], inspection.survey.splits["valid"]
    assert (train.rows, valid.rows) == (68, 12)
    assert (train.duplicates.count, valid.duplicates.count) == (5, 0)
    assert [(leak.split, leak.other, leak.count) for leak in inspection.survey.leaks] == [
        ("valid", "train", 3)
    ]
    assert train.labels.extra_spellings == 2
    assert (train.empty.count, valid.empty.count) == (1, 0)
    assert (train.broken.count, train.contradictions.count) == (0, 0)


def test_text_begins_lines_with_numbers(inspection):
    lines = [line.split() for line in inspection.summary().splitlines()]
    for words in (
        "5 duplicates in train",
        "3 rows of valid also in train",
        "2 labels different from another only in case or spaces",
        "1 row with an empty column in train",
        "68 train",
        "12 valid",
    ):
        assert words.split() in lines
    assert "> bert-mini" in inspection.summary()
    assert "train.csv:62 repeats" in inspection.summary()


def test_json_contains_everything(inspection):
    table = json.loads(json.dumps(inspection.as_json()))
    train = table["survey"]["splits"]["train"]
    assert train["duplicates"]["count"] == 5
    assert train["labels"]["variants"][0] == [["sport", 22], ["Sport", 1]]
    assert table["survey"]["leaks"][0]["count"] == 3
    assert table["choice"]["recipe"] == "bert-mini"
    assert table["cost"]["minutes_per_epoch"] > 0
    assert table["complete"]


def test_page_is_self_contained_and_escapes_labels(planted, tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("text\tlabel\n" + "".join(f"text {i}\t<b>{i % 2}</b>\n" for i in range(9)))
    page = inspect(path, trial=0.0).page()
    assert "&lt;b&gt;1&lt;/b&gt;" in page
    assert "<b>1" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "bert-mini" in page


def test_cost_is_measured_in_a_child_process(inspection):
    measured = inspection.cost
    assert measured.recipe == "bert-mini"
    assert measured.updates >= 3
    assert measured.peak_memory > 50e6
    assert measured.minutes_per_epoch == pytest.approx(
        measured.seconds_per_update * measured.updates_per_epoch / 60
    )
    assert measured.tokens.limit == 128
    assert measured.tokens.above == 0.0
    assert "per epoch" in inspection.summary()


def test_cost_scales_from_the_sample_to_the_data(tmp_path, monkeypatch):
    path = tmp_path / "x.tsv"
    rows = [f"{'word ' * (1 + i % 7)}{i}\t{i % 2}\n" for i in range(600)]
    path.write_text("text\tlabel\n" + "".join(rows))
    trial = Trial(recipe="bert-mini", data=str(path), changes=SMALL, seconds=0.0)
    complete = perform(trial)
    monkeypatch.setattr(cost, "ENCODED", 100)
    sampled = perform(trial)
    assert sampled.updates_per_epoch == pytest.approx(complete.updates_per_epoch, rel=0.2)
    assert sampled.epochs == pytest.approx(50 / sampled.updates_per_epoch)


def test_rows_above_the_limit_are_measured(tmp_path):
    path = tmp_path / "x.tsv"
    rows = [f"{i} {'a ' * (100 if i % 4 == 0 else 3)}\t{i % 2}\n" for i in range(40)]
    path.write_text("text\tlabel\n" + "".join(rows))
    changes = (*SMALL, "text.max_length=32")
    trial = Trial(recipe="bert-mini", data=str(path), changes=changes, seconds=0.0)
    assert perform(trial).tokens.above == pytest.approx(0.25, abs=0.1)


def test_a_failed_trial_is_a_reason_and_not_an_error(planted, monkeypatch):
    def fail(trial):
        raise cost.TrainingError("no weights")

    monkeypatch.setattr("saccade.inspection.record.measure_cost", fail)
    inspection = inspect(planted)
    assert (inspection.cost, inspection.cost_error) == (None, "no weights")
    assert "not measured: no weights" in inspection.summary()


def test_the_error_of_a_child_process_is_its_last_line(tmp_path):
    with pytest.raises(cost.TrainingError, match="does not exist"):
        measure_cost(Trial(recipe="bert-mini", data=str(tmp_path / "nothing.tsv")))


def test_broken_images_are_reported_exactly(photos):
    inspection = inspect(photos, trial=0.0)
    broken = sum(split.images.broken.count for split in inspection.survey.splits.values())
    places = [
        place for split in inspection.survey.splits.values() for place in split.images.broken.first
    ]
    assert broken == 4
    names = ("cat/0.png", "cat/1.png", "dog/4.png", "dog/5.png")
    for name in names:
        assert any(name in place for place in places)
    assert "broken images" in inspection.summary()
    assert inspection.recipe == "cnn-small"


def test_a_row_that_cannot_be_read_is_reported(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("text\tlabel\none\ta\ntwo\tb\nthree\n")
    inspection = inspect(path, trial=0.0)
    assert inspection.survey.splits["train"].broken.count == 1
    assert "x.tsv:4: expected 2 columns" in inspection.summary()
    assert inspection.as_json()["complete"]
    path.write_bytes(path.read_bytes() + "caf\xe9\ta\n".encode("latin-1") + b"five\ta\n")
    ended = inspect(path, trial=0.0)
    assert ended.survey.splits["train"].broken.count == 2
    assert "reading ended there" in ended.summary()
    assert not ended.as_json()["complete"]


def test_all_broken_rows_are_listed_and_the_rest_is_measured(tmp_path):
    rows = [f"sentence {i}\t{'ab'[i % 2]}" for i in range(20)]
    rows[3], rows[11] = "three\ta\tb", "eleven"
    path = tmp_path / "x.tsv"
    path.write_text("\n".join(["text\tlabel", *rows]) + "\n")
    inspection = inspect(path, trial=0.0, valid_fraction=0.5)
    train, valid = (inspection.survey.splits[name] for name in ("train", "valid"))
    assert (train.broken.count, valid.broken.count) == (2, 0)
    assert train.rows + valid.rows == 18
    assert 7 <= valid.rows <= 11
    assert "x.tsv:5: expected 2 columns" in inspection.summary()
    assert "x.tsv:13: expected 2 columns" in inspection.summary()
    with pytest.raises(DataError, match="--skip-broken is for images"):
        inspect(path, trial=0.0, skip_broken=True)


def test_a_named_recipe_is_used(planted):
    inspection = inspect(planted, "rnn-classifier", trial=0.0)
    assert (inspection.recipe, inspection.choice) == ("rnn-classifier", None)
    assert {fit.recipe for fit in inspection.fits} >= {"bert-mini", "rnn-classifier"}
    with pytest.raises(DataError, match="source"):
        inspect(planted, "transformer-tiny", trial=0.0)


def test_the_trial_of_every_text_task_runs(tmp_path):
    (tmp_path / "book.txt").write_text("It was a dark and stormy night.\n" * 100)
    small = ["model.dim=16", "model.decoder.num_layers=1", "training.batch_tokens=256"]
    trial = Trial(
        recipe="gpt-char", data=str(tmp_path / "book.txt"), changes=tuple(small), seconds=0.0
    )
    measured = perform(trial)
    assert measured.tokens is None
    assert measured.parameters > 0
    assert recipes.load("gpt-char").training.max_steps * measured.seconds_per_update == (
        pytest.approx(60 * measured.minutes)
    )
