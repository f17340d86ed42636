"""saccade demo: train, measure and predict on built-in data, without a download."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from saccade.cli.options import Cache
from saccade.cli.output import counted, prediction_progress, print_score
from saccade.cli.processes import launch, usual_count
from saccade.errors import DataError


@dataclass(frozen=True)
class Demo:
    """A recipe on a built-in data set, and inputs that it is not trained on.

    Attributes:
        story: What the model learns, for people.
        recipe: Name of the recipe.
        data: Name of the data set.
        minutes: Training time.
        inputs: Inputs to predict after the training.
        changes: Changes to the recipe, for a model that learns something in a few minutes.
        options: Options of the evaluation, such as the beam width.
    """

    story: str
    recipe: str
    data: str
    minutes: float
    inputs: tuple[str, ...]
    changes: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


DEMOS = {
    "pronounce": Demo(
        "pronounce English words, learned from the CMU Pronouncing Dictionary",
        recipe="pronounce",
        data="builtin:pronounce",
        minutes=2.5,
        inputs=("saccade", "transformability", "unlearning", "softmaxes", "bidirectionally"),
        options={"beam": 1},
    ),
    "reverse": Demo(
        "write letters backwards",
        recipe="reverse",
        data="builtin:reverse",
        minutes=1.5,
        inputs=("s a c c a d e", "a t t e n t i o n", "l o o k"),
        options={"beam": 1},
    ),
    "classify": Demo(
        "classify the mood of generated English sentences, where not, but and although decide",
        recipe="bert-mini",
        data="builtin:mood",
        minutes=2.0,
        inputs=(
            "The soup was not at all cheerful, but the cake made me smile.",
            "I was furious about the bill, although the coffee calmed me down.",
            "By the way, the ending was more dreary than delightful.",
        ),
        changes=(
            "text.vocabulary.size=1000",
            "model.dim=128",
            "model.encoder.num_layers=2",
            "model.encoder.hidden_dim=256",
            "model.encoder.norm_order=pre",
            "training.learning_rate=1e-3",
            "training.batch_tokens=1024",
        ),
    ),
    "tag": Demo(
        "find people, places and companies in generated sentences, whose names only the words "
        "around them tell apart",
        recipe="transformer-tagger",
        data="builtin:entities",
        minutes=1.5,
        inputs=(
            "Yesterday, Tavo rose from the table because Tavo rose by two percent.",
            "In Drumako Selin met Kavo de Brine, who left Port Lumi for Gresta.",
            "They remember Zeluna, which sells boats, and drank a glass of Zeluna.",
        ),
        changes=("text.vocabulary.size=1000", "model.dim=128", "model.encoder.hidden_dim=256"),
    ),
    "see": Demo(
        "recognise handwritten digits with a Vision Transformer that reads patches of 2 × 2 pixels",
        recipe="vit-tiny",
        data="builtin:digits",
        minutes=2.0,
        inputs=("builtin:digits/14", "builtin:digits/28", "builtin:digits/84"),
        changes=(
            "image.size=8",
            "image.scale=half",
            "augment.flip=false",
            "augment.crop=0",
            "augment.randaugment=1",
            "augment.magnitude=0.2",
            "augment.mixup=0.2",
            "model.dim=48",
            "model.patch_size=2",
            "model.encoder.num_layers=3",
            "model.encoder.hidden_dim=96",
            "training.learning_rate=3e-3",
            "training.batch_tokens=1024",
            "training.validate_every=250",
            "training.optim.warmup=50",
        ),
    ),
    "vectors": Demo(
        "recognise how the high one of several synthetic sounds moves, and where in time it is",
        recipe="vector-classifier-rnn",
        data="builtin:tones",
        minutes=1.5,
        inputs=("builtin:tones/4301", "builtin:tones/4302", "builtin:tones/4303"),
    ),
    "caption": Demo(
        "caption drawn scenes with a model that attends to one region after the other",
        recipe="caption-attention",
        data="builtin:shapes",
        minutes=4.0,
        inputs=("builtin:shapes/24503", "builtin:shapes/24504", "builtin:shapes/24505"),
        changes=(
            "image.size=64",
            "text.vocabulary.min_count=1",
            "loss.label_smoothing=0.0",
            "model.dim=128",
            "model.encoder.kind=resnet",
            "model.encoder.widths=[24,48,96]",
            "model.encoder.blocks=1",
            "model.encoder.stem_stride=2",
            "model.encoder.dim=128",
            "model.encoder.position.kind=sinusoidal",
            "model.decoder.dim=192",
            "model.decoder.dropout=0.1",
            "model.decoder.score.hidden_dim=64",
            'metrics.names=["exact_match","bleu_4","cider","rouge_l"]',
            "training.learning_rate=4e-3",
            "training.batch_tokens=1280",
            "training.update_tokens=2560",
            "training.validate_items=100",
            "training.optim.kind=muon",  # 98 % exact captions after 968 updates
            "training.optim.warmup=200",
        ),
        options={"beam": 1},
    ),
    "generate": Demo(
        "continue sentences, learned from the English text of Python's documentation",
        recipe="gpt-mini",
        data="builtin:pydoc",
        minutes=2.25,
        inputs=("The statement", "If the object is a class, ", "A function call"),
        changes=(
            "text.vocabulary.size=2000",
            "text.block=64",
            "model.dim=128",
            "model.decoder.num_layers=3",
            "model.decoder.num_heads=4",
            "model.decoder.hidden_dim=512",
            "training.learning_rate=2e-3",
            "training.batch_tokens=1024",
        ),
    ),
}


def run(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"Demo to run: {', '.join(DEMOS)}.")
    ] = "pronounce",
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Run folder to create or resume. Default: runs/demo-NAME."
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="M", help="Minutes of training. Default: between 1.5 and 4, by the demo."
        ),
    ] = None,
    cache: Cache = None,
) -> None:
    """Train a small model on built-in data, without a download.

    Takes a few minutes. Then measures it, predicts unseen inputs, and draws its attention.
    """
    if name not in DEMOS:
        raise DataError(f"unknown demo {name!r}; choose one of: {', '.join(DEMOS)}")
    demo, folder = DEMOS[name], out or Path("runs") / f"demo-{name}"
    budget = demo.minutes if minutes is None else minutes

    from saccade.training import session
    from saccade.training.run import Run

    begun = Run(folder).exists()
    unit = "minute" if budget == 1 else "minutes"
    print(f"Demo: {demo.story}.")
    print(f"Resuming {folder}." if begun else f"Training for {budget:g} {unit} into {folder}.")
    sys.stdout.flush()
    arguments = ["train", demo.recipe, "--data", demo.data, "--out", str(folder)]
    arguments += ["--minutes", str(budget), *(["--cache", str(cache)] if cache else [])]
    arguments += [f"--set={change}" for change in demo.changes]
    count = usual_count(demo.recipe, demo.changes, device="auto")
    code = launch(count, [*arguments, *["--resume"] * begun])
    if code:
        raise typer.Exit(code)
    task = session.load(folder)
    with prediction_progress() as progress:
        evaluation = session.assess(
            task,
            data=demo.data,
            split="test",
            on_batch=progress,
            **demo.options,
        )
    print(f"\nOn {counted(len(evaluation.answers), 'input')} that it was not trained on:")
    for score in evaluation.scores.values():
        print_score(score, indent="  ")
    answers = task.predict(demo.inputs, attention=True)
    print("\nPredictions for unseen inputs:")
    for value, answer in zip(demo.inputs, answers, strict=True):
        print(f"  {value} -> {answer}")
    picture = answers[0].attention.save(folder / "attention.png")
    print(f"\nAttention for the first of them: {picture}")
    print(f"Learning curves and more predictions: {folder / 'report.html'}")
    print(f"Try it: saccade predict {shlex.join([str(folder), demo.inputs[-1]])}")
