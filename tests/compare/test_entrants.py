"""Entrants of a comparison: names, changes, one budget and one choice of metrics."""

import pytest

from saccade.compare.entrants import TrainingBudget, entrants
from saccade.errors import RecipeError
from saccade.training import recipe as recipes
from saccade.training.recipe import UNLIMITED_STEPS


def names(*specs, changes=()):
    return [entrant.name for entrant in entrants(specs, changes)]


def limits(budget, *specs):
    trainings = [entrant.recipe.training for entrant in entrants(specs, (), budget)]
    return [(training.max_steps, training.minutes) for training in trainings]


def test_default_names_are_those_of_recipes_and_files(tmp_path):
    mine = tmp_path / "mine.v2.toml"
    mine.write_text(recipes.load("rnn").to_toml())
    assert names("rnn", str(mine), "other=rnn", f"new={mine}") == ["rnn", "mine.v2", "other", "new"]


def test_path_may_contain_an_equals_sign(tmp_path):
    folder = tmp_path / "a=b"
    folder.mkdir()
    (folder / "mine.toml").write_text(recipes.load("rnn").to_toml())
    assert names(str(folder / "mine.toml")) == ["mine"]


def test_changes_apply_to_all_recipes_or_to_one():
    changes = ["wide:model.dim=96", "model.dim=32", "training.optim.warmup=7"]
    small, wide = entrants(["small=rnn", "wide=rnn"], changes)
    assert (small.recipe.options.model.dim, wide.recipe.options.model.dim) == (32, 96)
    assert small.recipe.training.optim.warmup == wide.recipe.training.optim.warmup == 7


def test_colon_in_a_value_is_not_a_name():
    first, second = entrants(["bert-mini", "b=bert-mini"], ["labels.separator=a:b"])
    assert first.recipe.options.labels.separator == "a:b" == second.recipe.options.labels.separator


def test_all_recipes_get_the_metrics_of_the_first():
    first, second = entrants(["pronounce", "transformer-tiny"])
    assert first.recipe.options.metrics == recipes.load("pronounce").options.metrics
    assert second.recipe.options.metrics == first.recipe.options.metrics
    assert second.recipe.options.model == recipes.load("transformer-tiny").options.model


def test_budget_is_the_same_for_all_recipes():
    both = ("reverse", "rnn")
    assert limits(TrainingBudget(max_steps=70), *both) == [(70, None)] * 2
    assert limits(TrainingBudget(minutes=1.5), *both) == [(UNLIMITED_STEPS, 1.5)] * 2
    assert limits(TrainingBudget(max_steps=70, minutes=2.0), *both) == [(70, 2.0)] * 2


def test_default_budget_is_that_of_the_first_recipe():
    assert limits(None, "reverse", "rnn") == [(3000, None)] * 2
    assert limits(None, "rnn", "reverse") == [(20_000, None)] * 2


def test_tokens_become_steps_of_each_recipes_batches():
    """A batch has 2048 tokens in reverse, 1024 in rnn; a part of a batch counts as one step."""
    assert limits(TrainingBudget(tokens=20_481), "reverse", "rnn") == [(11, None), (21, None)]
    assert limits(TrainingBudget(tokens=20_480, max_steps=15), "reverse", "rnn") == [
        (10, None),
        (15, None),
    ]
    (accumulated,) = entrants(["rnn"], ["training.accumulate=2"], TrainingBudget(tokens=20_480))
    assert accumulated.recipe.training.max_steps == 10


@pytest.mark.parametrize(
    ("specs", "changes", "message"),
    [
        ([], [], "nothing to compare"),
        (["rnn", "rnn"], [], "two recipes are called rnn.*one=rnn two=rnn"),
        (["rnn", "RNN=rnn"], [], "two recipes are called RNN"),
        (
            ["rnn", "bert-mini"],
            [],
            "rnn is a recipe for text_to_text, bert-mini for text_c",
        ),
        (["transformer-tony"], [], "Did you mean transformer-tiny"),
        (["x=transformer-tony"], [], "'transformer-tony'"),
        (
            ["rnn"],
            ["run:model.dim=3"],
            "no recipe in this comparison is called 'run'; the names are: rnn",
        ),
        (["rnn"], ["rnn:model.dmi=3"], "model.dmi"),
        (["rnn"], ["model.dim"], "--set takes key=value"),
        (["-x.toml"], [], "'-x' is not a valid name for a recipe"),
        (["=rnn"], [], "is not a valid name for a recipe"),
    ],
)
def test_raises_on_invalid_recipes_and_changes(specs, changes, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match=message):
        entrants(specs, changes)


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        ({"tokens": 0}, "tokens must be at least 1"),
        ({"minutes": 0.0}, "training.minutes cannot be 0.0"),
        ({"max_steps": -1}, "training.max_steps cannot be -1"),
    ],
)
def test_raises_on_invalid_budget(invalid, message):
    with pytest.raises(RecipeError, match=message):
        entrants(["rnn"], (), TrainingBudget(**invalid))
