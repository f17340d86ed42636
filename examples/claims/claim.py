"""What the claims of this folder share: each is measured, judged by its rule, drawn, written down.

    python examples/claims/k04_variance.py [--quick] [--out DIR]

prints one line, `K4 holds: ...`, and writes a plot and its numbers into DIR, k04_variance.svg and
k04_variance.json. `--quick` is a rehearsal of seconds, whose verdict means nothing.
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
from told import Told

import saccade
from saccade.lens.drawing.chart import COLOURS, Chart
from saccade.tasks import Task
from saccade.training.console import Screen

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Verdict = Literal["holds", "does not hold", "reported"]
Series = Mapping[str, Mapping[float, Sequence[float]]]
"""Lines of a plot by their names: for each x the values of all trials."""

SIZE = (6.4, 3.4)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was found: the verdict, the numbers in a sentence, all of them, and a picture."""

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
        told, name = Told.of(self.docstring), Path(self.file).stem
        parser = argparse.ArgumentParser(description=f"{told.key}. {told.claim}")
        parser.add_argument("--quick", action="store_true", help="a rehearsal of seconds")
        parser.add_argument("--out", type=Path, default=Path("runs/claims"), help="a folder")
        options = parser.parse_args(arguments)
        start = time.perf_counter()
        found = self.measure(self.quick if options.quick else self.full)
        found.chart.numbers = {
            "key": told.key,
            "claim": told.claim,
            "rule": told.rule,
            "verdict": found.verdict,
            "figures": found.figures,
            "numbers": dict(found.numbers),
            "rehearsal": options.quick,
            "seconds": round(time.perf_counter() - start, 1),
            "machine": machine(),
        }
        path = found.chart.save(options.out / f"{name}.svg")
        print(f"{told.key} {found.verdict}{' (rehearsal)' * options.quick}: {found.figures}")
        print(f"drawn: {path}, {path.with_suffix('.json')}", file=sys.stderr)


def machine() -> dict[str, Any]:
    """What a measurement may depend on."""
    return {
        "processor": platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def judged(holds: bool) -> Verdict:  # noqa: FBT001
    """The verdict of a rule."""
    return "holds" if holds else "does not hold"


@dataclass(frozen=True, kw_only=True)
class Trials:
    """How many trainings (their seeds are 0, 1, ...), of how many updates each."""

    seeds: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """How often each time is taken, and up to which length."""

    rounds: int
    longest: int


def trained(recipe: str, data: str, changes: Sequence[str], *, steps: int, seed: int) -> Task:
    """A task that was trained on data, with its best weights; no folder is left behind."""
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
            screen=Screen(quiet=True),
        )


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Path:
    """Rows of data as a .tsv file."""
    text = ("\t".join(values) + "\n" for values in (columns, *rows))
    path.write_text("".join(text), encoding="utf-8")
    return path


def seconds(call: Callable[[], object], rounds: int) -> list[float]:
    """How long each of some calls takes, after one that warms up."""
    call()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return taken


def between(values: Sequence[float], form: str = ".2f") -> str:
    """The least and the most of some values, as in 0.12 to 0.34."""
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def lines(series: Series, *, x: str, y: str, log: Literal["", "x", "y", "xy"] = "") -> Chart:
    """A line through the means of each series, and around it from the least to the most."""
    chart = Chart({}, figsize=SIZE)
    axes = chart.add_subplot()
    for (name, points), colour in zip(series.items(), cycle(COLOURS), strict=False):
        at, values = list(points), list(points.values())
        axes.plot(at, [fmean(each) for each in values], "o-", color=colour, label=name, ms=4)
        low, high = [min(each) for each in values], [max(each) for each in values]
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
    """A bar for each value."""
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
