"""--engine of predict and evaluate, export to CTranslate2, and the engines in doctor."""

import json

import pytest

import saccade as front
from saccade.engines import choice, ready
from saccade.interop import ctranslate2
from tests.engines import tiny

FLOAT = ("--engine", "ctranslate2-float32")


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    for module in (choice, ready):
        monkeypatch.setattr(module, "user_cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(ctranslate2, "require_survival", lambda *_: None)


@pytest.fixture
def transformer(tmp_path):
    tiny.translator(tmp_path / "run")
    return tmp_path / "run"


def test_predict_with_an_engine_equals_eager(saccade, transformer):
    expected = [answer.text for answer in front.load(transformer).predict(tiny.SENTENCES)]
    result = saccade("predict", transformer, *tiny.SENTENCES, *FLOAT)
    assert (result.code, result.lines) == (0, expected)
    assert f"building ctranslate2-float32 for {transformer}, once" in result.err
    again = saccade("predict", transformer, *tiny.SENTENCES, *FLOAT)
    assert (again.lines, again.err) == (expected, "")
    result = saccade("predict", transformer, *tiny.SENTENCES, "--engine", "eager")
    assert (result.lines, result.err) == (expected, "")


def test_engine_is_explained_only_with_the_option(saccade, transformer, monkeypatch):
    monkeypatch.setattr(ctranslate2, "installed", lambda: False)
    assert saccade("predict", transformer, "the cat").err == ""
    result = saccade("predict", transformer, "the cat", "--engine", "auto")
    assert result.code == 0
    assert result.err.startswith("answering with the engine eager: CTranslate2 is not installed")
    assert result.err.count("\n") == 1
    result = saccade("predict", transformer, "the cat", "--engine", "ctranslate2")
    assert result.code == 2
    assert result.err.startswith("error: CTranslate2 is not installed")


def test_recurrent_runs_use_eager_only(saccade, run, tmp_path):
    result = saccade("predict", run, "a b", "--engine", "auto")
    assert result.code == 0
    assert 'model.encoder.kind is "recurrent", and it runs Transformers only' in result.err
    result = saccade("predict", run, "a b", "--engine", "ctranslate2")
    assert result.code == 2
    assert result.err.startswith("error: CTranslate2 cannot run this model: model.encoder.kind is")
    result = saccade("export", run, "--to", "ctranslate2", tmp_path / "out")
    assert result.code == 2
    assert 'model.encoder.kind is "recurrent"' in result.err
    assert not (tmp_path / "out").exists()
    result = saccade("predict", run, "a b", "--engine", "warp")
    assert result.code == 2
    assert "'warp' is not a valid engine; use one of: auto, eager, ctranslate2" in result.err


def test_evaluate_names_the_engine(saccade, transformer, tmp_path):
    rows = [f"{x}\t{y}\n" for x, y in zip(tiny.SENTENCES, tiny.SENTENCES[::-1], strict=True)]
    (tmp_path / "test.tsv").write_text("source\ttarget\n" + "".join(rows))
    arguments = ("evaluate", transformer, "--data", tmp_path / "test.tsv")
    assert saccade(*arguments).lines[-1] == "measured on 5 items"
    assert not (transformer / "engines").exists()
    result = saccade(*arguments, *FLOAT)
    assert result.lines[-1] == "measured on 5 items with the engine ctranslate2-float32"
    assert json.loads(saccade(*arguments, "--json").out)["engine"] == "eager"
    result = saccade(*arguments, *FLOAT, "--json")
    assert json.loads(result.out)["engine"] == "ctranslate2-float32"


def test_loss_of_a_language_model_is_measured_with_eager(saccade, tmp_path):
    tiny.language_model(tmp_path / "run")
    (tmp_path / "test.txt").write_text("\n".join(tiny.SENTENCES * 5))
    result = saccade(
        "evaluate", tmp_path / "run", "--data", tmp_path / "test.txt", *FLOAT, "--json"
    )
    assert json.loads(result.out)["engine"] == "eager"


def test_export_to_ctranslate2(saccade, transformer, tmp_path):
    result = saccade("export", transformer, "--to", "ctranslate2", tmp_path / "out")
    assert result.code == 0
    assert "writing int8 weights and comparing their answers" in result.err
    assert result.lines[0].endswith("as ctranslate2, loaded again and compared with the run")
    assert "of 24 greedy answers are those of the model itself" in result.lines[1]
    assert (tmp_path / "out" / "model.bin").exists()
    result = saccade(
        "export", transformer, "--to", "ctranslate2", tmp_path / "f", "--quantization", "float32"
    )
    assert result.lines[1].startswith("24 of 24 greedy answers")
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("out", "f")]
    assert sizes[0] < 0.8 * sizes[1]
    result = saccade(
        "export", transformer, "--to", "huggingface", tmp_path / "h", "--quantization", "int8"
    )
    assert result.code == 2
    assert "--quantization is for ctranslate2, not for huggingface" in result.err
    assert not list(tmp_path.glob(".partial*"))


def test_doctor(saccade):
    assert f"engines: eager, ctranslate2 {ctranslate2.version()}" in saccade("doctor").out
