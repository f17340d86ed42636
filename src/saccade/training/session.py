"""The whole job: from a recipe's name and a data folder to a trained task, and back from a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from saccade import config
from saccade.allocator import keep_freed_memory
from saccade.data import sources
from saccade.data.batches.plan import Plan
from saccade.data.corpus import Corpus, Item, Split
from saccade.data.sources.columns import Column
from saccade.data.sources.layout import SPLITS
from saccade.errors import DataError, RunError
from saccade.interfaces import HasEngine
from saccade.tasks import Aligns, Evaluation, Task
from saccade.tasks.measures import require_measurable, with_attention
from saccade.training import checkpoint, distributed
from saccade.training import precision as precisions
from saccade.training import recipe as recipes
from saccade.training.console import Console
from saccade.training.distributed import World
from saccade.training.golds import ALIGNMENT, GoldFile, golds_of
from saccade.training.interruption import Interruption
from saccade.training.loop import Trainer, TrainingData
from saccade.training.recipe import Recipe
from saccade.training.report import report_due, write_report
from saccade.training.run import Run, tensors_of
from saccade.training.warm_start import WarmStart, open_warm_start


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
    init: str | Path | None = None,
    device: str = "auto",
    precision: str = "auto",
    pair: str | None = None,
    columns: Mapping[str, str] | None = None,
    cache: str | Path | None = None,
    world: World | None = None,
    console: Console | None = None,
) -> Task:
    """Train a recipe on data into the run folder `out`; gives the task with its best weights.

    `changes` are assignments such as "model.dim=256". `init` is a run or a Hugging Face folder
    whose model and vocabulary training begins with; its head is new. `cache` is where encoded data
    is kept for the next time.
    """
    world, console = world or World(), console or Console()
    budget = {"max_steps": max_steps, "minutes": minutes, "seed": seed}
    asked = [f"training.{name}={value}" for name, value in budget.items() if value is not None]
    keep_freed_memory()
    with Interruption() as interruption:
        run, initial = Run(Path(out)), None
        if resume and run.initial.exists():  # what it began with is all in its own folder
            model = config.plain(run.recipe().options)["model"]
        else:
            initial = None if init is None else open_warm_start(init)
            model = None if initial is None else initial.model
        chosen = recipes.load(recipe, [*changes, *asked], model)
        place = precisions.pick_device(device, world.local_rank if world.size > 1 else None)
        job = _Job(
            run=run,
            recipe=chosen,
            initial=initial,
            corpus=sources.open_corpus(data, chosen.options.columns, pair=pair, columns=columns),
            world=replace(world, device=place),
            numbers=precisions.choose(precision, place),
            console=console,
            interruption=interruption,
            cache=Path(cache or default_cache()),
        )
        return job.do(resume=resume or world.attempt > 0)


def load(run: str | Path, *, device: str = "cpu") -> Task:
    """The trained task of a run folder, ready to answer by its own model."""
    return Run(Path(run)).task().to(precisions.pick_device(device))


@dataclass(frozen=True, kw_only=True)
class AttentionOptions:
    """What attention is measured by.

    gold      a file of gold alignments; if left out, the data's own column `alignment`
    reverse   a run of the other direction, whose alignments are joined with this one's
    """

    gold: GoldFile | None = None
    reverse: str | Path | None = None


def evaluate(
    run: Task | str | Path,
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
    task: Task,
    *,
    data: str | Path,
    split: str = "test",
    pair: str | None = None,
    columns: Mapping[str, str] | None = None,
    attention: AttentionOptions | None = None,
    notify: Callable[[str], None] = lambda text: None,
    **options: Any,
) -> Evaluation:
    """The same with answers, confidence intervals, and quality by length.

    With `attention` also how far to believe the task's attention. `say` is told what was understood
    of the data, and what is done.
    """
    if split not in SPLITS:
        raise DataError(f"there is no split {split!r}; there are: {', '.join(SPLITS)}")

    def rows(wanted: Sequence[Column]) -> tuple[Split, str]:
        corpus = sources.open_corpus(
            data, wanted, pair=pair, columns=columns, held_out=0.0, required=(split,)
        )
        return corpus.splits[split], corpus.summary

    chosen, summary = rows(task.columns)
    notify(summary)
    asked = list(task.items(chosen))
    if not asked:
        raise DataError(f"there is nothing to evaluate in {data}")
    if attention is None:
        return task.evaluate(asked, **options)
    require_measurable(task)
    golds, back = None, None  # what does not fit is refused before the long work of answering
    if isinstance(task, Aligns):
        golds = golds_of(rows((*task.columns, ALIGNMENT))[0], asked, attention.gold)
        back = None if attention.reverse is None else load_translator(attention.reverse)
    elif attention != AttentionOptions():
        raise DataError(f"the task {task.name} does not align words, so it has no gold alignments")
    found = task.evaluate(asked, **options)
    notify("measuring attention")
    return with_attention(task, found, golds=golds, back=back)


def load_translator(run: str | Path, *, device: str = "cpu") -> Aligns:
    """Return the task of a run folder, which must be able to align words."""
    task = load(run, device=device)
    if not isinstance(task, Aligns):
        raise RunError(f"{run} cannot align words: its task is {task.name}; use a translator")
    return task


def default_cache() -> Path:
    """Where encoded data is kept if nothing else is said."""
    return Path.home() / ".cache" / "saccade"


@dataclass(frozen=True, kw_only=True)
class _Job:
    """A training with all that it needs."""

    run: Run
    recipe: Recipe
    initial: WarmStart | None
    corpus: Corpus
    world: World
    numbers: precisions.Precision
    console: Console
    interruption: Interruption
    cache: Path

    def do(self, *, resume: bool) -> Task:
        """Train; the first process makes the vocabularies and the run, then all read them."""
        self.notify(self.corpus.summary)
        with distributed.joined(self.world) as world:
            job = replace(self, world=world)
            with self.run.locked() if world.first else nullcontext():
                world.from_first(lambda: job.open(resume=resume))
                return job.fit()

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        return self.world.device

    def open(self, *, resume: bool) -> None:
        """Begin the run, or see that a resumption fits it."""
        splits = self.corpus.splits
        facts = {
            "data": {name: split.digest() for name, split in splits.items() if name != "test"},
            "threads": torch.get_num_threads(),
            "world": self.world.size,
            "device": self.device.type,
            "precision": self.numbers.name,
        }
        if self.run.exists():
            if not resume:
                raise RunError(
                    f"{self.run.folder} holds a run already; go on with it by --resume, "
                    "or choose another folder with --out"
                )
            if "imported" in self.run.about():
                raise RunError(
                    f"{self.run.folder} was imported, not trained here; begin a new run with it: "
                    f"--init {self.run.folder} --out another"
                )
            self.run.require_fit(self.recipe, facts)
            if not checkpoint.steps(self.run.checkpoints):
                self.notify(f"{self.run.folder} has no checkpoint yet, so it begins anew")
            return
        if others := self.run.strangers():
            raise RunError(
                f"{self.run.folder} is not empty ({', '.join(others[:4])}) and no run; "
                "choose a new folder with --out"
            )
        with self.console.counting("making the vocabulary, rows read:") as bar:
            folder = None if self.initial is None else self.initial.folder
            task = self.recipe.options.create(splits["train"], bar.to, folder)
        if self.initial is None:
            self.run.begin(self.recipe, task, facts)
            return
        taken = self.initial.fitting(task)
        self.run.begin(self.recipe, task, {**facts, "init": str(folder)}, taken)
        new = [name for name in tensors_of(task.model) if name not in taken]
        self.notify(f"{len(taken)} tensors taken from {folder}; new are {', '.join(new) or 'none'}")

    def fit(self) -> Task:
        """Train the task of the run; gives it with its best weights."""
        task = self.run.beginning(self.recipe.training.seed).to(self.device)
        material = self.material(task)
        self.notify(
            f"{type(task.model).__name__} of {_parameters(task):,} parameters · "
            f"{len(material.plan.lengths):,} examples, {len(material.valid):,} for validation · "
            f"{self.device}, {self.numbers.name}, threads: {torch.get_num_threads()}"
        )
        progress = Trainer(
            task,
            material,
            self.recipe.training,
            self.run,
            self.world,
            self.device,
            self.numbers,
            self.console,
            self.interruption,
        ).fit()
        self.world.wait()
        best = self.run.task().to(self.device)
        self.notify(
            f"{progress.ended}, at step {progress.step}; the best weights are those of step "
            f"{progress.best_step}, in {self.run.weights}"
        )
        if self.world.first and report_due(self.run):
            self.notify("measuring the best weights once more, for the report")
            if said := best.finish(material.valid):
                self.run.keep_parts(best)
                self.notify(said)
            write_report(self.run, best, material.items)
            if isinstance(best, HasEngine):
                self.run.keep_samples(material.items)
        return best

    def material(self, task: Task) -> TrainingData:
        """The data as numbers, and the plan in which it is read."""
        config = self.recipe.training
        encoded = {}
        for name in ("train", "valid"):
            with self.console.counting(f"encoding {name}, rows done:") as bar:
                encoded[name] = task.encode(self.corpus.splits[name], self.cache, bar.to)
            for remark in task.remarks(encoded[name]):
                self.notify(f"{name}: {remark}")
            if len(encoded[name]) == 0:
                raise DataError(f"no row of {name} can be used: all are empty or too long")
        plan = Plan(
            lengths=task.sizes(encoded["train"]),
            budget=config.batch_tokens,
            seed=config.seed,
            rank=self.world.rank,
            world=self.world.size,
            accumulate=config.accumulate,
        )
        some = _spread(list(task.items(self.corpus.splits["valid"])), config.validate_items)
        return TrainingData(encoded["train"], plan, encoded["valid"], some)

    def notify(self, text: str) -> None:
        """A line for people, once for all processes."""
        if self.world.first:
            self.console.notify(text)


def _parameters(task: Task) -> int:
    return sum(p.numel() for p in task.parameters())


def _spread(asked: list[Item], count: int) -> list[Item]:
    """`count` of the items, from all over them: files are often sorted."""
    if count == 0 or not asked:
        return []
    step = max(1.0, len(asked) / count)
    return [asked[int(i * step)] for i in range(min(count, len(asked)))]
