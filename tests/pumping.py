"""Detect regular expressions whose time grows faster than the length of the text.

    python -m tests.pumping < expressions.json

It reads a list of [pattern, flags, methods], tries each on strings that repeat parts of what the
pattern matches before an end that it does not match, and prints one line per slow pattern. It is a
separate program, so that the caller can set a time limit.
"""

import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product

try:
    from re import _constants as codes
    from re import _parser as parser
except ImportError:  # Python 3.10
    import sre_constants as codes
    import sre_parse as parser

LENGTH = 20_000
"""Length of the longest string: linear time takes milliseconds, quadratic half a second."""
BUDGET = 0.15
"""Largest processor time of a call in seconds, the fastest of three."""
PUMPS = 40
ENDS = ("", "\0", "!", "a", " ")
CATEGORIES = {
    codes.CATEGORY_DIGIT: "0",
    codes.CATEGORY_NOT_DIGIT: "a",
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_NOT_SPACE: "a",
    codes.CATEGORY_WORD: "a",
    codes.CATEGORY_NOT_WORD: "!",
}
CANDIDATES = [*map(chr, range(32, 127)), "\n", "é", "\u3000"]


def parts(tree: parser.SubPattern) -> Iterator[list]:
    """Yield the beginnings of the tree and of every part of it, as lists of nodes."""
    for number, node in enumerate(tree, start=1):
        yield list(tree)[:number]
        yield [node]
        for inner in children(node):
            yield from parts(inner)


def children(node: tuple) -> list[parser.SubPattern]:
    kind, value = node
    if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        return [value[2]]
    if kind is codes.SUBPATTERN:
        return [value[3]]
    if kind is codes.BRANCH:
        return list(value[1])
    if kind in (codes.ASSERT, codes.ASSERT_NOT):
        return [value[1]]
    return []


def sample(nodes: list, chance: random.Random) -> str:
    """Return a string that the nodes match, ignoring assertions."""
    written = ""
    for kind, value in nodes:
        if kind is codes.LITERAL:
            written += chr(value)
        elif kind is codes.NOT_LITERAL:
            written += chance.choice([c for c in CANDIDATES if ord(c) != value])
        elif kind is codes.ANY:
            written += chance.choice(CANDIDATES[:95])
        elif kind is codes.IN:
            written += one_of(value, chance)
        elif kind in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            least, most, inner = value
            count = chance.randint(least, min(int(most), max(least, 1) + 1))
            written += "".join(sample(list(inner), chance) for _ in range(count))
        elif kind is codes.SUBPATTERN:
            written += sample(list(value[3]), chance)
        elif kind is codes.BRANCH:
            written += sample(list(chance.choice(value[1])), chance)
        else:
            assert kind in (codes.AT, codes.ASSERT, codes.ASSERT_NOT), f"unknown node {kind}"
    return written


def one_of(choices: list, chance: random.Random) -> str:
    """Return a character of a class."""
    if choices[0][0] is codes.NEGATE:
        pattern = [member(choice) for choice in choices[1:]]
        return chance.choice([c for c in CANDIDATES if not any(test(c) for test in pattern)])
    kind, value = chance.choice(choices)
    if kind is codes.LITERAL:
        return chr(value)
    if kind is codes.RANGE:
        return chr(chance.randint(*value))
    return CATEGORIES[value]


def member(choice: tuple) -> Callable[[str], bool]:
    kind, value = choice
    if kind is codes.LITERAL:
        return lambda c: ord(c) == value
    if kind is codes.RANGE:
        return lambda c: value[0] <= ord(c) <= value[1]
    tests: dict[str, Callable[[str], bool]] = {
        **{"0": str.isdecimal, " ": str.isspace, "a": str.isalnum},
        "!": lambda c: not (c.isalnum() or c == "_"),
    }
    return tests[CATEGORIES[value]]


def pumps(pattern: str, flags: int, chance: random.Random) -> Iterator[tuple[str, str, str]]:
    """Yield the beginning, the repeated part and the end of strings to try."""
    tree = parser.parse(pattern, flags)
    every = [part for part in parts(tree) if part]
    for _ in range(PUMPS):
        before = [sample(chance.choice(every), chance) for _ in range(chance.randint(0, 2))]
        middle = [sample(chance.choice(every), chance) for _ in range(chance.randint(1, 3))]
        yield "".join(before), "".join(middle) or "a", chance.choice(ENDS)
    plain = dict.fromkeys(sample(part, chance) or "a" for part in every)
    for middle, end in product(list(plain)[:PUMPS], ENDS[:2]):
        yield "", middle, end


def caller(pattern: str, flags: int, method: str) -> Callable[[str], object]:
    if method == "tokenizers":
        from tokenizers import Regex, pre_tokenizers

        return pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str
    compiled = re.compile(pattern, flags)
    if method in ("sub", "subn"):
        return lambda text: compiled.sub("", text)
    if method == "finditer":
        return lambda text: sum(1 for _ in compiled.finditer(text))
    return getattr(compiled, method)


def slowest(call: Callable[[str], object], pump: tuple[str, str, str]) -> int | None:
    """Return the length at which a call exceeds its budget; None if it never does.

    Quadratic time that exceeds it at `LENGTH` exceeds 1/64 of it at an eighth, so a call that is
    much faster there is not tried with longer strings.
    """
    before, middle, after = pump
    count = 4
    while True:
        text = before + middle * count + after
        took = seconds(call, text)
        if took > BUDGET and all(seconds(call, text) > BUDGET for _ in range(2)):
            return len(text)
        if len(text) >= LENGTH or (len(text) >= LENGTH / 8 and took < BUDGET / 200):
            return None
        # small steps first, since the time may double with each
        count += 2 if count < 32 else count


def seconds(call: Callable[[str], object], text: str) -> float:
    began = time.process_time()
    call(text)
    return time.process_time() - began


def main() -> None:
    for pattern, flags, methods in json.load(sys.stdin):
        for method in methods:
            print("trying", json.dumps([pattern, method]), flush=True)
            chance = random.Random(0)
            call = caller(pattern, flags, method)
            known = pattern if method != "tokenizers" else re.sub(r"\\p\{(\w)\}", r"\\w", pattern)
            for pump in pumps(known, flags, chance):
                if (length := slowest(call, pump)) is not None:
                    print("slow", json.dumps([pattern, method, pump, length]), flush=True)
                    break
    print("done", flush=True)


if __name__ == "__main__":
    main()
