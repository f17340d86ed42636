"""What is compared before a model is written: is it built as the format says, part by part?

The format's own model is built empty, from the config that is to be written, by the very function
that `load` uses. So what can be written is just what can be read. Dropout is left out of the
comparison: no answer depends on it, and a format need not have a place for each of ours.
"""

from typing import TypeVar

from torch import nn

from saccade.errors import InteropError

M = TypeVar("M", bound=nn.Module)

_NOT_COMPARED = ("training", "p", "inplace", "dropout")


def part(model: nn.Module, name: str, kind: type[M]) -> M:
    """The module of that dotted name, which the format needs to be of that kind."""
    try:
        found = model.get_submodule(name)
    except AttributeError:
        raise InteropError(
            f"this {type(model).__name__} has no {name}, and the format needs a {kind.__name__}"
        ) from None
    if not isinstance(found, kind):
        raise InteropError(
            f"{name} of this {type(model).__name__} is {type(found).__name__}, and the format "
            f"needs a {kind.__name__}"
        )
    return found


def require_same(model: nn.Module, wanted: nn.Module, family: str) -> None:
    """Refuse a model that is not built as `wanted`, naming what differs."""
    differences = [*_in_modules(model, wanted), *_in_parameters(model, wanted)]
    if differences:
        more = f"; and {len(differences) - 3} more" if len(differences) > 3 else ""
        raise InteropError(
            f"this {type(model).__name__} has no counterpart among {family} models: "
            f"{'; '.join(differences[:3])}{more}"
        )


def _in_modules(model: nn.Module, wanted: nn.Module) -> list[str]:
    ours = dict(model.named_modules(remove_duplicate=False))
    theirs = dict(wanted.named_modules(remove_duplicate=False))
    differences = []
    other: list[str] = []  # what stands below a module of another kind is not looked at
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


def _in_parameters(model: nn.Module, wanted: nn.Module) -> list[str]:
    ours = dict(model.named_parameters(remove_duplicate=False))
    theirs = dict(wanted.named_parameters(remove_duplicate=False))
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
