"""The tutorials followed literally, with budgets of a few steps; run by `make test-slow`."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import tiny_recipes
from tests.docs.pages import DOCS, ROOT, TUTORIALS, blocks, commands, name_of

pytestmark = pytest.mark.slow
STEPS = "--max-steps 4"
NEVER_ENDING = ("saccade serve",)
NOT_HERE = (
    "fashion-mnist",
    "flickr8k",
    "runs/captions",
    "runs/paraphrases",
    "runs/fr-en",
    "all-MiniLM-L6-v2/",
)
"""Commands on data that only a reader has."""


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with the files that a reader of the tutorials has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SACCADE_CACHE", str(tmp_path / "cache"))
    data = tiny_recipes.data()
    pairs = (data / "text_to_text.tsv").read_text()
    Path("pairs.tsv").write_text(pairs)
    Path("test.tsv").write_text(pairs)
    _folder("pairs", pairs)
    Path("reviews.tsv").write_text((data / "text_classification.tsv").read_text())
    Path("names.conll").write_text((data / "tagging.conll").read_text())
    Path("texts.txt").write_text("the cat sat on the mat\n" * 60)
    Path("new.txt").write_text("the old dogs are big\n\nmy cat is happy\n")
    for number in range(12):
        folder = Path("photos", ("cats", "dogs")[number % 2])
        folder.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(number).integers(0, 256, (70, 64, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"{number}.jpg")
        clips = Path("clips", ("down", "up")[number % 2])
        clips.mkdir(parents=True, exist_ok=True)
        np.save(clips / f"{number}.npy", np.random.default_rng(number).normal(size=(9, 4)))
    shutil.copy("clips/up/1.npy", "clip.npy")
    shutil.copy("photos/cats/0.jpg", "photo.jpg")
    shutil.make_archive("photos", "zip", "photos")
    return tmp_path


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", TUTORIALS, ids=name_of)
def test_tutorial_can_be_followed(page, reader):
    for command in commands(page):
        if command.startswith(NEVER_ENDING) or any(name in command for name in NOT_HERE):
            continue
        text = re.sub(r"--(minutes|max-steps) \d+", STEPS, command)
        text = text.replace("photos.zip/shoe.png", "photos.zip/cats/0.jpg")
        if " train " in text and STEPS not in text:
            text += f" {STEPS}"
        words = [sys.executable, "-m", "saccade", *shlex.split(text)[1:]]
        if words[3] in ("train", "compare"):
            words += ["--quiet"]
        if words[3] == "demo":
            words += ["--minutes", "0.1"]
        standard_input = Path("new.txt").read_text() if "new.txt |" in page.read_text() else ""
        done = subprocess.run(
            words,
            input=standard_input,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        assert done.returncode == 0, f"{text}\n{done.stderr}"


def test_comparison_in_python_runs(reader, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    [code] = blocks(DOCS / "how-to" / "compare.md", "python")
    code = code.replace("minutes=5", "max_steps=4").replace("model.dim=512", "model.dim=48")
    recipe = tiny_recipes.small("rnn").to_toml()
    Path("tiny.toml").write_text(recipe)
    code = code.replace('"rnn", "wide=rnn"', '"rnn=tiny.toml", "wide=tiny.toml"')
    names: dict[str, object] = {}
    exec(compile(code, "docs/how-to/compare.md", "exec"), names)
    assert names["best"] in ("rnn", "wide", None)


def _folder(name: str, rows: str) -> Path:
    folder = Path(name)
    folder.mkdir()
    for split in ("train", "valid", "test"):
        (folder / f"{split}.tsv").write_text(rows)
    return folder
