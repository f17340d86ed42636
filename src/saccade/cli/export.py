"""saccade export: write a run in another tool's format."""

from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import RunFolder


def run(
    run_folder: RunFolder,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="Folder to create; it must be new or empty.", show_default=False
        ),
    ],
    *,
    to: Annotated[
        str,
        typer.Option(metavar="FORMAT", help="Format to write: ctranslate2, huggingface or onnx."),
    ],
    quantization: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="Number format of the weights, for ctranslate2 only: int8 or float32. Default: "
            "int8.",
        ),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Family of the written model, for huggingface only, such as roberta. Default: the "
            "first that the model fits.",
        ),
    ] = None,
) -> None:
    """Export a run to CTranslate2, Hugging Face or ONNX.

    The exported model is loaded again and compared with the run before anything is kept. README.md
    in OUT is a model card: data, scores, baselines, limits and how to use the model.
    """
    from saccade.interop import export_task
    from saccade.training.console import Console
    from saccade.training.run import Run
    from saccade.training.summary import summarize

    source, console = Run(run_folder), Console()
    with console.working(f"loading {run_folder}"):
        task, summary = source.task(), summarize(run_folder)
    remark = export_task(
        task,
        to,
        out,
        quantization=quantization,
        family=family,
        items=source.samples(),
        facts=summary.card_facts(out.resolve().name),
        notify=console.notify,
    )
    print(f"{out}: {run_folder} as {to}, loaded again and compared with the run")
    if remark:
        print(remark)
