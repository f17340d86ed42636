"""Tests of options: from tables to option classes and back, with the path in every error."""

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade import config, tasks
from saccade.config import Count, Fraction, NotNegative, Positive, Whole
from saccade.errors import RecipeError
from saccade.training.recipe import TrainingConfig, load


@dataclass(frozen=True, kw_only=True)
class Round:
    kind: Literal["round"] = "round"
    radius: Positive = 1.0


@dataclass(frozen=True, kw_only=True)
class Square:
    kind: Literal["square"] = "square"
    side: Count = 2

    def __post_init__(self) -> None:
        if self.side == 13:
            raise RecipeError("13 brings bad luck")


@dataclass(frozen=True, kw_only=True)
class Box:
    name: str
    shape: Round | Square = Square()
    lid: Round | None = None
    share: Fraction = 0.5
    count: Whole = 0
    weight: NotNegative = 0.0
    colours: tuple[str, ...] = ()
    corner: tuple[int, int] = (0, 1)
    closed: bool = False


def test_read_uses_defaults_and_inner_tables():
    assert config.read(Box, {"name": "a"}) == Box(name="a")
    table = {"name": "a", "shape": {"kind": "round", "radius": 2.5}, "lid": {"radius": 3.0}}
    assert config.read(Box, table) == Box(name="a", shape=Round(radius=2.5), lid=Round(radius=3.0))
    assert config.read(Box, {"name": "a", "shape": {"side": 4}}).shape == Square(side=4)
    assert config.read(Box, {"name": "a", "corner": [3, 4]}).corner == (3, 4)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "name is missing"),
        ({"name": 3}, "name cannot be 3; it can be: text"),
        ({"name": "a", "nam": 1}, "nam is not known. Did you mean name? Known here: name, shape"),
        (
            {"name": "a", "shape": {"kind": "round", "side": 3}},
            "shape.side is not known for kind round. It is a key of kind square. Known here: kind, "
            "radius",
        ),
        (
            {"name": "a", "shape": {"kind": "flat"}},
            "shape.kind cannot be 'flat'; it can be: round, s",
        ),
        ({"name": "a", "shape": {"radius": 3}}, "shape.radius is not known"),
        (
            {"name": "a", "shape": {"side": 0}},
            "shape.side cannot be 0; it can be: whole number above",
        ),
        ({"name": "a", "shape": {"side": 2.0}}, "shape.side cannot be 2.0"),
        ({"name": "a", "shape": {"side": True}}, "shape.side cannot be True"),
        ({"name": "a", "shape": {"side": "2"}}, "shape.side cannot be '2'"),
        ({"name": "a", "shape": {"side": 13}}, "shape: 13 brings bad luck"),
        ({"name": "a", "shape": 3}, "shape must be a table of options, got 3"),
        (
            {"name": "a", "shape": {"kind": "round", "side": 2}},
            "shape.side is not known for kind roun",
        ),
        ({"name": "a", "lid": {"radius": float("nan")}}, "lid.radius cannot be nan"),
        ({"name": "a", "lid": {"radius": float("inf")}}, "lid.radius cannot be inf"),
        ({"name": "a", "share": 1}, "share cannot be 1; it can be: number from 0 below 1"),
        ({"name": "a", "share": -0.1}, "share cannot be -0.1"),
        ({"name": "a", "count": -1}, "count cannot be -1; it can be: whole number from 0"),
        ({"name": "a", "weight": -1.0}, "weight cannot be -1.0; it can be: number from 0"),
        ({"name": "a", "closed": 1}, "closed cannot be 1; it can be: true or false"),
        ({"name": "a", "closed": "true"}, "closed cannot be 'true'"),
        ({"name": "a", "colours": "red"}, "colours cannot be 'red'; it can be: list of text"),
        ({"name": "a", "colours": ["red", 3]}, "colours cannot be ('red', 3)"),
        ({"name": "a", "corner": [1]}, "corner cannot be (1,)"),
        ({"name": None}, "name cannot be None"),
    ],
)
def test_raises_with_the_path_of_the_key(table, message):
    with pytest.raises(RecipeError) as caught:
        config.read(Box, table)
    assert message in str(caught.value)
    with pytest.raises(RecipeError, match=r"box\b"):
        config.read(Box, table, "box")


@given(
    st.builds(
        Box,
        name=st.text(),
        shape=st.builds(Round, radius=st.floats(0.1, 9))
        | st.builds(Square, side=st.integers(1, 12)),
        lid=st.none() | st.builds(Round),
        share=st.floats(0, 1, exclude_max=True),
        count=st.integers(0),
        colours=st.lists(st.text()).map(tuple),
        corner=st.tuples(st.integers(), st.integers()),
        closed=st.booleans(),
    )
)
def test_plain_and_read_are_inverse(box):
    assert config.read(Box, config.plain(box)) == box


def test_keys_lists_all_keys():
    keys = {key.path: (key.allowed, key.default) for key in config.keys(Box)}
    assert keys["name"] == ("text", "required")
    assert keys["shape.kind"] == ("round, square", "square")
    assert "shape<round>.kind" not in keys
    assert keys["shape<round>.radius"] == ("number above 0", "1.0")
    assert keys["shape<square>.side"] == ("whole number above 0", "2")
    assert keys["lid.radius"] == ("number above 0", "1.0")
    assert keys["closed"] == ("true or false", "false")


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("a.b=3", 3),
        ("a.b=3.5", 3.5),
        ("a.b=1e-4", 1e-4),
        ("a.b=true", True),
        ("a.b=no", "no"),
        ("a.b = x = y", "x = y"),
        ("a.b='3'", "3"),
        ('a.b=["x", "y"]', ["x", "y"]),
        ("a.b=naïve ☕", "naïve ☕"),
        ("a.b=", ""),
        ("a.b={ c = 1 }", {"c": 1}),
    ],
)
def test_set_key_parses_values_as_toml(assignment, value):
    table = {}
    config.set_key(table, assignment)
    assert table == {"a": {"b": value}}


def test_a_new_kind_clears_the_table():
    table = {"shape": {"kind": "round", "radius": 2}}
    config.set_key(table, "shape.kind=round")
    assert table["shape"]["radius"] == 2
    config.set_key(table, "shape.kind=square")
    assert table == {"shape": {"kind": "square"}}


def test_a_new_kind_of_one_class_keeps_the_other_keys():
    """`training.optim` is one class, whose kinds share their keys; a score is one of several."""
    change = ["training.optim.freeze=['encoder']", "training.optim.kind=adamw"]
    optim = load("bert-mini", change).training.optim
    assert (optim.kind, optim.schedule, optim.freeze) == ("adamw", "linear", ("encoder",))
    table = load("rnn-attention", ["model.decoder.score.kind=scaled_dot"]).table()
    assert table["model"]["decoder"]["score"] == {"kind": "scaled_dot"}


def test_raises_on_a_path_through_a_value():
    with pytest.raises(RecipeError, match="a is a value, not a table"):
        config.set_key({"a": 3}, "a.b=3")


def test_a_table_changes_only_the_keys_it_contains():
    """`Config.generation` is a beam of 5 by default; another key of it does not change that."""
    table = load("transformer-tiny", ["generation.max_length=100"]).table()
    assert table["generation"]["beam"] == 5
    table = load("rnn-attention", ["model.decoder.score.hidden_dim=7"]).table()
    assert table["model"]["decoder"]["score"] == {"kind": "additive", "hidden_dim": 7}


@pytest.mark.parametrize(
    "change",
    [
        "model.dim=0",
        "model.dim=-5",
        "model.encoder.num_heads=0",
        "model.encoder.num_layers=-1",
        "model.decoder.dropout=2.0",
        "model.encoder.position.length=0",
    ],
)
def test_raises_on_numbers_out_of_range(change):
    with pytest.raises(RecipeError, match=change.partition("=")[0]):
        load("transformer-tiny", [change])


@dataclass(frozen=True, kw_only=True)
class Lamp:
    """Options of a lamp.

    power   of the bulb, in watts; raise it
            for large rooms
    shape   of the shade
    """

    power: Count = 40
    shape: Round | Square = Round()
    colour: str = "white"


def test_keys_are_described_by_the_docstring_of_their_class():
    descriptions = {key.path: key.description for key in config.keys(Lamp)}
    assert descriptions["power"] == "of the bulb, in watts; raise it for large rooms"
    assert descriptions["shape.kind"] == "of the shade"
    assert descriptions["colour"] == ""


@pytest.mark.parametrize("task", tasks.names())
def test_every_key_of_a_task_is_described(task):
    keys = list(config.keys(tasks.config_of(task)))
    assert len(keys) > 20
    assert [key.path for key in keys if not key.description] == []


def test_every_key_of_training_is_described():
    keys = config.keys(TrainingConfig, "training")
    assert [key.path for key in keys if not key.description] == []
