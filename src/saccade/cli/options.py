"""Options that several verbs share, and the parsing of their values."""

from pathlib import Path
from typing import Annotated

import typer

RunFolder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="Run folder, as written by train, demo or import.", show_default=False
    ),
]
NewRun = Annotated[
    Path, typer.Option(metavar="RUN", help="Run folder to create; it must not exist yet.")
]
Data = Annotated[
    str,
    typer.Option(
        metavar="DATA",
        help="Data to read: a folder with train.*, valid.* and test.* files, a single file, a "
        "pattern in quotes such as 'shards/*.jsonl', builtin:NAME (listed by `saccade recipes`), "
        "or hf:NAME (a Hugging Face data set).",
    ),
]
Pair = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE-TARGET",
        help="Languages of parallel plain-text files: en-de reads train.en and train.de. "
        "Default: none; other formats do not need it.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=COLUMN,...",
        help="Columns of the data files to read, such as source=english,target=french; numbers "
        "from 1 for files without a header. Default: columns are recognised by their usual names.",
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a key of the recipe, such as model.dim=256; repeatable. Default: the "
        "recipe as it is.",
    ),
]
ValidFraction = Annotated[
    float | None,
    typer.Option(
        metavar="F",
        help="Fraction of the rows to hold out for validation, above 0 and below 1, if the data "
        "has no valid.* file. Default: 0.1, but at least 100 rows and at most 20 % or 2000 rows.",
    ),
]
SkipBroken = Annotated[
    bool,
    typer.Option(
        "--skip-broken",
        help="Leave out images and vector files that are missing or damaged, and report how many. "
        "Reads every file once more. Default: they are an error that lists them.",
    ),
]
MaxSteps = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Stop training after N updates of the weights. Default: training.max_steps of the "
        "recipe.",
    ),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        metavar="M",
        help="Stop training after M minutes, including the preparation of the data (of a "
        "comparison: from the first update on), whatever training.max_steps of the recipe is. "
        "Default: training.minutes of the recipe.",
    ),
]
Beam = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Beam width of generated answers; 1 is greedy search. Default: the recipe's value.",
    ),
]
BatchSize = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="Inputs predicted together; changes speed and memory, not the predictions.",
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder that keeps encoded data for the next run on the same data. Default: "
        "~/.cache/saccade.",
        envvar="SACCADE_CACHE",
        show_default=False,
    ),
]
Device = Annotated[
    str,
    typer.Option(
        metavar="DEVICE",
        help="Device to compute on: auto, cpu, cuda or mps. auto uses a GPU if there is one.",
    ),
]
Precision = Annotated[
    str,
    typer.Option(
        metavar="PRECISION",
        help="Number format of the computation: auto, float32 or bfloat16. auto uses bfloat16 on "
        "a GPU that supports it, otherwise float32.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Processor threads to use. Default: all cores."),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="Print no progress; results and errors remain.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of text for people.")
]
NoSamples = Annotated[
    bool,
    typer.Option(
        "--no-samples",
        help="Keep texts of the data out of reports and run folders; vocabularies still contain "
        "its words, and labels.json its labels.",
    ),
]
ENGINES = (
    "Engine that generates the answers: eager (PyTorch), ctranslate2 (8-bit integers), "
    "ctranslate2-float32, or auto (the fastest that is installed and passed its check)."
)
Engine = Annotated[str, typer.Option(metavar="ENGINE", help=ENGINES)]
OptionalEngine = Annotated[
    str | None,
    typer.Option(
        metavar="ENGINE",
        help=f"{ENGINES} When given, prints why the engine was chosen. Default: auto.",
    ),
]
