"""The benefit of pretraining without labels: 200 labels, from scratch and after masked pretraining.

    SACCADE_DATA=... python benchmarks/few_labels.py [--out runs/few-labels] [--minutes 20]

bert-mini-masked is pretrained on the AG News texts without their labels. Then, for each of five
seeds, bert-mini is trained on 200 labelled texts, once from scratch and once from the pretrained
weights, for the same number of updates. Both are evaluated on 1 000 texts that neither was trained
on. Finished results are kept in results.json and not measured again. The models use pre-norm: with
post-norm, the masked model had learned no more than word frequencies after 700 updates.
"""

import argparse
import json
import random
from pathlib import Path

from quality import data_folder

from saccade.cli.processes import launch
from saccade.data.sources.text_files import read_lines
from saccade.training import session
from saccade.training.console import Console

SEEDS, LABELS, TEST, STEPS = 5, 200, 1000, 300
BOTH = ("model.encoder.norm_order=pre", "text.vocabulary.size=4000")
READING = ("training.batch_tokens=1024", "training.optim.warmup=200", "masking.share=0.25")
LEARNING = (
    "training.batch_tokens=512",
    "training.validate_every=100",
    "training.learning_rate=2e-4",
    "training.optim.warmup=60",
)


def write(out: Path) -> None:
    """Write the texts for pretraining, the test texts, and the labelled texts of each seed."""
    header, *rows = read_lines(data_folder() / "agnews" / "train_10k.tsv.gz")
    random.Random(0).shuffle(rows)
    test, rest = rows[:TEST], rows[TEST:]
    (out / "test.tsv").write_text("\n".join([header, *test]) + "\n", encoding="utf-8")
    (out / "texts.tsv").write_text("\n".join([header, *rest]) + "\n", encoding="utf-8")
    for seed in range(SEEDS):
        some = random.Random(seed).sample(rest, LABELS + 100)
        folder = out / f"labels-{seed}"
        folder.mkdir(exist_ok=True)
        for name, part in (("train", some[:LABELS]), ("valid", some[LABELS:])):
            (folder / f"{name}.tsv").write_text("\n".join([header, *part]) + "\n", encoding="utf-8")


def accuracy(out: Path, seed: int, init: Path | None, name: str) -> float:
    """Train a classifier on 200 labels and return its accuracy on the test texts."""
    folder = out / f"{name}-{seed}"
    task = session.train(
        "bert-mini",
        data=out / f"labels-{seed}",
        out=folder,
        changes=BOTH + LEARNING,
        max_steps=STEPS,
        seed=seed,
        init=init,
        resume=(folder / "run.json").exists(),
        cache=out / "cache",
        console=Console(quiet=True),
    )
    return session.evaluate(task, data=out / "test.tsv")["accuracy"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("runs/few-labels"))
    parser.add_argument("--minutes", type=float, default=20, help="minutes of pretraining")
    parser.add_argument("--processes", type=int, default=2, help="processes of pretraining")
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    write(out)
    read = out / "masked"
    command = ["train", "bert-mini-masked", "--data", str(out / "texts.tsv"), "--out", str(read)]
    command += ["--minutes", str(options.minutes), "--max-steps", "1000000"]
    command += [f"--set={change}" for change in BOTH + READING]
    command += [f"--set=training.accumulate={options.processes}"]  # batches of an update
    command += ["--processes", str(options.processes), "--cache", str(out / "cache")]
    if code := launch(options.processes, [*command, *["--resume"] * (read / "run.json").exists()]):
        raise SystemExit(code)
    path = out / "results.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for seed in range(SEEDS):
        for name, init in (("scratch", None), ("pretrained", read)):
            if f"{name}-{seed}" not in results:
                results[f"{name}-{seed}"] = accuracy(out, seed, init, name)
                path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print("| seed | from scratch | pretrained |\n|---|---|---|")
    for seed in range(SEEDS):
        print(
            f"| {seed} | {results[f'scratch-{seed}']:.3f} | {results[f'pretrained-{seed}']:.3f} |"
        )


if __name__ == "__main__":
    main()
