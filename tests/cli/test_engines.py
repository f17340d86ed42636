"""--engine of predict and evaluate, export to CTranslate2, and what doctor says of them."""

import json

import pytest

import saccade as front
from saccade.interop import ctranslate2
from saccade.training import session
from tests.engines import tiny

FLOAT = ("--engine", "ctranslate2-float32")


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "default_cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(ctranslate2, "require_survival", lambda *_: None)


@pytest.fixture
def transformer(tmp_path):
    tiny.translator(tmp_path / "run")
    return tmp_path / "run"


def test_predict(saccade, transformer):
    wanted = [answer.text for answer in front.load(transformer).predict(tiny.SENTENCES)]
    said = saccade("predict", transformer, *tiny.SENTENCES, *FLOAT)
    assert (said.code, said.lines) == (0, wanted)
    assert f"building ctranslate2-float32 for {transformer}, once" in said.err
    again = saccade("predict", transformer, *tiny.SENTENCES, *FLOAT)
    assert (again.lines, again.err) == (wanted, "")
    said = saccade("predict", transformer, *tiny.SENTENCES, "--engine", "eager")
    assert (said.lines, said.err) == (wanted, "")


def test_what_was_not_asked_for_is_not_explained(saccade, transformer, monkeypatch):
    monkeypatch.setattr(ctranslate2, "installed", lambda: False)
    assert saccade("predict", transformer, "the cat").err == ""
    said = saccade("predict", transformer, "the cat", "--engine", "auto")
    assert said.code == 0
    assert said.err.startswith(
        "answering with the engine eager: CTranslate2 is not installed: pip "
    )
    assert said.err.count("\n") == 1
    said = saccade("predict", transformer, "the cat", "--engine", "ctranslate2")
    assert said.code == 2
    assert said.err.startswith("error: CTranslate2 is not installed")


def test_a_recurrent_run(saccade, run, tmp_path):
    said = saccade("predict", run, "a b", "--engine", "auto")
    assert said.code == 0
    assert 'model.encoder.kind is "recurrent", and it runs Transformers only' in said.err
    said = saccade("predict", run, "a b", "--engine", "ctranslate2")
    assert said.code == 2
    assert said.err.startswith("error: CTranslate2 cannot run this model: model.encoder.kind is")
    said = saccade("export", run, "--to", "ctranslate2", tmp_path / "out")
    assert said.code == 2
    assert 'model.encoder.kind is "recurrent"' in said.err
    assert not (tmp_path / "out").exists()
    said = saccade("predict", run, "a b", "--engine", "warp")
    assert said.code == 2
    assert "there is no engine 'warp'; there are: auto, eager, ctranslate2" in said.err


def test_evaluate_names_the_engine(saccade, transformer, tmp_path):
    rows = [f"{x}\t{y}\n" for x, y in zip(tiny.SENTENCES, tiny.SENTENCES[::-1], strict=True)]
    (tmp_path / "test.tsv").write_text("source\ttarget\n" + "".join(rows))
    arguments = ("evaluate", transformer, "--data", tmp_path / "test.tsv")
    assert saccade(*arguments).lines[-1] == "over 5 items"
    assert not (transformer / "engines").exists()
    said = saccade(*arguments, *FLOAT)
    assert said.lines[-1] == "over 5 items, answered by the engine ctranslate2-float32"
    assert json.loads(saccade(*arguments, "--json").out)["engine"] == "eager"
    said = saccade(*arguments, *FLOAT, "--json")
    assert json.loads(said.out)["engine"] == "ctranslate2-float32"


def test_what_a_language_model_is_surprised_by_no_engine_measures(saccade, tmp_path):
    tiny.language_model(tmp_path / "run")
    (tmp_path / "test.txt").write_text("\n".join(tiny.SENTENCES * 5))
    said = saccade("evaluate", tmp_path / "run", "--data", tmp_path / "test.txt", *FLOAT, "--json")
    assert json.loads(said.out)["engine"] == "eager"


def test_export(saccade, transformer, tmp_path):
    said = saccade("export", transformer, "--to", "ctranslate2", tmp_path / "out")
    assert (said.code, said.err) == (0, "")
    assert said.lines[0].endswith("as ctranslate2 has it, read again and compared")
    assert "of 24 greedy answers are those of the model itself" in said.lines[1]
    assert (tmp_path / "out" / "model.bin").exists()
    said = saccade(
        "export", transformer, "--to", "ctranslate2", tmp_path / "f", "--quantization", "float32"
    )
    assert said.lines[1].startswith("24 of 24 greedy answers")
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("out", "f")]
    assert sizes[0] < 0.8 * sizes[1]
    said = saccade(
        "export", transformer, "--to", "huggingface", tmp_path / "h", "--quantization", "int8"
    )
    assert said.code == 2
    assert "--quantization is for ctranslate2, not for huggingface" in said.err
    assert not list(tmp_path.glob(".partial*"))


def test_doctor(saccade):
    assert f"engines: eager, ctranslate2 {ctranslate2.version()}" in saccade("doctor").out
