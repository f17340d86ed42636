"""Run folders that version 0.1.0 wrote (format 2) still load and give the same predictions."""

import json
from pathlib import Path

import numpy as np
import pytest

import saccade

FOLDER = Path(__file__).with_name("format_2")
"""Tiny trained runs, and the predictions of the version that trained them."""
PREDICTIONS = json.loads((FOLDER / "predictions.json").read_text())


@pytest.mark.parametrize("name", PREDICTIONS)
def test_a_run_of_format_2_gives_the_same_predictions(name):
    expected = PREDICTIONS[name]
    inputs = [x if isinstance(x, str) else np.array(x, np.uint8) for x in expected["inputs"]]
    answers = saccade.load(FOLDER / name).predict(inputs, attention=True)
    for answer, old in zip(answers, expected["answers"], strict=True):
        assert answer.text == old["text"]
        assert answer.score == pytest.approx(old["score"], abs=1e-5)
        assert dict(getattr(answer, "probabilities", {})) == pytest.approx(
            old.get("probabilities", {}), abs=1e-5
        )
        weights = answer.attention.weights
        assert weights.keys() == old["attention"].keys()
        for layer, first in old["attention"].items():
            assert weights[layer].mean(0).ravel()[:24] == pytest.approx(first, abs=1e-5)
