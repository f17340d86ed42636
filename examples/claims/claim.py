"""The parts that all claims share: measuring, judging, drawing and saving.

    python examples/claims/k04_variance.py [--quick] [--out DIR]

prints one line, `K4 holds: ...`, and writes a plot and its numbers into DIR: k04_variance.svg and
k04_variance.json. With `--quick` it is a rehearsal of a few seconds, whose verdict means nothing.
"""

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import torch
from statement import Statement

import saccade
from saccade.lens.drawing.chart import COLOURS, Chart
from saccade.tasks import Task
from saccade.training.console import Console

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Verdict = Literal["holds", "does not hold", "reported"]
Series = Mapping[str, Mapping[float, Sequence[float]]]
"""The lines of a plot by their names: for each x the values of all trials."""

SIZE = (6.4, 3.4)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a measurement: the verdict, a summary of the figures, all numbers, a plot."""

    verdict: Verdict
    figures: str
    numbers: Mapping[str, Any]
    chart: Chart


SizeT = TypeVar("SizeT")


@dataclass(frozen=True, kw_only=True)
class Claim(Generic[SizeT]):
    """A claim that can be measured, at full size or as a quick rehearsal."""

    file: str
    docstring: str
    measure: Callable[[SizeT], Outcome]
    full: SizeT
    quick: SizeT

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Measure, print the verdict, and write the plot with its numbers."""
        statement, name = Statement.parse(self.docstring), Path(self.file).stem
        parser = argparse.ArgumentParser(description=f"{statement.key}. {statement.claim}")
        parser.add_argument(
            "--quick", action="store_true", help="rehearse in a few seconds; the verdict is void"
        )
        parser.add_argument(
            "--out",
            type=Path,
            default=Path("runs/claims"),
            metavar="DIR",
            help="folder of the plot and its numbers (default: runs/claims)",
        )
        options = parser.parse_args(arguments)
        start = time.perf_counter()
        outcome = self.measure(self.quick if options.quick else self.full)
        outcome.chart.numbers = {
            "key": statement.key,
            "claim": statement.claim,
            "rule": statement.rule,
            "verdict": outcome.verdict,
            "figures": outcome.figures,
            "numbers": dict(outcome.numbers),
            "rehearsal": options.quick,
            "seconds": round(time.perf_counter() - start, 1),
            "machine": machine(),
        }
        path = outcome.chart.save(options.out / f"{name}.svg")
        rehearsal = " (rehearsal)" if options.quick else ""
        print(f"{statement.key} {outcome.verdict}{rehearsal}: {outcome.figures}")
        print(f"wrote {path} and {path.with_suffix('.json')}", file=sys.stderr)


def machine() -> dict[str, Any]:
    """Describe what a measurement may depend on."""
    return {
        "processor": platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def judged(holds: bool) -> Verdict:  # noqa: FBT001
    """Return the verdict of a rule."""
    return "holds" if holds else "does not hold"


@dataclass(frozen=True, kw_only=True)
class Trials:
    """The number of training runs (with seeds 0, 1, ...) and of updates of each."""

    seeds: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """The number of rounds of each measurement of time, and the longest text."""

    rounds: int
    longest: int


def trained(recipe: str, data: str, changes: Sequence[str], *, steps: int, seed: int) -> Task:
    """Train a task and return it with its best weights; no folder is left behind."""
    print(f"training {recipe} on {data}, seed {seed}: {' '.join(changes)}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        return saccade.train(
            recipe,
            data=data,
            out=Path(folder) / "run",
            changes=["training.validate_items=0", "training.select_by=loss", *changes],
            max_steps=steps,
            seed=seed,
            cache=folder,
            console=Console(quiet=True),
        )


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Path:
    """Write rows of data as a .tsv file."""
    text = ("\t".join(values) + "\n" for values in (columns, *rows))
    path.write_text("".join(text), encoding="utf-8")
    return path


def seconds(call: Callable[[], object], rounds: int) -> list[float]:
    """Return the seconds of each call, after one call to warm up."""
    call()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return taken


def between(values: Sequence[float], form: str = ".2f") -> str:
    """Return the range of some values as text, such as 0.12 to 0.34."""
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def lines(series: Series, *, x: str, y: str, log: Literal["", "x", "y", "xy"] = "") -> Chart:
    """Draw a line through the means of each series, and a band from the least to the most."""
    chart = Chart({}, figsize=SIZE)
    axes = chart.add_subplot()
    for (name, points), colour in zip(series.items(), cycle(COLOURS), strict=False):
        at, values = list(points), list(points.values())
        axes.plot(at, [fmean(trials) for trials in values], "o-", color=colour, label=name, ms=4)
        low, high = [min(trials) for trials in values], [max(trials) for trials in values]
        axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)
    if "y" in log:
        axes.set_yscale("log")
    if "x" in log:
        places = sorted({at for points in series.values() for at in points})
        axes.set_xscale("log")
        axes.set_xticks(places, [f"{at:g}" for at in places])
        axes.minorticks_off()
    _finish(axes, x, y)
    return chart


def bars(values: Mapping[str, float], *, x: str) -> Chart:
    """Draw one bar per value."""
    chart = Chart({}, figsize=(SIZE[0], 0.9 + 0.4 * len(values)))
    axes = chart.add_subplot()
    axes.barh(range(len(values)), list(values.values()), color=COLOURS[0], height=0.6)
    axes.set_yticks(range(len(values)), list(values))
    axes.invert_yaxis()
    _finish(axes, x, "")
    return chart


def _finish(axes: "Axes", x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(color="#8884", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
