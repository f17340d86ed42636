"""HTML pages parsed for tests that need no browser."""

from html.parser import HTMLParser

VOID = {"meta", "img", "source"}


class Seen(HTMLParser):
    """A parsed page.

    tags     each element and its attributes
    text     the text outside of title, style and scripts
    inside   the content of "title", "style", "script module" and so on
    policy   the allowed sources of each kind of content, from its content security policy
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, str] = {}
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []
        [policy] = [values["content"] for _, values in self.tags if "http-equiv" in values]
        self.policy = dict(part.split(" ", 1) for part in policy.split("; "))

    @property
    def names(self) -> list[str]:
        """The names of the elements."""
        return [tag for tag, _ in self.tags]

    @property
    def attributes(self) -> set[str]:
        """The names of all attributes."""
        return {name for _, values in self.tags for name in values}

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
