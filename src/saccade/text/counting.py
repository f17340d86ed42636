"""Count the pieces of texts that are streamed once; only distinct pieces are in memory.

A text consists of chunks (white space and the word after it), and no piece crosses the end of a
chunk. So chunks are counted first, which is cheap, and only distinct ones are split into pieces.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable

from saccade.errors import TextError

# Unicode's White_Space, as in the tokenizers library; Python's own \s includes U+001C to 001F
_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_CHUNK = re.compile(f"[{_SPACE}]*[^{_SPACE}]+|[{_SPACE}]+")

_MOST_CHUNKS = 200_000  # distinct chunks before they are split: few repeat in text without spaces
_REPORT_EVERY = 10_000  # texts between two calls of progress


def count_pieces(
    texts: Iterable[str],
    split: Callable[[str], list[str]],
    *,
    prefix: str = "",
    progress: Callable[[int], None] | None = None,
) -> Counter[str]:
    """Return how often each piece occurs.

    Args:
        texts: Texts, read once.
        split: Splits a chunk into pieces.
        prefix: Put before every text.
        progress: Called now and then, and at the end, with the number of texts read.

    Raises:
        TextError: If an item is not valid text.
    """
    if isinstance(texts, str):
        raise TextError("texts must be several texts (a list, or lines of a file), got one string")
    pieces: Counter[str] = Counter()
    chunks: Counter[str] = Counter()
    number = 0
    for number, text in enumerate(texts, start=1):
        require_text(text, f"text {number} of the training texts")
        if text:
            chunks.update(_CHUNK.findall(prefix + text))
        if len(chunks) > _MOST_CHUNKS:
            _empty(chunks, split, pieces)
        if progress is not None and number % _REPORT_EVERY == 0:
            progress(number)
    _empty(chunks, split, pieces)
    if progress is not None:
        progress(number)
    return pieces


def require_text(text: object, where: str) -> None:
    """Raise `TextError` unless this is a str without lone surrogates."""
    if not isinstance(text, str):
        raise TextError(f"{where} is {type(text).__name__}, not str; convert it first")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(
            f"{where} contains the lone surrogate U+{ord(text[error.start]):04X} at character "
            f"{error.start}, which is not valid text; read the file as UTF-8 with "
            "errors='replace', or remove the character"
        ) from None


def _empty(chunks: Counter[str], split: Callable[[str], list[str]], into: Counter[str]) -> None:
    for chunk, count in chunks.items():
        for piece in split(chunk):
            into[piece] += count
    chunks.clear()
