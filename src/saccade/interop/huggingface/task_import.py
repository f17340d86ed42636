"""Make a task of a folder: the model with its vocabulary, its labels and the options of a recipe.

The architecture of a folder names its task. A function here per such task fills the tables of its
recipe and the files of its run folder; the task itself is made by its own `TaskConfig.restore`.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from saccade import config as recipe_tables
from saccade.decoders.transformer import TransformerDecoder
from saccade.errors import InteropError
from saccade.files import read_json
from saccade.interop.huggingface.families import families
from saccade.interop.huggingface.load_save import HuggingFaceFolder
from saccade.interop.huggingface.model_diff import submodule
from saccade.interop.huggingface.model_rewrites import NEVER, with_rows
from saccade.interop.huggingface.vocabulary import (
    TARGET,
    TOKENIZER,
    read_vocabulary,
    with_all_controls,
    with_space_before,
)
from saccade.metrics.tagging import scheme_of
from saccade.models import ImageClassifierConfig
from saccade.tasks import (
    CLASSIFIER_FILE,
    IMAGE_FILE,
    LABELS_FILE,
    VOCABULARY_FILE,
    Task,
    TaskConfig,
    config_of,
)
from saccade.text import Tokenizer, VocabularyConfig

SEPARATORS = (",", ";", "|", "\t")
"""Between several labels: the first that is in no label."""
PREPROCESSOR = "preprocessor_config.json"
DEFAULT_POSITIONS = 512
"""Length of texts if config.json has no `max_position_embeddings`."""

Table = dict[str, Any]
"""A table of a recipe, or the content of a JSON file."""


@dataclass(frozen=True)
class ImportedTask:
    """A task with its weights, and the options of its recipe."""

    options: TaskConfig
    task: Task


@dataclass(frozen=True, kw_only=True)
class SaccadeFacts:
    """The key "saccade" that `task_export` writes into config.json.

    pairs          whether a classifier reads pairs of texts
    temperature    the divisor of a classifier's logits, in folders of earlier versions, whose heads
                   do not include it
    separator      the text between several labels
    thresholds     the probabilities above which each of several labels is predicted
    splitting      how a tagger divides plain text into words
    layout         the layout of a language model's texts; that of the family if it is empty
    opening        the text before every input of a language model
    space_before   whether the vocabulary put a space before every text
    """

    pairs: bool = False
    temperature: float = 1.0
    separator: str | None = None
    thresholds: dict[str, float] = field(default_factory=dict)
    splitting: dict[str, str | list[str]] = field(default_factory=dict)
    layout: str = ""
    opening: str = ""
    space_before: bool = False


@dataclass(frozen=True)
class ImportSource:
    """A folder that is imported; `pairs` if its classifier reads pairs of texts."""

    folder: HuggingFaceFolder
    own: SaccadeFacts
    pairs: bool

    def vocabulary(self, needed: tuple[str, ...]) -> Tokenizer:
        """Return the vocabulary, which must have these control tokens."""
        rows = self.folder.network.vocabulary_sizes[0]
        tokenizer = read_vocabulary(self.folder.path / TOKENIZER, needed, rows)
        return with_space_before(tokenizer) if self.own.space_before else tokenizer


@dataclass(frozen=True)
class ImportPlan:
    """A task to be made.

    tables    the tables of its recipe, without `[model]`
    files     the files of its run folder by name
    rewrite   changes the model so that it fits the vocabulary
    """

    tables: Table
    files: Mapping[str, str]
    rewrite: Callable[[nn.Module], nn.Module]


def read_task(folder: str | Path, *, pairs: bool = False) -> ImportedTask:
    """Return the task of a folder.

    Args:
        folder: A folder as `transformers` saves it, with tokenizer.json.
        pairs: Whether a classifier reads pairs of texts, which no folder records.

    Raises:
        InteropError: If no task has the model of the folder, or files do not fit it.
    """
    opened = HuggingFaceFolder.open(folder)
    config, task = opened.config, opened.kind.task
    if task is None or config is None:
        raise InteropError(
            f"{opened.path} holds a {opened.architecture}: {_why_not(head=opened.kind.head)}"
        )
    own = _saccade_facts(opened)
    plan = PLANS[task](ImportSource(opened, own, pairs or own.pairs))
    tables = {"model": recipe_tables.plain(config), **plan.tables}
    options = recipe_tables.read(config_of(task), tables)
    model = plan.rewrite(opened.load())
    with tempfile.TemporaryDirectory() as staging:
        for name, content in plan.files.items():
            (Path(staging) / name).write_text(content, encoding="utf-8")
        restored = options.restore(Path(staging))
    restored.model.load_state_dict(model.state_dict())
    return ImportedTask(options, restored.eval())


def _why_not(*, head: bool) -> str:
    if not head:
        return (
            "it has no head, so it cannot predict anything; train one on it with "
            "`saccade train RECIPE --data DATA --out RUN --init FOLDER`"
        )
    importable = [
        name
        for family in families().values()
        for name, architecture in family.architectures.items()
        if architecture.task is not None
    ]
    return (
        f"no task has this model yet; these can be imported: {', '.join(importable)}. "
        "saccade.interop.huggingface.load gives the model alone"
    )


def _saccade_facts(folder: HuggingFaceFolder) -> SaccadeFacts:
    match folder.facts.get("saccade"):
        case dict() as own:
            try:
                return TypeAdapter(SaccadeFacts).validate_python(own)
            except ValidationError as error:
                wrong = error.errors()[0]
                raise InteropError(
                    f'{folder.where}: "saccade" has an invalid value of {wrong["loc"][0]}: '
                    f"{wrong['msg']}; remove it or export the run again"
                ) from None
    return SaccadeFacts()


def _text_to_text(source: ImportSource) -> ImportPlan:
    """Plan a translator with one vocabulary, or one per side; missing control tokens get rows.

    Marian and T5 begin a text with any token, usually the padding. Here the start is a token of its
    own with the same vector.
    """
    folder, facts = source.folder, source.folder.facts
    rows = folder.network.vocabulary_sizes
    read = source.vocabulary(("stop",))
    other = folder.path / TARGET / TOKENIZER
    if rows[0] != rows[1] and not other.is_file():
        raise InteropError(
            f"{folder.path} embeds {rows[0]} tokens on one side and {rows[1]} on the other, so it "
            f"needs two vocabularies: {TOKENIZER} for the source and {TARGET}/{TOKENIZER} for the "
            "target. "
            "Save both tokenizers in the folder"
        )
    written = read_vocabulary(other, ("stop",), rows[1]) if other.is_file() else read
    if facts.get("eos_token_id", written.stop) != written.stop:
        raise InteropError(
            f"{folder.where}: texts end with {facts['eos_token_id']} (eos_token_id), but in "
            f"{TOKENIZER} with {written.stop}; make them equal"
        )
    match facts.get("decoder_start_token_id", written.controls.start):
        case int() as start if 0 <= start < rows[1]:
            first_token = start
        case invalid:
            raise InteropError(
                f"{folder.where}: texts begin with {invalid!r} (decoder_start_token_id), which is "
                f"not one of its {rows[1]} tokens; "
                "correct config.json"
            )
    known = {"source": len(read), "target": len(written)}
    written = with_all_controls(written)
    files = {"tokenizer.source.json": read, "tokenizer.target.json": written}
    if not other.is_file():
        read, files = written, {VOCABULARY_FILE: written}

    def rewrite(model: nn.Module) -> nn.Module:
        before = submodule(model, "decoder", TransformerDecoder)
        vectors = before.embedding.weight[first_token], before.output.weight[first_token]
        model = with_rows(with_rows(model, **known), source=len(read), target=len(written))
        decoder = submodule(model, "decoder", TransformerDecoder)
        embedding, output = decoder.embedding.weight, decoder.output
        with torch.no_grad():
            if output.bias is None:  # tokens are added as unlikely as the first one
                embedding[known["target"] :], output.weight[known["target"] :] = vectors
            elif first_token != written.start:
                output.bias[written.start] = NEVER
            if first_token != written.start:
                embedding[written.start] = vectors[0]
        return model

    match facts.get("max_position_embeddings"):
        case int() as positions:
            longest = positions
        case _:
            longest = DEFAULT_POSITIONS
    text: Table = {"source": _vocabulary_like(read), "max_length": longest - 1}
    if other.is_file():
        text["target"] = _vocabulary_like(written)
    contents = {name: tokenizer.to_string() for name, tokenizer in files.items()}
    return ImportPlan({"text": text}, contents, rewrite)


def _text_classification(source: ImportSource) -> ImportPlan:
    """Plan a classifier; `problem_type` decides between one label, several and a number."""
    segments = getattr(source.folder.config, "num_segments", 0)
    if source.pairs and segments < 2:
        raise InteropError(
            f"{source.folder.path} cannot read pairs: it does not tell segments apart "
            f"(type_vocab_size is {segments}, and must be at least 2); "
            "import it without --pairs"
        )
    tokenizer = source.vocabulary(("pad", "cls", "sep"))
    labels = _labels(source)
    tables = {
        "text": _text_table(source, tokenizer, "max_length"),
        "labels": {key: labels[key] for key in ("kind", "separator") if key in labels},
    }
    classifier = {"pairs": source.pairs, "temperature": source.own.temperature}
    files = {
        VOCABULARY_FILE: tokenizer.to_string(),
        LABELS_FILE: json.dumps(labels, ensure_ascii=False),
        CLASSIFIER_FILE: json.dumps(classifier),
    }
    return ImportPlan(tables, files, _resize_to(tokenizer))


def _tagging(source: ImportSource) -> ImportPlan:
    """Plan a tagger; the names of its labels show the scheme of spans."""
    tokenizer = source.vocabulary(("pad", "cls", "sep"))
    names = _labels(source).get("names", [])
    if len(names) < 2:
        raise InteropError(
            f"{source.folder.path} has only one label; a tagger needs at least two (id2label)"
        )
    labels = {
        "kind": "tags",
        "names": names,
        "scheme": scheme_of(names),
        "splitting": source.own.splitting,
    }
    files = {
        VOCABULARY_FILE: tokenizer.to_string(),
        LABELS_FILE: json.dumps(labels, ensure_ascii=False),
        CLASSIFIER_FILE: json.dumps({"temperature": 1.0}),
    }
    tables = {"text": _text_table(source, tokenizer, "max_length")}
    return ImportPlan(tables, files, _resize_to(tokenizer))


def _masked_language_modeling(source: ImportSource) -> ImportPlan:
    """Plan a masked language model that reads as many tokens at once as it has positions."""
    tokenizer = source.vocabulary(("cls", "sep", "mask"))
    tables = {"text": _text_table(source, tokenizer, "max_length")}
    return ImportPlan(tables, {VOCABULARY_FILE: tokenizer.to_string()}, _resize_to(tokenizer))


def _language_modeling(source: ImportSource) -> ImportPlan:
    """Plan a language model; its text is one stream unless the folder or family has a layout."""
    layout = source.own.layout or source.folder.network.layout
    tokenizer = source.vocabulary(("stop", "start") if layout == "packed" else ("stop",))
    text = {**_text_table(source, tokenizer, "block"), "layout": layout}
    tables = {"text": {**text, "opening": source.own.opening}}
    return ImportPlan(tables, {VOCABULARY_FILE: tokenizer.to_string()}, _resize_to(tokenizer))


def _image_classification(source: ImportSource) -> ImportPlan:
    """Plan an image classifier with the size and scale of preprocessor_config.json."""
    size, labels = _image_size(source), _labels(source)
    files = {
        IMAGE_FILE: _scale(source),
        LABELS_FILE: json.dumps(labels, ensure_ascii=False),
        CLASSIFIER_FILE: json.dumps({"temperature": source.own.temperature}),
    }
    tables = {
        "image": {"size": size},
        "labels": {key: labels[key] for key in ("kind", "separator") if key in labels},
    }
    return ImportPlan(tables, files, lambda model: model)


PLANS: Mapping[str, Callable[[ImportSource], ImportPlan]] = {
    "image_classification": _image_classification,
    "language_modeling": _language_modeling,
    "masked_language_modeling": _masked_language_modeling,
    "tagging": _tagging,
    "text_classification": _text_classification,
    "text_to_text": _text_to_text,
}
"""The tasks that a folder can be imported as, by name."""


def _text_table(source: ImportSource, tokenizer: Tokenizer, length_key: str) -> Table:
    positions = source.folder.network.max_positions or DEFAULT_POSITIONS
    return {"vocabulary": _vocabulary_like(tokenizer), length_key: positions}


def _preprocessor(source: ImportSource) -> Table:
    path = source.folder.path / PREPROCESSOR
    if not path.is_file():
        raise InteropError(
            f"{source.folder.path} has no {PREPROCESSOR}, which says how images are prepared; "
            "write it there with the image processor of transformers: "
            "processor.save_pretrained(folder)"
        )
    facts = read_json(path)
    if not isinstance(facts, dict):
        raise InteropError(f"{path} must hold an object; write it again")
    return facts


def _image_size(source: ImportSource) -> int:
    """Return the side of the images; raise if they are not prepared as a recipe can do it."""
    facts, where = _preprocessor(source), source.folder.path / PREPROCESSOR
    match source.folder.facts.get("image_size", 224):
        case int() as size:
            pass
        case [int() as size, width] if width == size:
            pass
        case other:
            raise InteropError(
                f"{source.folder.where}: image_size is {other!r}; a task reads square images only"
            )
    match facts.get("size", size):
        case {"height": int() as height, "width": int() as width}:
            read = (height, width)
        case int() as side:
            read = (side, side)
        case other:
            raise InteropError(
                f"{where}: size is {other!r}; images must be resized to one height and width, "
                f'such as {{"height": {size}, "width": {size}}}'
            )
    if read != (size, size):
        cut = ", then cut" if facts.get("do_center_crop") else ""
        raise InteropError(
            f"{where}: images are resized to {read[0]} x {read[1]}{cut}, but a task of Saccade "
            f"resizes them to the {size} x {size} of the model at once. Set size to {size} and "
            "do_center_crop to false there to read complete images, or train from the weights with "
            "--init"
        )
    return size


def read_scale(folder: Path) -> str | None:
    """Return the scale of the pixels of a folder, as run folders keep it; None if it is not known.

    Raises:
        InteropError: If the folder has no valid config.json or preprocessor_config.json.
    """
    if not (folder / PREPROCESSOR).is_file():
        return None
    return _scale(ImportSource(HuggingFaceFolder.open(folder), SaccadeFacts(), pairs=False))


def _scale(source: ImportSource) -> str:
    facts = _preprocessor(source)
    assert isinstance(source.folder.config, ImageClassifierConfig)
    channels = source.folder.config.channels
    mean, spread = (
        _per_channel(source, facts, key, 0.5, channels) for key in ("image_mean", "image_std")
    )
    return json.dumps({"mean": mean, "spread": spread})


def _per_channel(
    source: ImportSource, facts: Table, key: str, default: float, channels: int
) -> list[float]:
    """Return the mean or the spread of each channel in bytes."""
    if not facts.get("do_normalize", True):
        default = {"image_mean": 0.0, "image_std": 1.0}[key]
        facts = {}
    match facts.get(key, default):
        case int() | float() as value:
            values = [float(value)] * channels
        case [*given] if len(given) == channels:
            values = [float(value) for value in given]
        case other:
            raise InteropError(
                f"{source.folder.path / PREPROCESSOR}: {key} is {other!r}; it must have a number "
                f"for each of the {channels} channels"
            )
    scale = facts.get("rescale_factor", 1 / 255) if facts.get("do_rescale", True) else 1.0
    return [value / scale for value in values]


def _labels(source: ImportSource) -> Table:
    """Return the content of labels.json."""
    names = [name.strip() for name in source.folder.labels]
    problem = source.folder.facts.get("problem_type")
    if problem == "regression" or (problem is None and len(names) == 1):
        if len(names) != 1:
            raise InteropError(
                f"{source.folder.path} predicts {len(names)} numbers per text (problem_type is "
                '"regression"); a task of Saccade predicts one'
            )
        return {"kind": "number", "mean": 0.0, "scale": 1.0}
    if len(set(names)) < len(names) or "" in names:
        raise InteropError(
            f"{source.folder.where}: id2label must give each class a different name, got {names}; "
            "correct config.json"
        )
    if problem == "multi_label_classification":
        free = [x for x in SEPARATORS if not any(x in name for name in names)]
        separator = source.own.separator or next(iter(free), "\n")
        thresholds = {x: y for x, y in source.own.thresholds.items() if x in names}
        several = {"kind": "several", "names": names, "separator": separator}
        return {**several, "thresholds": thresholds}
    return {"kind": "one", "names": names}


def _resize_to(tokenizer: Tokenizer) -> Callable[[nn.Module], nn.Module]:
    """Remove rows that belong to no token: some models have a rounded number of rows."""
    return lambda model: with_rows(model, source=len(tokenizer), target=len(tokenizer))


def _vocabulary_like(tokenizer: Tokenizer) -> Table:
    """Return the options closest to a vocabulary, by which a recipe would train a new one."""
    kinds = {"BPE": "bpe", "Unigram": "unigram", "WordLevel": "word"}
    model = json.loads(tokenizer.to_string())["model"]
    kind: Any = kinds.get(model.get("type"), "bpe")
    smallest = VocabularyConfig(kind=kind).smallest
    return {"kind": kind, "size": max(len(tokenizer), smallest)}
