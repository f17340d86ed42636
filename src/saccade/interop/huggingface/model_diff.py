"""Differences between a model and the one that a format describes, part by part.

The format's own model is built without weights, from the config that would be written, by the very
function that `load` uses. So a model can be written if and only if it can be read. Dropout is not
compared: it does not change predictions, and a format need not have a place for each of ours.
"""

from typing import TypeVar

from torch import nn

from saccade.errors import InteropError

M = TypeVar("M", bound=nn.Module)

_NOT_COMPARED = ("training", "p", "inplace", "dropout")
SHOWN = 3
"""Differences that an error names."""


def submodule(model: nn.Module, name: str, kind: type[M]) -> M:
    """Return the module of a dotted name; raise if the model has none or one of another class."""
    try:
        module = model.get_submodule(name)
    except AttributeError:
        raise InteropError(
            f"this {type(model).__name__} has no {name}, and the format needs a {kind.__name__}; "
            "export to onnx instead, or change the recipe"
        ) from None
    if not isinstance(module, kind):
        raise InteropError(
            f"{name} of this {type(model).__name__} is {type(module).__name__}, and the format "
            f"needs a {kind.__name__}; "
            "export to onnx instead, or change the recipe"
        )
    return module


def submodules(model: nn.Module, kind: type[M]) -> dict[str, M]:
    """Return the modules of a class by their dotted names."""
    return {name: module for name, module in model.named_modules() if isinstance(module, kind)}


def require_same(model: nn.Module, expected: nn.Module, family: str) -> None:
    """Raise unless the model is built as `expected`; the error names the first differences."""
    differences = [*_module_differences(model, expected), *_parameter_differences(model, expected)]
    if differences:
        more = f"; and {len(differences) - SHOWN} more" if len(differences) > SHOWN else ""
        raise InteropError(
            f"this {type(model).__name__} has no counterpart among {family} models: "
            f"{'; '.join(differences[:SHOWN])}{more}"
        )


def _module_differences(model: nn.Module, expected: nn.Module) -> list[str]:
    ours = dict(model.named_modules(remove_duplicate=False))
    theirs = dict(expected.named_modules(remove_duplicate=False))
    differences = []
    other: list[str] = []  # modules of another class, below which nothing is compared
    for name in [*theirs, *(name for name in ours if name not in theirs)]:
        if any(name.startswith(f"{above}.") for above in other):
            continue
        kinds = [type(x[name]).__name__ if name in x else "nothing" for x in (ours, theirs)]
        if kinds[0] != kinds[1]:
            differences.append(f"{name or 'it'} is {kinds[0]}, there {kinds[1]}")
            other.append(name)
            continue
        for key, value in vars(theirs[name]).items():
            if key.startswith("_") or key in _NOT_COMPARED:
                continue
            if vars(ours[name]).get(key) != value:
                differences.append(
                    f"{name}.{key}".lstrip(".")
                    + f" is {vars(ours[name]).get(key)!r}, there {value!r}"
                )
    return differences


def _parameter_differences(model: nn.Module, expected: nn.Module) -> list[str]:
    ours = dict(model.named_parameters(remove_duplicate=False))
    theirs = dict(expected.named_parameters(remove_duplicate=False))
    first = {parameter: name for name, parameter in reversed(ours.items())}
    first_there = {parameter: name for name, parameter in reversed(theirs.items())}
    differences = []
    for name in [*theirs, *(name for name in ours if name not in theirs)]:
        shapes = [tuple(x[name].shape) if name in x else "nothing" for x in (ours, theirs)]
        if shapes[0] != shapes[1]:
            differences.append(f"{name} is {shapes[0]}, there {shapes[1]}")
        elif first[ours[name]] != first_there[theirs[name]]:
            shared = [
                "its own" if x == name else f"shared with {x}"
                for x in (first[ours[name]], first_there[theirs[name]])
            ]
            differences.append(f"{name} is {shared[0]}, there {shared[1]}")
    return differences
