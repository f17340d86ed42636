"""saccade inspect, and saccade train without a recipe."""

import json

from saccade.training.run import Run


def labelled(path):
    rows = [f"text number {i},{'yes' if i % 2 else 'no'}" for i in range(30)]
    path.write_text("\n".join(["text,label", *rows, *rows[:2]]) + "\n")
    return path


def test_prints_what_the_data_holds(saccade, tmp_path):
    result = saccade("inspect", labelled(tmp_path / "x.csv"), "--trial", 0)
    assert result.code == 0
    assert "2  duplicates in train" in result.out
    assert "recipe bert-mini, chosen because" in result.out


def test_prints_json_alone_on_stdout_and_writes_a_page(saccade, tmp_path):
    page = tmp_path / "page.html"
    path = labelled(tmp_path / "x.csv")
    result = saccade("inspect", path, "rnn-classifier", "--trial", 0, "--json", "--page", page)
    table = json.loads(result.out)
    assert table["recipe"] == "rnn-classifier"
    assert table["survey"]["splits"]["train"]["labels"]["counts"].keys() == {"no", "yes"}
    assert page.read_text().startswith("<!doctype html>")


def test_columns_can_be_assigned(saccade, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("review,stars\ngood,5\nbad,1\n")
    result = saccade("inspect", path, "--columns", "text=review,label=stars", "--trial", 0)
    assert 'label = column "stars"' in result.out


def test_an_unknown_file_is_one_line(saccade, tmp_path):
    result = saccade("inspect", tmp_path / "nothing.csv")
    assert result.code == 2
    assert result.err.startswith("error: ")
    assert "nothing.csv does not exist" in result.err


def test_training_without_a_recipe_explains_its_choice(saccade, pairs, tmp_path):
    out = tmp_path / "run"
    options = ["--data", pairs, "--out", out, "--cache", tmp_path, "--device", "cpu"]
    small = ["--set=model.dim=16", "--set=model.encoder.dim=16", "--set=model.decoder.dim=16"]
    result = saccade("train", *options, *small, "--max-steps", 2)
    assert result.code == 0
    assert "recipe reverse, chosen because" in result.err
    about = Run(out).about()
    assert about["choice"]["recipe"] == "reverse"
    assert about["inspection"]["notes"] == []
    assert about["inspection"]["rows_read"]["train"] > 0
    resumed = saccade("train", *options, "--max-steps", 3, "--resume")
    assert resumed.code == 0
    assert "chosen because" not in resumed.err
    assert Run(out).recipe().training.max_steps == 3


def test_training_prints_remarks_about_the_data(saccade, tmp_path):
    path = labelled(tmp_path / "x.csv")
    options = ["--out", tmp_path / "run", "--cache", tmp_path, "--device", "cpu", "--max-steps", 0]
    small = ["--set=model.dim=16", "--set=model.encoder.num_layers=1"]
    small += ["--set=model.encoder.num_heads=2", "--set=text.vocabulary.size=300"]
    result = saccade("train", "bert-mini", "--data", path, *options, *small)
    assert "2 duplicates in train; the first: " in result.err
    assert Run(tmp_path / "run").about()["inspection"]["notes"][0].startswith("2 duplicates")
