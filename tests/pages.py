"""What stands in a page of HTML, for tests that look at it without a browser."""

from html.parser import HTMLParser

VOID = {"meta", "img", "source"}


class Seen(HTMLParser):
    """The elements of a page, its text, and what stands in its head, its style and its scripts.

    tags     each element and its attributes
    inside   by "title", "style", "script module" and so on
    policy   what each kind of content may come from
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, str] = {}
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []
        [said] = [given["content"] for _, given in self.tags if "http-equiv" in given]
        self.policy = dict(part.split(" ", 1) for part in said.split("; "))

    @property
    def names(self) -> list[str]:
        """Of the elements."""
        return [tag for tag, _ in self.tags]

    @property
    def attributes(self) -> set[str]:
        """The names of all attributes."""
        return {name for _, given in self.tags for name in given}

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
