"""With `samples=False`, texts of users stay out of run folders and reports."""

import shutil
from pathlib import Path

import pytest

from saccade.compare import compare
from saccade.compare.training_job import perform
from saccade.training import session
from saccade.training.console import Console
from saccade.training.run import Run
from tests.tiny_recipes import small

MARKER = "quixotic zephyr nonpareil"
"""Words in every text of the data; a vocabulary has them, but never side by side."""
QUIET = Console(quiet=True)


def write_data(folder: Path, columns: str, rows: list[str]) -> Path:
    folder.mkdir()
    for name, part in (("train", rows[:30]), ("valid", rows[30:36]), ("test", rows[36:])):
        (folder / f"{name}.tsv").write_text("\n".join([columns, *part, ""]))
    return folder


def with_marker(folder: Path) -> list[str]:
    """Return the files below a folder that contain the marker, as text, token list or bytes."""
    words = MARKER.split()
    forms = [
        separator.join(words).encode(encoding)
        for separator in (" ", "&#32;", '", "', '","', '", " ', '" "', "▁", "Ġ", "\\u0120")
        for encoding in ("utf-8", "utf-16-le", "utf-32-le")
    ]
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        str(path.relative_to(folder))
        for path in files
        if any(form in path.read_bytes() for form in forms)
    ]


def tasks() -> dict[str, tuple[str, list[str]]]:
    """Return the columns and rows of data for a recipe of each task that reads text."""
    texts = [f"{MARKER} {'abcdefg'[i % 7]} {i % 5}" for i in range(40)]
    return {
        "rnn-attention": ("source\ttarget", [f"{text}\t{text} x" for text in texts]),
        "bert-mini": ("text\tlabel", [f"{text}\t{'ab'[i % 2]}" for i, text in enumerate(texts)]),
        "bert-mini-masked": ("text", texts),
        "gpt-mini": ("text", texts),
    }


CHANGES = ("training.max_steps=2", "training.validate_every=1", "training.batch_tokens=64")


def recipe_file(folder: Path, name: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(small(name, *CHANGES, "training.validate_items=4").to_toml())
    return path


@pytest.mark.parametrize("name", tasks())
def test_no_file_of_a_run_quotes_the_data(tmp_path, name):
    data = write_data(tmp_path / "data", *tasks()[name])
    recipe = recipe_file(tmp_path, name)
    options = {"data": data, "cache": tmp_path / "cache", "console": QUIET, "device": "cpu"}
    session.train(recipe, out=tmp_path / "open", **options)
    assert "report.html" in with_marker(tmp_path / "open")  # so the search finds it
    session.train(recipe, out=tmp_path / "closed", samples=False, **options)
    assert with_marker(tmp_path / "closed") == []
    assert not Run(tmp_path / "closed").sampled.exists()
    assert (tmp_path / "closed" / "report.html").exists()


def test_a_resumed_run_keeps_its_choice(tmp_path):
    data = write_data(tmp_path / "data", *tasks()["bert-mini"])
    recipe = recipe_file(tmp_path, "bert-mini")
    options = {"data": data, "cache": tmp_path / "cache", "console": QUIET, "device": "cpu"}
    session.train(recipe, out=tmp_path / "run", samples=False, **options)
    session.train(recipe, out=tmp_path / "run", max_steps=3, resume=True, **options)
    assert with_marker(tmp_path / "run") == []


def test_a_comparison_without_samples(tmp_path):
    data = write_data(tmp_path / "data", *tasks()["rnn-attention"])
    names = [f"one={recipe_file(tmp_path, 'rnn-attention')}"]
    options = {"data": data, "cache": tmp_path / "cache", "console": QUIET, "device": "cpu"}

    def inside(job, notify):
        perform(job, QUIET)

    compare(names, out=tmp_path / "open", perform=inside, **options)
    assert {"compare.html", "compare.json"} <= set(with_marker(tmp_path / "open"))
    compare(names, out=tmp_path / "closed", perform=inside, samples=False, **options)
    assert with_marker(tmp_path / "closed") == []
    compare(names, out=tmp_path / "open", perform=inside, samples=False, **options)
    assert not {"compare.html", "compare.json"} & set(with_marker(tmp_path / "open"))
    shutil.rmtree(tmp_path / "open")
