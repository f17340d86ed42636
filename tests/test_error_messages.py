"""Every error that a user can cause also says what to do: the third part of a message."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from saccade import errors

PACKAGE = Path(errors.__file__).parent
CLASSES = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.SaccadeError)
} | {"Problem"}
REMEDY = re.compile(
    r"; |\. [A-Z`{]|, not |, or |\n|: (give|use|put|pip install) |: run `|cannot be combined"
)
"""What separates the remedy from the fault, or begins it."""
WRAPPED = re.compile(r".{0,60}: \{(error|\w+\.reason|_UNSHARED)\}|\{[^}]*\}: \{.*\}")
"""The place of an error, followed by the message of that error."""
ADVICE = ("{advice", "{tip}", "_why_not(")
"""Parts that add the remedy."""
NOT_SHOWN = ("engines/choice.py", "interop/ctranslate2/")
"""Modules whose errors are reasons why another engine is used, which is the remedy."""
NOTHING_TO_DO = {"the client closed the connection"}


def test_the_messages_of_every_error_class_are_checked():
    assert {"DataError", "RecipeError", "WatchError", "Problem"} <= CLASSES
    assert sum(len(list(messages(path))) for path in PACKAGE.rglob("*.py")) > 600


@pytest.mark.parametrize("part", sorted(path.name for path in PACKAGE.iterdir()))
def test_errors_say_what_to_do(part):
    place = PACKAGE / part
    paths = [place] if place.suffix == ".py" else sorted(place.rglob("*.py"))
    lacking = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in paths
        if not str(path.relative_to(PACKAGE)).startswith(NOT_SHOWN)
        for line, text in messages(path)
        if not says_what_to_do(text)
    ]
    assert lacking == []


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("seed must be 0 or more, got {seed}; choose another seed", True),
        ("{path} is damaged. Restore it from a copy", True),
        ("{where}: {error}", True),
        ("seed must be 0 or more, got {seed}", False),
        ("{path} cannot be read: {error}", False),
    ],
)
def test_a_message_without_a_remedy_is_recognised(text, complete):
    assert says_what_to_do(text) is complete


def says_what_to_do(text: str) -> bool:
    """Return whether a message has a remedy, or is that of another error after its place."""
    known = text in NOTHING_TO_DO or any(part in text for part in ADVICE)
    is_wrapped = WRAPPED.fullmatch(text) is not None and "cannot" not in text
    return known or is_wrapped or REMEDY.search(text) is not None


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the message of every error that a module builds from a literal."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            texts = filter(None, (text_of(argument) for argument in node.args))
            sentences = [text for text in texts if " " in text]  # not the code of a problem
            if node.func.id in CLASSES and sentences:
                yield node.lineno, sentences[0]


def text_of(node: ast.expr) -> str | None:
    """Return a literal with its placeholders in braces; None if it is not a literal."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(
                part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
                for part in parts
            )
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return f"{text_of(left) or '{advice}'}{text_of(right) or '{advice}'}"
    return None
