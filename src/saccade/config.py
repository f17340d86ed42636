"""Conversion between plain tables, as TOML files give them, and option classes.

An option class is a frozen dataclass beside the class it builds. Where a field may hold one of
several option classes, each has a `kind`, and the table's `kind` chooses. This module walks the
structure, so that an error names the exact path of the key; pydantic validates each single value.

Options that have no effect or cannot work together are reported by a method `conflicts` of their
class. Recipes are checked for conflicts; the options of a finished run are not, so that old runs
still load.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import reduce
from types import MappingProxyType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from annotated_types import Ge, Gt, Le, Lt

from saccade.errors import RecipeError

Count = Annotated[int, Gt(0)]
"""An integer above 0."""
Whole = Annotated[int, Ge(0)]
"""An integer of 0 or above."""
Fraction = Annotated[float, Ge(0), Lt(1)]
"""A number from 0 up to, but not including, 1."""
Positive = Annotated[float, Gt(0), Lt(float("inf"))]
"""A number above 0."""
NotNegative = Annotated[float, Ge(0), Lt(float("inf"))]
"""A number of 0 or above."""

Config = TypeVar("Config")
Table = Mapping[str, Any]


def read(
    cls: type[Config],
    table: Table,
    path: str = "",
    base: Config | None = None,
    others: Mapping[str, type] = MappingProxyType({}),
) -> Config:
    """Read the options of class `cls` from a table.

    Args:
        cls: An option class.
        table: Keys and values, as a TOML table has them.
        path: The dotted path of the table, for errors.
        base: The options that missing keys are taken from; by default, the defaults of `cls`.
        others: Option classes by kind that are also allowed here; an error about an unknown key
            names those that have it.

    Returns:
        An instance of `cls`.

    Raises:
        RecipeError: If a key is unknown or missing, or has an invalid value.

    Examples:
        >>> from saccade.attention import AdditiveConfig
        >>> read(AdditiveConfig, {"kind": "additive", "hidden_dim": 64})
        AdditiveConfig(kind='additive', hidden_dim=64)
    """
    if not isinstance(table, Mapping):
        raise RecipeError(
            f"{path or 'this'} must be a table of options, got {table!r:.200}; "
            f"write it as a table, such as [{path or 'model'}]"
        )
    hints = get_type_hints(cls, include_extras=True)
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise RecipeError(_unknown(cls, _join(path, key), key, others))
    values = {}
    for name, field in known.items():
        default = field.default if base is None else getattr(base, name)
        if name in table:
            values[name] = _value(hints[name], table[name], _join(path, name), default)
        elif default is MISSING:
            raise RecipeError(
                f"{_join(path, name)} is missing and has no default; add it, it can be: "
                f"{allowed(hints[name])}"
            )
        else:
            values[name] = default
    try:
        return cls(**values)
    except RecipeError as error:
        raise RecipeError(f"{path or 'recipe'}: {error}") from None


class Conflict(NamedTuple):
    """A key whose value cannot work, or has no effect (`idle`), and the reason."""

    key: str
    reason: str
    idle: bool = False


@runtime_checkable
class HasConflicts(Protocol):
    """An option class that reports which of its options exclude each other."""

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the conflicts among its own options, keys relative to itself."""
        ...


def conflicts(config: object, path: str = "") -> Iterator[Conflict]:
    """Yield every conflict among the options and those inside them, with complete paths."""
    assert is_dataclass(config)
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            yield from conflicts(value, _join(path, field.name))
    if isinstance(config, HasConflicts):
        for key, reason, idle in config.conflicts():
            value = reduce(getattr, key.split("."), config)
            shown = f" = {_shown(value)}" if not is_dataclass(value) else ""
            yield Conflict(_join(path, key), f"{_join(path, key)}{shown}: {reason}", idle)


def without_effect(config: object, names: Iterable[str], reason: str) -> Iterator[Conflict]:
    """Yield a conflict for each key of these fields that does not have its default value."""
    assert is_dataclass(config)
    defaults = {field.name: field.default for field in fields(config)}
    for name in names:
        for key in _changed(name, getattr(config, name), defaults[name]):
            yield Conflict(key, f"has no effect {reason}; leave it out", idle=True)


def _changed(key: str, value: object, default: object) -> Iterator[str]:
    """Yield the key, or those inside it, whose value is not the default."""
    if value == default:
        return
    if not is_dataclass(value) or not is_dataclass(default):
        yield key
    elif type(value) is not type(default):
        yield f"{key}.kind"
    else:
        for field in fields(value):
            name = field.name
            yield from _changed(f"{key}.{name}", getattr(value, name), getattr(default, name))


def plain(config: object) -> dict[str, Any]:
    """Return the options as a table, without those that are None, which TOML cannot express."""
    assert is_dataclass(config)
    table = {}
    for field in fields(config):
        value = getattr(config, field.name)
        if value is not None:
            table[field.name] = plain(value) if is_dataclass(value) else _listed(value)
    return table


@dataclass(frozen=True)
class Key:
    """One key of a recipe.

    Attributes:
        path: Dotted path, with `<kind>` where it depends on a kind.
        allowed: The values it can have, in words.
        default: The default, as TOML writes it.
        owner: The option class that describes it.
        field: The field of `owner` that it sets.
    """

    path: str
    allowed: str
    default: str
    owner: type
    field: str

    @property
    def description(self) -> str:
        """The line of the owner's docstring about this key; empty if there is none."""
        return descriptions(self.owner).get(self.field, "")


def descriptions(owner: type) -> dict[str, str]:
    """Return the description of each key of an option class.

    They are the lines of the form `key   description`, and those further indented below them, in
    the docstrings of the class and its bases.
    """
    texts: dict[str, str] = {}
    names: list[str] = []
    docstrings = [inspect.getdoc(cls) or "" for cls in reversed(owner.__mro__) if is_dataclass(cls)]
    for line in (line for text in docstrings for line in text.splitlines()[1:]):
        if entry := re.fullmatch(r"(\w+(?:, \w+)*)  +(\S.*)", line):
            names = entry[1].split(", ")
            texts |= dict.fromkeys(names, entry[2])
        elif names and line.startswith("    "):
            texts |= {name: f"{texts[name]} {line.strip()}" for name in names}
        else:
            names = []
    return texts


def keys(cls: type, path: str = "", base: object = None) -> Iterator[Key]:
    """Yield all keys of an option class and of those inside it, in order.

    Where one of several classes is allowed, `a.kind` is one key, and `a<kind>.b` are the keys of
    each class.

    Args:
        cls: An option class.
        path: The dotted path at which it stands.
        base: An instance whose values are the defaults.
    """
    hints = get_type_hints(cls, include_extras=True)
    for field in fields(cls):
        here, choices = _join(path, field.name), kinds(hints[field.name])
        default: Any = field.default if base is None else getattr(base, field.name)
        shown = "required" if default is MISSING else _shown(default)
        if len(choices) > 1:
            usual = _kind(type(default)) if is_dataclass(default) else shown
            yield Key(f"{here}.kind", ", ".join(choices), usual, cls, field.name)
        elif not choices:
            yield Key(here, allowed(hints[field.name]), shown, cls, field.name)
        for kind, choice in choices.items():
            name = here if len(choices) == 1 else f"{here}<{kind}>"
            inside = keys(choice, name, default if type(default) is choice else None)
            yield from (key for key in inside if name == here or key.path != f"{name}.kind")


def set_key(
    table: dict[str, Any], assignment: str, hints: Mapping[str, object] | None = None
) -> None:
    """Set one key of nested tables, in place.

    A new `kind` that chooses another option class clears the other keys of its table.

    Args:
        table: The nested tables.
        assignment: "a.b=value", the value as in TOML; quotes of a string may be left out.
        hints: The annotations of the outermost keys, which tell what each `kind` chooses; without
            them, every `kind` chooses a class.

    Raises:
        RecipeError: If the assignment cannot be read, or leads through a value.

    Examples:
        >>> table = {"model": {"dim": 128}}
        >>> set_key(table, "model.dim=256")
        >>> table
        {'model': {'dim': 256}}
    """
    path, equals, text = assignment.partition("=")
    names = path.strip().split(".")
    if not equals or not all(names):
        raise RecipeError(
            f"--set takes key=value, such as training.max_steps=100, got {assignment}; "
            "give a key, = and a value"
        )
    for name in names[:-1]:
        inner = table.setdefault(name, {})
        if not isinstance(inner, dict):
            raise RecipeError(
                f"{path}: {name} is a value, not a table of options; set {name} itself, or correct "
                "the path"
            )
        table = inner
    value = _parsed(text.strip())
    if (
        names[-1] == "kind"
        and table.get("kind", value) != value
        and (hints is None or _chooses_class(hints, names[:-1]))
    ):
        table.clear()
    table[names[-1]] = value


def _chooses_class(hints: Mapping[str, object], path: Sequence[str]) -> bool:
    """Return whether the table at a path may hold one of several option classes."""
    levels: list[Mapping[str, object]] = [hints]
    chosen: list[type] = []
    for name in path:
        chosen = [one for level in levels for one in classes(level.get(name))]
        levels = [get_type_hints(one, include_extras=True) for one in chosen]
    return len(set(chosen)) > 1


def allowed(hint: object) -> str:
    """Describe the allowed values of a type annotation in words."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        bounds = [_bound(mark) for mark in inside[1:]]
        return " ".join([allowed(inside[0]), *(bound for bound in bounds if bound)])
    if origin is Literal:
        return ", ".join(str(choice) for choice in inside)
    if origin in (Union, types.UnionType):
        return " or ".join("none" if part is types.NoneType else allowed(part) for part in inside)
    if origin is tuple:
        return "list of " + allowed(inside[0])
    if origin is dict:
        return f"table of name = {allowed(inside[1])}"
    return _NAMES.get(hint, getattr(hint, "__name__", str(hint)))


_NAMES: dict[object, str] = {
    int: "whole number",
    float: "number",
    bool: "true or false",
    str: "text",
}


def _value(hint: Any, value: Any, path: str, default: Any) -> Any:
    by_kind = kinds(hint)
    if not by_kind or is_dataclass(value):
        return _checked(hint, value, path)
    if not isinstance(value, Mapping):
        raise RecipeError(
            f"{path} must be a table of options, got {value!r:.200}; "
            f"write it as [{path}], or set one of its keys"
        )
    usual = _kind(type(default)) if is_dataclass(default) else None
    kind = next(iter(by_kind)) if len(by_kind) == 1 else value.get("kind", usual)
    if not isinstance(kind, str) or kind not in by_kind:
        problem = "is missing" if kind is None else f"cannot be {kind!r:.200}"
        raise RecipeError(f"{path}.kind {problem}; it can be: {', '.join(by_kind)}")
    same = type(default) is by_kind[kind]
    return read(by_kind[kind], value, path, default if same else None, by_kind)


def _checked(hint: Any, value: Any, path: str) -> Any:
    """Return the value; raise if the key cannot have it."""
    from pydantic import TypeAdapter, ValidationError

    if isinstance(value, list):
        value = tuple(value)
    try:
        return TypeAdapter(hint).validate_python(value, strict=True)
    except ValidationError:
        raise RecipeError(f"{path} cannot be {value!r:.200}; it can be: {allowed(hint)}") from None


def classes(hint: object) -> list[type]:
    """Return the option classes that a field may hold."""
    if get_origin(hint) in (Union, types.UnionType):
        return [part for part in get_args(hint) if isinstance(part, type) and is_dataclass(part)]
    return [hint] if isinstance(hint, type) and is_dataclass(hint) else []


def kinds(hint: object) -> dict[str, Any]:
    """Return the option classes that a field may hold, by kind."""
    return {_kind(choice): choice for choice in classes(hint)}


def _kind(cls: type) -> str:
    for field in fields(cls):
        if field.name == "kind":
            return str(field.default)
    return cls.__name__


def _unknown(cls: type, path: str, key: str, others: Mapping[str, type]) -> str:
    known = [field.name for field in fields(cls)]
    near = get_close_matches(key[:200], known, n=1)
    owners = [kind for kind, other in others.items() if key in (x.name for x in fields(other))]
    hint = ""
    if owners:
        hint = f"It is a key of kind {', '.join(owners)}. "
    elif near:
        hint = f"Did you mean {near[0]}? "
    where = f" for kind {_kind(cls)}" if "kind" in known else ""
    return f"{path[:200]} is not known{where}. {hint}Known here: {', '.join(known)}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(_listed(value)).replace("'", '"')


def _bound(mark: object) -> str:
    match mark:
        case Gt(limit):
            return f"above {limit}"
        case Ge(limit):
            return f"from {limit}"
        case Lt(limit) if limit != float("inf"):
            return f"below {limit}"
        case Le(limit):
            return f"up to {limit}"
    return ""


def _parsed(text: str) -> Any:
    """Return the value of a TOML expression; other text is a string, so quotes may be left out."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(f"value = {text}").unwrap()["value"]
    except TOMLKitError:
        return text
