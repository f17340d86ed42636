"""The English text about Python that `help()` shows, from the standard library's pydoc_data.

It is of the Python that runs, so it differs a little from one version of Python to the next.
"""

import hashlib
from collections.abc import Iterator, Mapping

from saccade.errors import DataError

DESCRIPTION = (
    "English text about Python, from the standard library's pydoc_data.topics (differs between "
    "versions of Python), about 80 documents"
)
COLUMNS = ("text",)
SHARED = 80  # characters in a paragraph that no two topics have by chance


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """A topic a document, in the order of their names."""
    topics = _topics()
    families = _families(topics)
    for name in sorted(topics):
        if _split_of(families[name]) == split:
            yield (topics[name],)


def _topics() -> Mapping[str, str]:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise DataError(
            "builtin:pydoc reads pydoc_data.topics, which this Python was installed without; use "
            "text of your own"
        ) from error
    return topics


def _split_of(family: str) -> str:
    """By a hash of the name: about 1 in 10 for test, 1 for validation."""
    digest = hashlib.sha256(f"builtin:pydoc {family}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") % 10
    return "test" if place == 0 else "valid" if place == 1 else "train"


def _families(topics: Mapping[str, str]) -> dict[str, str]:
    """The first name among those that share paragraphs: many topics are chapters of another.

    A family stays in one split, or else a test would ask for what was learnt by heart.
    """
    having: dict[str, set[str]] = {}
    for name, text in topics.items():
        for paragraph in text.split("\n\n"):
            if len(paragraph) >= SHARED:
                having.setdefault(paragraph.strip(), set()).add(name)
    family = {name: name for name in topics}
    for names in having.values():
        joined = {family[name] for name in names}
        if len(joined) > 1:
            first = min(joined)
            family = {name: first if of in joined else of for name, of in family.items()}
    return family
