"""What a config.json says, as dataclasses with their names and defaults, checked when read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import Field, TypeAdapter, ValidationError
from torch import nn

from saccade.errors import InteropError
from saccade.layers.activations import Activation, activation

Size = Annotated[int, Field(strict=True, gt=0)]
Rate = Annotated[float, Field(strict=True, ge=0, lt=1)]
Epsilon = Annotated[float, Field(strict=True, gt=0)]
Flag = Annotated[bool, Field(strict=True)]
TheirActivation = Literal[
    "relu",
    "gelu",
    "gelu_python",
    "gelu_new",
    "gelu_fast",
    "gelu_pytorch_tanh",
    "silu",
    "swish",
    "tanh",
]

T = TypeVar("T")

# of several names the first is the one that is written
_ACTIVATIONS: dict[TheirActivation, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
assert tuple(_ACTIVATIONS) == get_args(TheirActivation)


@dataclass(frozen=True)
class Condition:
    """What a config must say, if it says anything about it, and what is not supported otherwise."""

    key: str
    otherwise: str
    must_be: object = False


def read_options(kind: type[T], config: Mapping[str, Any], where: str) -> T:
    """The options of that kind; what they do not name is left unread."""
    labels = config.get("id2label")
    config = {"num_labels": len(labels) if labels and isinstance(labels, dict) else 2, **config}
    try:
        return TypeAdapter(kind).validate_python(config)
    except ValidationError as error:
        wrong = error.errors()[0]
        key = wrong["loc"][0] if wrong["loc"] else ""
        raise InteropError(
            f"{where}: {key} is {config.get(str(key))!r}, which is not supported: {wrong['msg']}"
        ) from error


def require(conditions: tuple[Condition, ...], config: Mapping[str, Any], where: str) -> None:
    """Refuse what the options cannot say."""
    for condition in conditions:
        value = config.get(condition.key)
        if value is not None and value != condition.must_be:
            raise InteropError(
                f"{where}: {condition.key} is {value!r}, and {condition.otherwise} not supported"
            )


def our_activation(name: TheirActivation) -> Activation:
    """Our name of it."""
    return _ACTIVATIONS[name]


def their_activation(module: nn.Module) -> TheirActivation:
    """Their name of one of our activations."""
    for name, ours in _ACTIVATIONS.items():
        if repr(activation(ours)) == repr(module):
            return name
    raise InteropError(
        f"the activation {module} has no name there; known are {', '.join(_ACTIVATIONS)}"
    )
