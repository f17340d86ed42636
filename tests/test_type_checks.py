"""The type checks that run with all tests find what those of jaxtyping find."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import jaxtyping
import numpy as np
import pytest
import torch
from beartype import beartype
from jaxtyping import Float
from torch import Tensor

from tests.type_checks import checked

check = checked(typechecker=beartype)
WRONG = jaxtyping.TypeCheckError  # a TypeError, which the package may handle


@check
def add(one: Float[Tensor, "a b"], other: Float[Tensor, "b"]) -> Float[Tensor, "b a"]:
    total = one + other
    return total.T if one.shape[0] < 4 else total


@check
def count(number: int, *more: int, name: str = "") -> str:
    return name + str(number + sum(more)) if number else None


@check
def outer(number: object) -> Callable[..., object]:
    @check
    def inner(one: Float[np.ndarray, "n"], other: Float[np.ndarray, "n"]) -> int:
        return number

    return inner


@check
def some(number: int) -> Iterator[int]:
    yield from range(number)


@check
@dataclass
class Pair:
    one: int
    other: list[int] = field(default_factory=list)


@check
def later(given: "Unknown", pairs: "Sequence[tuple[int, str]]") -> "Float[Tensor, 'a a']":
    return torch.zeros(2, given)


def test_arguments_and_results_are_checked():
    assert count(1, 2, name="n") == "n3"
    for wrong in (lambda: count("1"), lambda: count(1, "2"), lambda: count(1, name=2)):
        with pytest.raises(WRONG):
            wrong()
    with pytest.raises(WRONG):
        count(0)


def test_axes_of_one_call_fit_each_other():
    assert add(torch.zeros(2, 3), torch.zeros(3)).shape == (3, 2)
    with pytest.raises(WRONG):
        add(torch.zeros(2, 3), torch.zeros(1))
    with pytest.raises(WRONG):
        add(torch.zeros(2, 3, dtype=torch.long), torch.zeros(3))
    with pytest.raises(WRONG):
        add(torch.zeros(4, 3), torch.zeros(3))
    assert add(torch.zeros(3, 2), torch.zeros(2)).shape == (2, 3)


def test_inner_functions_are_checked_in_each_definition():
    one, two = np.zeros(1), np.zeros(2)
    for number in (1, 2):
        inner = outer(number)
        assert inner(one, other=one) == number
        assert inner(two, two) == number
        with pytest.raises(WRONG):
            inner(one, two)
    with pytest.raises(WRONG):
        outer("1")(one, one)


def test_generators_and_postponed_annotations_are_checked():
    assert list(some(2)) == [0, 1]
    with pytest.raises(WRONG):
        some("2")
    assert later(2, [(1, "a")]).shape == (2, 2)
    with pytest.raises(WRONG):
        later(3, [(1, "a")])
    with pytest.raises(WRONG):
        later(2, [(1, 1)])


def test_fields_of_dataclasses_are_checked():
    assert Pair(1).other == []
    for wrong in (lambda: Pair("1"), lambda: Pair(1, other=["a"])):
        with pytest.raises(WRONG):
            wrong()


def test_nothing_is_checked_while_checks_are_disabled():
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        assert count("", name="n") is None
        assert add(torch.zeros(4, 3), torch.zeros(3)).shape == (4, 3)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.skipif(jaxtyping.jaxtyped is not checked, reason="no checks without the option")
def test_the_package_is_checked():
    from saccade.layers.cross_entropy import plain_cross_entropy

    with pytest.raises(WRONG):
        plain_cross_entropy(torch.zeros(3, 4), torch.nn.Identity(), torch.zeros(3))
