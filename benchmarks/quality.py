"""Quality after a given time on real data: train, answer the test set, keep the figures.

    SACCADE_DATA=... python benchmarks/quality.py [NAME ...] [--out runs/quality] [--minutes M]

Each training is a run folder under --out. One that was interrupted goes on, one that is finished is
not done again; `results.json` there holds all figures, and the table is printed from it. Minutes
are wall-clock minutes of training, validations included, in two processes on the machine at hand;
nothing else should run on it.
"""

import argparse
import gzip
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.cli.launch import launch
from saccade.training import session


@dataclass(frozen=True)
class Trial:
    """A recipe on some data for some minutes, and what it is measured on."""

    recipe: str
    data: str
    minutes: float
    test: dict[str, str]
    split: str = "test"
    pair: str | None = None
    changes: tuple[str, ...] = ()


MULTI30K: dict[str, Any] = {
    "data": "multi30k/tok",
    "pair": "en-de",
    "test": {
        "test 2016": "multi30k/tok/test_2016_flickr.lc.norm.tok",
        "test 2017": "multi30k/tok/test_2017_flickr.lc.norm.tok",
    },
}
TOKENISED = ("metrics.tokenize=none",)
TRIALS = {
    "multi30k-transformer-tiny": Trial(
        "transformer-tiny", minutes=60, changes=TOKENISED, **MULTI30K
    ),
    "multi30k-rnn-attention": Trial("rnn-attention", minutes=25, changes=TOKENISED, **MULTI30K),
    "multi30k-rnn": Trial("rnn", minutes=25, changes=TOKENISED, **MULTI30K),
    "cmudict-pronounce": Trial(
        "pronounce",
        data="cmudict",
        minutes=45,
        split="valid",
        test={"dev": "cmudict"},
        changes=("model.dim=256", "model.encoder.hidden_dim=1024", "model.decoder.hidden_dim=1024"),
    ),
}


def data_folder() -> Path:
    folder = os.environ.get("SACCADE_DATA")
    if not folder:
        sys.exit("set SACCADE_DATA to the folder that holds multi30k and cmudict")
    return Path(folder)


def place(name: str, out: Path) -> str:
    """Where the data lies; the dictionary is written anew, one pronunciation a row, no stress."""
    if name != "cmudict":
        return str(data_folder() / name)
    made = out / "data-cmudict"
    made.mkdir(parents=True, exist_ok=True)
    for theirs, ours in (("train", "train"), ("dev", "valid")):
        rows = ["source\ttarget\n"]
        with gzip.open(data_folder() / "cmudict" / f"{theirs}.tsv.gz", "rt", encoding="utf-8") as f:
            for line in f:
                word, spoken = line.rstrip("\n").split("\t")
                plain = re.sub(r"\d", "", spoken).split(" | ")
                rows += [f"{word}\t{each}\n" for each in dict.fromkeys(plain)]
        (made / f"{ours}.tsv").write_text("".join(rows), encoding="utf-8")
    return str(made)


def run(name: str, trial: Trial, out: Path, minutes: float | None) -> dict[str, Any]:
    """Train, or go on, and measure."""
    folder, spent = out / name, minutes or trial.minutes
    command = ["train", trial.recipe, "--data", place(trial.data, out), "--out", str(folder)]
    command += ["--minutes", str(spent), "--max-steps", "10000000", "--cache", str(out / "cache")]
    command += ["--processes", "2", *(["--pair", trial.pair] if trial.pair else [])]
    command += [f"--set={change}" for change in trial.changes]
    command += ["--resume"] * (folder / "run.json").exists()
    if code := launch(2, command):
        sys.exit(code)
    task = session.load(folder)
    figures: dict[str, Any] = {"recipe": trial.recipe, "minutes": spent}
    figures["parameters"] = sum(p.numel() for p in task.parameters())
    steps = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    figures["steps"] = json.loads(steps[-1])["step"]
    for label, data in trial.test.items():
        found = session.assess(task, data=place(data, out), split=trial.split, pair=trial.pair)
        figures[label] = found.as_json()
    return figures


def table(results: dict[str, Any]) -> str:
    lines = ["| trial | recipe | minutes | steps | parameters | on | figures |"]
    lines.append("|" + "---|" * 7)
    for name, figures in results.items():
        for label, found in figures.items():
            if isinstance(found, dict):
                told = ", ".join(f"{metric} {found[metric]:.4g}" for metric in found["details"])
                lines.append(
                    f"| {name} | {figures['recipe']} | {figures['minutes']:g} | "
                    f"{figures['steps']:,} | {figures['parameters']:,} | {label} | {told} |"
                )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(TRIALS)}; all if left out")
    parser.add_argument("--out", type=Path, default=Path("runs/quality"))
    parser.add_argument("--minutes", type=float, help="instead of each trial's own")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "results.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name in options.names or TRIALS:
        if name not in results:
            results[name] = run(name, TRIALS[name], options.out, options.minutes)
            path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
