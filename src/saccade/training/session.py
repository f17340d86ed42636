"""Training, loading and evaluation: the functions behind `saccade.train`, `load` and `evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
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
from saccade.data.sources.text_files import read_lines
from saccade.errors import DataError, RunError
from saccade.interfaces import HasEngine
from saccade.lens.alignment.gold import Gold, GoldFile, SentencePair, parse_gold
from saccade.tasks import Aligns, Evaluation, Task, measure_baselines
from saccade.tasks.measures import require_measurable, with_attention
from saccade.training import checkpoint, distributed
from saccade.training import precision as precisions
from saccade.training import recipe as recipes
from saccade.training.baselines import DataPlace, baseline_remarks, keep_baselines
from saccade.training.console import Console
from saccade.training.distributed import World
from saccade.training.interruption import Interruption
from saccade.training.loop import Trainer, TrainingData
from saccade.training.recipe import Recipe
from saccade.training.report import report_due, validated, write_report
from saccade.training.run import Run, tensors_of
from saccade.training.summary import keep_scores
from saccade.training.warm_start import WarmStart, open_warm_start

ALIGNMENT = Column("alignment", ("alignments", "links"), required=False)
"""The column of gold alignments, which an evaluation of attention may read."""


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
    samples: bool = True,
    cache: str | Path | None = None,
    world: World | None = None,
    console: Console | None = None,
) -> Task:
    """Train a recipe on data into a run folder.

    Args:
        recipe: name of a built-in recipe, or path of a .toml file.
        data: file or folder of data, `builtin:NAME` or `hf:NAME`.
        out: the run folder to write.
        changes: assignments to keys of the recipe, such as "model.dim=256".
        max_steps: updates at most, in place of the recipe's `training.max_steps`.
        minutes: minutes at most, over all resumptions together.
        seed: random seed, in place of the recipe's `training.seed`.
        resume: resume the run in `out` from its newest checkpoint; a run that has none, or does
            not exist, begins at step 0.
        init: a run folder or a Hugging Face folder whose model and vocabulary training starts
            from; the head is new.
        device: "auto", "cpu", "cuda" or "mps"; "auto" is a GPU if there is one.
        precision: "auto", "float32" or "bfloat16".
        pair: for parallel text files, the two languages, such as "en-de".
        columns: names of columns in the data by the names that the task knows them by.
        samples: whether the run folder and its report may quote texts of the data; a resumed run
            keeps the choice it was begun with if that was false.
        cache: where encoded data is kept for the next training; `~/.cache/saccade` if left out.
        world: this process among several that train together; see `training.distributed`.
        console: where messages and progress go; stderr if left out.

    Returns:
        The task with its best weights.

    Raises:
        RecipeError: if the recipe has an unknown key or a value that cannot be used.
        DataError: if the data is missing or malformed.
        RunError: if `out` holds a run and `resume` is false, or does not fit this training.
        TrainingError: if the loss becomes NaN or infinite.
        StoppedError: if a signal requested a stop; everything is saved.
        DiskFullError: if the disk is full; the last checkpoint is kept.

    Example:
        >>> import tempfile
        >>> out = tempfile.mkdtemp() + "/run"
        >>> task = train("reverse", data="builtin:reverse", out=out, max_steps=1,
        ...              changes=["training.validate_items=2"], console=Console(quiet=True))
        >>> task.name
        'text_to_text'
    """
    world, console = world or World(), console or Console()
    budget = {"max_steps": max_steps, "minutes": minutes, "seed": seed}
    overrides = [f"training.{name}={value}" for name, value in budget.items() if value is not None]
    keep_freed_memory()
    with Interruption() as interruption:
        run, initial = Run(Path(out)), None
        if resume and run.exists() and "init" in run.about():
            # the run folder holds all that it started from
            model = config.plain(run.recipe().options)["model"]
        else:
            initial = None if init is None else open_warm_start(init)
            model = None if initial is None else initial.model
        chosen = recipes.load(recipe, [*changes, *overrides], model)
        place = precisions.pick_device(device, world.local_rank if world.size > 1 else None)
        job = _Job(
            run=run,
            recipe=chosen,
            initial=initial,
            corpus=sources.open_corpus(data, chosen.options.columns, pair=pair, columns=columns),
            place=DataPlace(data=str(data), pair=pair, columns=columns),
            world=replace(world, device=place),
            precision=precisions.choose(precision, place),
            console=console,
            interruption=interruption,
            cache=Path(cache or default_cache()),
            origin={
                "recipe": str(recipe),
                "source": str(data),
                "started": datetime.now().astimezone().isoformat(timespec="seconds"),
                "samples": samples,
            },
        )
        return job.run_all(resume=resume or world.attempt > 0)


def load(run: str | Path, *, device: str = "cpu") -> Task:
    """Load the trained task of a run folder, which predicts with its own model.

    `saccade.load` is this with a choice of engine.

    Args:
        run: the run folder.
        device: "cpu", "cuda", "mps" or "auto".

    Returns:
        The task with its best weights, in evaluation mode.

    Raises:
        RunError: if the folder is not a run, is damaged, or has no weights yet.
    """
    return Run(Path(run)).task().to(precisions.pick_device(device))


@dataclass(frozen=True, kw_only=True)
class AttentionOptions:
    """Options of measuring attention.

    Args:
        gold: a file of gold alignments; the data's column `alignment` if left out.
        reverse: a run of the other direction, whose alignments are joined with this one's.
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
    """Measure a run on data.

    Args:
        run: a run folder, or a task that is loaded already.
        data: file or folder of data, `builtin:NAME` or `hf:NAME`; all rows of a file are used.
        split: which split of a folder: "train", "valid" or "test".
        pair: for parallel text files, the two languages, such as "en-de".
        columns: names of columns in the data by the names that the task knows them by.
        options: further options of `assess` and of the task's `evaluate`, such as `attention` or
            `beam`.

    Returns:
        The metrics by name: `bleu`, `chrf` and `ter` from 0 to 100, error rates and accuracies as
        fractions.

    Raises:
        DataError: if there is no such split, or nothing in it.
        RunError: if the run cannot be loaded.
    """
    task = run if isinstance(run, Task) else load(run)
    evaluation = assess(task, data=data, split=split, pair=pair, columns=columns, **options)
    return evaluation.values()


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
    """Measure a task on data, with predictions, confidence intervals and quality by length.

    Args:
        task: the task.
        data: file or folder of data, `builtin:NAME` or `hf:NAME`; all rows of a file are used.
        split: which split of a folder: "train", "valid" or "test".
        pair: for parallel text files, the two languages, such as "en-de".
        columns: names of columns in the data by the names that the task knows them by.
        attention: also measure how far to believe the task's attention.
        notify: called with a line of text about the data and about each long step.
        options: options of the task's `evaluate`, such as `beam`.

    Returns:
        The evaluation: scores, predictions, items and tables.

    Raises:
        DataError: if there is no such split, nothing in it, or gold alignments that do not fit.
    """
    if split not in SPLITS:
        raise DataError(f"there is no split {split!r}; choose one of {', '.join(SPLITS)}")

    def rows(wanted: Sequence[Column]) -> tuple[Split, str]:
        corpus = sources.open_corpus(
            data, wanted, pair=pair, columns=columns, held_out=0.0, required=(split,)
        )
        return corpus.splits[split], corpus.summary

    chosen, summary = rows(task.columns)
    notify(summary)
    items = list(task.items(chosen))
    if not items:
        raise DataError(
            f"there is nothing to evaluate in {data}: its {split} split has no usable row"
        )
    if attention is None:
        return task.evaluate(items, **options)
    require_measurable(task)
    golds, back = None, None  # raise on mismatches before the long work of predicting
    if isinstance(task, Aligns):
        golds = golds_of(rows((*task.columns, ALIGNMENT))[0], items, attention.gold)
        back = None if attention.reverse is None else load_translator(attention.reverse)
    elif attention != AttentionOptions():
        raise DataError(f"the task {task.name} does not align words, so it has no gold alignments")
    evaluation = task.evaluate(items, **options)
    notify("measuring attention")
    return with_attention(task, evaluation, golds=golds, back=back)


def load_translator(run: str | Path, *, device: str = "cpu") -> Aligns:
    """Return the task of a run folder, which must be able to align words."""
    task = load(run, device=device)
    if not isinstance(task, Aligns):
        raise RunError(f"{run} cannot align words: its task is {task.name}; use a translator")
    return task


def golds_of(split: Split, items: Sequence[Item], file: GoldFile | None) -> list[Gold] | None:
    """Return the gold alignment of each item: of the first row that has its source.

    It comes from the file, or without one from the column `alignment`; None if there is neither.
    """
    rows = list(split)
    pairs = [SentencePair(row.values[0], row.values[1], row.where) for row in rows]
    if file is not None:
        if not file.path.is_file():
            raise DataError(f"there is no file {file.path} of gold alignments; check --gold")
        golds = file.parse(read_lines(file.path), pairs)
    elif ALIGNMENT.name in split.columns:
        golds = [parse_gold(row.values[-1], pair) for row, pair in zip(rows, pairs, strict=True)]
    else:
        return None
    first = {pair.source: gold for pair, gold in reversed([*zip(pairs, golds, strict=True)])}
    return [first[item.inputs[0]] for item in items]


def default_cache() -> Path:
    """Return the folder of encoded data that is used unless another is given."""
    return Path.home() / ".cache" / "saccade"


@dataclass(frozen=True, kw_only=True)
class _Job:
    """A training with all that it needs."""

    run: Run
    recipe: Recipe
    initial: WarmStart | None
    corpus: Corpus
    place: DataPlace
    world: World
    precision: precisions.Precision
    console: Console
    interruption: Interruption
    cache: Path
    origin: Mapping[str, object]

    def run_all(self, *, resume: bool) -> Task:
        """Train; the first process writes vocabularies and the run, then all read them."""
        self.notify(self.corpus.summary)
        with distributed.joined(self.world) as world:
            job = replace(self, world=world)
            with self.run.locked() if world.first else nullcontext():
                task = job.begin(resume=resume) if world.first else None
                world.wait()
                if task is None:
                    task = self.run.initial_task(self.recipe.training.seed)
                return job.fit(task)

    def begin(self, *, resume: bool) -> Task | None:
        """Begin the run and return its task; None if there is a run that can be resumed."""
        splits = self.corpus.splits
        facts = {
            "data": {name: split.digest() for name, split in splits.items() if name != "test"},
            "threads": torch.get_num_threads(),
            "world": self.world.size,
            "device": self.world.device.type,
            "precision": self.precision.name,
        }
        if self.run.exists():
            self.require_resumable(resume=resume)
            if not checkpoint.steps(self.run.checkpoints):
                self.run.require_start()
                self.notify(f"{self.run.folder} has no checkpoint yet; training starts from step 0")
            self.run.resume_with(self.recipe, facts)
            return None
        self.run.require_new()
        torch.manual_seed(self.recipe.training.seed)
        folder = None if self.initial is None else self.initial.folder
        with self.console.counting("building the vocabulary, rows read:") as bar:
            task = self.recipe.options.create(splits["train"], bar.to, folder)
        if self.initial is None:
            self.run.begin(self.recipe, task, {**facts, **self.origin})
            return task
        taken = self.initial.fitting(task)
        facts = {**facts, **self.origin, "init": str(folder)}
        self.run.begin(self.recipe, task, facts, taken)
        task.model.load_state_dict(taken, strict=False)
        new = [name for name in tensors_of(task.model) if name not in taken]
        count = "1 tensor" if len(taken) == 1 else f"{len(taken)} tensors"
        self.notify(f"{count} taken from {folder}; new: {', '.join(new) or 'none'}")
        return task

    def require_resumable(self, *, resume: bool) -> None:
        """Raise a RunError if the run that is there may not be resumed."""
        if not resume:
            raise RunError(
                f"{self.run.folder} already holds a run; resume it with --resume, or choose "
                "another folder with --out"
            )
        if "imported" in self.run.about():
            raise RunError(
                f"{self.run.folder} was imported, not trained here, so it has nothing to resume "
                f"from; start a new run from it with --init {self.run.folder} --out OTHER"
            )

    def fit(self, task: Task) -> Task:
        """Train the task; return it with its best weights."""
        task.to(self.world.device)
        data = self.encode(task)
        parameters = sum(p.numel() for p in task.parameters())
        self.notify(
            f"{type(task.model).__name__} with {parameters:,} parameters · "
            f"{len(data.plan.lengths):,} training examples, {len(data.valid):,} for validation · "
            f"{self.world.device}, {self.precision.name}, threads: {torch.get_num_threads()}"
        )
        progress = Trainer(
            task=task,
            data=data,
            config=self.recipe.training,
            run=self.run,
            world=self.world,
            precision=self.precision,
            console=self.console,
            interruption=self.interruption,
        ).fit()
        self.world.wait()
        self.run.load_best(task.model)
        task.eval()
        self.notify(
            f"{progress.ended}, at step {progress.step}; the best weights are those of step "
            f"{progress.best_step}, in {self.run.weights}"
        )
        if self.world.first and report_due(self.run):
            self.finish(task, data)
        return task

    def finish(self, task: Task, data: TrainingData) -> None:
        """Calibrate the task, measure it beside its baselines, and write its report.

        Some items are kept to compare engines by.
        """
        self.run.trim()
        self.notify("measuring the best weights for the report")
        if remark := task.finish(data.valid):
            self.run.keep_parts(task)
            self.notify(remark)
        evaluation, train = validated(task, data.items), self.corpus.splits["train"]
        baselines = measure_baselines(task, train, data.items, split="valid", notify=self.notify)
        keep_baselines(self.run, baselines, self.place)
        if evaluation is not None:
            counts = {"train": len(data.plan.lengths), "valid": len(data.valid)}
            keep_scores(self.run, task, evaluation, counts)
        scores = {} if evaluation is None else evaluation.scores
        _, remarks = baseline_remarks(self.run, task, scores, baselines)
        samples = bool(self.origin["samples"] and self.run.about().get("samples", True))
        write_report(self.run, task, evaluation, baselines, remarks, samples=samples)
        if samples and isinstance(task, HasEngine):
            self.run.keep_samples(data.items)
        for line in remarks:
            self.notify(line)

    def encode(self, task: Task) -> TrainingData:
        """Encode the data, and plan the order in which it is read."""
        config = self.recipe.training
        encoded = {}
        for name in ("train", "valid"):
            with self.console.counting(f"encoding {name}, rows done:") as bar:
                encoded[name] = task.encode(self.corpus.splits[name], self.cache, bar.to)
            for remark in task.remarks(encoded[name]):
                self.notify(f"{name}: {remark}")
            if len(encoded[name]) == 0:
                raise DataError(
                    f"no row of {name} can be used: all are empty or too long. Check the columns, "
                    "or raise the recipe's limit of length"
                )
        plan = Plan(
            lengths=task.sizes(encoded["train"]),
            budget=config.batch_tokens,
            seed=config.seed,
            rank=self.world.rank,
            world=self.world.size,
            accumulate=config.accumulate,
        )
        items = _spread(list(task.items(self.corpus.splits["valid"])), config.validate_items)
        return TrainingData(encoded["train"], plan, encoded["valid"], items)

    def notify(self, text: str) -> None:
        """Print a line, once for all processes."""
        if self.world.first:
            self.console.notify(text)


def _spread(items: list[Item], count: int) -> list[Item]:
    """Return `count` of the items, evenly spread over them, since files are often sorted."""
    if count == 0 or not items:
        return []
    step = max(1.0, len(items) / count)
    return [items[int(i * step)] for i in range(min(count, len(items)))]
