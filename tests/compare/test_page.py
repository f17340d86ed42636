"""compare.html: one file, no external resources, and user text as text only."""

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from saccade.compare import page as module
from saccade.compare.comparison import ShownSample
from saccade.compare.folder import ComparisonFolder
from saccade.compare.measurements import Sample
from saccade.compare.page import pages
from saccade.lens.record import AttentionRecord, Side
from saccade.metrics.labels import metric_text
from tests.compare.tiny import place, run
from tests.hostile_texts import HOSTILE as HOSTILE_TEXTS
from tests.pages import Seen

HOSTILE = "<script>alert(1)</script>"
PATIENCE = 240_000  # milliseconds, for busy machines
INPUTS = "script application/json"
TAGS = ["<img", "src=x", "onerror=alert(2)>", "</td>", '"onload="', "&amp;", "$x^2$", "{title}"]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """A comparison on data full of markup."""
    folder = place(tmp_path_factory.mktemp("page") / "it")
    for name in ("train", "valid", "test"):
        path = folder / "data" / f"{name}.tsv"
        header, *rows = path.read_text().splitlines()
        nasty = [f"{HOSTILE} {TAGS[i % len(TAGS)]} {row}" for i, row in enumerate(rows)]
        path.write_text("\n".join([header, *nasty]) + "\n")
    return run(folder)[0]


@pytest.fixture(scope="module")
def seen(comparison):
    [page] = pages(comparison).values()
    return Seen(page)


@pytest.fixture(scope="module")
def separate(comparison):
    """The pages where attention is too large for the first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_ATTENTION", 1000)
        return {name: Seen(page) for name, page in pages(comparison).items()}


def test_user_text_is_escaped(seen):
    assert set(seen.names).isdisjoint({"iframe", "object", "link", "a"})
    assert seen.names.count("script") == 2  # the view, and what it shows
    assert not any(name.startswith("on") for name in seen.attributes)
    assert HOSTILE in seen.text
    assert "{title}" in seen.text


def test_page_loads_no_external_resources(seen, separate):
    policy = seen.policy
    assert (policy["default-src"], policy["img-src"]) == ("'none'", "data:")
    assert all(policy[name].startswith("'sha256-") for name in ("style-src", "script-src"))
    assert "style" not in seen.attributes
    assert not {"img", "source"} & set(seen.names)  # charts are drawn in the page
    tags = separate["compare.html"].tags
    images = [attributes for tag, attributes in tags if tag in {"img", "source"}]
    assert images
    for attributes in images:
        address = attributes.get("src") or attributes["srcset"]
        kind, content = address.split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        picture = base64.b64decode(content).decode()
        assert "<script" not in picture
        links = re.findall(r'href="(?!#|data:image/png)[^"]*"', picture)
        assert links == []


def test_attention_view_holds_the_models_with_attention(comparison, seen):
    inputs = json.loads(seen.inside[INPUTS])
    assert [[model["name"] for model in models] for models in inputs] == [["looks"]] * 4
    for (model,), answers in zip(inputs, comparison.samples(), strict=True):
        assert model["read"]["words"] == answers["looks"].sample.input.split()
        assert [layer["name"] for layer in model["layers"]] == list(answers["looks"].record.layers)


def test_large_attention_gets_a_page_of_its_own_and_maps_on_the_first(separate, comparison, seen):
    first, other = separate["compare.html"], separate["attention.html"]
    assert "script-src" not in first.policy
    assert [attributes["href"] for tag, attributes in first.tags if tag == "a"] == [
        "attention.html"
    ]
    assert first.names.count("img") == seen.names.count("img") + len(comparison.samples())
    assert other.inside[INPUTS] == seen.inside[INPUTS]


def test_obsolete_page_is_removed(tmp_path):
    folder = ComparisonFolder(tmp_path)
    folder.write_pages({"compare.html": "a", "attention.html": "b"})
    folder.write_pages({"compare.html": "c"})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"compare.html": "c"}


def test_every_picture_has_a_light_and_a_dark_version(separate):
    tags = separate["compare.html"].tags
    dark = [attributes for tag, attributes in tags if tag == "source"]
    light = [attributes for tag, attributes in tags if tag == "img"]
    assert len(dark) == len(light)
    assert all(attributes["media"] == "(prefers-color-scheme: dark)" for attributes in dark)
    assert all(a["srcset"] != b["src"] for a, b in zip(dark, light, strict=True))


def test_page_shows_all_numbers(comparison, seen):
    assert comparison.summary() in seen.text
    for title in ("Verdict", "Differences", "Cost", "Quality by input length", "Learning curves"):
        assert title in seen.text
    for contender in comparison.contenders:
        assert f"{contender.parameters:,}" in seen.text
        assert metric_text("exact_match", contender.qualities["exact_match"].mean) in seen.text
    assert comparison.verdict.replace("_", " ") in seen.text
    charts = [one["aria-label"] for _, one in seen.tags if one.get("class") == "chart"]
    assert any(name.startswith("exact match (%): looks") for name in charts)
    assert any(name.startswith("valid loss by step: looks from") for name in charts)
    assert "with another seed the order may change" in seen.text
    assert "This model has no attention." in seen.text
    assert "nrefs:1|bs:100" in seen.text


def test_page_fits_small_screens(seen):
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in (
        seen.tags
    )
    tables = [at for at, (tag, _) in enumerate(seen.tags) if tag == "table"]
    assert tables
    assert all(seen.tags[at - 1][1]["class"].split()[0] == "wide" for at in tables)


def test_two_hundred_hostile_texts_in_a_comparison(browser, comparison, tmp_path):
    """As inputs, references, predictions and words with attention."""

    def hostile(contender):
        samples = []
        for start in range(0, len(HOSTILE_TEXTS), 50):
            texts = tuple(HOSTILE_TEXTS[start : start + 50])
            side = Side.of_words(texts)
            looks = np.full((1, len(texts), len(texts)), 1 / len(texts))
            record = (
                AttentionRecord(side, side, {texts[0]: looks}) if contender.number == 0 else None
            )
            text = "\n".join(texts)
            sample = Sample(input=text, references=texts, answer=text, attention=None)
            samples.append(ShownSample(sample=sample, record=record))
        return replace(contender, shown=samples)

    other = replace(comparison, entrants=[hostile(one) for one in comparison.entrants])
    (tmp_path / "compare.html").write_bytes(pages(other)["compare.html"].encode())
    tab = browser.new_page()
    tab.set_default_timeout(PATIENCE)
    inside = "[...new Set([...document.querySelectorAll('body *')].map((one) => one.localName))]"
    (tmp_path / "plain.html").write_text(pages(comparison)["compare.html"])
    names = []
    for page in ("plain", "compare"):
        tab.goto((tmp_path / f"{page}.html").as_uri())
        tab.wait_for_selector('#view[aria-busy="false"]')
        names.append(set(tab.evaluate(inside)))
    assert names[1] <= names[0]
    for number in "123":
        tab.get_by_label("Example", exact=True).select_option(number)
        tab.wait_for_function("() => document.querySelectorAll('.text button').length > 40")
    assert tab.evaluate("window.__hit") is None
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    cells = tab.locator('[aria-label="Samples"] tbody tr').first.locator("td").all_text_contents()
    assert all(text in cells[0] for text in HOSTILE_TEXTS[:50])
    tab.close()


def test_attention_view_works_in_a_browser_and_no_user_text_runs(browser, comparison, tmp_path):
    (tmp_path / "compare.html").write_text(pages(comparison)["compare.html"])
    tab, complaints = browser.new_page(), []
    tab.set_default_timeout(PATIENCE)
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", lambda dialog: complaints.append(dialog.message))
    tab.goto((tmp_path / "compare.html").as_uri())
    tab.wait_for_selector('#view[aria-busy="false"]')
    assert tab.locator(".panel h2").all_inner_texts() == ["looks"]
    assert HOSTILE in tab.locator(".panel .text").first.inner_text()
    assert tab.locator(".chart").first.bounding_box()["height"] > 50
    tab.set_viewport_size({"width": 390, "height": 844})
    assert tab.evaluate("document.documentElement.scrollWidth <= 390")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        report = axe.run(tab)
        assert report.violations_count == 0, report.generate_report()
    assert complaints == []
    tab.close()
