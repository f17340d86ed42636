"""Every regular expression of the package takes time proportional to the length of the text."""

import ast
import builtins
import importlib
import json
import re
import subprocess
import sys
from collections import ChainMap
from pathlib import Path

import pytest

import saccade

ROOT = Path(saccade.__file__).parent
METHODS = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")


class Anything(str):
    """Stand-in for a string that is known at run time only."""

    __slots__ = ()

    def __getattr__(self, name: str) -> "Anything":
        return self


class Names(dict):
    def __missing__(self, name):
        return Anything("x")


def expressions() -> list[tuple[str, str, int, tuple[str, ...]]]:
    """Return the place of each pattern, the pattern, its flags, and the methods it is used by."""
    trees = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", *read_call(node, path, trees))
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and is_expression(node)
    ]


def is_expression(node: ast.Call) -> bool:
    function = node.func
    if isinstance(function, ast.Name):
        return function.id == "Regex"  # from the tokenizers library
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr in (*METHODS, "compile")
    )


def read_call(node, path, trees):
    dotted = ".".join(["saccade", *path.relative_to(ROOT).with_suffix("").parts])
    module = importlib.import_module(dotted.removesuffix(".__init__"))
    names = ChainMap(vars(module), vars(builtins))
    pattern = str(value(node.args[0], names))
    if isinstance(node.func, ast.Name):
        return pattern, 0, ("tokenizers",)
    written = [arg for arg in node.args[1:] if "re." in ast.unparse(arg)]
    written += [keyword.value for keyword in node.keywords if keyword.arg == "flags"]
    flags = sum(int(value(arg, names)) for arg in written if node.func.attr == "compile")
    if node.func.attr != "compile":
        return pattern, flags, (node.func.attr,)
    return pattern, flags, methods_of(node, path, trees)


def value(node: ast.expr, names) -> object:
    code = compile(ast.Expression(node), "<pattern>", "eval")
    return eval(code, {}, Names(names))  # the package's own source


def methods_of(node, path, trees) -> tuple[str, ...]:
    """Return the methods that a compiled pattern is used by; all, if it has no name."""
    targets = [
        target.id
        for parent in ast.walk(trees[path])
        if isinstance(parent, ast.Assign) and parent.value is node
        for target in parent.targets
        if isinstance(target, ast.Name)
    ]
    public = [name for name in targets if not name.startswith("_")]
    used = {
        call.attr
        for where, tree in trees.items()
        if where == path or public
        for call in ast.walk(tree)
        if isinstance(call, ast.Attribute)
        and call.attr in METHODS
        and isinstance(call.value, ast.Name | ast.Attribute)
        and ast.unparse(call.value).split(".")[-1] in targets
    }
    return tuple(sorted(used)) or METHODS


def tried(patterns) -> list[list]:
    """Return the patterns that are too slow, in a child process with a timeout."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.pumping"],
            input=json.dumps(patterns),
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            cwd=Path(__file__).parent.parent,
        )
    except subprocess.TimeoutExpired as error:
        last = (error.stdout or b"").decode().splitlines()[-1]
        pytest.fail(f"this takes for ever: {last}")
    lines = done.stdout.splitlines()
    assert lines[-1] == "done"
    return [json.loads(line[5:]) for line in lines if line.startswith("slow ")]


def test_all_patterns_take_linear_time():
    entries = expressions()
    assert len(entries) > 30
    where = {pattern: place for place, pattern, *_ in entries}
    slow = tried([entry[1:] for entry in entries])
    assert not slow, [(where[entry[0]], *entry) for entry in slow]


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(a+)+$", "match"),
        (r"(?:<[a-z]+(?:\s[^<>]*)?/?>)*\w", "match"),  # the / of <br /> matches in two ways
        (r"<!--.*?-->", "search"),  # every beginning searches for an end
        (r"\s+$", "search"),
        (r"(a|aa)*!", "match"),
    ],
)
def test_slow_patterns_are_detected(pattern, method):
    [[slow, *_]] = tried([(pattern, int(re.DOTALL), [method])])
    assert slow == pattern


def test_fast_patterns_are_not_reported():
    fast = [(r"\S+", ["finditer"]), (r"([0-9]{1,9})-([0-9]{1,9})", ["fullmatch"])]
    assert not tried([(pattern, 0, methods) for pattern, methods in fast])
