"""What is compared: names, changes, one budget and one choice of metrics for all."""

import pytest

from saccade.compare.entrants import NO_END, Budget, entrants
from saccade.errors import RecipeError
from saccade.training import recipe as recipes


def names(*given, changes=()):
    return [entrant.name for entrant in entrants(given, changes)]


def limits(budget, *given):
    found = [entrant.recipe.training for entrant in entrants(given, (), budget)]
    return [(training.max_steps, training.minutes) for training in found]


def test_names_are_those_of_recipes_and_files_unless_given(tmp_path):
    mine = tmp_path / "mine.v2.toml"
    mine.write_text(recipes.load("rnn").to_toml())
    assert names("rnn", str(mine), "other=rnn", f"new={mine}") == ["rnn", "mine.v2", "other", "new"]


def test_a_path_may_hold_an_equals_sign(tmp_path):
    folder = tmp_path / "a=b"
    folder.mkdir()
    (folder / "mine.toml").write_text(recipes.load("rnn").to_toml())
    assert names(str(folder / "mine.toml")) == ["mine"]


def test_changes_for_all_and_for_one():
    changes = ["wide:model.dim=96", "model.dim=32", "training.optim.warmup=7"]
    small, wide = entrants(["small=rnn", "wide=rnn"], changes)
    assert (small.recipe.options.model.dim, wide.recipe.options.model.dim) == (32, 96)
    assert small.recipe.training.optim.warmup == wide.recipe.training.optim.warmup == 7


def test_a_colon_in_a_value_is_no_name():
    first, second = entrants(["bert-mini", "b=bert-mini"], ["labels.separator=a:b"])
    assert first.recipe.options.labels.separator == "a:b" == second.recipe.options.labels.separator


def test_all_have_the_metrics_of_the_first():
    first, second = entrants(["pronounce", "transformer-tiny"])
    assert first.recipe.options.metrics == recipes.load("pronounce").options.metrics
    assert second.recipe.options.metrics == first.recipe.options.metrics
    assert second.recipe.options.model == recipes.load("transformer-tiny").options.model


def test_the_budget_is_the_same_for_all():
    both = ("reverse", "rnn")
    assert limits(Budget(max_steps=70), *both) == [(70, None)] * 2
    assert limits(Budget(minutes=1.5), *both) == [(NO_END, 1.5)] * 2
    assert limits(Budget(max_steps=70, minutes=2.0), *both) == [(70, 2.0)] * 2


def test_without_a_budget_it_is_that_of_the_first():
    assert limits(None, "reverse", "rnn") == [(3000, None)] * 2
    assert limits(None, "rnn", "reverse") == [(20_000, None)] * 2


def test_tokens_become_steps_of_each_recipes_batches():
    """2048 a batch of reverse, 1024 of rnn; what is begun of a batch is one."""
    assert limits(Budget(tokens=20_481), "reverse", "rnn") == [(11, None), (21, None)]
    assert limits(Budget(tokens=20_480, max_steps=15), "reverse", "rnn") == [(10, None), (15, None)]
    (accumulated,) = entrants(["rnn"], ["training.accumulate=2"], Budget(tokens=20_480))
    assert accumulated.recipe.training.max_steps == 10


@pytest.mark.parametrize(
    ("given", "changes", "said"),
    [
        ([], [], "nothing to compare"),
        (["rnn", "rnn"], [], "two of the recipes are called rnn.*one=rnn two=rnn"),
        (["rnn", "RNN=rnn"], [], "two of the recipes are called RNN"),
        (["rnn", "bert-mini"], [], "rnn is of text_to_text and bert-mini of text_classification"),
        (["transformer-tony"], [], "Did you mean transformer-tiny"),
        (["x=transformer-tony"], [], "there is no recipe 'transformer-tony'"),
        (["rnn"], ["run:model.dim=3"], "no recipe here is called 'run'; there are: rnn"),
        (["rnn"], ["rnn:model.dmi=3"], "model.dmi"),
        (["rnn"], ["model.dim"], "--set takes key=value"),
        (["-x.toml"], [], "cannot be the name of a folder"),
        (["=rnn"], [], "cannot be the name of a folder"),
    ],
)
def test_mistakes_are_named(given, changes, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match=said):
        entrants(given, changes)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tokens": 0}, "tokens must be at least 1"),
        ({"minutes": 0.0}, "training.minutes cannot be 0.0"),
        ({"max_steps": -1}, "training.max_steps cannot be -1"),
    ],
)
def test_wrong_budgets(wrong, said):
    with pytest.raises(RecipeError, match=said):
        entrants(["rnn"], (), Budget(**wrong))
