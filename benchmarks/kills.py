"""Trainings whose processes are killed at random, and which are resumed with other numbers of them.

    python benchmarks/kills.py --out DIR [--runs 20] [--first 0]

Each run of a tiny model is disturbed one to three times: one of its processes is killed, and the
launcher starts all again; or the launcher is killed, and the run is resumed, in every other run
with another number of processes. Its final weights and its loss curve are compared with those of a
training by two processes that nothing has disturbed. One line of JSON per run; about 20 seconds of
CPU time each. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

RECIPE = """
task = "text_to_text"
[text]
source = { kind = "token", size = 40 }
[model]
dim = 16
share_embeddings = true
[model.encoder]
kind = "transformer"
num_layers = 1
num_heads = 2
hidden_dim = 32
dropout = 0.2
[model.decoder]
kind = "transformer"
num_layers = 1
num_heads = 2
hidden_dim = 32
dropout = 0.2
[generation]
max_length = 8
[metrics]
names = ["exact_match"]
[training]
max_steps = 100
batch_tokens = 60
update_tokens = 240
learning_rate = 0.003
validate_every = 50
validate_items = 4
checkpoint_every = 4
log_every = 1
adapt = false
"""
STEPS = 100
WORLDS = (1, 2, 4)


def prepare(out: Path) -> None:
    """Write the recipe and the data: reversed letters."""
    (out / "data").mkdir(parents=True, exist_ok=True)
    (out / "tiny.toml").write_text(RECIPE)
    for seed, (name, count) in enumerate({"train": 200, "valid": 12}.items()):
        chance = random.Random(seed)
        rows = [chance.choices("abcdefgh", k=chance.randint(1, 6)) for _ in range(count)]
        lines = [f"{' '.join(row)}\t{' '.join(reversed(row))}\n" for row in rows]
        (out / "data" / f"{name}.tsv").write_text("source\ttarget\n" + "".join(lines))


class Training:
    """`saccade train --processes N`, in a process of its own."""

    def __init__(self, out: Path, name: str, world: int) -> None:
        self.run, self.world = out / name, world
        command = [sys.executable, "-m", "saccade", "train", str(out / "tiny.toml")]
        command += ["--data", str(out / "data"), "--out", str(self.run), "--quiet"]
        command += ["--cache", str(out / "cache"), "--processes", str(world), "--resume"]
        command += ["--threads", "1"] if world == 1 else []
        self.output = out / f"{name}.txt"
        with self.output.open("a") as file:
            env = {**os.environ, "OMP_NUM_THREADS": "1"}
            self.launcher = subprocess.Popen(command, stdout=file, stderr=file, env=env)

    def steps(self) -> int:
        """Return the updates in metrics.jsonl."""
        try:
            return (self.run / "metrics.jsonl").read_bytes().count(b'"loss"')
        except FileNotFoundError:
            return 0

    def reaches(self, step: int) -> bool:
        """Wait for a step; return whether the training still runs then."""
        while self.steps() < step and self.launcher.poll() is None:
            time.sleep(0.002)
        return self.launcher.poll() is None

    def ranks(self) -> list[int]:
        """Return the ids of the processes that train."""
        if self.world == 1:
            return [self.launcher.pid]
        children = Path(f"/proc/{self.launcher.pid}/task/{self.launcher.pid}/children")
        return [int(word) for word in children.read_text().split()]

    def end(self) -> int:
        return self.launcher.wait(200)


def curve(run: Path) -> list[tuple[int, float, float]]:
    """Return the step, the loss and the number of predictions of each update."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["loss"], line["predictions"]) for line in lines if "loss" in line]


def disturbed(out: Path, number: int) -> dict[str, Any]:
    """Make one run; return what disturbed it."""
    chance, name = random.Random(number), f"run-{number}"
    shutil.rmtree(out / name, ignore_errors=True)
    changes_world = number % 2 == 1
    world, events = chance.choice(WORLDS) if changes_world else 2, []
    marks = sorted(chance.sample(range(2, STEPS - 5), chance.randint(1, 3)))
    training = Training(out, name, world)
    for mark in marks:
        if not training.reaches(mark):
            break
        ranks = training.ranks()
        if chance.random() < 0.5 and world > 1 and ranks:
            os.kill(chance.choice(ranks), signal.SIGKILL)
            events.append(f"a process of {world} killed at {training.steps()}")
            continue
        training.launcher.kill()
        training.end()
        events.append(f"all {world} killed at {training.steps()}")
        world = chance.choice(WORLDS) if changes_world else 2
        training = Training(out, name, world)
    code = training.end()
    return {"run": number, "changes_world": changes_world, "events": events, "code": code}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    out: Path = options.out
    prepare(out)
    if Training(out, "undisturbed", 2).end():  # which does nothing if it has ended before
        raise SystemExit((out / "undisturbed.txt").read_text())
    weights = load_file(out / "undisturbed" / "model.safetensors")
    expected = curve(out / "undisturbed")
    for number in range(options.first, options.first + options.runs):
        began = time.monotonic()
        result = disturbed(out, number)
        losses, theirs = curve(out / f"run-{number}"), out / f"run-{number}" / "model.safetensors"
        result["every_update_once"] = [(s, n) for s, _, n in losses] == [
            (s, n) for s, _, n in expected
        ]
        pairs = zip(losses, expected, strict=False)
        result["largest_difference"] = max(abs(a[1] - b[1]) / b[1] for a, b in pairs)
        result["equal_weights"] = all(
            torch.equal(tensor, weights[name]) for name, tensor in load_file(theirs).items()
        )
        result["seconds"] = round(time.monotonic() - began, 1)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
