"""Which settings learn more per update: one change at a time, on several tasks and seeds.

    SACCADE_DATA=... python benchmarks/settings.py [TASK ...] [--out runs/settings] [--seeds 2]
        [--only NAME ...] [--batches N]

Every setting is trained on the same number of batches with one thread, so that its result does not
depend on what else the machine does. Results are measured on validation data only, and kept in
results-TASK-BATCHES.json, so that no training run is repeated. The table shows the difference to
the first setting of the task; seconds per update are only a hint, because other work may be
running.
"""

import argparse
import json
import shutil
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import race
import torch

from saccade.training import recipe as recipes
from saccade.training import session
from saccade.training.console import Console


class Task(NamedTuple):
    """A recipe, the batches of its training runs, what is measured, and the settings to compare."""

    recipe: str
    data: str
    batches: int
    measure: str
    settings: dict[str, tuple[str, ...]]

    def source(self, out: Path) -> str:
        """Return what the recipe is trained on."""
        return self.data if ":" in self.data else str(out / "data" / self.data)


def both(key: str, value: object) -> tuple[str, str]:
    """Return a change of encoder and decoder."""
    return f"model.encoder.{key}={value}", f"model.decoder.{key}={value}"


def adamw(rate: float, *more: str) -> tuple[str, ...]:
    """Return the changes for AdamW with a learning rate."""
    return "training.optim.kind=adamw", f"training.learning_rate={rate}", *more


def muon(rate: float, *more: str) -> tuple[str, ...]:
    """Return the changes for Muon with a learning rate."""
    return "training.optim.kind=muon", f"training.learning_rate={rate}", *more


PRE_MEAN = "model.encoder.norm_order=pre", "model.pooling=mean", "model.pooler=false"

TASKS = {
    "translation": Task(
        "transformer-tiny",
        "translation",
        1000,
        "valid_loss",
        {
            "AdamW 2e-3": adamw(2e-3),
            "Muon 4e-3": muon(4e-3),
            "Muon 4e-3, updates of 2048": muon(4e-3, "training.update_tokens=2048"),
            "Muon 6e-3, updates of 2048": muon(6e-3, "training.update_tokens=2048"),
            "Muon 4e-3, query/key norm": muon(4e-3, *both("qk_norm", "true")),
            "Muon 4e-3, gated": muon(
                4e-3, *both("feed_forward", "gated"), *both("hidden_dim", 176)
            ),
            "Muon 4e-3, no label smoothing": muon(4e-3, "loss.label_smoothing=0"),
            "Muon 4e-3, weight decay 0.1": muon(4e-3, "training.optim.weight_decay=0.1"),
            "Muon 4e-3, stable": muon(4e-3, "training.optim.schedule=stable"),
            "Muon 4e-3, squared ReLU": muon(4e-3, *both("activation", "relu_squared")),
            "Muon 4e-3, zero outputs": muon(4e-3, *both("zero_outputs", "true")),
            "Muon 4e-3, RMS norm": muon(4e-3, *both("norm", "rms")),
        },
    ),
    "language": Task(
        "gpt-char",
        "language",
        800,
        "valid_loss",
        {
            "AdamW 2e-3": adamw(2e-3),
            "Muon 1e-2": muon(1e-2),
            "Muon 1e-2, updates of 2048": muon(1e-2, "training.update_tokens=2048"),
            "Muon 1e-2, query/key norm": muon(1e-2, "model.decoder.qk_norm=true"),
            "Muon 7e-3": muon(7e-3),
            "Muon 1e-2, gated": muon(
                1e-2, "model.decoder.feed_forward=gated", "model.decoder.hidden_dim=344"
            ),
            "Muon 1e-2, weight decay 0.1": muon(1e-2, "training.optim.weight_decay=0.1"),
            "Muon 1e-2, stable": muon(1e-2, "training.optim.schedule=stable"),
            "Muon 1e-2, squared ReLU": muon(1e-2, "model.decoder.activation=relu_squared"),
            "Muon 1e-2, zero outputs": muon(1e-2, "model.decoder.zero_outputs=true"),
            "Muon 1e-2, RMS norm": muon(1e-2, "model.decoder.norm=rms"),
        },
    ),
    "sentences": Task(
        "bert-mini",
        "sentences",
        600,
        "valid_loss",
        {
            "AdamW 3e-4": adamw(3e-4),
            "Muon 1e-3": muon(1e-3),
            "Muon 2e-3": muon(2e-3),
            "Muon 1e-3, token dropout 0.1": muon(1e-3, "text.token_dropout=0.1"),
            "Muon 1e-3, token dropout 0.2": muon(1e-3, "text.token_dropout=0.2"),
            "Muon 1e-3, dropout 0.1": muon(1e-3, "model.dropout=0.1", "model.encoder.dropout=0.1"),
            "Muon 1e-3, dropout 0.3": muon(1e-3, "model.dropout=0.3", "model.encoder.dropout=0.3"),
            "AdamW 3e-4, pre-norm": adamw(3e-4, "model.encoder.norm_order=pre"),
            "AdamW 6e-4, pre-norm, mean": adamw(6e-4, *PRE_MEAN),
            "Muon 1e-3, pre-norm, mean": muon(1e-3, *PRE_MEAN),
            "Muon 2e-3, pre-norm, mean": muon(2e-3, *PRE_MEAN),
            "Muon 1e-3, pre-norm, attention": muon(
                1e-3,
                "model.encoder.norm_order=pre",
                "model.pooling=attention",
                "model.pooler=false",
            ),
            "Muon 1e-3, pre-norm, mean, dropout 0.3": muon(
                1e-3, *PRE_MEAN, "model.dropout=0.3", "model.encoder.dropout=0.3"
            ),
        },
    ),
    "images": Task(
        "vit-tiny",
        "images",
        500,
        "valid_loss",
        {
            "AdamW 2e-3": adamw(2e-3),
            "Muon 5e-3": muon(5e-3),
            "Muon 1e-2": muon(1e-2),
            "Muon 5e-3, batches of 64": muon(
                5e-3, "training.batch_tokens=3136", "training.update_tokens=6272"
            ),
        },
    ),
    "letters": Task(
        "pronounce",
        "builtin:pronounce",
        1000,
        "valid_loss",
        {
            "AdamW 2e-3": adamw(2e-3),
            "Muon 4e-3": muon(4e-3),
            "Muon 8e-3": muon(8e-3),
        },
    ),
}


def train(out: Path, task: Task, name: str, seed: int) -> dict[str, float]:
    """Train with a setting; return the last validation and the seconds per update."""
    folder = out / f"training-{task.recipe}"
    shutil.rmtree(folder, ignore_errors=True)
    start = time.monotonic()
    one = recipes.load(task.recipe, task.settings[name]).training.batches_per_update()
    updates = task.batches // one
    session.train(
        task.recipe,
        data=task.source(out),
        out=folder,
        changes=(*task.settings[name], f"training.validate_every={updates // 2}"),
        max_steps=updates,
        seed=seed,
        cache=out / "cache",
        console=Console(quiet=True),
    )
    seconds = time.monotonic() - start
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    last = [row for line in lines if task.measure in (row := json.loads(line))][-1]
    values = {key: value for key, value in last.items() if isinstance(value, int | float)}
    return {**values, "seconds": seconds / updates}


def table(task: Task, results: dict[str, dict[str, float]], seeds: int) -> str:
    """Return the mean of each setting and its difference to the first, per seed."""
    head, first = f"| {task.recipe}, {task.batches} batches | loss |", next(iter(task.settings))
    lines = [f"{head} difference | seconds per update |", "|---|---|---|---|"]
    for name in task.settings:
        done = [seed for seed in range(seeds) if f"{task.recipe}, {name}, {seed}" in results]
        if not done:
            continue
        mine, base = (
            [results[f"{task.recipe}, {which}, {seed}"] for seed in done] for which in (name, first)
        )
        loss = statistics.mean(row[task.measure] for row in mine)
        changes = ", ".join(
            f"{a[task.measure] - b[task.measure]:+.3f}" for a, b in zip(mine, base, strict=True)
        )
        seconds = statistics.median(row["seconds"] for row in mine)
        lines.append(f"| {name} | {loss:.3f} | {changes} | {seconds:.3f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tasks", nargs="*", metavar="TASK", default=list(TASKS))
    parser.add_argument("--out", type=Path, default=Path("runs/settings"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="names of settings")
    parser.add_argument("--batches", type=int, help="of each training run (default: the task's)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    writers = {
        "translation": race.pairs,
        "language": race.characters,
        "sentences": race.sentences,
        "images": race.images,
    }
    for chosen in options.tasks:
        task = TASKS[chosen]
        task = task._replace(batches=options.batches or task.batches)
        path = out / f"results-{chosen}-{task.batches}.json"
        results = json.loads(path.read_text("utf-8")) if path.exists() else {}
        if chosen in writers and not Path(task.source(out)).exists():
            writers[chosen](out)
        for seed in range(options.seeds):
            for name in options.only or task.settings:
                key = f"{task.recipe}, {name}, {seed}"
                if key not in results:
                    results[key] = train(out, task, name, seed)
                    path.write_text(json.dumps(results, indent=1), "utf-8")
                    print(key, json.dumps(results[key]), flush=True)
        print(table(task, results, options.seeds), flush=True)


if __name__ == "__main__":
    main()
