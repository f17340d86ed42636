"""The content of an HTML page, for tests without a browser."""

from html.parser import HTMLParser

VOID = {"meta", "img", "source"}


class Seen(HTMLParser):
    """The parsed content of a page.

    tags     every element and its attributes
    inside   text by "title", "style", "script module" and so on
    policy   the allowed sources of each kind of content
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, str] = {}
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []
        [content] = [attrs["content"] for _, attrs in self.tags if "http-equiv" in attrs]
        self.policy = dict(part.split(" ", 1) for part in content.split("; "))

    @property
    def names(self) -> list[str]:
        """Return the names of all elements."""
        return [tag for tag, _ in self.tags]

    @property
    def attributes(self) -> set[str]:
        """Return the names of all attributes."""
        return {name for _, attrs in self.tags for name in attrs}

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        inner = self._open[-1] if self._open else ""
        if inner in {"title", "style", "script"}:
            kind = f"{inner} {self.tags[-1][1].get('type', '')}".strip()
            self.inside[kind] = self.inside.get(kind, "") + data
        else:
            self.text += data
