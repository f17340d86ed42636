"""Time to the first answer: `saccade predict RUN TEXT` and `import torch` in new processes.

    python benchmarks/startup.py [RUN] [--text TEXT] [--rounds 7]

Without RUN, a small translator is trained for a few steps. Its engine is built before anything is
measured. The commands alternate; the medians are printed, of the wall clock and of processor time,
which other work on the machine disturbs less.

    torch     python -c "import torch"
    predict   saccade predict RUN TEXT, with the engine that is ready
    serve     saccade serve RUN, until it accepts connections
    eager     saccade predict RUN TEXT --engine eager, which loads torch
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = [sys.executable, "-m", "saccade"]


def main() -> None:
    """Measure the commands in turn and print their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--text", default="Two men are talking.")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = options.run or trained(Path(folder) / "run")
        commands = {
            "torch": [sys.executable, "-c", "import torch"],
            "predict": [*COMMAND, "predict", str(run), options.text],
            "serve": [*COMMAND, "serve", str(run), "--port", "0"],
            "eager": [*COMMAND, "predict", str(run), options.text, "--engine", "eager"],
        }
        subprocess.run(commands["predict"], check=True, stdout=subprocess.DEVNULL)  # builds it
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(options.rounds):
            for name, command in commands.items():
                taken[name].append(seconds(command, until_line=name == "serve"))
    walls, processor = (
        {name: statistics.median(row[i] for row in rows) for name, rows in taken.items()}
        for i in (0, 1)
    )
    print("| command | seconds | of `import torch` | processor seconds | of `import torch` |")
    print("|---|---|---|---|---|")
    for name in commands:
        wall, cpu = walls[name], processor[name]
        parts = wall / walls["torch"], cpu / processor["torch"]
        print(f"| {name} | {wall:.2f} | {parts[0]:.0%} | {cpu:.2f} | {parts[1]:.0%} |")


def seconds(command: list[str], *, until_line: bool) -> tuple[float, float]:
    """Return the wall-clock and the processor time of a command, or until its first line."""
    before, started = os.times(), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        if until_line:
            process.stdout.readline()
            wall = time.perf_counter() - started
            process.send_signal(signal.SIGTERM)
        process.communicate()
        if not until_line:
            wall = time.perf_counter() - started
    after = os.times()
    used = after.children_user + after.children_system
    return wall, used - before.children_user - before.children_system


def trained(run: Path) -> Path:
    """Train a small translator for a few steps; return its run folder."""
    data = ["--data", "builtin:phrases", "--out", str(run), "--max-steps", "100"]
    subprocess.run([*COMMAND, "train", "transformer-tiny", *data], check=True)
    return run


if __name__ == "__main__":
    main()
