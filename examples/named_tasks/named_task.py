"""The parts that all named tasks share: data, training, measuring and printing.

    python examples/named_tasks/acceptability.py [--steps N] [--out DIR]

generates data, trains a recipe on it, and prints the metrics on unseen rows beside the baselines,
in less than a minute. DIR keeps the data and the run, for `saccade predict` and the other commands.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import saccade
from saccade.tasks import Baseline, Evaluation, Task
from saccade.training.baselines import DataPlace, baselines_on
from saccade.training.console import Console
from saccade.training.run import Run
from saccade.training.session import assess

Row = tuple[str, ...]
SHOWN = 4
"""The number of predictions that are printed."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A trained task, its metrics on the test set, and the rows and updates of its training."""

    task: Task
    evaluation: Evaluation
    baselines: Sequence[Baseline]
    train: Sequence[Row]
    steps: int


def no_lines(trained: Trained) -> Iterator[str]:
    """Yield nothing."""
    yield from ()


@dataclass(frozen=True, kw_only=True)
class NamedTask:
    """A task with generated data.

    Attributes:
        docstring: The first line names the task.
        columns: The columns of the data.
        sample: Returns one random row.
        metrics: The metrics that are printed; the first selects the best weights.
        recipe: The built-in recipe that learns it.
        changes: Changes of the recipe.
        steps: The number of updates of training.
        more: Yields further lines about the trained task.
        sizes: The number of rows of each split; all rows are different.
    """

    docstring: str
    columns: Row
    sample: Callable[[random.Random], Row]
    metrics: tuple[str, ...]
    recipe: str
    changes: tuple[str, ...]
    steps: int
    more: Callable[[Trained], Iterator[str]] = no_lines
    sizes: tuple[int, int, int] = (6000, 300, 500)

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Generate data, train, measure, and print the results."""
        parser = argparse.ArgumentParser(description=self.docstring.splitlines()[0])
        parser.add_argument(
            "--steps",
            type=int,
            default=self.steps,
            metavar="N",
            help=f"updates of training (default: {self.steps})",
        )
        parser.add_argument(
            "--out",
            type=Path,
            metavar="DIR",
            help="folder that keeps the data and the run (default: neither is kept)",
        )
        options = parser.parse_args(arguments)
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.out or Path(temporary)
            for line in self.results(folder, options.steps, cache=Path(temporary)):
                print(line)

    def results(self, folder: Path, steps: int, *, cache: Path) -> Iterator[str]:
        """Train in a folder and yield lines with the results."""
        start = time.perf_counter()
        trained = self.train(folder, steps, cache)
        evaluation = trained.evaluation
        yield self.docstring.splitlines()[0]
        yield f"{self.recipe}, {steps} updates on {len(trained.train):,} generated rows"
        for name in self.metrics:
            low, high = evaluation.scores[name].interval or (0.0, 0.0)
            yield f"  {name:<20}{evaluation.scores[name].value:6.3f}  [{low:.3f}, {high:.3f}]"
        for baseline in trained.baselines:
            yield f"baseline: {baseline.name}"
            yield from (f"  {name:<20}{baseline.scores[name].value:6.3f}" for name in self.metrics)
        yield from self.more(trained)
        yield f"predictions for unseen rows ({len(evaluation.items)} were measured)"
        for item, answer in list(zip(evaluation.items, evaluation.answers, strict=True))[:SHOWN]:
            right = item.references[0]
            mark = "" if answer == right else f"  (right: {right})"
            yield f"  {' | '.join(item.inputs)}  →  {answer}{mark}"
        yield f"{time.perf_counter() - start:.0f} s"

    def rows(self) -> dict[str, list[Row]]:
        """Return different rows for each split, the same at every call."""
        chance = random.Random(0)
        distinct: dict[Row, Row] = {}
        while len(distinct) < sum(self.sizes):
            row = self.sample(chance)
            distinct.setdefault(row[:-1], row)
        rows = iter(distinct.values())
        splits = zip(("train", "valid", "test"), self.sizes, strict=True)
        return {split: [next(rows) for _ in range(size)] for split, size in splits}

    def write(self, folder: Path, rows: dict[str, list[Row]]) -> None:
        """Write the splits as .tsv files."""
        folder.mkdir(parents=True, exist_ok=True)
        for split, of_split in rows.items():
            lines = ("\t".join(values) + "\n" for values in (self.columns, *of_split))
            (folder / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")

    def train(self, folder: Path, steps: int, cache: Path) -> Trained:
        """Train, and measure the task and its baselines on the test set."""
        data, run, rows = folder / "data", folder / "run", self.rows()
        self.write(data, rows)
        print(f"training {self.recipe} on {data}", file=sys.stderr)
        task = saccade.train(
            self.recipe,
            data=data,
            out=run,
            changes=["training.validate_items=100", *self.changes],
            max_steps=steps,
            cache=cache,
            console=Console(quiet=True),
        )
        evaluation = assess(task, data=data)
        baselines = baselines_on(
            Run(run),
            task,
            evaluation.items,
            split="test",
            place=DataPlace(data=str(data)),
            notify=lambda text: print(text, file=sys.stderr),
        )
        return Trained(
            task=task,
            evaluation=evaluation,
            baselines=baselines,
            train=rows["train"],
            steps=steps,
        )


SMALL_READER = (
    "model.dim=64",
    "model.encoder.num_layers=2",
    "model.encoder.hidden_dim=128",
    "model.encoder.dropout=0.0",
    "model.dropout=0.0",
    "text.vocabulary.kind=token",
    "text.vocabulary.size=200",
    "text.max_length=32",
    "training.learning_rate=2e-3",
    "training.optim.warmup=50",
    "training.adapt=false",
)
"""Changes of `bert-mini`: a small model for short texts of few different words."""
