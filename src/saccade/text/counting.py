"""Counts the pieces of texts that are streamed once; only distinct pieces are held.

A text falls into chunks (white space and the word after it), and no piece reaches over the end of
a chunk. So chunks are counted first, which is cheap, and only distinct ones are split into pieces.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable

from saccade.errors import TextError

# Unicode's White_Space, as the tokenizers library has it; Python's own \s takes in U+001C to 001F
_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_CHUNK = re.compile(f"[{_SPACE}]*[^{_SPACE}]+|[{_SPACE}]+")

_HELD = 200_000  # distinct chunks before they are split: text without spaces has few equal ones
_OFTEN = 10_000  # texts between two calls of progress


def count_pieces(
    texts: Iterable[str],
    split: Callable[[str], list[str]],
    *,
    prefix: str = "",
    progress: Callable[[int], None] | None = None,
) -> Counter[str]:
    """How often each piece that `split` makes of a chunk occurs; each text begins with `prefix`."""
    if isinstance(texts, str):
        raise TextError("texts must be several texts (a list, or lines of a file), got one string")
    pieces: Counter[str] = Counter()
    chunks: Counter[str] = Counter()
    number = 0
    for number, text in enumerate(texts, start=1):
        require_text(text, f"text {number} of the training texts")
        if text:
            chunks.update(_CHUNK.findall(prefix + text))
        if len(chunks) > _HELD:
            _empty(chunks, split, pieces)
        if progress is not None and number % _OFTEN == 0:
            progress(number)
    _empty(chunks, split, pieces)
    if progress is not None:
        progress(number)
    return pieces


def require_text(text: object, where: str) -> None:
    """Refuses what is no text: another type, or a str that holds half of a surrogate pair."""
    if not isinstance(text, str):
        raise TextError(f"{where} is {type(text).__name__}, not str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(
            f"{where} holds the lone surrogate U+{ord(text[error.start]):04X} at character "
            f"{error.start}, which is no text; read the file as UTF-8 with errors='replace', or "
            f"leave the character out"
        ) from None


def _empty(chunks: Counter[str], split: Callable[[str], list[str]], into: Counter[str]) -> None:
    for chunk, count in chunks.items():
        for piece in split(chunk):
            into[piece] += count
    chunks.clear()
