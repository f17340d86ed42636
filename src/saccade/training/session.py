"""The whole job: from a recipe's name and a data folder to a trained task, and back from a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from saccade.data import sources
from saccade.data.batching import Plan
from saccade.data.corpus import Corpus, items
from saccade.errors import DataError, RunError
from saccade.tasks.base import Evaluation, Task
from saccade.training import distributed, precision
from saccade.training import recipe as recipes
from saccade.training.distributed import World
from saccade.training.loop import Material, Trainer
from saccade.training.recipe import Recipe
from saccade.training.report import write_report
from saccade.training.run import Run
from saccade.training.screen import Screen


def train(
    recipe: str | Path,
    *,
    data: str | Path,
    out: str | Path,
    changes: Sequence[str] = (),
    max_steps: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    resume: bool = False,
    device: str = "auto",
    precision_name: str = "auto",
    pair: str | None = None,
    columns: Mapping[str, str] | None = None,
    cache: str | Path | None = None,
    world: World | None = None,
    screen: Screen | None = None,
) -> Task[Any]:
    """Train a recipe on data into the run folder `out`; gives the task with its best weights.

    `changes` are assignments such as "model.dim=256". `cache` is where encoded data is kept for
    the next time.
    """
    world, screen = world or World(), screen or Screen()
    budget = {"max_steps": max_steps, "minutes": minutes, "seed": seed}
    asked = [f"training.{name}={value}" for name, value in budget.items() if value is not None]
    chosen = recipes.load(recipe, [*changes, *asked])
    place = precision.pick_device(device)
    if place.type == "cuda" and world.size > 1:
        place = torch.device("cuda", world.local_rank)
    numbers = precision.choose(precision_name, place)
    run = Run(Path(out))
    corpus = sources.open_corpus(data, chosen.options.columns, pair=pair, columns=columns)
    if world.first:
        screen.say(corpus.understood)
    with distributed.joined(world, place):
        if not world.first:  # the first makes the vocabularies and the run, then all read them
            world.wait()
            return _fit(run, chosen, corpus, world, place, numbers, screen, cache)
        with run.locked():
            _open(run, chosen, corpus, world, place, screen, resume=resume or world.attempt > 0)
            world.wait()
            return _fit(run, chosen, corpus, world, place, numbers, screen, cache)


def load(run: str | Path, *, device: str = "cpu") -> Task[Any]:
    """The trained task of a run folder, ready to answer."""
    return Run(Path(run)).task().to(precision.pick_device(device))


def evaluate(
    run: Task[Any] | str | Path,
    *,
    data: str | Path,
    split: str = "test",
    pair: str | None = None,
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> dict[str, float]:
    """The metrics of a run, or of a loaded task, on a split of some data; a file is taken whole."""
    task = run if isinstance(run, Task) else load(run)
    found = assess(task, data=data, split=split, pair=pair, columns=columns, **options)
    return found.values()


def assess(
    task: Task[Any],
    *,
    data: str | Path,
    split: str = "test",
    pair: str | None = None,
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> Evaluation:
    """The same with answers, confidence intervals, and quality by length."""
    corpus = sources.open_corpus(
        data, task.columns, pair=pair, columns=columns, held_out=0.0, required=(split,)
    )
    asked = list(items(corpus.splits[split]))
    if not asked:
        raise DataError(f"there is nothing to evaluate in {data}")
    return task.evaluate(asked, **options)


def default_cache() -> Path:
    """Where encoded data is kept if nothing else is said."""
    return Path.home() / ".cache" / "saccade"


def _open(
    run: Run,
    recipe: Recipe,
    corpus: Corpus,
    world: World,
    device: torch.device,
    screen: Screen,
    *,
    resume: bool,
) -> None:
    """Begin the run, or see that a resumption fits it."""
    facts = {
        "data": {name: split.digest() for name, split in corpus.splits.items() if name != "test"},
        "threads": torch.get_num_threads(),
        "world": world.size,
        "device": device.type,
    }
    if run.exists():
        if not resume:
            raise RunError(
                f"{run.folder} holds a run already; go on with it by --resume, "
                "or choose another folder with --out"
            )
        run.require_fit(recipe, facts)
        return
    if others := [path.name for path in run.folder.iterdir() if not path.name.startswith(".")]:
        raise RunError(
            f"{run.folder} is not empty ({', '.join(sorted(others)[:4])}) and no run; "
            "choose a new folder with --out"
        )
    torch.manual_seed(recipe.training.seed)
    with screen.counting("making the vocabulary, rows read:") as bar:
        task = recipe.options.fresh(corpus.splits["train"], bar.to)
    run.begin(recipe, task, facts)


def _fit(
    run: Run,
    recipe: Recipe,
    corpus: Corpus,
    world: World,
    device: torch.device,
    numbers: precision.Precision,
    screen: Screen,
    cache: str | Path | None,
) -> Task[Any]:
    torch.manual_seed(recipe.training.seed)
    task = recipe.options.restored(run.folder).to(device)
    material = _material(task, recipe, corpus, world, screen, Path(cache or default_cache()))
    if world.first:
        screen.say(
            f"{type(task.model).__name__} of {_parameters(task):,} parameters · "
            f"{len(material.train):,} examples, {len(material.valid):,} for validation · "
            f"{device}, {numbers.name}, {torch.get_num_threads()} threads"
        )
    trainer = Trainer(task, material, recipe.training, run, world, device, numbers, screen)
    progress = trainer.fit()
    world.wait()
    best = run.task().to(device)
    if world.first:
        screen.say(
            f"{progress.ended}, at step {progress.step}; the best weights are those of step "
            f"{progress.best_step}, in {run.weights}"
        )
        if not (run.folder / "report.html").exists() or progress.step > trainer.began_at:
            write_report(run, best, material.items)
    return best


def _material(
    task: Task[Any], recipe: Recipe, corpus: Corpus, world: World, screen: Screen, cache: Path
) -> Material:
    config = recipe.training
    encoded = {}
    for name in ("train", "valid"):
        with screen.counting(f"encoding {name}, rows done:") as bar:
            encoded[name] = task.encode(corpus.splits[name], cache, bar.to)
        skipped = encoded[name].skipped
        if world.first and (skipped.empty or skipped.too_long):
            screen.say(
                f"{name}: left out {skipped.empty} rows with an empty side and {skipped.too_long} "
                f"too long ones, the first: {skipped.first[0]}"
            )
        if len(encoded[name]) == 0:
            raise DataError(f"no row of {name} can be used: all are empty or too long")
    plan = Plan(
        lengths=task.sizes(encoded["train"]),
        budget=config.batch_tokens,
        seed=config.seed,
        rank=world.rank,
        world=world.size,
        accumulate=config.accumulate,
    )
    some = list(islice(items(corpus.splits["valid"]), config.validate_items))
    return Material(encoded["train"], plan, encoded["valid"], some)


def _parameters(task: Task[Any]) -> int:
    return sum(p.numel() for p in task.parameters())
