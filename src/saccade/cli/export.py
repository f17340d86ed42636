"""saccade export: a run becomes a folder of another tool."""

from pathlib import Path
from typing import Annotated

import typer


def run(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    out: Annotated[Path, typer.Argument(help="The folder to make.")],
    *,
    to: Annotated[str, typer.Option(help="The format: ctranslate2, huggingface or onnx.")],
    quantization: Annotated[
        str | None, typer.Option(help="For ctranslate2: int8 (if left out) or float32.")
    ] = None,
) -> None:
    """Write a run in another tool's format."""
    from saccade.interop import export_task
    from saccade.training.run import Run

    source = Run(run_folder)
    remark = export_task(source.task(), to, out, quantization=quantization, items=source.samples())
    print(f"{out}: {run_folder} as {to} has it, read again and compared")
    if remark:
        print(remark)
