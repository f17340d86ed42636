"""saccade look: the attention of a run or of a Hugging Face model for given inputs."""

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.options import Device
from saccade.cli.record_files import record_writer, require_record_file
from saccade.errors import DataError

if TYPE_CHECKING:
    from saccade.lens.record import AttentionRecord
    from saccade.tasks.measures.any_model import AttentionMeasures


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
    measured: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Also measure how far to trust the attention: erase the parts with the "
            "largest weights, compare the heads and remove them one at a time. Give several "
            "INPUTs. The measures are printed, shown on the page, and written beside FILE "
            "(FILE-measures.json).",
        ),
    ] = False,
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
    if (model / "recipe.toml").is_file():
        records, measures = _look_of_run(model, items, layer, device, measured=measured)
    else:
        records, measures = _look_of_folder(
            model, items, layer, max_length, device, measured=measured
        )
    plain = None if measures is None else measures.as_json()
    with record_writer(out, plain) as save:
        for number, record in enumerate(records, 1):
            save(record, number)
    print(f"wrote {out}")
    if measures is not None:
        path = out.with_name(f"{out.stem}-measures.json")
        path.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {path}\n\n{measures}")


Looked = tuple["list[AttentionRecord]", "AttentionMeasures | None"]


def _look_of_run(
    folder: Path, items: list[Any], layers: list[str] | None, device: str, *, measured: bool
) -> Looked:
    from saccade import engines
    from saccade.tasks.measures import measure_answers, require_measurable
    from saccade.training.console import Console

    with Console().working(f"loading {folder}"):
        task = engines.load(folder, device=device, engine="eager")
    if measured:
        require_measurable(task)
    answers = task.predict(items, attention=True)
    records = [answer.attention for answer in answers if answer.attention is not None]
    if layers is not None:
        records = [_only(record, layers) for record in records]
    return records, measure_answers(task, items, answers, records) if measured else None


def _look_of_folder(
    folder: Path,
    items: list[Any],
    layers: list[str] | None,
    max_length: int,
    device: str,
    *,
    measured: bool,
) -> Looked:
    from saccade.data.sources.archives import SUFFIXES
    from saccade.interop.look import look, read_model
    from saccade.interop.look_measure import measure_look
    from saccade.training.console import Console
    from saccade.training.precision import pick_device

    with Console().working(f"loading {folder}"):
        model, processor = read_model(folder, quiet=True)
    items = [
        Path(item) if isinstance(item, str) and item.lower().endswith(SUFFIXES) else item
        for item in items
    ]
    model = model.to(pick_device(device))
    records = look(model, processor, items, layers=layers, max_new_tokens=max_length)
    if not measured:
        return records, None
    with Console().working("measuring"):
        measures = measure_look(model, processor, items, layers=layers, max_new_tokens=max_length)
    return records, measures


def _only(record: "AttentionRecord", patterns: list[str]) -> "AttentionRecord":
    """Return the record with the layers that match."""
    names = [n for n in record.layers if any(fnmatchcase(n, pattern) for pattern in patterns)]
    return record.slice(layers=names or patterns)
