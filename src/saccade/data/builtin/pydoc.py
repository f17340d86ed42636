"""The English text about Python that `help()` shows, from the standard library's pydoc_data.

It belongs to the running Python, so it differs a little between versions of Python.
"""

from collections.abc import Iterator, Mapping

from saccade.data.builtin._shared import split_by_hash
from saccade.errors import DataError

DESCRIPTION = (
    "English text about Python, from the standard library's pydoc_data.topics (differs between "
    "versions of Python), about 80 documents"
)
COLUMNS = ("text",)
SHARED = 80  # characters of a paragraph that two topics do not have in common by chance


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """Yield one document per topic, sorted by name: about 10 % each for valid and test."""
    topics = _topics()
    families = _families(topics)
    for name in sorted(topics):
        key = f"builtin:pydoc {families[name]}".encode()
        if split_by_hash(key, test=1, valid=1, total=10) == split:
            yield (topics[name],)


def _topics() -> Mapping[str, str]:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise DataError(
            "builtin:pydoc reads pydoc_data.topics, which this Python was installed without; use "
            "your own text"
        ) from error
    return topics


def _families(topics: Mapping[str, str]) -> dict[str, str]:
    """Return for each topic the first name among those that share paragraphs with it.

    Many topics are chapters of another one. A family stays in one split; otherwise a test would
    ask for text that was memorised.
    """
    topics_with: dict[str, set[str]] = {}
    for name, text in topics.items():
        for paragraph in text.split("\n\n"):
            if len(paragraph) >= SHARED:
                topics_with.setdefault(paragraph.strip(), set()).add(name)
    family = {name: name for name in topics}
    for names in topics_with.values():
        joined = {family[name] for name in names}
        if len(joined) > 1:
            first = min(joined)
            family = {name: first if other in joined else other for name, other in family.items()}
    return family
