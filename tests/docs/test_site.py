"""The site: generated pages are complete, and everything builds without a broken link."""

import importlib.util

import pytest

from saccade import cli
from tests.docs.pages import DOCS, generator


def test_command_line_page_has_every_verb_and_option():
    page = generator("make_command_line").page()
    assert "## saccade train" in page
    assert "| `--max-steps N`" in page
    assert "| `--n-best N`" in page
    assert page.count("\n## saccade ") == len(cli.VERBS)


def test_recipe_keys_page_has_tasks_keys_and_defaults():
    page = generator("make_recipe_keys").page()
    assert "## text_to_text" in page
    assert "| `training.max_steps` | whole number from 0 | 20000 |" in page
    assert "`model.encoder<recurrent>.cell`" in page


def test_built_in_page_has_recipes_and_data():
    page = generator("make_recipe_keys").built_in()
    assert "| `transformer-tiny` | `text_to_text` |" in page
    assert "| `builtin:phrases` |" in page


def test_http_page_has_every_route_and_schema():
    page = generator("make_http_api").page()
    for route in ("POST /v1/predict", "POST /translate", "POST /v1/completions", "GET /metrics"):
        assert f"## {route}\n" in page
    assert "[PredictRequest](#predictrequest)" in page
    assert "### PredictRequest\n" in page
    assert "| `queue` | 128 |" in page


def test_python_pages_cover_every_package():
    module = generator("make_python_api")
    assert module.packages() == set(module.TITLES)
    pages = module.pages()
    assert "::: saccade.training.session.train\n" in pages["saccade.md"]
    assert "::: saccade.attention.scores\n" in pages["attention.md"]


def test_architecture_picture_is_up_to_date():
    module = generator("make_architecture")
    assert module.PICTURE.read_text() == module.picture(), "run python docs/make_architecture.py"


def test_aligned_lines_become_a_list():
    rewritten = generator("docstrings").rewritten
    text = "Summary.\n\nkey    what it is,\n       and more\nother  else\n\nProse  stays\nhere."
    assert rewritten(text) == (
        "Summary.\n\n- `key`: what it is, and more\n- `other`: else\n\nProse  stays\nhere."
    )


def test_example_sections_get_the_name_that_griffe_knows():
    rewritten = generator("docstrings").rewritten
    assert rewritten("Sum.\n\nExample:\n    >>> 1") == "Sum.\n\nExamples:\n    >>> 1"


def test_formulas_become_mathml():
    markdown = pytest.importorskip("markdown")
    extension = generator("mathml").makeExtension()
    html = markdown.markdown(
        "The width $\\sqrt{d}$ costs $5.\n\n$$ a = b $$", extensions=[extension]
    )
    assert html.count("<math") == 2
    assert "<msqrt>" in html
    assert "costs $5." in html


def test_broken_links_are_found(tmp_path):
    links = generator("make_site").broken_links
    (tmp_path / "b.html").write_text('<h1 id="there">b</h1>')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">good</a> <a href="b.html#gone">bad</a> <a href="c.html">bad</a>'
        '<script src="https://example.org/x.js"></script>'
    )
    assert sorted(links(tmp_path)) == [
        "a.html: b.html#gone has no such anchor",
        "a.html: c.html does not exist",
        "a.html: loads https://example.org/x.js",
    ]


@pytest.mark.timeout(900)  # seconds of work, but minutes on a busy machine
@pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="zensical is missing")
def test_the_site_builds_without_warnings_and_broken_links(tmp_path):
    make_site = generator("make_site")
    make_site.stage(tmp_path)
    site = make_site.render(tmp_path)
    assert list(make_site.broken_links(site)) == []
    assert (site / "reference" / "python" / "attention.html").exists()
    assert "<math" in (site / "explanation" / "lectures.html").read_text(encoding="utf-8")
    assert not list(site.rglob("*.py"))
    assert len(list(site.rglob("*.html"))) > len(list(DOCS.rglob("*.md")))
