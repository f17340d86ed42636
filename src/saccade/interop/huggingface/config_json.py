"""Types and checks for the keys of a config.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import Field, TypeAdapter, ValidationError
from torch import nn

from saccade.errors import InteropError
from saccade.layers.activations import Activation, activation

Size = Annotated[int, Field(strict=True, gt=0)]
Index = Annotated[int, Field(strict=True, ge=0)]
Rate = Annotated[float, Field(strict=True, ge=0, lt=1)]
Epsilon = Annotated[float, Field(strict=True, gt=0)]
Flag = Annotated[bool, Field(strict=True)]
HuggingFaceActivation = Literal[
    "relu",
    "relu2",
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

# of several names for one activation, the first is written
_ACTIVATIONS: dict[HuggingFaceActivation, Activation] = {
    "relu": "relu",
    "relu2": "relu_squared",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
assert tuple(_ACTIVATIONS) == get_args(HuggingFaceActivation)


@dataclass(frozen=True)
class Condition:
    """A key that must have one value, if it is there at all.

    key           the key of config.json
    unsupported   what any other value requests, with its verb: "decoders are"
    must_be       the only supported value
    """

    key: str
    unsupported: str
    must_be: object = False


def read_keys(kind: type[T], config: Mapping[str, object], where: str) -> T:
    """Return the dataclass with the values of the keys it names; other keys are ignored."""
    match config.get("id2label"):
        case dict() as labels if labels:
            count = len(labels)
        case _:
            count = 2
    config = {"num_labels": count, **config}
    try:
        return TypeAdapter(kind).validate_python(config)
    except ValidationError as error:
        wrong = error.errors()[0]
        key = wrong["loc"][0] if wrong["loc"] else ""
        raise InteropError(
            f"{where}: {key} is {config.get(str(key))!r}, which is not supported: {wrong['msg']}; "
            "correct the file, or use a folder of a supported model"
        ) from error


def require(conditions: tuple[Condition, ...], config: Mapping[str, object], where: str) -> None:
    """Raise unless every condition holds."""
    for condition in conditions:
        value = config.get(condition.key)
        if value is not None and value != condition.must_be:
            raise InteropError(
                f"{where}: {condition.key} is {value!r} and must be {condition.must_be!r}: "
                f"{condition.unsupported} not supported; "
                "use another folder"
            )


def label_names(id2label: object, count: int, where: str) -> tuple[str, ...]:
    """Return the names of the classes in order; LABEL_0 and so on if there is no `id2label`."""
    if id2label is None:
        return tuple(f"LABEL_{i}" for i in range(count))
    try:
        names = TypeAdapter(dict[int, object]).validate_python(id2label)
    except ValidationError:
        names = {}
    if set(names) != set(range(count)):
        raise InteropError(
            f"{where}: id2label must name the classes 0 to {count - 1} of this model, got "
            f"{sorted(names) or id2label!r}; "
            "correct id2label in the file"
        )
    return tuple(str(names[i]) for i in range(count))


def our_activation(name: HuggingFaceActivation) -> Activation:
    """Return Saccade's name of an activation."""
    return _ACTIVATIONS[name]


def their_activation(module: nn.Module) -> HuggingFaceActivation:
    """Return the name that transformers gives an activation."""
    for name, ours in _ACTIVATIONS.items():
        if repr(activation(ours)) == repr(module):
            return name
    raise InteropError(
        f"the activation {module} has no name in transformers; those with a name are "
        f"{', '.join(_ACTIVATIONS)}"
    )
