"""Every built-in recipe at a size that trains in milliseconds, with data for its task."""

import atexit
import json
import random
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from safetensors.torch import save_file

from saccade.data import sources
from saccade.data.corpus import Item
from saccade.data.store.cache import Encoded
from saccade.encoders.efficientnet import EfficientNetLite0, _name_in_file
from saccade.tasks import Batch, Task
from saccade.training import recipe as recipes
from saccade.training.recipe import Recipe

WIDTH = 32
SMALL = {
    "dim": WIDTH,
    "hidden_dim": 48,
    "num_layers": 2,
    "num_heads": 4,
    "blocks": 1,
    "block": 24,
    "widths": [8, 16, 24],
    "max_length": 24,
}
"""The small value of each size, by the name of its key."""
NAMES = recipes.names()
WORDS = ["ash", "bay", "cot", "dew", "elm", "fir", "gum", "hay", "ivy", "jay", "keg", "log"]
COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220)}
VECTOR_WIDTH = 24  # that of builtin:tones
ROWS = 12


@dataclass(frozen=True)
class Tiny:
    """A task with new weights, its examples, and items to predict."""

    task: Task
    examples: Encoded
    items: list[Item]

    def batch(self) -> Batch:
        """Return all examples as one batch."""
        return self.task.collate(self.examples, range(len(self.task.sizes(self.examples))))

    def questions(self) -> list[Any]:
        """Return the inputs of all items."""
        return [self.task.input_of(item) for item in self.items]


def small(name: str, *changes: str) -> Recipe:
    """Return a built-in recipe with the sizes of `SMALL`."""
    table = recipes.load(name).table()
    shrink(table)
    for change in changes:
        recipes.set_key(table, change)
    return recipes.from_table(table, name)


def shrink(table: dict[str, Any]) -> None:
    """Replace the sizes in a recipe's tables, at every depth."""
    for key, value in table.items():
        if isinstance(value, dict):
            shrink(value)
            if key in ("vocabulary", "source", "target"):
                value["size"], value["min_count"] = 300, 1
            if key == "image":
                value["size"] = min(value["size"], 32)
            if key == "generation":
                value["max_length"] = 6
        elif key in SMALL and value is not None:
            table[key] = SMALL[key]
        elif key == "weights":
            table[key] = str(data() / "lite0.safetensors")


@cache
def data() -> Path:
    """Return a folder with data for each task, one per process."""
    folder = Path(tempfile.mkdtemp(prefix="tiny-recipes-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    chance = random.Random(0)
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(2, 5))) for _ in range(ROWS)]
    pairs = [f"{text}\t{' '.join(reversed(text.split()))}" for text in texts]
    labels = [f"{text}\t{'ab'[i % 2]}" for i, text in enumerate(texts)]
    captions, classes = [], []
    (folder / "images").mkdir()
    for i in range(ROWS):
        colour = list(COLOURS)[i % len(COLOURS)]
        noise = np.random.default_rng(i).integers(0, 100, (32, 32 + i, 3))
        pixels = np.clip(noise + COLOURS[colour], 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{i}.png")
        captions.append(f"images/{i}.png\ta {colour} page")
        classes.append(f"images/{i}.png\t{colour}")
    (folder / "vectors").mkdir()
    sounds, spoken = [], []
    for i in range(ROWS):
        high = np.random.default_rng(i).normal(i % 2, 1.0, (3 + i, VECTOR_WIDTH))
        np.save(folder / "vectors" / f"{i}.npy", high)
        sounds.append(f"{i}.npy\t{'ab'[i % 2]}")
        spoken.append(f"{i}.npy\t{WORDS[i % 2]} {WORDS[2]}")
    tables = {
        "vector_classification": ("vectors\tlabel", sounds),
        "vector_to_text": ("vectors\ttext", spoken),
        "text_to_text": ("source\ttarget", pairs),
        "text_classification": ("text\tlabel", labels),
        "image_to_text": ("image\ttext", captions),
        "image_classification": ("image\tlabel", classes),
    }
    for task, (header, rows) in tables.items():
        (folder / f"{task}.tsv").write_text("\n".join([header, *rows, ""]))
    sentences = [
        "\n".join(f"{word}\t{'B-tree' if word in ('ash', 'elm', 'fir') else 'O'}" for word in x)
        for x in map(str.split, texts)
    ]
    (folder / "tagging.conll").write_text("\n\n".join([*sentences, ""]))
    for task in ("language_modeling", "masked_language_modeling"):
        rows = [json.dumps({"text": text}) for text in texts]
        (folder / f"{task}.jsonl").write_text("\n".join([*rows, ""]))
    network = EfficientNetLite0().state_dict()
    names = [name for name in network if not name.endswith("num_batches_tracked")]
    save_file({_name_in_file(name): network[name] for name in names}, folder / "lite0.safetensors")
    return folder


def tiny(name: str, *changes: str) -> Tiny:
    """Return the task of a small recipe, with examples to train on and items to predict."""
    recipe = small(name, *changes)
    [file] = data().glob(f"{recipe.task}.*")
    corpus = sources.open_corpus(file, recipe.options.columns)
    split = corpus.splits["train"]
    task = recipe.options.create(split)
    return Tiny(task, task.encode(split, data() / "cache"), list(task.items(split))[:3])
