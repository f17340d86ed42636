"""Damaged and hostile run folders: every file of a run is changed, and loading must not crash.

    python -m tests.training.hostile FOLDER ROUNDS SEED

Write a tiny run per task, change one file at a time, load the run and predict. Print a line
whenever that ends with anything but a prediction or a SaccadeError. It is a program of its own,
because it limits its memory, and its caller can limit its time.
"""

import copy
import json
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import tomlkit
import torch
from PIL import Image

import saccade
from saccade.data import sources
from saccade.errors import SaccadeError
from saccade.training import recipe as recipes
from saccade.training.manifest import MANIFEST
from saccade.training.run import Run

ROOM = 3 * 2**30
"""Bytes of memory beyond what the program has when it begins."""
SECONDS = 20
"""Seconds for loading and predicting once; most take hundredths of a second."""

SMALL = ("model.dim=8", "model.encoder.dim=8", "model.decoder.dim=8", "generation.max_length=5")
READER = ("model.encoder.dim=8", "model.encoder.num_layers=1", "model.encoder.num_heads=2")
RECIPES = {
    "text_to_text": ("rnn-attention", SMALL),
    "transformer": (
        "transformer-tiny",
        (
            "model.dim=8",
            "model.encoder.num_layers=1",
            "model.decoder.num_layers=1",
            "model.encoder.num_heads=2",
            "model.decoder.num_heads=2",
            "generation.max_length=5",
        ),
    ),
    "text_classification": ("bert-mini", ("model.dim=8", *READER[1:])),
    "masked_language_modeling": ("bert-mini-masked", ("model.dim=8", *READER[1:])),
    "language_modeling": (
        "gpt-char",
        ("model.dim=8", "model.decoder.num_layers=1", "model.decoder.num_heads=2"),
    ),
    "image_classification": ("vit-tiny", ("model.dim=8", *READER[1:])),
    "image_to_text": (
        "caption-transformer",
        (
            "image.size=16",
            "model.dim=8",
            "model.encoder.kind=vit",
            "model.encoder.dim=8",
            "model.encoder.patch_size=8",
            "model.encoder.encoder.num_layers=1",
            "model.encoder.encoder.num_heads=2",
            "model.decoder.num_layers=1",
            "model.decoder.num_heads=2",
            "text.vocabulary.min_count=1",
        ),
    ),
}


def write_data(folder: Path) -> None:
    """Write data for every task."""
    folder.mkdir()
    chance = np.random.default_rng(0)
    for number in range(4):
        pixels = chance.integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    words = ["a red house", "the dog sees a man", "one two three", "a man"]
    rows = {
        "text_to_text": [(text, text[::-1]) for text in words],
        "text_classification": [(text, "ab"[i % 2]) for i, text in enumerate(words)],
        "masked_language_modeling": [(text,) for text in words],
        "image_classification": [(f"{i}.png", "ab"[i % 2]) for i in range(4)],
        "image_to_text": [(f"{i}.png", text) for i, text in enumerate(words)],
    }
    rows["transformer"] = rows["text_to_text"]
    rows["language_modeling"] = rows["masked_language_modeling"]
    heads = {
        "text_to_text": "source\ttarget",
        "text_classification": "text\tlabel",
        "masked_language_modeling": "text",
        "image_classification": "image\tlabel",
        "image_to_text": "image\ttext",
    }
    heads["transformer"], heads["language_modeling"] = heads["text_to_text"], "text"
    for task, some in rows.items():
        lines = [heads[task], *("\t".join(row) for row in some)]
        (folder / f"{task}.tsv").write_text("\n".join(lines) + "\n")


def make_run(task: str, data: Path, folder: Path) -> None:
    """Write a run with untrained weights."""
    name, changes = RECIPES[task]
    recipe = recipes.load(name, changes)
    corpus = sources.open_corpus(data / f"{task}.tsv", recipe.options.columns, valid_fraction=0.0)
    fresh = recipe.options.create(corpus.splits["train"])
    run = Run(folder)
    folder.mkdir()
    run.begin(recipe, fresh, {})
    run.keep_best(fresh.model)


def ask(run: Path, task: str, data: Path) -> None:
    """Load a run and predict; any prediction will do."""
    loaded = saccade.load(run)
    inputs = [str(data / "0.png")] if task.startswith("image") else ["a red house"]
    if task == "masked_language_modeling":
        inputs = ["a [MASK] house"]
    options = {"max_length": 4, "beam": 2} if hasattr(loaded.config, "generation") else {}
    loaded.predict(inputs, **options)
    loaded.predict(inputs, attention=True, **options)


# ways to change a file

VALUES = (
    None,
    True,
    False,
    -1,
    0,
    1,
    3,
    2**31,
    2**31 - 1,
    2**32,
    2**63 - 1,
    2**63,
    4_000_000_000,
    99999999999999999999,
    10**400,
    -(10**30),
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "x" * 100_000,
    "\x00\ud7ff",
    [],
    {},
    [[[[[]]]]],
    [1, "a", None],
    {"kind": "x"},
    {"a": {"b": {}}},
)


def places(value: object, path: tuple = ()) -> list[tuple]:
    """Return the paths to every value inside a value."""
    paths = [path]
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            paths += places(part, (*path, key))
    return paths


def changed(value: object, chance: random.Random) -> tuple[object, str]:
    """Return the value with one place replaced or left out, and what was changed."""
    path = chance.choice(places(value)[1:] or [()])
    new = chance.choice(VALUES)
    change = f"{'/'.join(map(str, path))} = {new!r:.60}"
    if not path:
        return new, change
    value = copy.deepcopy(value)
    owner = value
    for key in path[:-1]:
        owner = owner[key]
    if chance.random() < 0.1:
        del owner[path[-1]]
        return value, f"without {'/'.join(map(str, path))}"
    if chance.random() < 0.1 and isinstance(owner, dict):
        owner[f"{path[-1]}x"] = owner.pop(path[-1])
        return value, f"{'/'.join(map(str, path))} renamed"
    owner[path[-1]] = new
    return value, change


def change_structure(path: Path, chance: random.Random) -> str:
    """Change one value of a JSON, TOML or safetensors file."""
    if path.suffix == ".toml":
        value, change = changed(tomlkit.parse(path.read_text()).unwrap(), chance)
        try:
            text = tomlkit.dumps(value)
        except Exception:  # TOML has no such value: put it there as text
            text, change = path.read_text().replace("= ", f"= {'[' * 50_000}", 1), "deep array"
        path.write_bytes(text.encode(errors="replace"))
    elif path.suffix == ".safetensors":
        content = path.read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        value, change = changed(json.loads(content[8 : 8 + size]), chance)
        header = json.dumps(value).encode()
        length = chance.choice([len(header), len(header), 0, 2**63, 10**8, len(content)])
        path.write_bytes(struct.pack("<Q", length) + header + content[8 + size :])
    else:
        value, change = changed(json.loads(path.read_text()), chance)
        path.write_text(json.dumps(value))
    return change


def change_bytes(path: Path, chance: random.Random) -> str:
    """Remove, change or add bytes."""
    content = bytearray(path.read_bytes())
    kind = chance.choice(["cut", "flip", "flip", "flip", "insert", "double", "noise"])
    at = chance.randrange(max(1, len(content)))
    if kind == "cut":
        content = content[:at]
    elif kind == "flip" and content:
        for _ in range(chance.choice([1, 1, 8])):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif kind == "insert":
        content[at:at] = chance.choice([b"\0", b"\xff\xfe", b"9" * 5000, b'"', b"[" * 100_000])
    elif kind == "double":
        content *= 2
    else:
        content = bytearray(chance.randbytes(300))
    path.write_bytes(content)
    return f"{kind} at {at}"


def change_kind(path: Path, chance: random.Random) -> str:
    """Put something other than a file under the name."""
    kind = chance.choice(["pipe", "folder", "loop", "nowhere", "zero", "missing", "huge", "empty"])
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "nowhere":
        path.symlink_to("nowhere")
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(2**40)
    elif kind == "empty":
        path.touch()
    return kind


def change_nesting(path: Path, chance: random.Random) -> str:
    """Nest deeper than any reader can follow."""
    depth = chance.choice([200, 2000, 100_000])
    path.write_text(
        chance.choice(
            ["[" * depth, "[" * depth + "]" * depth, '{"a":' * depth, "a = " + "[" * depth]
        )
        if path.suffix != ".toml" or chance.random() < 0.5
        else "[" + ".".join(["a"] * min(depth, 20_000)) + "]\nb = 1\n"
    )
    return f"nested {depth}"


WAYS = (change_structure,) * 6 + (change_bytes,) * 3 + (change_kind,) * 2 + (change_nesting,)


class TooLongError(BaseException):
    pass


def limit_memory() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))


def ring(*_: object) -> None:
    raise TooLongError


def try_one(run: Path, task: str, data: Path) -> str:
    """Return how it ended: "answer", "error", or what went wrong."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ask(run, task, data)
        return "answer"
    except SaccadeError as error:
        return "error" if str(error).strip() and len(str(error)) < 5000 else "a message too long"
    except TooLongError:
        return "too long: " + traceback.format_exc(limit=-6)
    except Exception:
        return traceback.format_exc(limit=-6)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def main(work: Path, rounds: int, seed: int) -> None:
    torch.set_num_threads(1)
    write_data(work / "data")
    for task in RECIPES:
        make_run(task, work / "data", work / task)
        ask(work / task, task, work / "data")
    signal.signal(signal.SIGALRM, ring)
    if sys.platform == "linux":
        limit_memory()
    counts: dict[str, int] = {}
    for task in RECIPES:
        names = sorted(path.name for path in (work / task).iterdir() if path.is_file())
        names = [name for name in names if name not in ("metrics.jsonl", ".lock")]
        for number in range(rounds):
            chance = random.Random(f"{task} {seed} {number}")
            name, way = chance.choice([*names, "recipe.toml", "recipe.toml"]), chance.choice(WAYS)
            with tempfile.TemporaryDirectory(dir=work) as folder:
                run = Path(folder) / "run"
                shutil.copytree(work / task, run)
                if name != MANIFEST and chance.random() < 0.9:
                    (
                        run / MANIFEST
                    ).unlink()  # a hostile folder would come with a manifest that fits
                try:
                    change = way(run / name, chance)
                except RecursionError:
                    continue
                label = f"{task} {seed} {number} {name}: {way.__name__}: {change}"
                print("trying", label[:300], flush=True)
                began = time.monotonic()
                outcome = try_one(run, task, work / "data")
                if time.monotonic() - began > SECONDS / 4:
                    print("slow", round(time.monotonic() - began, 1), label[:300])
            counts[outcome[:6]] = counts.get(outcome[:6], 0) + 1
            if outcome not in ("answer", "error"):
                print("fault", json.dumps([label[:300], outcome]), flush=True)
    print("done", json.dumps(counts), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
