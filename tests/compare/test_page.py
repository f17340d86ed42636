"""The page: one file, no script, nothing from outside, and user text as text only."""

import base64
import re
from html.parser import HTMLParser

import pytest

from saccade.compare.page import page
from tests.compare.tiny import place, run

HOSTILE = "<script>alert(1)</script>"
TAGS = ["<img", "src=x", "onerror=alert(2)>", "</td>", '"onload="', "&amp;", "$x^2$", "{title}"]


class Seen(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "img", "source"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A comparison on data full of markup."""
    folder = place(tmp_path_factory.mktemp("page") / "it")
    for name in ("train", "valid", "test"):
        path = folder / "data" / f"{name}.tsv"
        header, *rows = path.read_text().splitlines()
        nasty = [f"{HOSTILE} {TAGS[i % len(TAGS)]} {row}" for i, row in enumerate(rows)]
        path.write_text("\n".join([header, *nasty]) + "\n")
    return run(folder)[0]


@pytest.fixture(scope="module")
def seen(found):
    return Seen(page(found))


def test_user_text_is_text(seen):
    assert not seen.open
    assert {tag for tag, _ in seen.tags}.isdisjoint({"script", "iframe", "object", "link", "a"})
    attributes = {name for _, given in seen.tags for name in given}
    assert not any(name.startswith("on") for name in attributes)
    assert HOSTILE in seen.text
    assert "{title}" in seen.text


def test_nothing_comes_from_outside(seen):
    policy = next(given["content"] for tag, given in seen.tags if "http-equiv" in given)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    images = [given for tag, given in seen.tags if tag in {"img", "source"}]
    assert images
    for given in images:
        address = given.get("src") or given["srcset"]
        kind, content = address.split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        picture = base64.b64decode(content).decode()
        assert "<script" not in picture
        links = re.findall(r'href="(?!#|data:image/png)[^"]*"', picture)
        assert links == []


def test_every_picture_is_light_and_dark(seen):
    dark = [given for tag, given in seen.tags if tag == "source"]
    light = [given for tag, given in seen.tags if tag == "img"]
    assert len(dark) == len(light)
    assert all(given["media"] == "(prefers-color-scheme: dark)" for given in dark)
    assert all(a["srcset"] != b["src"] for a, b in zip(dark, light, strict=True))


def test_the_page_says_what_the_numbers_say(found, seen):
    assert found.summary() in seen.text
    for title in ("Quality", "Differences", "Cost", "By length of the input", "Learning curves"):
        assert title in seen.text
    for each in found.contenders:
        assert f"{each.parameters:,}" in seen.text
        assert str(each.qualities["exact_match"]) in seen.text
    assert "with another seed the order may turn round" in seen.text
    assert "It has no attention to show." in seen.text
    assert "nrefs:1|bs:100" in seen.text


def test_it_is_for_phones_too(seen):
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in (
        seen.tags
    )
    tables = [at for at, (tag, _) in enumerate(seen.tags) if tag == "table"]
    assert tables
    assert all(seen.tags[at - 1][1]["class"].split()[0] == "wide" for at in tables)
