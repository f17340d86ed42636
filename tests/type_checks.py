"""Type checks of the package while tests run: those of jaxtyping with beartype, made cheap.

`jaxtyping.jaxtyped` binds the arguments of each call, checks them twice, and compiles its checks
again whenever a function inside a function is defined. In tests with tiny models that takes longer
than the models. `checked` replaces it: arguments and results are checked once, the sizes of axes
are remembered only by functions that name some, and the checks of inner functions are kept. In each
test, the first `CHECKED` calls of a function are checked.
"""

import dataclasses
import functools
import inspect
import sys
import types
import typing

import jaxtyping
from beartype import BeartypeConf, beartype

CHECKED = 30
_test = [0]  # the number of the test that runs
_plain = jaxtyping.jaxtyped
_check = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))
_inner: dict[types.CodeType, tuple[dict[str, object], tuple[object, ...]]] = {}


def install() -> None:
    """Replace the decorator that jaxtyping's import hook gives to each function, if it is used.

    Must run before the package is imported.
    """
    if any(type(finder).__name__ == "_JaxtypingFinder" for finder in sys.meta_path):
        jaxtyping.jaxtyped = checked


def new_test() -> None:
    """Check the first calls of every function again."""
    _test[0] += 1


def checked(fn=None, *, typechecker):
    """Check the annotations of a function, or of the fields of a dataclass."""
    if fn is None:
        return functools.partial(checked, typechecker=typechecker)
    if inspect.isclass(fn):
        own = getattr(fn.__init__, "__no_type_check__", False) or hasattr(
            fn.__init__, "__checked__"
        )
        if dataclasses.is_dataclass(fn) and not own:
            fn.__init__ = checked(fn.__init__, typechecker=typechecker)
            fn.__init__.__checked__ = True
        return fn
    if (
        not inspect.isfunction(fn)
        or getattr(fn, "__no_type_check__", False)
        or inspect.isgeneratorfunction(fn)
        or inspect.iscoroutinefunction(fn)
        or inspect.isasyncgenfunction(fn)
    ):
        return _plain(fn, typechecker=typechecker)
    if "<locals>" in fn.__qualname__:
        return _checked_inner(fn)
    hints = _hints(fn)
    run = _check(_with_hints(fn, hints))
    return (_with_axes if _names_axes(hints) else _without_axes)(fn, run)


class _Calls:
    """Count the calls of a function in the current test."""

    __slots__ = ("count", "test")

    def __init__(self):
        self.count = self.test = 0

    def are_enough(self):
        """Return whether the call that begins needs no check."""
        if self.test != _test[0]:
            self.count, self.test = 0, _test[0]
        self.count += 1
        return self.count > CHECKED or jaxtyping.config.jaxtyping_disable


def _without_axes(fn, run, calls=None):
    calls = calls or _Calls()

    @functools.wraps(fn)
    def call(*args, **kwargs):
        __tracebackhide__ = True
        return (fn if calls.are_enough() else run)(*args, **kwargs)

    return call


def _with_axes(fn, run, calls=None):
    from jaxtyping._storage import pop_shape_memo, push_shape_memo

    calls = calls or _Calls()

    @functools.wraps(fn)
    def call(*args, **kwargs):
        __tracebackhide__ = True
        if calls.are_enough():
            return fn(*args, **kwargs)
        push_shape_memo({})
        try:
            return run(*args, **kwargs)
        finally:
            pop_shape_memo()

    return call


def _checked_inner(fn):
    """Check an inner function by checks that are compiled for its first definition."""
    from jaxtyping._decorator import _make_fn_with_signature

    annotations, checks = _inner.get(fn.__code__, (None, ()))
    if annotations != fn.__annotations__:
        hints = _hints(fn)
        signature = inspect.signature(fn)
        signature = signature.replace(
            parameters=[
                one.replace(annotation=hints.get(name, typing.Any))
                for name, one in signature.parameters.items()
            ],
            return_annotation=hints.get("return", typing.Any),
        )
        named = (fn.__name__, fn.__qualname__, fn.__module__)
        before = _make_fn_with_signature(
            *named, signature.replace(return_annotation=typing.Any), output=False
        )
        after, result = _make_fn_with_signature(*named, signature, output=True)
        checks = (_check(before), _check(after), result, _names_axes(hints), _Calls())
        _inner[fn.__code__] = (fn.__annotations__, checks)
    before, after, result, axes, calls = checks

    def run(*args, **kwargs):
        __tracebackhide__ = True
        before(*args, **kwargs)
        value = fn(*args, **kwargs)
        after(*args, **kwargs, **{result: value})
        return value

    return (_with_axes if axes else _without_axes)(fn, run, calls)


def _hints(fn) -> dict[str, object]:
    """Return the annotations of a function; Any for those that only a type checker can read."""
    from jaxtyping._decorator import _destring_annotation

    return {
        name: _destring_annotation(hint, fn.__globals__)
        for name, hint in fn.__annotations__.items()
    }


def _with_hints(fn, hints):
    copy = types.FunctionType(
        fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )
    functools.update_wrapper(copy, fn)
    del copy.__wrapped__
    copy.__kwdefaults__ = fn.__kwdefaults__
    copy.__annotations__ = hints
    return copy


def _names_axes(hints: dict[str, object]) -> bool:
    return any(_holds_array(hint) for hint in hints.values())


def _holds_array(hint: object) -> bool:
    if inspect.isclass(hint) and issubclass(type(hint), type(jaxtyping.AbstractArray)):
        return True
    if isinstance(hint, list | tuple):  # the arguments of a Callable
        return any(map(_holds_array, hint))
    value = getattr(hint, "__value__", None)  # an alias
    return _holds_array(value) if value else any(map(_holds_array, typing.get_args(hint)))
