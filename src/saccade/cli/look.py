"""saccade look: the attention of a run or of a Hugging Face model for given inputs."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.options import Device
from saccade.cli.record_files import record_writer, require_record_file
from saccade.errors import DataError

if TYPE_CHECKING:
    from saccade.lens.record import AttentionRecord


def run(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Run folder, or Hugging Face folder of an encoder, decoder, translator, image "
            "encoder or a model like CLIP, with weights in safetensors.",
            show_default=False,
        ),
    ],
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="Inputs: texts, or paths of images.",
            show_default=False,
        ),
    ],
    *,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="File to write: .html is one page with all inputs; .png, .svg, .json and .npz "
            "have one file per input (FILE-2 for the second).",
        ),
    ] = Path("attention.html"),
    pair: Annotated[
        bool,
        typer.Option(
            "--pair", help="Read the two INPUTs as one pair of texts. Default: as separate texts."
        ),
    ] = False,
    layer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Layer to record: a dotted name or a pattern such as 'encoder.layer.0.*'; "
            "repeatable. Default: all layers.",
        ),
    ] = None,
    max_length: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Maximum number of tokens that a Hugging Face model generates; 0 shows the prompt "
            "of a decoder alone.",
        ),
    ] = 20,
    device: Device = "auto",
) -> None:
    """Show the attention of a run or of a Hugging Face model.

    A text encoder shows the self-attention of the text, a decoder that of the text and its
    continuation, a translator the attention from the translation to the source, and an image model
    the self-attention of its patches. No code from a Hugging Face folder is run.
    """
    require_record_file(out, "--out")
    if pair and len(inputs) != 2:
        raise DataError(f"--pair needs two INPUTs, found {len(inputs)}; pass two texts")
    items: list[Any] = [(inputs[0], inputs[1])] if pair else list(inputs)
    with record_writer(out) as save:
        for number, record in enumerate(_records(model, items, layer, max_length, device), 1):
            save(record, number)
    print(f"wrote {out}")


def _records(
    folder: Path, items: list[Any], layers: list[str] | None, max_length: int, device: str
) -> "list[AttentionRecord]":
    from saccade.training.console import Console

    with Console().working(f"loading {folder}"):
        if not (folder / "recipe.toml").is_file():
            return _foreign_records(folder, items, layers, max_length, device)
        from saccade import engines

        task = engines.load(folder, device=device, engine="eager")
    answers = task.predict(items, attention=True)
    records = [answer.attention for answer in answers if answer.attention is not None]
    return records if layers is None else [_only(record, layers) for record in records]


def _foreign_records(
    folder: Path, items: list[Any], layers: list[str] | None, max_length: int, device: str
) -> "list[AttentionRecord]":
    from saccade.data.sources.archives import SUFFIXES
    from saccade.interop.look import look, read_model
    from saccade.training.precision import pick_device

    model, processor = read_model(folder, quiet=True)
    items = [
        Path(item) if isinstance(item, str) and item.lower().endswith(SUFFIXES) else item
        for item in items
    ]
    model = model.to(pick_device(device))
    return look(model, processor, items, layers=layers, max_new_tokens=max_length)


def _only(record: "AttentionRecord", patterns: list[str]) -> "AttentionRecord":
    """Return the record with the layers that match."""
    names = [n for n in record.layers if any(fnmatchcase(n, pattern) for pattern in patterns)]
    return record.slice(layers=names or patterns)
