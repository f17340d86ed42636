"""Cost of reading, encoding and batching training data, by the number of pairs.

    python benchmarks/large_data.py [--pairs 100000 1000000] [--shards 8]

Writes generated pairs (26 words per pair, on average) into tab-separated files and prepares them
as `saccade train transformer-tiny` does: holds out a validation set, trains the vocabulary,
encodes all rows into the cache, and plans the batches. A second process begins with the filled
cache, as a resumed training does, and reads batches. Memory is the anonymous memory of the process
(RssAnon) above what it has after its imports; pages of the mapped cache are not part of it, because
the system takes them back when it needs them. The target is 200 MB and 16 bytes per pair.

10 000 000 pairs need about 3 GB of disk: add them with --pairs 10000000.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

WORDS, PARTS, LONGEST = 20_000, 4096, 12
BATCHES = 2000
TARGET_MB, TARGET_BYTES = 200, 16
STAGES = ("split", "vocabulary", "encoding", "plan", "resuming")


def write_pairs(folder: Path, pairs: int, shards: int) -> None:
    """Write pairs whose sides are two halves each, so that nearly all of them differ."""
    random = np.random.default_rng(0)
    letters = np.array([*"abcdefghijklmnoprstuvwz"])
    words = ["".join(random.choice(letters, size=random.integers(2, 9))) for _ in range(WORDS)]
    ranks = np.minimum(random.zipf(1.3, (2 * PARTS, LONGEST)) - 1, WORDS - 1)
    halves = [
        " ".join(words[rank] for rank in row[: 1 + i % LONGEST]) for i, row in enumerate(ranks)
    ]
    for shard in range(shards):
        count = (shard + 1) * pairs // shards - shard * pairs // shards
        numbers = random.integers(0, 2 * PARTS, (count, 4)).tolist()
        with (folder / f"part-{shard}.tsv").open("w", encoding="utf-8") as file:
            file.write("source\ttarget\n")
            file.writelines(
                f"{halves[a]} {halves[b]}\t{halves[c]} {halves[d]}\n" for a, b, c, d in numbers
            )


def prepare(data: str, cache: str, part: str) -> None:
    """Prepare the data and print the seconds of each stage as lines of JSON."""
    from saccade.data import sources
    from saccade.training import recipe as recipes

    recipe = recipes.load("transformer-tiny")
    report("imported")
    start = time.perf_counter()
    corpus = sources.open_corpus(data, recipe.options.columns)
    train = corpus.splits["train"]
    train.digest()
    if part == "first":
        start = report("split", start)
        task = recipe.options.create(train)
        Path(cache, "task").mkdir(parents=True)
        for name, content in task.files().items():
            Path(cache, "task", name).write_text(content, encoding="utf-8")
        start = report("vocabulary", start)
        encoded = task.encode(train, Path(cache))
        start = report("encoding", start)
        recipe.training.plan(task.sizes(encoded)).update(0)
        report("plan", start)
        return
    task = recipe.options.restore(Path(cache, "task"))
    encoded = task.encode(train, Path(cache))
    plan = recipe.training.plan(task.sizes(encoded))
    plan.update(0)
    start = report("resuming", start)
    for update in range(BATCHES):
        for assignment in plan.update(update * plan.size):
            task.collate(encoded, assignment.rows)
    report("batches", start)


def report(stage: str, start: float = 0.0) -> float:
    now = time.perf_counter()
    table = {"stage": stage, "seconds": now - start, "cpu": time.process_time()}
    print(json.dumps(table), flush=True)
    return time.perf_counter()


def run(data: Path, cache: Path, part: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds of each stage of a process, and its most memory above the imports.

    "cpu" are the seconds of all cores together, without the imports.
    """
    process = subprocess.Popen(
        [sys.executable, __file__, "--data", str(data), "--cache", str(cache), "--part", part],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    now, ended = [0.0], threading.Event()
    status = Path(f"/proc/{process.pid}/status")

    def watch() -> None:
        while not ended.wait(0.01):
            now[0] = max(now[0], anonymous(status))

    seconds: dict[str, float] = {}
    memory: dict[str, float] = {}
    before = last = 0.0
    for line in process.stdout:
        stage = json.loads(line)
        if stage["stage"] == "imported":
            seconds["cpu"] = -stage["cpu"]
            before = anonymous(status)
            threading.Thread(target=watch, daemon=True).start()
        else:
            seconds[stage["stage"]], last = stage["seconds"], stage["cpu"]
            memory[stage["stage"]], now[0] = now[0] - before, 0.0
    ended.set()
    seconds["cpu"] += last
    if process.wait():
        raise SystemExit(f"preparing {data} failed")
    return seconds, memory


def anonymous(status: Path) -> float:
    """Return the megabytes of anonymous memory of a process; 0 after its end."""
    try:
        _, _, rest = status.read_text(encoding="ascii").partition("RssAnon:")
    except OSError:
        return 0.0
    return int(rest.split()[0]) * 1024 / 1e6 if rest else 0.0


def size_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--shards", type=int, default=8)
    for option in ("--data", "--cache", "--part"):
        parser.add_argument(option, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        prepare(options.data, options.cache, options.part)
        return
    heads = [
        *(f"{stage} (s)" for stage in STAGES),
        "CPU (µs per pair)",
        "memory (MB)",
        "target (MB)",
    ]
    heads += ["resumed (MB)", "data (MB)", "cache (MB)", "batches/s"]
    print(f"| pairs | {' | '.join(heads)} |\n|{'---:|' * (len(heads) + 1)}")
    for pairs in options.pairs:
        with tempfile.TemporaryDirectory() as name:
            data, cache = Path(name, "data"), Path(name, "cache")
            data.mkdir()
            write_pairs(data, pairs, options.shards)
            seconds, memory = run(data, cache, "first")
            again, resumed = run(data, cache, "again")
            cells = [f"{(again | seconds)[stage]:.1f}" for stage in STAGES]
            cells.append(f"{seconds['cpu'] / pairs * 1e6:.0f}")
            target = TARGET_MB + TARGET_BYTES * pairs / 1e6
            most = max(memory, key=memory.__getitem__)
            cells += [f"{memory[most]:,.0f} ({most})", f"{target:,.0f}"]
            cells.append(f"{max(resumed.values()):,.0f}")
            cells += [f"{size_mb(data):,.0f}", f"{size_mb(cache):,.0f}"]
            cells.append(f"{BATCHES / again['batches']:,.0f}")
            print(f"| {pairs:,} | {' | '.join(cells)} |".replace(",", " "), flush=True)


if __name__ == "__main__":
    main()
