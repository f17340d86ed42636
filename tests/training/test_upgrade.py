"""Recipes of format 1 load with the same meaning; new ones must be correct."""

import json
from pathlib import Path

import pytest
import tomlkit

from saccade.attention import LowRankConfig, ScaledDotConfig
from saccade.errors import RecipeError
from saccade.positions import LearnedConfig, RelativeConfig, RotaryConfig
from saccade.training import recipe
from saccade.training.run import Run
from saccade.training.upgrade import FORMAT, upgraded
from tests.training.runs import train

FOLDER = Path(__file__).with_name("format_1")
"""Recipes with every key written out, as a run of format 1 has them."""


@pytest.fixture(params=["run", "recipe"])
def load(request, tmp_path):
    """Read a recipe as that of a run of format 1, or as a file to train with."""

    def read(text):
        path = tmp_path / "recipe.toml"
        path.write_text(text)
        if request.param == "recipe":
            return recipe.load(path)
        (tmp_path / "run.json").write_text(json.dumps({"format": 1}))
        return Run(tmp_path).recipe()

    return read


def test_a_text_model_of_format_1_loads(load):
    model = load((FOLDER / "text_to_text.toml").read_text()).options.model
    assert model.encoder.position == RotaryConfig(layout="halves")
    assert model.encoder.score == ScaledDotConfig()
    assert model.decoder.position == RelativeConfig(max_distance=5)
    assert model.decoder.score == LowRankConfig(hidden_dim=9)
    names = dict(model.build(11, 11).named_parameters())
    assert names["decoder.position.weight"].shape == (11, 6)


def test_an_image_model_of_format_1_loads(load):
    model = load((FOLDER / "image_classification.toml").read_text()).options.model
    assert model.encoder.position == LearnedConfig(grid=(9, 9))
    assert model.sized(28).build(3).encoder.position.weight.shape == (82, 96)


def test_a_key_without_effect_is_dropped_from_a_run_of_format_1_only():
    table = {"score": {"kind": "dot", "hidden_dim": 3}, "position": {"kind": "none", "length": 9}}
    assert upgraded({"model": table}, 1) == {
        "model": {"score": {"kind": "dot"}, "position": {"kind": "none"}}
    }
    for number in (None, FORMAT):
        assert upgraded({"model": table}, number) == {"model": table}


def test_raises_on_a_new_recipe_with_keys_of_another_kind(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'task = "text_to_text"\nmodel = {encoder = {position = {kind = "rotary", fuse = "add"}}, '
        'decoder = {kind = "transformer"}}\n'
    )
    with pytest.raises(RecipeError) as rejected:
        recipe.load(path)
    assert str(rejected.value) == (
        f"{path}: model.encoder.position.fuse is not known for kind rotary. It is a key of kind "
        "sinusoidal, learned. Known here: kind, base, layout"
    )


def test_a_run_of_format_1_predicts_and_resumes(place):
    trained = train(place, "run", max_steps=2)
    path = place / "run" / "recipe.toml"
    table = recipe.parse(path.read_text(), "recipe")
    assert table["model"]["encoder"]["position"] == {"kind": "none"}
    every = {"fuse": "add", "width": 32, "length": 512, "max_distance": 16, "layout": "interleaved"}
    table["model"]["encoder"]["position"] |= every
    path.write_text(tomlkit.dumps(table))
    (place / "run" / "MANIFEST.json").unlink()  # format 1 may have none
    about = place / "run" / "run.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"format": 1}))
    inputs = ["a b", "c"]
    texts = [answer.text for answer in Run(place / "run").task().predict(inputs)]
    assert texts == [answer.text for answer in trained.predict(inputs)]
    train(place, "run", max_steps=3, resume=True)
