"""Estimate the cost of training on this machine from a few updates on a sample of the data.

The trial runs in a child process, so its peak memory is that of training alone. Updates are made by
the training loop itself. The time of an epoch is that of the sample, scaled by the number of rows.
Validation is not included.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from saccade.allocator import keep_freed_memory, peak_memory
from saccade.data import sources
from saccade.data.batches.plan import Plan
from saccade.data.corpus import Split
from saccade.data.sample import sample
from saccade.data.survey.facts import quantile
from saccade.errors import SaccadeError, TrainingError
from saccade.tasks import Task, TextInput
from saccade.training import precision as precisions
from saccade.training import recipe as recipes
from saccade.training.console import Console
from saccade.training.copies import Copies
from saccade.training.distributed import World
from saccade.training.interruption import Interruption
from saccade.training.loop import Trainer, TrainingData
from saccade.training.progress import TrainingProgress
from saccade.training.recipe import Recipe
from saccade.training.run import Run

SECONDS = 10.0
"""Maximum time of the updates of a trial in seconds, without its preparation."""
LONGEST = 120.0
"""Timeout of a trial in seconds."""
LEARNED, ENCODED, IMAGES = 50_000, 5_000, 512
"""Maximum number of rows to learn vocabularies from, to encode, and to read files of."""
WARM_UP, LEAST, MOST = 2, 3, 100
"""Number of warm-up updates, and minimum and maximum number of timed updates."""


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Lengths of the inputs in tokens, and the recipe's limit.

    Attributes:
        median: The median length.
        p95: The 95th percentile.
        longest: The maximum length.
        limit: The maximum number of tokens that the model reads at once.
        above: The fraction of inputs above the limit; they are cut, read in windows or left out.
    """

    median: int
    p95: int
    longest: int
    limit: int
    above: float


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of training on this machine.

    Attributes:
        recipe: The name of the recipe.
        parameters: The number of parameters.
        seconds_per_update: The mean time of an update.
        updates_per_epoch: The number of updates that read every row once.
        minutes_per_epoch: The time of an epoch, without validation.
        minutes: The time until the recipe's budget is used up.
        epochs: The number of epochs in that time.
        peak_memory: Peak main memory in bytes; None where the system does not report it.
        device: The device, such as "cpu".
        device_memory: Peak memory of the accelerator in bytes; None on a CPU.
        threads: The number of processor threads.
        updates: The number of timed updates.
        tokens: The lengths of the inputs in tokens; None unless the recipe limits them.
    """

    recipe: str
    parameters: int
    seconds_per_update: float
    updates_per_epoch: float
    minutes_per_epoch: float
    minutes: float
    epochs: float
    peak_memory: int | None
    device: str
    device_memory: int | None
    threads: int
    updates: int
    tokens: Tokens | None


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A recipe, its data, and the time for updates in seconds.

    Rows that cannot be read are left out; with `skip_broken`, broken images are, too.
    """

    recipe: str
    data: str
    changes: tuple[str, ...] = ()
    pair: str | None = None
    columns: Mapping[str, str] | None = None
    seconds: float = SECONDS
    skip_broken: bool = False


def measure_cost(trial: Trial) -> Cost:
    """Run a trial in a child process.

    Raises:
        TrainingError: The trial failed; the message is the reason.
    """
    command = [sys.executable, "-m", __package__, json.dumps(asdict(trial))]
    try:
        child = subprocess.run(
            command, capture_output=True, text=True, timeout=LONGEST, check=False, encoding="utf-8"
        )
    except subprocess.TimeoutExpired:
        raise TrainingError(
            f"the trial took more than {LONGEST:.0f} seconds; inspect with --trial 0 to skip it"
        ) from None
    if child.returncode:
        lines = child.stderr.strip().splitlines() or ["its process was killed"]
        raise TrainingError(lines[-1].removeprefix("error: "))
    facts = json.loads(child.stdout.splitlines()[-1])
    tokens = facts.pop("tokens")
    return Cost(**facts, tokens=None if tokens is None else Tokens(**tokens))


def main() -> None:
    """Run the trial in the first argument, and print its cost as JSON."""
    facts: dict[str, Any] = json.loads(sys.argv[1])
    try:
        cost = perform(Trial(**{**facts, "changes": tuple(facts["changes"])}))
    except (SaccadeError, OSError) as error:
        first = str(error).splitlines()[0].removesuffix(":")
        print(f"error: {first}", file=sys.stderr)
        sys.exit(2)
    print(json.dumps(asdict(cost)))


def perform(trial: Trial) -> Cost:
    """Return the cost of training, estimated from some updates on a sample of the data."""
    recipe = recipes.load(trial.recipe, trial.changes)
    options = recipe.options
    corpus = sources.open_corpus(
        trial.data,
        options.columns,
        pair=trial.pair,
        columns=trial.columns,
        skip_broken=trial.skip_broken,
        tolerant=True,
    )
    train = corpus.splits["train"]
    files = any(column.names_files for column in options.columns)
    learned = sample(train, IMAGES if files else LEARNED)
    encoded = sample(learned, IMAGES if files else ENCODED)
    keep_freed_memory()
    torch.manual_seed(recipe.training.seed)
    task = options.create(learned)
    with tempfile.TemporaryDirectory() as folder:
        examples = task.encode(encoded, Path(folder))
        plan = recipe.training.plan(task.sizes(examples))
        data = TrainingData(examples, plan, examples, [])
        times = _timed(task, data, recipe, trial.seconds, Path(folder))
    seconds = sum(times) / len(times)
    scale = train.count() / encoded.count()
    updates = max(1.0, plan.per_epoch * scale / plan.size)
    training = recipe.training
    minutes = training.max_steps * seconds / 60
    if training.minutes is not None:
        minutes = min(minutes, training.minutes)
    rows = max(1, encoded.count())
    return Cost(
        recipe=trial.recipe,
        parameters=sum(p.numel() for p in task.parameters()),
        seconds_per_update=seconds,
        updates_per_epoch=updates,
        minutes_per_epoch=seconds * updates / 60,
        minutes=minutes,
        epochs=minutes * 60 / seconds / updates,
        peak_memory=peak_memory(),
        device=task.device.type,
        device_memory=torch.cuda.max_memory_allocated() if task.device.type == "cuda" else None,
        threads=torch.get_num_threads(),
        updates=len(times),
        tokens=_tokens(task, encoded, examples.skipped.too_long / rows),
    )


def _timed(
    task: Task, data: TrainingData, recipe: Recipe, seconds: float, folder: Path
) -> list[float]:
    """Return the time of each update, after one with the longest rows and the warm-up."""
    device = precisions.pick_device("auto")
    task.to(device)
    run, world = Run(folder / "run"), World(device=device)
    trainer = Trainer(
        task=task,
        data=data,
        config=recipe.training,
        run=run,
        world=world,
        copies=Copies(run, world),
        precision=precisions.choose("auto", device),
        console=Console(quiet=True),
        interruption=Interruption(),
    )
    longest = _longest(data.plan)  # which sets the peak memory
    trainer.backward(data.plan.update(longest), longest)
    progress, times = TrainingProgress(), list[float]()
    ends = time.monotonic() + seconds
    while len(times) < WARM_UP + MOST:
        started = time.monotonic()
        progress, _ = trainer.update(progress)
        times.append(time.monotonic() - started)
        if time.monotonic() > ends and len(times) >= WARM_UP + LEAST:
            break
    return times[WARM_UP:]


def _longest(plan: Plan) -> int:
    """Return the batches before the update that has the longest row."""

    def longest(read: int) -> int:
        return max(int(plan.lengths[rows].sum(1).max()) for _, rows in plan.update(read))

    return max(range(0, plan.per_epoch, plan.size), key=longest)


def _tokens(task: Task, rows: Split, left_out: float) -> Tokens | None:
    """Return the lengths of inputs in tokens; None for running text and images."""
    match task.describe().reads:
        case TextInput(long="cut" | "slide") as reads if not rows.running:
            width = max(1, len(rows.columns) - 1)
            inputs = [row.values[:width] for row in rows]
            texts = [text for values in inputs for text in values]
            lengths = iter(map(len, reads.tokenizer.encode_batch(texts)))
            extra = len(reads.before) + width * len(reads.after)
            totals = [extra + sum(islice(lengths, width)) for _ in inputs]
            counts, limit = Counter(totals), reads.max_length
            above = sum(total > limit for total in totals) / max(1, len(totals))
            return Tokens(
                median=quantile(counts, 0.5),
                p95=quantile(counts, 0.95),
                longest=max(totals),
                limit=limit,
                above=max(above, left_out),
            )
    return None
