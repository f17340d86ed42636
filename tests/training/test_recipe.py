"""Recipes: the built-in ones, every choice of a key, and the errors they raise."""

import numpy as np
import pytest
import torch

from saccade.errors import RecipeError, SaccadeError
from saccade.training import recipe
from saccade.training.optim import OptimConfig
from saccade.training.recipe import TrainingConfig, from_table, load, parse
from tests.training.runs import RECIPE

TINY = ("model.dim=16", "model.encoder.num_heads=2", "model.decoder.num_heads=2")
SMALL = (*TINY, "model.encoder.num_layers=1", "model.decoder.num_layers=1")


@pytest.mark.parametrize("name", recipe.names())
def test_every_recipe_equals_its_toml(name):
    loaded = load(name)
    assert recipe.description(name)
    text = loaded.to_toml()
    again = from_table(parse(text, "text"), "text")
    assert again == loaded
    assert again.to_toml() == text


def test_changes_apply_to_a_recipe_file(tmp_path):
    path = tmp_path / "ä b.toml"
    path.write_text(RECIPE, encoding="utf-8")
    loaded = load(path, ["training.max_steps=3", "training.optim.betas=[0.5, 0.6]"])
    assert loaded.training.max_steps == 3
    assert loaded.training.optim.betas == (0.5, 0.6)
    assert load(str(path)).training.max_steps == 12


def logits(*changes, name="transformer-tiny"):
    model = load(name, changes).options.model.build(11, 11).eval()
    tokens = torch.arange(1, 11).reshape(2, 5)
    with torch.no_grad():
        return model(tokens, tokens)


@pytest.mark.parametrize(
    "score", ["dot", "scaled_dot", "cosine", "general", "low_rank", "additive"]
)
def test_every_score_builds(score):
    for part in ("encoder", "decoder"):
        assert logits(*SMALL, f"model.{part}.score.kind={score}").isfinite().all()
    assert logits(f"model.decoder.score.kind={score}", name="reverse").isfinite().all()


@pytest.mark.parametrize("kind", ["none", "sinusoidal", "learned", "relative", "rotary", "complex"])
def test_every_position_builds(kind):
    changes = [f"model.{part}.position.kind={kind}" for part in ("encoder", "decoder")]
    assert logits(*SMALL, *changes).isfinite().all()


@pytest.mark.parametrize("fuse", ["add", "concat"])
def test_every_fuse_builds(fuse):
    parts = ("encoder", "decoder")
    changes = [f"model.{part}.position.fuse={fuse}" for part in parts]
    if fuse == "concat":
        changes += [f"model.{part}.position.width=4" for part in parts]
        changes.append("model.tie_output=false")
    assert logits(*SMALL, *changes).isfinite().all()


@pytest.mark.parametrize("order", ["pre", "post"])
def test_every_norm_order_builds(order):
    changes = [f"model.{part}.norm_order={order}" for part in ("encoder", "decoder")]
    assert logits(*SMALL, *changes).isfinite().all()


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("attention", ["none", "before", "after"])
def test_every_cell_and_attention_builds(cell, attention):
    changes = [f"model.{part}.cell={cell}" for part in ("encoder", "decoder")]
    changes.append(f"model.decoder.attention={attention}")
    assert logits(*changes, name="reverse").isfinite().all()


def test_changing_the_kind_resets_its_table():
    loaded = load("transformer-tiny", ["model.encoder.kind=recurrent", "model.encoder.cell=lstm"])
    assert loaded.options.model.encoder.kind == "recurrent"
    same = load("transformer-tiny", ["model.encoder.kind=transformer"])
    assert same.options.model.encoder.hidden_dim == 256


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "model.encoder.score.kind=cos",
            "model.encoder.score.kind cannot be 'cos'; it can be: dot, scaled_dot, cosine, "
            "general, low_rank, additive",
        ),
        (
            "model.decoder.position.kind=sin",
            "model.decoder.position.kind cannot be 'sin'; it can be: none, sinusoidal, learned, "
            "relative, buckets, relative_2d, rotary, complex, conditional",
        ),
        (
            "model.decoder.position.fuse=mul",
            "model.decoder.position.fuse cannot be 'mul'; it can be: add, concat",
        ),
        (
            "model.encoder.norm_order=mid",
            "model.encoder.norm_order cannot be 'mid'; it can be: pre, post",
        ),
        (
            "model.encoder.kind=cnn",
            "model.encoder.kind cannot be 'cnn'; it can be: transformer, recurrent",
        ),
        (
            "model.encoder.num_head=3",
            "model.encoder.num_head is not known for kind transformer. Did",
        ),
        ("training.max_step=3", "training.max_step is not known. Did you mean max_steps? Known"),
        (
            "trainin.max_steps=3",
            "trainin is not known. Did you mean training? Known here: task, mod",
        ),
        ("xyz=3", "xyz is not known. Known here: task, model, text"),
        ("model.encoder.cell=gru", "model.encoder.cell is not known for kind transformer"),
        ("model.decoder=3", "model.decoder must be a table of options, got 3"),
        ("model.encoder.score=additive", "model.encoder.score must be a table of options"),
        ("model.dim=true", "model.dim cannot be True; it can be: whole number"),
        ("model.dim='12'", "model.dim cannot be '12'; it can be: whole number"),
        ("model.dim=wide", "model.dim cannot be 'wide'; it can be: whole number"),
        ("model.dim=1.5", "model.dim cannot be 1.5; it can be: whole number"),
        (
            "training.max_steps=-1",
            "training.max_steps cannot be -1; it can be: whole number from 0",
        ),
        (
            "training.batch_tokens=0",
            "training.batch_tokens cannot be 0; it can be: whole number abo",
        ),
        (
            "training.learning_rate=nan",
            "training.learning_rate cannot be nan; it can be: number abo",
        ),
        ("training.learning_rate=inf", "training.learning_rate cannot be inf"),
        ("training.learning_rate=0", "training.learning_rate cannot be 0"),
        ("training.learning_rate=-1e-3", "training.learning_rate cannot be -0.001"),
        ("training.learning_rate='fast'", "training.learning_rate cannot be 'fast'"),
        ("training.minutes=-1", "training.minutes cannot be -1; it can be: number above 0 or none"),
        ("training.seed=-1", "training.seed cannot be -1"),
        ("training.seed=4294967296", "training.seed cannot be 4294967296"),
        ("training.seed=2020-01-01", "training.seed cannot be"),
        ("training.optim.betas=[0.9]", "training.optim.betas cannot be (0.9,)"),
        ("training.optim.betas=[0.9, 1.0]", "training.optim.betas cannot be (0.9, 1.0)"),
        ("training.average.decay=1.0", "training.average.decay cannot be 1.0"),
        ("training.average.kind=mean", "it can be: none, ema, last"),
        ("training.select_by=luck", "training.select_by cannot be 'luck'; it can be: loss, metric"),
        (
            "training.optim.schedule=step",
            "it can be: constant, inverse_sqrt, cosine, linear, stable",
        ),
        ("task=cooking", "task cannot be 'cooking'; it can be:"),
        ("training=3", "training must be a table of options, got 3"),
    ],
)
def test_raises_with_the_path_of_the_key(change, message):
    with pytest.raises(RecipeError) as caught:
        load("transformer-tiny", [change])
    assert str(caught.value).startswith("transformer-tiny: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("change", ["", "=3", "training.max_steps", "training..x=3", ".=3"])
def test_raises_on_malformed_assignments(change):
    with pytest.raises(RecipeError, match="--set takes key=value"):
        load("transformer-tiny", [change])


@pytest.mark.parametrize("change", ["text.source.size=3", "metrics.names=[]"])
def test_raises_on_values_below_the_minimum(change):
    with pytest.raises(SaccadeError, match=r"at least"):
        load("transformer-tiny", [change])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"task = ", "is not a valid TOML file"),
        (b"\xff", "cannot be read"),
        (b"", "task is missing; it can be: "),
        (b"task = 3", "task is missing"),
        (b'task = "text_to_text"', "model is missing"),
        (b'task = "text_to_text"\n[model]\n', "model.decoder is missing"),
        (b'task = "a"\ntask = "b"', "is not a valid TOML file"),
    ],
)
def test_raises_with_the_name_of_a_broken_file(tmp_path, content, message):
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(RecipeError, match=r"mine\.toml") as caught:
        load(path)
    assert message in str(caught.value)


def test_raises_on_a_missing_recipe(tmp_path):
    with pytest.raises(RecipeError, match="cannot be read"):
        load(tmp_path / "none.toml")
    with pytest.raises(
        RecipeError, match=r"no recipe 'transformer-tin'\. Did you mean transformer-t"
    ):
        load("transformer-tin")
    with pytest.raises(RecipeError, match=r"or give a file that ends with \.toml"):
        load("../secret")


def test_whole_numbers_are_accepted_for_numbers():
    assert load("reverse", ["training.learning_rate=1"]).training.learning_rate == 1
    assert load("reverse", ["training.minutes=2"]).training.minutes == 2


def test_defaults_are_valid():
    assert OptimConfig().factor(0, 0.0) == 1 / 400


def test_options_of_another_model_replace_the_recipes_own():
    same = load("vit-tiny", model={"kind": "vit", "dim": 48, "num_segments": 2}).table()["model"]
    assert (same["dim"], same["stem"], "num_segments" in same) == (48, "convolutional", False)
    other = load("cnn-small", model={"kind": "vit", "dim": 48, "patch_size": 7})
    assert other.table()["model"]["kind"] == "vit"
    assert other.table()["model"]["patch_size"] == 7


# the size of an update


@pytest.mark.parametrize(
    ("changes", "processes", "batches"),
    [
        ((), 1, 1),
        ((), 3, 1),
        (("accumulate=2",), 3, 2),
        (("update_tokens=400",), 1, 4),
        (("update_tokens=400",), 2, 4),
        (("update_tokens=400",), 4, 4),
        (("update_tokens=301",), 1, 4),
        (("update_tokens=400",), 3, 4),
        (("update_tokens=50",), 1, 1),
        (("update_tokens=400", "accumulate=3"), 2, 3),
    ],
)
def test_batches_of_an_update(changes, processes, batches):
    changes = ["training.batch_tokens=100", *(f"training.{change}" for change in changes)]
    training = load("rnn-classifier", ["training.update_tokens=0", *changes]).training
    assert training.batches_per_update() == batches
    lengths = np.full((37, 1), 10)
    plan = training.plan(lengths, rank=processes - 1, processes=processes)
    assert plan.size == batches  # whatever the number of processes
    assert len(plan.update(0)) == batches // processes


def test_raises_if_there_are_more_processes_than_batches_of_an_update():
    training = TrainingConfig(batch_tokens=100, update_tokens=400)
    for processes in (1, 2, 3, 4):
        training.require_divisible(processes)
    advice = (
        r"Start at most 4.*"
        r"--set training.update_tokens=400 --set training.batch_tokens=50;.*"
        r"--set training.update_tokens=800$"
    )
    with pytest.raises(RecipeError, match=advice):
        training.require_divisible(8)
    advised = TrainingConfig(batch_tokens=50, update_tokens=400)
    assert advised.batches_per_update() == 8


def test_the_number_of_processes_does_not_change_an_update():
    training = load(
        "rnn-classifier", ["training.batch_tokens=100", "training.update_tokens=400"]
    ).training
    lengths = np.random.default_rng(0).integers(1, 40, (300, 1))
    alone = training.plan(lengths)
    for processes in (2, 3, 4, 5):
        plans = [training.plan(lengths, rank=r, processes=processes) for r in range(processes)]
        for read in range(0, 40, 4):
            together = [batch for plan in plans for batch in plan.update(read)]
            assert sorted(index for index, _ in together) == list(range(read, read + 4))
            rows = {index: rows.tolist() for index, rows in together}
            assert rows == {index: rows.tolist() for index, rows in alone.update(read)}


def test_a_change_may_make_the_model_of_a_warm_start_valid():
    longest = {"kind": "learned", "length": 64}  # the recipe reads 256 tokens
    model = {"dim": 16, "encoder": {"num_layers": 1, "num_heads": 2, "position": longest}}
    recipe = load("transformer-tagger", ["text.max_length=64"], model)
    assert recipe.tuned == {"text.max_length": 256}
