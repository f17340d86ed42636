"""Every key of a model's options changes the model, or the recipe is rejected with that key."""

from dataclasses import fields, is_dataclass, replace
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

import pytest
import torch

from saccade.attention import ScoreConfig
from saccade.config import kinds
from saccade.errors import RecipeError, SaccadeError
from saccade.positions import PositionConfig
from saccade.training import recipe

V = 31
BUILDERS = {
    "text_to_text": lambda model: model.build(V, V),
    "language_modeling": lambda model: model.build(V),
    "masked_language_modeling": lambda model: model.build(V),
    "text_classification": lambda model: model.build(V, 3),
    "tagging": lambda model: model.build(V, 3),
    "vector_classification": lambda model: model.build(5, 3),
    "vector_to_text": lambda model: model.build(5, V),
    "image_classification": lambda model: model.sized(32).build(3),
    "image_to_text": lambda model: replace(model, encoder=model.encoder.sized(64)).build(V),
}
SMALL = {
    "transformer": {"num_layers": 2, "num_heads": 4, "hidden_dim": 16},
    "recurrent": {"dim": 12},
    "vit": {"dim": 64, "encoder": {"num_layers": 1, "num_heads": 4, "hidden_dim": 16}},
    "resnet": {"widths": [4, 8]},
}
# the path of a file of weights, which is read when a task is prepared; the network is fixed
ELSEWHERE = {"model.encoder.weights", "model.weights"}


def tables():
    """Small tables of options for each task and each kind of its parts."""
    reader, writer = SMALL["transformer"], SMALL["transformer"]
    for encoder in ("transformer", "recurrent"):
        for decoder in ("transformer", "recurrent"):
            model = {
                "dim": 48,
                "encoder": {"kind": encoder, **SMALL[encoder]},
                "decoder": {"kind": decoder, **SMALL[decoder]},
            }
            yield f"{encoder}-{decoder}", {"task": "text_to_text", "model": model}
        vectors = {"dim": 48, "encoder": {"kind": encoder, **SMALL[encoder]}}
        short = {"max_length": 100}
        for task, parts in (
            ("vector_classification", {}),
            ("vector_to_text", {"decoder": {"kind": "transformer", **writer}}),
        ):
            yield (
                f"{task}-{encoder}",
                {
                    "task": task,
                    "model": {**vectors, **parts},
                    "vectors": short,
                },
            )
        for task in ("masked_language_modeling", "text_classification", "tagging"):
            model = {"dim": 48, "encoder": {"kind": encoder, **SMALL[encoder]}}
            if task == "masked_language_modeling" and encoder == "recurrent":
                model["encoder"]["dim"] = 24  # as wide as the embeddings, in both directions
            yield f"{task}-{encoder}", {"task": task, "model": model}
    yield "gpt", {"task": "language_modeling", "model": {"dim": 48, "decoder": writer}}
    for kind in ("vit", "resnet"):
        yield kind, {"task": "image_classification", "model": {"kind": kind, **SMALL[kind]}}
        model = {
            "dim": 48,
            "encoder": {"kind": kind, **SMALL[kind]},
            "decoder": {"kind": "transformer", **reader},
        }
        yield f"{kind}-caption", {"task": "image_to_text", "model": model}


TABLES = dict(tables())


def built(table):
    loaded = recipe.from_table(table, "recipe")
    for conflict in loaded.conflicts():
        raise RecipeError(conflict.reason)
    options = loaded.options
    torch.manual_seed(0)
    model = BUILDERS[table["task"]](options.model)
    # where two models differ, this differs: structure and settings, shapes, first weights
    facts = [(name, tuple(value.shape)) for name, value in model.state_dict().items()]
    sums = [round(float(value.double().abs().sum()), 6) for value in model.state_dict().values()]
    ties = {name: id(value) for name, value in model.named_parameters(remove_duplicate=False)}
    return repr(model), facts, sums, len(set(ties.values())), scalars(model)


def scalars(model):
    """Plain settings of every part that its print may leave out."""
    return [
        (name, key, value)
        for name, part in model.named_modules()
        for key, value in vars(part).items()
        if not key.startswith("_") and isinstance(value, bool | int | float | str | tuple)
    ]


def others(hint, value):
    """Other values that a key may have."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return others(inside[0], value)
    if origin is Literal:
        return [choice for choice in inside if choice != value]
    if hint is bool:
        return [not value]
    if hint is int:
        return [2 * (value or 1)]
    if hint is float:
        return [0.37 if value != 0.37 else 0.5]
    if origin is tuple:
        return [[9, 9]]
    return [other for part in inside if part is not type(None) for other in others(part, value)]


def names(options):
    return [field.name for field in fields(options)]


def changes(options, path=""):
    """Yield every key with another value, and the change of kind that it needs.

    The keys of every other kind of score and position are included.
    """
    hints = get_type_hints(type(options), include_extras=True)
    for name in names(options):
        value, key = getattr(options, name), f"{path}{name}"
        if is_dataclass(value):
            yield from changes(value, f"{key}.")
            if name in ("score", "position"):
                for kind, other in kinds(hints[name]).items():
                    if kind != value.kind:
                        yield f"{key}.kind", kind, None
                        for inside, another, _ in changes(other(), f"{key}."):
                            yield inside, another, (f"{key}.kind", kind)
        elif key not in ELSEWHERE and name != "kind":
            yield from ((key, other, None) for other in others(hints[name], value))


def changed(table, key, value):
    *names, last = key.split(".")
    table = {**table}
    inner = table
    for name in names:
        inner[name] = {**inner.get(name, {})}
        inner = inner[name]
    inner[last] = value
    return table


@pytest.mark.parametrize("name", TABLES)
def test_every_model_key_changes_the_model_or_is_rejected(name):
    table = TABLES[name]
    before = {None: built(table)}
    options = recipe.from_table(table, "recipe").options.model
    effects = []
    for key, value, kind in changes(options, "model."):
        start = table if kind is None else changed(table, *kind)
        if kind not in before:
            try:
                before[kind] = built(start)
            except SaccadeError:  # a kind that this model cannot have, which is a case of its own
                before[kind] = None
        if before[kind] is None:
            continue
        try:
            effects.append(built(changed(start, key, value)) != before[kind])
        except SaccadeError as rejected:
            message = str(rejected)
        else:
            assert effects[-1], f"{key} = {value} changes nothing"
            continue
        leaf = key.rpartition(".")[2]
        named = ".".join(key.split(".")[-2:]) if leaf == "kind" else leaf
        assert named in message, (key, value, message)
    assert sum(effects) >= 5


@pytest.mark.parametrize("name", recipe.names())
def test_built_in_recipes_have_no_key_without_effect(name):
    recipe.load(name)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("transformer-tiny", "model.encoder.score.hidden_dim=4", r"model.encoder.score.hidden_dim"),
        ("rnn", "model.decoder.feed_context=false", r"decoder.feed_context = false: has no effect"),
        ("rnn-attention", "model.encoder.position.kind=rotary", "encoder.position.kind = rotary"),
        ("rnn-attention", "model.encoder.position.kind=relative", "acts inside attention"),
        ("rnn", "model.scale_embedding=false", "model.scale_embedding = false"),
        ("bert-mini-masked", "masking.span_end=0.5", 'masking.span_end.*unless.*"spans"'),
        ("vit-tiny", "augment.magnitude=0.9", "augment.magnitude = 0.9: has no effect"),
        ("caption-rnn", "loss.doubly_stochastic=1", "needs a decoder with attention"),
        ("caption-rnn", "generation.max_ratio=3", "generation.max_ratio = 3.0"),
        ("gpt-mini", "generation.max_ratio=3", "generation.max_ratio = 3.0"),
        ("bert-mini", 'metrics.positive="a"', "metrics.positive = a"),
        ("bert-mini", 'labels.separator=";"', None),
        ("transformer-tiny", "metrics.stress=false", "metrics.stress = false"),
        ("transformer-tiny", "training.average.last=3", 'training.average.last = 3.*"ema"'),
        ("transformer-tiny", "text.max_length=9000", None),
    ],
)
def test_keys_outside_the_model_have_an_effect_or_raise(name, change, message):
    if message is None:
        recipe.load(name, [change])
    else:
        with pytest.raises(SaccadeError, match=message):
            recipe.load(name, [change])


def test_raises_if_learned_positions_are_shorter_than_a_text():
    changes = ["model.encoder.position.kind=learned", "model.encoder.position.length=100"]
    with pytest.raises(SaccadeError, match=r"encoder\.position\.length = 100: text\.max_length"):
        recipe.load("transformer-tiny", changes)
    recipe.load("transformer-tiny", [*changes, "text.max_length=99"])


def test_a_change_may_make_other_keys_of_the_recipe_idle(tmp_path):
    """Without attention the score of the recipe is idle; that is not the user's mistake."""
    assert recipe.load("luong", ["model.decoder.attention=none"])
    with pytest.raises(SaccadeError, match=r"model\.decoder\.score.*: has no effect"):
        recipe.load(
            "luong", ["model.decoder.attention=none", "model.decoder.score.kind=scaled_dot"]
        )
    written = tmp_path / "own.toml"
    written.write_text(recipe.load("luong", ["model.decoder.attention=none"]).to_toml())
    with pytest.raises(SaccadeError, match=r"model\.decoder\.score.*: has no effect"):
        recipe.load(written, ["training.seed=3"])


@pytest.mark.parametrize(("name", "union"), [("position", PositionConfig), ("score", ScoreConfig)])
def test_a_key_of_another_kind_is_rejected_with_the_kinds_that_have_it(name, union):
    every = {key for options in kinds(union).values() for key in names(options)}
    checked = 0
    for kind, options in kinds(union).items():
        for key in every - set(names(options)):
            table = changed(TABLES["vit"], f"model.encoder.{name}.kind", kind)
            with pytest.raises(RecipeError) as rejected:
                recipe.from_table(changed(table, f"model.encoder.{name}.{key}", 7), "mine.toml")
            message = str(rejected.value)
            owners = [other for other, x in kinds(union).items() if key in names(x)]
            assert f"model.encoder.{name}.{key} is not known for kind {kind}. " in message
            assert f"It is a key of kind {', '.join(owners)}. Known here: kind" in message
            checked += 1
    assert checked >= 4


def test_options_of_an_old_run_still_load():
    """A key without effect is an error in a new recipe, not in the record of an old run."""
    odd = changed(TABLES["transformer-transformer"], "model.decoder.position.width", 6)
    recipe.from_table(odd, "recipe").options.model.build(V, V)
    with pytest.raises(SaccadeError, match=r"decoder\.position\.width = 6: has no effect"):
        built(odd)
