"""Tests of saccade look on runs; those on models of transformers are in tests/interop."""

import json

import numpy as np

from saccade.lens.record import AttentionRecord
from tests.pages import Seen


def test_a_run_gives_the_records_of_predict(saccade, run, tmp_path):
    saccade("predict", run, "a b c", "--beam", 1, "--attention", tmp_path / "predict.npz")
    result = saccade("look", run, "a b c", "d e", "--out", tmp_path / "look.npz")
    assert result.code == 0
    assert result.out.splitlines()[-1] == f"wrote {tmp_path / 'look.npz'}"
    record, expected = (
        AttentionRecord.load(tmp_path / f"{name}.npz") for name in ("look", "predict")
    )
    assert (record.read, record.layers) == (expected.read, expected.layers)
    assert (tmp_path / "look-2.npz").exists()
    name = record.layers[0]
    saccade("look", run, "a b c", "--layer", f"{name[:3]}*", "--out", tmp_path / "one.npz")
    one = AttentionRecord.load(tmp_path / "one.npz")
    np.testing.assert_allclose(one.weights[name], record.weights[name], atol=1e-6)


def test_an_answer_is_scored_beside_the_prediction(saccade, run, tmp_path):
    """The page has both, with the probability of each token of the given answer."""
    result = saccade("look", run, "a b c", "--answer", "c b", "--out", tmp_path / "why.html")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "c b"
    assert lines[1].split() == ["token", "probability", "prefers", "probability"]
    page = Seen((tmp_path / "why.html").read_text(encoding="utf-8"))
    [[prediction, given]] = json.loads(page.inside["script application/json"])
    assert (prediction["name"], given["name"]) == ("prediction", "your answer")
    tokens = given["scores"]["tokens"]
    assert [line.split()[0] for line in lines[2 : 2 + len(tokens)]] == [t["text"] for t in tokens]
    assert all(0 <= token["probability"] <= token["best_probability"] + 1e-6 for token in tokens)
    assert given["wrote"]["words"] == ["c", "b"]
    assert "scores" not in prediction


def test_raises_on_unusable_arguments(saccade, run, tmp_path):
    for arguments, message in (
        ((run, "a", "--out", "map.doc"), "--out map.doc: unknown file type '.doc'"),
        ((run, "a", "--pair"), "--pair needs two INPUTs, found 1"),
        ((run, "a", "--layer", "nothing"), "no layer 'nothing'"),
        ((run, "a", "b", "--answer", "a"), "there are 2 inputs and 1 answer;"),
        ((run, "a", "--answer", "a", "--out", "x.png"), "which .png cannot hold"),
        ((tmp_path, "a", "--answer", "a"), "--answer needs a run folder"),
        ((tmp_path, "a"), "has no config.json"),
        ((tmp_path / "missing", "a"), "does not exist"),
    ):
        result = saccade("look", "--out", tmp_path / "x.html", *arguments)
        assert result.code == 2
        assert message in result.err
