"""Training, loading and evaluation: the functions behind `saccade.train`, `load` and `evaluate`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import torch

from saccade import config
from saccade.allocator import keep_freed_memory
from saccade.data import sources
from saccade.data.corpus import Corpus, Item, Split
from saccade.data.sources.columns import Column, ColumnNames, counted, parse_columns
from saccade.data.sources.layout import SPLITS
from saccade.data.sources.text_files import read_lines
from saccade.data.survey import notes, survey
from saccade.data.validation_split import GIVEN, STRATIFIED
from saccade.errors import BrokenImagesError, DataError, RunError, joined
from saccade.files import user_cache
from saccade.lens.alignment.gold import Gold, GoldFile, SentencePair, parse_gold
from saccade.tasks import (
    Aligns,
    Baseline,
    Evaluation,
    Task,
    best_baseline,
    measure_baselines,
)
from saccade.tasks.measures import belief, require_measurable, with_attention
from saccade.training import checkpoint, distributed
from saccade.training import precision as precisions
from saccade.training import recipe as recipes
from saccade.training.adapt import (
    Adaptation,
    TrainingFacts,
    adapt,
    adaptable,
    count_words,
)
from saccade.training.baselines import DataPlace, baseline_remarks, keep_baselines
from saccade.training.choice import RecipeChoice, choose_recipe
from saccade.training.console import Console
from saccade.training.copies import Copies
from saccade.training.distributed import World
from saccade.training.examples import examples_of
from saccade.training.film import Film
from saccade.training.interruption import Interruption
from saccade.training.loop import Trainer, TrainingData, spread
from saccade.training.parallel import ParallelKind
from saccade.training.progress import counted_preparation
from saccade.training.recipe import UNLIMITED_STEPS, Recipe, sets
from saccade.training.report import (
    looked_into,
    rehearse_report,
    report_due,
    validated,
    write_report,
)
from saccade.training.run import Run, tensors_of
from saccade.training.speed import TRAINED, seconds_per_update
from saccade.training.validation_scores import ValidationScores, keep_scores
from saccade.training.warm_start import WarmStart, open_warm_start

ALIGNMENT = Column("alignment", ("alignments", "links"), required=False)
"""The column of gold alignments, which an evaluation of attention may read."""
SURVEYED = 50_000
"""Rows of each split that are surveyed before training."""
ADAPTED = "the recipe was adapted to the data, the weights and the budget"


def train(
    recipe: str | Path | None = None,
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
    columns: ColumnNames | None = None,
    by_hand: Iterable[str] | None = None,
    valid_fraction: float | None = None,
    split_rule: str = STRATIFIED,
    skip_broken: bool = False,
    samples: bool = True,
    cache: str | Path | None = None,
    elapsed: float | None = 0.0,
    world: World | None = None,
    parallel: ParallelKind = "ddp",
    console: Console | None = None,
) -> Task:
    """Train a recipe on data into a run folder.

    Args:
        recipe: name of a built-in recipe, or path of a .toml file; chosen by the columns and the
            size of the data if left out.
        data: file or folder of data, `builtin:NAME` or `hf:NAME`.
        out: the run folder to write.
        changes: assignments to keys of the recipe, such as "model.dim=256".
        max_steps: maximum number of updates, in place of the recipe's `training.max_steps`.
        minutes: maximum minutes, over all resumptions together, from the call to the report:
            reading and encoding the data count, but leave at least half for the updates. Without
            `max_steps`, they lift the recipe's limit of steps.
        seed: random seed, in place of the recipe's `training.seed`.
        resume: resume the run in `out` from its newest checkpoint; a run that has none, or does
            not exist, begins at step 0.
        init: a run folder or a Hugging Face folder whose model and vocabulary training starts
            from; the head is new.
        device: "auto", "cpu", "cuda" or "mps"; "auto" is a GPU if there is one.
        precision: "auto", "float32" or "bfloat16".
        pair: for parallel text files, the two languages, such as "en-de".
        columns: names of columns in the data by the names that the task knows them by: a mapping,
            or "source=english,target=french".
        by_hand: keys of the recipe that do not adapt to the data and the budget; if left out, the
            changes and the keys of a recipe file.
        valid_fraction: fraction of the rows to hold out for validation if the data has no
            validation set; 10 % if left out, at least 100 rows, at most 20 % and about 2000 rows.
        split_rule: how rows are held out: "stratified" by label, or "hash", as the first versions
            did; a resumed run keeps its own.
        skip_broken: leave out images and vector files that are missing or damaged.
        samples: whether the run folder and its report may quote texts of the data; a resumed run
            keeps the choice it was begun with if that was false.
        cache: where encoded data is kept for the next training; `~/.cache/saccade` if left out.
        elapsed: seconds of `minutes` that have passed before the call; None if the minutes begin
            with the first update, as in a comparison, whose first recipe encodes data for others.
        world: this process among several that train together; see `training.distributed`.
        parallel: "ddp": each of these has all weights; "fsdp": each has a part of them, for models
            that do not fit into the memory of one.
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
    began = None if elapsed is None else time.monotonic() - elapsed
    world, console = world or World(), console or Console()
    if minutes is not None and max_steps is None and not sets(changes, "training.max_steps"):
        max_steps = UNLIMITED_STEPS  # the recipe's steps are its usual budget, not one more limit
    budget = {"max_steps": max_steps, "minutes": minutes, "seed": seed}
    overrides = [f"training.{name}={value}" for name, value in budget.items() if value is not None]
    reading: dict[str, Any] = {"pair": pair, "columns": columns}
    keep_freed_memory()
    place = precisions.pick_device(device, world.local_rank if world.size > 1 else None)
    run = Run(Path(out))
    with (
        Interruption() as interruption,
        distributed.joined(replace(world, device=place)) as world,
    ):
        resume, copies = resume or world.attempt > 0, Copies(run, world)
        copies.prepare(resume=resume)
        choice, resumed = None, resume and run.exists()
        if resumed and not any(reading.values()):
            reading |= run.naming()
        if recipe is None and resumed:
            recipe = run.folder / "recipe.toml"
        elif recipe is None:
            # only the first process measures the speed; the others read its recipe from the run
            known = [*changes, *overrides] if world.first else changes
            choice = choose_recipe(data, **reading, changes=known, processes=world.size)
            recipe, changes = choice.recipe, (*choice.changes, *changes)
        initial, model = _initialisation(run, init, resumed=resumed)
        if initial is not None and initial.has_scale:
            images = hasattr(recipes.load(recipe).options, "image")
            changes = ["image.scale=init", *changes] if images else changes
        chosen = recipes.load(recipe, [*changes, *overrides], model)
        if resumed and str(recipe) == run.about().get("recipe"):
            chosen = run.recipe_for_resuming(chosen)
        if resumed:
            chosen = run.with_size_of_update(chosen, changes)
        if by_hand is not None:
            chosen = replace(chosen, by_hand=frozenset(by_hand))
        naming = {"pair": reading["pair"], "columns": parse_columns(reading["columns"]) or None}
        splitting = {"rule": split_rule, "valid_fraction": _positive(valid_fraction)}
        reading |= run.splitting(valid_fraction) if resumed else splitting
        reading["skip_broken"] = skip_broken
        job = _Job(
            run=run,
            recipe=chosen,
            choice=choice,
            initial=initial,
            open_data=partial(sources.open_corpus, data, chosen.options.columns, **reading),
            place=DataPlace(data=str(data), **naming),
            world=world,
            copies=copies,
            parallel=parallel,
            precision=precisions.choose(precision, place),
            console=console,
            interruption=interruption,
            cache=Path(cache or user_cache()),
            began=began,
            origin={
                "recipe": str(recipe),
                "source": str(data),
                "started": datetime.now().astimezone().isoformat(timespec="seconds"),
                "samples": samples,
                **{name: value for name, value in naming.items() if value},
            },
        )
        return job.run_all(resume=resume)


def _initialisation(
    run: Run, init: str | Path | None, *, resumed: bool
) -> tuple[WarmStart | None, Mapping[str, Any] | None]:
    """Return what training starts from, and the options of its model; None of a new model."""
    if resumed and "init" in run.about():  # the run folder holds all that it started from
        return None, config.plain(run.recipe().options)["model"]
    initial = None if init is None else open_warm_start(init)
    return initial, None if initial is None else initial.model


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
    folder = Run(Path(run))
    task = folder.task().to(precisions.pick_device(device))
    with suppress(RunError):  # a damaged file of scores
        task.belief = ValidationScores.read(folder).belief
    return task


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
    columns: ColumnNames | None = None,
    **options: Any,
) -> dict[str, float]:
    """Measure a run on data.

    Args:
        run: a run folder, or a task that is loaded already.
        data: file or folder of data, `builtin:NAME` or `hf:NAME`; all rows of a file are used.
        split: which split of a folder: "train", "valid" or "test"; with a run folder and the data
            that it was trained on, "valid" also means the rows that training held out.
        pair: for parallel text files, the two languages, such as "en-de".
        columns: names of columns in the data by the names that the task knows them by: a mapping,
            or "source=english,target=french".
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
    folder = None if isinstance(run, Task) else run
    evaluation = assess(
        task, data=data, split=split, pair=pair, columns=columns, run=folder, **options
    )
    return evaluation.values()


def assess(
    task: Task,
    *,
    data: str | Path,
    split: str = "test",
    pair: str | None = None,
    columns: ColumnNames | None = None,
    run: str | Path | None = None,
    skip_broken: bool = False,
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
        columns: names of columns in the data by the names that the task knows them by: a mapping,
            or "source=english,target=french"; those of the training if left out.
        run: the task's run folder; of the data that it was trained on, the split "valid" is then
            what training held out.
        skip_broken: leave out images and vector files that are missing or damaged.
        attention: also measure how far to trust the task's attention.
        notify: called with a line of text about the data and about each long step.
        options: options of the task's `evaluate`, such as `beam`.

    Returns:
        The evaluation: scores, predictions, items and tables.

    Raises:
        DataError: if there is no such split, nothing in it, or gold alignments that do not fit.
    """
    if split not in SPLITS:
        raise DataError(f"there is no split {split!r}; choose one of {', '.join(SPLITS)}")

    reading: dict[str, Any] = {"pair": pair, "columns": columns, "skip_broken": skip_broken}
    if run is not None and not (pair or columns):
        reading |= _naming_of(Run(Path(run)), data, task.columns, split)
    training = None if run is None else _held_out(Run(Path(run)), data, task.columns, reading)
    if training is not None and split == "valid":
        splitting = Run(Path(run or "")).splitting()
    else:
        splitting = {"valid_fraction": 0.0, "required": (split,)}

    def rows(wanted: Sequence[Column]) -> tuple[Split, Corpus]:
        corpus = sources.open_corpus(data, wanted, **reading, **splitting)
        return corpus.splits[split], corpus

    chosen, corpus = rows(task.columns)
    notify(corpus.summary)
    for remark in corpus.remarks:
        notify(remark)
    if run is not None and (sentence := _about_rows(training, split, data)):
        notify(sentence)
    items = list(task.items(chosen))
    if any(column.label for column in task.columns) and (empty := chosen.count() - len(items)):
        notify(f"left out {counted(empty, 'row')} with an empty label")
    if not items:
        raise DataError(
            f"there is nothing to evaluate in {data}: its {split} split has no usable row; "
            "check the columns, or choose another --split"
        )
    if attention is None:
        return task.evaluate(items, **options)
    require_measurable(task)
    golds, back = None, None  # raise on mismatches before the long work of predicting
    if isinstance(task, Aligns):
        golds = golds_of(rows((*task.columns, ALIGNMENT))[0], items, attention.gold)
        back = None if attention.reverse is None else load_translator(attention.reverse)
    elif attention != AttentionOptions():
        raise DataError(
            f"the task {task.name} does not align words, so it has no gold alignments; "
            "leave --gold out"
        )
    evaluation = task.evaluate(items, **options)
    notify("measuring attention")
    return with_attention(task, evaluation, golds=golds, back=back)


def _naming_of(run: Run, data: str | Path, columns: Sequence[Column], split: str) -> dict[str, Any]:
    """Return the names of columns that training was given, if the data has such columns too."""
    if not (naming := run.naming()):
        return naming
    try:
        sources.open_corpus(data, columns, **naming, valid_fraction=0.0, required=(split,))
    except DataError:  # opening it by the usual names reports what is wrong
        return {}
    return naming


def _held_out(
    run: Run, data: str | Path, columns: Sequence[Column], reading: Mapping[str, Any]
) -> Corpus | None:
    """Return the data with the rows that training held out; None if it was trained on other data.

    The data is that of the training if the held-out rows have the digest that the run recorded.
    """
    digests, splitting = run.about().get("data"), run.splitting()
    if not isinstance(digests, Mapping) or "rule" not in splitting:
        return None  # the run was imported, or its data had a validation set
    try:
        corpus = sources.open_corpus(data, columns, **reading, **splitting)
    except DataError:  # such as no training data; reading the requested split reports errors
        return None
    valid = corpus.splits["valid"]
    given = corpus.record is None or corpus.record.rule == GIVEN
    return None if given or valid.digest() != digests.get("valid") else corpus


def _about_rows(training: Corpus | None, split: str, data: str | Path) -> str:
    """Return a sentence about the measured rows of data that has no such split, "" if it has."""
    if training is not None:
        rows = counted(training.splits["valid"].count(), "row")
        if split == "valid":
            return f"measuring only the {rows} that training held out of {data}"
        if split in training.splits:
            return ""
        return (
            f"{data} is the data of the training: scores on the rows that the model has seen are "
            f"too optimistic. --split valid measures only the {rows} that were held out"
        )
    if split == "valid" and Path(data).is_file():
        return f"measuring all rows of {data}, which is not the data that the run was trained on"
    return ""


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


@dataclass(frozen=True, kw_only=True)
class _Job:
    """A training run and everything it needs."""

    run: Run
    recipe: Recipe
    choice: RecipeChoice | None
    initial: WarmStart | None
    open_data: Callable[[], Corpus]
    place: DataPlace
    world: World
    copies: Copies
    parallel: ParallelKind
    precision: precisions.Precision
    console: Console
    interruption: Interruption
    cache: Path
    began: float | None
    origin: Mapping[str, object]

    @cached_property
    def corpus(self) -> Corpus:
        """The data, which is opened when it is first needed."""
        return self.open_data()

    def run_all(self, *, resume: bool) -> Task:
        """Train; the first process writes vocabularies and the run, then all read them.

        What can be checked without data is checked before the data is opened.
        """
        if self.world.from_first(self.needs_one_process):
            return self.run_alone(resume=resume)
        if not self.world.first:
            with self.copies.open():
                self.copies.send()
                return self.fit(self.run.initial_task(self.recipe.training.seed))
        if not self.run.exists():
            self.run.require_new()  # before the lock writes a file
        with self.run.locked():
            self.require_place(resume=resume)
            with self.run.provisional():
                with self.console.working(f"reading {self.origin['source']}"):
                    corpus = self.corpus
                self.notify(corpus.summary)
                if self.choice is not None:
                    self.notify(self.choice.reason)
                for remark in corpus.remarks:
                    self.notify(remark)
                task = self.begin()
                self.copies.send()
                return self.fit(task or self.run.initial_task(self.recipe.training.seed))

    def needs_one_process(self) -> bool:
        """Return whether the first process trains alone, because an update has one batch.

        This is so if the recipe was chosen by the data, or if a run is resumed. A new run of a
        recipe that was named is an error instead.
        """
        may = self.world.size > 1 and not self.copies.any
        requested = self.choice is None and not self.run.exists()
        return may and not requested and self.recipe.training.batches_per_update() == 1

    def run_alone(self, *, resume: bool) -> Task:
        """Train in the first process, with the threads of all; the others wait for it."""
        if self.world.first:
            alone = World(device=self.world.device)
            with self.world.all_threads():
                job = replace(self, world=alone, copies=Copies(self.run, alone))
                task = job.run_all(resume=resume)
            self.world.wait()
            return task
        self.world.wait()
        return self.run.task().to(self.world.device)

    def require_place(self, *, resume: bool) -> None:
        """Raise if the folder holds other files or a run that may not be resumed.

        Raise also if a file that the recipe names is missing.
        """
        if self.run.exists():
            self.require_resumable(resume=resume)
        else:
            self.run.require_new()
            self.recipe.options.require_files()
            self.recipe.training.require_divisible(self.world.size)

    def begin(self) -> Task | None:
        """Begin the run and return its task; None if there is a run that can be resumed."""
        splits = self.corpus.splits
        facts: dict[str, object] = {
            "data": {name: split.digest() for name, split in splits.items() if name != "test"},
            "threads": torch.get_num_threads(),
            "world": self.world.size,
            "update_batches": self.recipe.training.batches_per_update(),
            "device": self.world.device.type,
            "precision": self.precision.name,
        }
        if self.run.exists():
            if not checkpoint.steps(self.run.checkpoints):
                self.run.require_start()
                self.notify(f"{self.run.folder} has no checkpoint yet; training starts from step 0")
            self.run.resume_with(self.recipe, facts)
            return None
        facts |= self.survey()
        torch.manual_seed(self.recipe.training.seed)
        adaptation = adapt(self.recipe, self.text_facts())
        vocabulary = nullcontext() if self.initial is None else self.initial.vocabulary()
        with vocabulary as folder, self.console.counting("reading the training data, rows:") as bar:
            task = adaptation.recipe.options.create(splits["train"], bar.to, folder)
        taken = {} if self.initial is None else self.initial.fitting(task)
        task.model.load_state_dict(taken, strict=False)  # encoded data may depend on them
        adaptation, used = self.adapted(adaptation, task)
        for reason in adaptation.reasons:
            self.notify(reason)
        if adaptation.changes:
            self.notify(f"{ADAPTED}; --set training.adapt=false keeps the recipe as it is")
            facts["adapted"] = adaptation.as_json()
        if self.corpus.record is not None:
            facts["split"] = self.corpus.record.as_json()
        if self.corpus.languages is not None:
            facts["languages"] = list(self.corpus.languages)
        if self.corpus.skipped:
            facts["skipped_images"] = self.corpus.skipped
        if self.initial is None:
            self.run.begin(adaptation.recipe, task, {**facts, **self.origin})
            return None if used else task
        facts |= {**self.origin, "init": str(self.initial.folder)}
        self.run.begin(adaptation.recipe, task, facts, taken)
        new = [name for name in tensors_of(task.model) if name not in taken]
        count = "1 tensor" if len(taken) == 1 else f"{len(taken)} tensors"
        self.notify(f"{count} taken from {self.initial.folder}; new: {', '.join(new) or 'none'}")
        return None if used else task

    def text_facts(self) -> TrainingFacts:
        """Return the facts that are known before the vocabulary."""
        if self.initial is not None:  # its vocabulary is kept
            return TrainingFacts(warm_start=True)
        return TrainingFacts(words=count_words(self.recipe, self.corpus.splits["train"]))

    def adapted(self, adaptation: Adaptation, task: Task) -> tuple[Adaptation, bool]:
        """Adapt the recipe to the encoded data and to the budget.

        Return also whether the task must be built again: because options of its model have
        changed, or because its weights were used to measure the speed.
        """
        timed = False
        if not adaptable(adaptation.recipe):
            return adaptation, timed
        data = self.encode(task, adaptation.recipe, quiet=True)
        adaptation = adaptation.to(TrainingFacts(updates_per_epoch=data.plan.updates_per_epoch))
        training = adaptation.recipe.training
        data = replace(data, plan=training.plan(data.plan.lengths, processes=self.world.size))
        updates: int | float = training.max_steps
        if training.minutes is not None:
            timed = True
            one = seconds_per_update(task, data, training, self.world, self.precision)
            seconds = 60 * training.minutes - counted_preparation(training, self.prepared())
            updates = min(updates, seconds * TRAINED / one)
        epochs = updates / data.plan.updates_per_epoch
        adaptation = adaptation.to(TrainingFacts(updates=updates, epochs=epochs))
        model = config.plain(self.recipe.options)["model"]
        changed = config.plain(adaptation.recipe.options)["model"] != model
        return adaptation, timed or changed

    def prepared(self) -> float:
        """Return the seconds since the beginning of the budget, before the first update."""
        return 0.0 if self.began is None else time.monotonic() - self.began

    def survey(self) -> dict[str, object]:
        """Print remarks about the first rows; return them and the choice of the recipe."""
        surveyed = survey(
            self.corpus,
            self.recipe.options.columns,
            separator=self.recipe.separator,
            most=SURVEYED,
            open_images=False,
        )
        remarks = notes(surveyed, training=True)
        part = "" if surveyed.complete else f" (of the first {SURVEYED:,} rows of each split)"
        for remark in remarks:
            self.notify(f"{remark}{part}")
        rows = {name: split.rows for name, split in surveyed.splits.items()}
        facts: dict[str, object] = {"inspection": {"rows_read": rows, "notes": remarks}}
        return facts if self.choice is None else {**facts, "choice": self.choice.as_json()}

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
        before, now = self.run.recipe().task, self.recipe.task
        if before != now:
            raise RunError(
                f"{self.run.folder} was begun for the task {before}, and {self.origin['recipe']} "
                f"is a recipe for {now}; resume it without a recipe, or train into another folder "
                "with --out"
            )

    def fit(self, task: Task) -> Task:
        """Train the task; return it with its best weights."""
        if self.parallel == "ddp":  # a model in parts need not fit on the device
            task.to(self.world.device)
        recipe = self.run.recipe()  # as it was adapted
        data = self.encode(task, recipe)
        parameters = sum(p.numel() for p in task.parameters())
        self.notify(
            f"{type(task.model).__name__} with {parameters:,} parameters · "
            f"{len(data.plan.lengths):,} training examples, {len(data.valid):,} for validation · "
            f"{self.world.device}, {self.precision.name}, threads: {torch.get_num_threads()}"
        )
        if data.plan.size % self.world.size:
            self.notify(
                f"{self.world.size} processes do not divide the batches of an update "
                f"({data.plan.size}) evenly, so some of them wait for the others"
            )
        baselines = cache(partial(self.baselines, task, data))
        first = max(checkpoint.steps(self.run.checkpoints), default=0)

        def prepare() -> float:
            """Measure the baselines; return the seconds of all preparation."""
            if (best := best_baseline(baselines(), task.comparison_metric)) is not None:
                self.notify(f"baseline to beat: {best.sentence(task.comparison_metric)}")
            return self.prepared()

        progress = Trainer(
            task=task,
            data=data,
            config=recipe.training,
            run=self.run,
            world=self.world,
            copies=self.copies,
            precision=self.precision,
            console=self.console,
            interruption=self.interruption,
            prepare=prepare,
            rehearse=lambda: rehearse_report(self.run, task, data.items, baselines()),
            film=Film(self.run, task, data.items) if self.keeps_samples() else None,
            parallel_kind=self.parallel,
        ).fit()
        self.world.wait()
        self.run.load_best(task.model)
        task.eval()
        self.notify(
            f"{progress.ended}, at step {progress.step}; the best weights are those of step "
            f"{progress.best_step}, in {self.run.weights}"
        )
        if first and progress.step == first:
            self.notify(
                "no update was made: the budget counts all updates of the run, also those before "
                "it was resumed. Give a larger one with --minutes or --max-steps"
            )
        if self.world.first and report_due(self.run):
            with self.world.all_threads():
                self.finish(task, data, baselines())
        if self.copies.any:
            self.copies.send()  # of the report
        return task

    def baselines(self, task: Task, data: TrainingData) -> list[Baseline]:
        """Measure the baselines on the validation items."""
        train = self.corpus.splits["train"]
        return measure_baselines(task, train, data.items, split="valid", notify=self.notify)

    def finish(self, task: Task, data: TrainingData, baselines: Sequence[Baseline]) -> None:
        """Calibrate the task, measure it beside its baselines, and write its report.

        Some items are kept to compare engines by, and to try the model with.
        """
        self.run.trim()
        self.notify("measuring the best weights for the report")
        if remark := task.finish(data.valid):
            self.run.keep_parts(task)
            self.notify(remark)
        evaluation = validated(task, data.items)
        keep_baselines(self.run, baselines, self.place)
        looked = None
        if evaluation is not None:
            looked = looked_into(task, evaluation)
            task.belief = belief(looked.meanings)
            counts = {"train": len(data.plan.lengths), "valid": len(data.valid)}
            keep_scores(self.run, task, evaluation, counts, task.belief)
        scores = {} if evaluation is None else evaluation.scores
        _, remarks = baseline_remarks(self.run, task, scores, baselines)
        samples = self.keeps_samples()
        write_report(self.run, task, looked, baselines, remarks, samples=samples)
        if samples:
            self.run.keep_samples(examples_of(task, data.items))
        for line in (*(evaluation.remarks if evaluation else ()), *remarks):
            self.notify(line)

    def keeps_samples(self) -> bool:
        """Return whether the run folder may quote the data."""
        return bool(self.origin["samples"] and self.run.about().get("samples", True))

    def encode(self, task: Task, recipe: Recipe, *, quiet: bool = False) -> TrainingData:
        """Encode the data, and plan the order in which it is read."""
        config = recipe.training
        encoded, broken = {}, []
        for name in ("train", "valid"):
            try:
                with self.console.counting(f"encoding {name}, rows done:") as bar:
                    encoded[name] = task.encode(self.corpus.splits[name], self.cache, bar.to)
            except BrokenImagesError as error:
                broken.append(error)
        if broken:
            raise joined(broken)
        for name, examples in encoded.items():
            for remark in () if quiet else task.remarks(examples):
                self.notify(f"{name}: {remark}")
            if len(examples) == 0:
                raise DataError(
                    f"no row of {name} can be used: all are empty or too long. Check the columns, "
                    "or raise the recipe's limit of length"
                )
        lengths, world = task.sizes(encoded["train"]), self.world
        plan = config.plan(lengths, rank=world.rank, processes=world.size)
        items = spread(list(task.items(self.corpus.splits["valid"])), config.validate_items)
        return TrainingData(encoded["train"], plan, encoded["valid"], items)

    def notify(self, text: str) -> None:
        """Print a line, once for all processes."""
        if self.world.first:
            self.console.notify(text)


def _positive(fraction: float | None) -> float | None:
    """Return the fraction; raise if it leaves no row for validation."""
    if fraction is not None and not 0 < fraction < 1:
        raise DataError(
            f"the fraction of rows for validation must be above 0 and below 1, got {fraction:g}; "
            "--valid-fraction 0.1 holds out 10 %"
        )
    return fraction
