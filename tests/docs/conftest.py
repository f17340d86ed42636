"""A folder with the data and the runs that the pages speak of, all of them tiny."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from saccade.data import sources
from saccade.training import session
from saccade.training.console import Console
from saccade.training.run import Run
from tests import tiny_recipes

RUNS = {
    "first": "transformer-tiny",
    "mood": "bert-mini",
    "entities": "rnn-tagger",
    "book": "gpt-char",
    "digits": "vit-tiny",
    "shapes": "caption-attention",
    "tones": "vector-classifier",
}
GOLD = "0-0 1-1\n"


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with untrained runs and a few rows of data."""
    folder = tmp_path_factory.mktemp("world")
    pairs = tiny_recipes.data() / "text_to_text.tsv"
    header, *rows = pairs.read_text().splitlines(keepends=True)
    (folder / "pairs.tsv").write_text(header + "".join(rows))
    (folder / "test.tsv").write_text(header + "".join(rows[:3]))
    (folder / "test.talp").write_text(GOLD * 3)
    (folder / "pairs").mkdir()
    (folder / "pairs" / "train.tsv").write_text(header + "".join(rows))
    (folder / "pairs" / "test.tsv").write_text(header + "".join(rows[:3]))
    for name, recipe in RUNS.items():
        _begin(folder / "runs" / name, recipe)
    return folder


@pytest.fixture
def world(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a copy of that folder, where every training takes two steps."""
    folder = tmp_path / "world"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    real = session.train

    def train(recipe: str, *, out: str, data: str, **options: Any) -> Any:
        Path(f"{out}.toml").write_text(tiny_recipes.small(recipe).to_toml())
        shutil.rmtree(out, ignore_errors=True)
        options = {key: value for key, value in options.items() if key != "minutes"}
        options |= {"max_steps": 2, "cache": "cache", "console": Console(quiet=True)}
        return real(f"{out}.toml", data=data, out=out, **options)

    monkeypatch.setattr(session, "train", train)
    return folder


def _begin(folder: Path, name: str) -> None:
    recipe = tiny_recipes.small(name)
    [file] = tiny_recipes.data().glob(f"{recipe.task}.*")
    corpus = sources.open_corpus(file, recipe.options.columns)
    task = recipe.options.create(corpus.splits["train"])
    folder.mkdir(parents=True)
    Run(folder).begin(recipe, task, {})
    Run(folder).keep_best(task.model)
