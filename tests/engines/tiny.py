"""Tiny Transformers with random weights, as runs."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from saccade.data import sources
from saccade.training import recipe as recipes
from saccade.training.run import Run

SENTENCES = [
    "the cat sat on the mat",
    "a dog ran away from the cat",
    "the mat is on the floor",
    "a cat and a dog sat on the floor",
    "mat",
]
BLOCKS = """
kind = "transformer"
num_layers = 2
num_heads = 4
hidden_dim = 24
dropout = 0.0
"""
TRANSLATOR = f"""
task = "text_to_text"
[text]
source = {{ kind = "bpe", size = 290 }}
max_length = 20
[model]
dim = 16
share_embeddings = true
[model.encoder]
{BLOCKS}
[model.decoder]
{BLOCKS}
[generation]
beam = 1
max_length = 12
[metrics]
names = ["exact_match"]
"""
LANGUAGE_MODEL = f"""
task = "language_modeling"
[text]
vocabulary = {{ kind = "bpe", size = 290 }}
block = 24
[model]
dim = 16
[model.decoder]
{BLOCKS}
position = {{ kind = "learned", length = 24 }}
[generation]
sample = false
max_length = 9
"""
SEPARATE = ("model.share_embeddings=false", 'text.target={ kind = "word", size = 40 }')


def translator(folder: Path, *changes: str) -> Any:
    """Create a run of a translator and return its task."""
    rows = [("source", "target"), *zip(SENTENCES, reversed(SENTENCES), strict=True)]
    return made(folder, TRANSLATOR, rows, *changes)


def language_model(folder: Path, *changes: str) -> Any:
    """Create a run of a language model and return its task."""
    return made(folder, LANGUAGE_MODEL, [("text",), *((text,) for text in SENTENCES)], *changes)


def made(
    folder: Path, recipe: str, rows: list[tuple[str, ...]], *changes: str, noise: float = 0.3
) -> Any:
    """Create a run of a recipe, given by name or text; the first row names the columns."""
    folder.mkdir(parents=True, exist_ok=True)
    named: str | Path = recipe
    if recipe not in recipes.names():
        named = folder.parent / "recipe.toml"
        named.write_text(recipe)
    chosen = recipes.load(named, changes)
    data = folder.parent / "rows.tsv"
    data.write_text("".join("\t".join(row) + "\n" for row in rows))
    split = sources.open_corpus(data, chosen.options.columns, valid_fraction=0.0).splits["train"]
    torch.manual_seed(1)
    task = chosen.options.create(split)
    shaken(task.model, noise)
    Run(folder).begin(chosen, task, {})
    Run(folder).keep_best(task.model)
    return task.eval()


def shaken(model: nn.Module, noise: float = 0.3) -> None:
    """Add noise to every parameter, so that no norm or bias is trivially 0 or 1."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(noise * torch.randn_like(parameter))
