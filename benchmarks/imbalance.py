"""The effect of class weights on a rare class: Fashion-MNIST with 1 % of its shirts.

    SACCADE_DATA=... python benchmarks/imbalance.py [--out runs/imbalance] [--recipe cnn-small]
        [--losses none balanced focal] [--steps 1500] [--seeds 3]

The training images are those of Fashion-MNIST with every hundredth shirt only: 54 of 48 654, with
6 more among the 5 406 for validation. For each seed, the recipe is trained for the
same number of updates with each of the losses: plain cross-entropy, balanced class weights,
and focal loss with a gamma of 2. The best weights are those with the largest macro F1 on the
validation images; every other setting is the recipe's, and none was chosen by test results. All
10 000 test images are measured, of which 1 000 are shirts. Finished results are kept in
results.json and not measured again.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from quality import data_folder

from saccade.data.sources.archives import read_idx
from saccade.training import session
from saccade.training.console import Console

RARE, KEPT = 6, 100  # the class of shirts, of which one in a hundred is kept
FILES = {"train": "train-{}-ubyte.gz", "test": "t10k-{}-ubyte.gz"}
LOSSES = {
    "none": (),
    "balanced": ("loss.class_weights=balanced",),
    "focal": ("loss.focal_gamma=2",),
}
SETTINGS = (
    'metrics.names=["macro_f1","accuracy","balanced_accuracy"]',
    "training.validate_every=100",
)


def write(data: Path) -> None:
    """Write tables of images: one image in ten is for validation."""
    folder = (data_folder() / "fashion_mnist").resolve()
    rows: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for split, file in FILES.items():
        images, counts = folder / file.format("images-idx3"), dict.fromkeys(range(10), 0)
        for number, label in enumerate(read_idx(folder / file.format("labels-idx1"), 1).tolist()):
            place = counts[label]
            counts[label] += 1
            part = "valid" if split == "train" and place % 10 == 9 else split
            if part != "test" and label == RARE and place // 10 % KEPT:
                continue
            rows[part].append(f"{images}/{number}\t{label}")
    for part, lines in rows.items():
        (data / f"{part}.tsv").write_text("\n".join(["image\tlabel", *lines]) + "\n", "utf-8")


def measure(out: Path, recipe: str, loss: str, seed: int, steps: int) -> dict[str, float]:
    """Train a classifier; return its metrics on the test images, and those of the rare class."""
    folder = out / f"{loss}-{seed}"
    task = session.train(
        recipe,
        data=out / "data",
        out=folder,
        changes=SETTINGS + LOSSES[loss],
        max_steps=steps,
        seed=seed,
        resume=(folder / "run.json").exists(),
        cache=out / "cache",
        console=Console(quiet=True),
    )
    evaluation = session.assess(task, data=out / "data", split="test")
    rare: dict[str, Any] = dict(evaluation.per_class[RARE])
    return {
        **evaluation.values(),
        **{f"rare_{name}": float(rare[name]) for name in ("precision", "recall", "f1")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("runs/imbalance"))
    parser.add_argument("--recipe", default="cnn-small")
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=[*LOSSES])
    parser.add_argument("--steps", type=int, default=1500, help="updates per training run")
    parser.add_argument("--seeds", type=int, default=3, help="training runs per loss")
    options = parser.parse_args()
    out: Path = options.out
    (out / "data").mkdir(parents=True, exist_ok=True)
    write(out / "data")
    path = out / "results.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for seed in range(options.seeds):
        for loss in options.losses:
            if f"{loss}-{seed}" not in results:
                results[f"{loss}-{seed}"] = measure(out, options.recipe, loss, seed, options.steps)
                path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    names = ("rare_f1", "rare_precision", "rare_recall", "macro_f1", "accuracy")
    print(f"| loss | {' | '.join(name.replace('_', ' ') for name in names)} |")
    print(f"|---|{'---|' * len(names)}")
    for loss in options.losses:
        cells = []
        for name in names:
            values = [100 * results[f"{loss}-{seed}"][name] for seed in range(options.seeds)]
            spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.1f}{spread}")
        print(f"| {loss} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
