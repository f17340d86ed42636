"""Tiny training runs: a recipe, its data, a call that trains it, and what equal runs share."""

import hashlib
import json
import random
from pathlib import Path

import torch

from saccade.training import session
from saccade.training.console import Console

RECIPE = """
task = "text_to_text"

[text]
source = { kind = "token", size = 60 }

[model]
dim = 12
share_embeddings = true

[model.encoder]
kind = "recurrent"
dim = 8
dropout = 0.2

[model.decoder]
kind = "recurrent"
attention = "after"
dim = 12
dropout = 0.2

[generation]
max_length = 12

[metrics]
names = ["exact_match"]

[training]
max_steps = 12
batch_tokens = 80
learning_rate = 0.01
accumulate = 2
validate_every = 4
validate_items = 8
select_by = "metric"
checkpoint_every = 3
log_every = 1

[training.optim]
schedule = "constant"
warmup = 5
"""


def write_rows(path: Path, count: int, seed: int) -> None:
    chance = random.Random(seed)
    with path.open("w") as file:
        file.write("source\ttarget\n")
        for _ in range(count):
            letters = chance.choices("abcdefgh", k=chance.randint(1, 6))
            file.write(" ".join(letters) + "\t" + " ".join(reversed(letters)) + "\n")


def prepare(folder: Path) -> Path:
    """Write the recipe and its data into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny.toml").write_text(RECIPE)
    (folder / "data").mkdir()
    for seed, (name, count) in enumerate({"train": 150, "valid": 12, "test": 10}.items()):
        write_rows(folder / "data" / f"{name}.tsv", count, seed)
    return folder


def train(folder: Path, out: str, *changes: str, **options):
    """Train the tiny recipe of a folder into a run there."""
    return session.train(
        folder / "tiny.toml",
        data=options.pop("data", folder / "data"),
        out=folder / out,
        changes=changes,
        cache=folder / "cache",
        device="cpu",
        console=options.pop("console", None) or Console(quiet=True),
        **options,
    )


def arguments(folder: Path, out: str, *more: str) -> list[str]:
    """Return the same training as a command."""
    places = {"--data": folder / "data", "--out": folder / out, "--cache": folder / "cache"}
    named = [str(part) for pair in places.items() for part in pair]
    return ["train", str(folder / "tiny.toml"), *named, "--threads", "1", *more]


def metrics(run: Path) -> list[dict]:
    """Return the lines of metrics.jsonl without values that depend on the clock."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    clock = ("seconds", "_per_second")
    return [{k: v for k, v in line.items() if not k.endswith(clock)} for line in lines]


def outcome(run: Path) -> dict:
    """Return all that two runs of the same training must agree on to the bit."""
    files = [run / "model.safetensors", *sorted(run.glob("checkpoints/step-*/*.safetensors"))]
    assert len(files) > 3
    digests = {str(f.relative_to(run)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}
    newest = max(run.glob("checkpoints/step-*"), key=lambda path: int(path.name[5:]))
    state = json.loads((newest / "state.json").read_text())
    for name in (
        "seconds",
        "prepared",
        "validated_at",
        "validation_seconds",
        "report_seconds",
        "metrics_size",
    ):
        del state[name]
    return {"files": digests, "state": state, "metrics": metrics(run)}


def everything(run: Path) -> dict:
    """Return the bytes and times of all files and folders, except the lock."""
    return {
        str(path.relative_to(run)): (
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else None,
        )
        for path in run.rglob("*")
        if path.name != ".lock"
    }


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)
