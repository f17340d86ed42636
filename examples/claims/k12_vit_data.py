"""K12. With little data, a Vision Transformer is worse than a CNN; more data reduces the gap.

Source: Dosovitskiy et al. 2021, "An image is worth 16x16 words", section 4.3.

Measured: `vit-tiny` (3 layers of width 48, patches of 2 × 2) and `cnn-small`, both for images of 8
× 8 and without augmentation, on 100, 400 and all training images of `builtin:digits`, with the same
number of updates of 64 images, three seeds; accuracy on the test images. Data is scarce throughout:
whether a ViT overtakes a CNN in the end needs millions of images and is not measured.

Holds if: in every seed, the CNN is better by at least 1 point with the fewest images, and its lead
shrinks by at least 1 point up to the most.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

from claim import Claim, Outcome, Trials, between, judged, lines, trained, write_table

import saccade
from saccade.data.builtin import digits

DATA = "builtin:digits"
COMMON = (
    "image.size=8",
    "augment.flip=false",
    "augment.crop=0",
    "training.optim.warmup=30",
)
MODELS = {
    "ViT": (
        "vit-tiny",
        "model.dim=48",
        "model.patch_size=2",
        "model.encoder.num_layers=3",
        "model.encoder.hidden_dim=96",
        "training.batch_tokens=1024",  # 64 images of 16 patches
    ),
    "CNN": ("cnn-small", "training.batch_tokens=256"),  # 64 images of 2 x 2 cells
}


def measure(trials: Trials) -> Outcome:
    """Measure the accuracy of both models by the number of images."""
    rows = list(digits.rows("train"))
    accuracies: dict[str, dict[float, list[float]]] = {name: {} for name in MODELS}
    with tempfile.TemporaryDirectory() as folder:
        for count in (100, 400, len(rows)):
            data = Path(folder) / str(count)
            data.mkdir()
            write_images(data, "train", rows[:count])
            write_images(data, "valid", digits.rows("valid"))
            for name in MODELS:
                accuracies[name][count] = [
                    accuracy(name, data, trials.steps, seed) for seed in range(trials.seeds)
                ]
    leads = {
        count: [cnn - vit for cnn, vit in zip(with_cnn, accuracies["ViT"][count], strict=True)]
        for count, with_cnn in accuracies["CNN"].items()
    }
    fewest, most = min(leads), max(leads)
    pairs = zip(leads[fewest], leads[most], strict=True)
    shown = ", ".join(f"{fmean(lead):.1%} with {count:g}" for count, lead in leads.items())
    return Outcome(
        verdict=judged(all(first >= 0.01 and first - last >= 0.01 for first, last in pairs)),
        figures=f"the CNN leads by {shown} images (seeds: {between(leads[fewest], '.1%')} with the "
        f"fewest, {between(leads[most], '.1%')} with the most)",
        numbers={"accuracy": accuracies, "lead_of_the_cnn": leads},
        chart=lines(accuracies, x="training images", y="accuracy", log="x"),
    )


def write_images(data: Path, split: str, rows: Iterable[tuple[str, ...]]) -> None:
    """Write images as files, and the table that names them."""
    table = []
    for name, label in rows:
        file = f"{name.rpartition('/')[2]}.png"
        digits.image(name).save(data / file)
        table.append((file, label))
    write_table(data / f"{split}.tsv", digits.COLUMNS, table)


def accuracy(name: str, data: Path, steps: int, seed: int) -> float:
    """Train a model and return its accuracy on the test images."""
    recipe, *changes = MODELS[name]
    task = trained(recipe, str(data), [*COMMON, *changes], steps=steps, seed=seed)
    return saccade.evaluate(task, data=DATA)["accuracy"]


CLAIM = Claim(
    file=__file__,
    docstring=__doc__,
    measure=measure,
    full=Trials(seeds=3, steps=400),
    quick=Trials(seeds=1, steps=1),
)

if __name__ == "__main__":
    CLAIM.main()
