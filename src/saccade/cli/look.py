"""saccade look: the attention of a run or of a Hugging Face model for given inputs."""

import json
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.options import Device
from saccade.cli.record_files import record_writer, require_record_file
from saccade.errors import DataError

if TYPE_CHECKING:
    from saccade.lens.record import AttentionRecord
    from saccade.tasks import ScoredAnswer
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
    answer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ANSWER",
            help="Also score this answer, token by token, and show where a run looks while it "
            "gives it, beside its own prediction; once per INPUT. Only for runs. Default: the "
            "prediction alone.",
        ),
    ] = None,
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
    is_run = (model / "recipe.toml").is_file()
    if answer is not None:
        _require_answers(answer, items, out, is_run=is_run)
    scored: list[ScoredAnswer] = []
    if is_run:
        records, measures, scored = _look_of_run(
            model, items, layer, device, measured=measured, answers=answer
        )
    else:
        records, measures = _look_of_folder(
            model, items, layer, max_length, device, measured=measured
        )
    plain = None
    if measures is not None:
        plain = measures.as_json()
        records = [one if one.belief else one.with_belief(measures.belief) for one in records]
    if scored:
        _write_beside(out, records, scored, plain)
    else:
        with record_writer(out, plain) as save:
            for number, record in enumerate(records, 1):
                save(record, number)
    for one in scored:
        _print_scores(one)
    print(f"wrote {out}")
    if measures is not None:
        path = out.with_name(f"{out.stem}-measures.json")
        path.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {path}\n\n{measures}")


Looked = tuple["list[AttentionRecord]", "AttentionMeasures | None"]


def _require_answers(answers: list[str], items: list[Any], out: Path, *, is_run: bool) -> None:
    """Raise unless each input has one answer that a run can score."""
    from saccade.data.sources.columns import counted

    if not is_run:
        raise DataError(
            "--answer needs a run folder, because a Hugging Face folder has no task that scores "
            "answers; import it with `saccade import` first"
        )
    if len(answers) != len(items):
        raise DataError(
            f"there are {counted(len(items), 'input')} and {counted(len(answers), 'answer')}; "
            "repeat --answer once per INPUT, in their order"
        )
    if out.suffix != ".html":
        raise DataError(
            f"--answer shows two records side by side, which {out.suffix} cannot hold; choose an "
            ".html file with --out"
        )


def _write_beside(
    out: Path,
    records: "list[AttentionRecord]",
    scored: "list[ScoredAnswer]",
    measures: "dict[str, Any] | None",
) -> None:
    """Write the page of predictions and given answers, side by side."""
    from saccade.lens.page import page_of, view_model

    inputs = [
        [
            view_model(record, "prediction"),
            view_model(one.attention or record, "your answer", one.to_dict()),
        ]
        for record, one in zip(records, scored, strict=True)
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(page_of(inputs, measures=measures).encode())


def _print_scores(scored: "ScoredAnswer") -> None:
    """Print each token of a given answer with its probability and what the model prefers."""
    from saccade.lens.formatting import in_columns

    rows = [["token", "probability", "prefers", "probability"]]
    for token in scored.token_scores:
        own = [token.text, f"{100 * token.probability:.1f} %"]
        best = [token.best, f"{100 * token.best_probability:.1f} %"]
        rows.append([*own, *(best if token.best != token.text else ["", ""])])
    print(f"{scored.text}\n{in_columns(rows)}\n")


def _look_of_run(
    folder: Path,
    items: list[Any],
    layers: list[str] | None,
    device: str,
    *,
    measured: bool,
    answers: list[str] | None,
) -> "tuple[list[AttentionRecord], AttentionMeasures | None, list[ScoredAnswer]]":
    from saccade import engines
    from saccade.tasks.measures import measure_answers, require_measurable
    from saccade.training.console import Console

    with Console().working(f"loading {folder}"):
        task = engines.load(folder, device=device, engine="eager")
    if measured:
        require_measurable(task)
    predictions = task.predict(items, attention=True)
    records = [one.attention for one in predictions if one.attention is not None]
    scored: list[ScoredAnswer] = []
    if answers is not None:
        every = task.score(items, answers, attention=True)
        pairs = zip(predictions, every, strict=True)
        scored = [one for prediction, one in pairs if prediction.attention is not None]
    if layers is not None:
        records = [_only(record, layers) for record in records]
        scored = [
            replace(one, attention=one.attention and _only(one.attention, layers)) for one in scored
        ]
    measures = measure_answers(task, items, predictions, records) if measured else None
    return records, measures, scored


def _look_of_folder(
    folder: Path,
    items: list[Any],
    layers: list[str] | None,
    max_length: int,
    device: str,
    *,
    measured: bool,
) -> Looked:
    from saccade.data.suffixes import SUFFIXES
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
