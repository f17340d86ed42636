"""Comparison of engines: each measurement in a separate process, taking turns; medians in a table.

A script passes the tasks of each engine and a function that measures one task to `main`, which runs
the script again as `script --measure ENGINE TASK FOLDER` for each measurement.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

import torch

Measure = Callable[[str, str, Path], float]


def main(
    script: str,
    about: str,
    engines: Mapping[str, Sequence[str]],
    measure: Measure,
    *,
    unit: str,
    prepare: Callable[[Path], None] | None = None,
    mine: Callable[[str], str] = lambda engine: "ours",
) -> None:
    """Run the measurements that the command line names, and print a table.

    Args:
        script: the path of the calling script.
        about: its docstring.
        engines: the tasks of each engine.
        measure: returns the speed of an engine at a task, with the folder of `prepare`.
        unit: what is counted per second.
        prepare: writes what all measurements share into a folder.
        mine: returns our engine that an engine is compared with.
    """
    tasks = list(dict.fromkeys(task for known in engines.values() for task in known))
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="rounds per task (default: 3)")
    parser.add_argument("--tasks", nargs="+", choices=tasks, default=tasks)
    parser.add_argument("--engines", nargs="+", choices=engines, default=engines)
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        engine, task, where = options.measure
        print(json.dumps(measure(engine, task, Path(where))))
        return
    with tempfile.TemporaryDirectory() as folder:
        if prepare is not None:
            prepare(Path(folder))
        chosen = {name: engines[name] for name in options.engines}
        taken = _results(script, chosen, options.tasks, options.rounds, folder)
        text = _table(taken, options.rounds, unit, mine)
    print(text)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")


def divided(write: Callable[[torch.Tensor], int], source: torch.Tensor) -> int:
    """Return the tokens written, with the batch divided among threads as `predict` does."""
    from saccade.tasks._shared.torch_workers import TorchWorkers

    def write_rows(rows: list[int]) -> int:
        with torch.no_grad():
            return write(source[rows])

    workers = TorchWorkers(source.device)
    size = workers.batch_size(len(source), len(source))
    rows = list(range(len(source)))
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    return sum(count for _, count in workers.side_by_side(write_rows, batches))


def _in_own_process(script: str, engine: str, task: str, folder: str) -> float:
    command = [sys.executable, script, "--measure", engine, task, folder]
    # `import saccade` sets this before torch is loaded; programs without Saccade do not
    pages = {"THP_MEM_ALLOC_ENABLE": "1" if engine.startswith("ours") else "0"}
    environment = {**os.environ, **pages}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(json.loads(done.stdout.splitlines()[-1]))


def _results(
    script: str,
    engines: Mapping[str, Sequence[str]],
    tasks: Sequence[str],
    rounds: int,
    folder: str,
) -> Iterator[tuple[str, dict[str, list[float]]]]:
    for task in tasks:
        names = [name for name, known in engines.items() if task in known]
        taken: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(rounds):
            for name in names if turn % 2 == 0 else reversed(names):
                taken[name].append(_in_own_process(script, name, task, folder))
                print(task, name, taken[name][-1], file=sys.stderr, flush=True)
        yield task, taken


def _table(
    results: Iterator[tuple[str, dict[str, list[float]]]],
    rounds: int,
    unit: str,
    mine: Callable[[str], str],
) -> str:
    lines = [
        f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"{date.today().isoformat()}; {unit} per second, median of {rounds} rounds (least and most "
        "in brackets); ours / it is the median of the ratios of each round.",
        "",
        f"| task | engine | {unit}/s | ours / it |",
        "|---|---|---|---|",
    ]
    for task, taken in results:
        median = {name: statistics.median(all_of) for name, all_of in taken.items()}
        for name, all_of in taken.items():
            # by rounds, because a machine that is slow for a minute is slow for both
            ratios = [a / b for a, b in zip(taken[mine(name)], all_of, strict=True)]
            lines.append(
                f"| {task} | {name} | {median[name]:,.0f} ({min(all_of):,.0f}–{max(all_of):,.0f}) "
                f"| {statistics.median(ratios):.2f} |"
            )
    return "\n".join(lines) + "\n"
