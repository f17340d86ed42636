"""A folder becomes a task: the model with its vocabulary, its labels and the options of a recipe.

Each class of transformers that is the model of a task has a function here, in `READERS`.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from saccade.errors import InteropError, SaccadeError
from saccade.interop.huggingface.folder import CONFIG
from saccade.interop.huggingface.load_save import Described, describe, load
from saccade.interop.huggingface.model_rewrites import NEVER, with_rows
from saccade.interop.huggingface.vocabulary import (
    TARGET,
    TOKENIZER,
    read_vocabulary,
    with_all_controls,
    with_space_before,
)
from saccade.models import (
    LanguageModelConfig,
    MaskedLanguageModelConfig,
    TextClassifierConfig,
    Translator,
    TranslatorConfig,
)
from saccade.positions import PositionConfig
from saccade.tasks import (
    Task,
    TaskConfig,
    language_modeling,
    masked_language_modeling,
    text_classification,
    text_to_text,
)
from saccade.tasks._shared import labels
from saccade.tasks._shared.classifier import CLASSIFIER_FILE
from saccade.tasks._shared.labels import LABELS_FILE
from saccade.text import Tokenizer, VocabularyConfig

SEPARATORS = (",", ";", "|", "\t")
"""Between several labels: the first that is part of none."""


@dataclass(frozen=True)
class Read:
    """A task with its weights, and the options that its recipe has."""

    options: TaskConfig
    task: Task


@dataclass(frozen=True)
class Folder:
    """A folder to be read; `pairs` says that its classifier reads two texts."""

    path: Path
    described: Described
    pairs: bool

    @property
    def facts(self) -> Mapping[str, Any]:
        """What config.json says."""
        return self.described.facts

    @property
    def ours(self) -> Mapping[str, Any]:
        """What was written there for reading it again, if it was written here."""
        ours = self.facts.get("saccade")
        return ours if isinstance(ours, dict) else {}

    def vocabulary(self, needed: tuple[str, ...]) -> Tokenizer:
        """Its vocabulary, which must have these control tokens."""
        found = read_vocabulary(self.path / TOKENIZER, needed, self.described.vocabulary or 0)
        return with_space_before(found) if self.ours.get("space_before") else found


@dataclass(frozen=True)
class Draft:
    """A task to be made: its options, the files of its parts, and what makes the model fit them."""

    options: TaskConfig
    parts: Mapping[str, str]
    fit: Callable[[nn.Module], nn.Module]


def read_task(folder: str | Path, *, pairs: bool = False) -> Read:
    """The task of a folder; of a classifier, `pairs` says that it reads two texts."""
    path = Path(folder)
    described = describe(path)
    if described.architecture not in READERS:
        raise InteropError(f"{path} holds a {described.architecture}: {_refusal(described)}")
    try:
        draft = READERS[described.architecture](Folder(path, described, pairs))
    except SaccadeError:
        raise
    except (TypeError, ValueError) as error:
        raise InteropError(
            f'{path / CONFIG}: "saccade" cannot be used as it is: {error}'
        ) from error
    model = draft.fit(load(path))
    with tempfile.TemporaryDirectory() as staging:
        for name, content in draft.parts.items():
            (Path(staging) / name).write_text(content, encoding="utf-8")
        task = draft.options.restore(Path(staging))
    task.model.load_state_dict(model.state_dict())
    return Read(draft.options, task.eval())


def _translator(folder: Folder) -> Draft:
    """One vocabulary for both sides, or one each. Controls that it lacks get rows of their own.

    Marian begins with any token it likes, mostly pad. Here the start is a token for itself, whose
    vector is that token's.
    """
    config, facts = folder.described.config, folder.facts
    assert isinstance(config, TranslatorConfig)
    rows = folder.described.vocabulary or 0, _target_rows(folder)
    source = folder.vocabulary(("stop",))
    other = folder.path / TARGET / TOKENIZER
    if rows[0] != rows[1] and not other.is_file():
        raise InteropError(
            f"{folder.path} embeds {rows[0]} tokens on one side and {rows[1]} on the other, so it "
            f"needs two vocabularies: {TOKENIZER} for the source and {TARGET}/{TOKENIZER} for the "
            "target"
        )
    target = read_vocabulary(other, ("stop",), rows[1]) if other.is_file() else source
    known = {"source": len(source), "target": len(target)}
    if facts.get("eos_token_id", target.stop) != target.stop:
        raise InteropError(
            f"{folder.path}: config.json ends texts with {facts['eos_token_id']} (eos_token_id), "
            f"{TOKENIZER} with {target.stop}"
        )
    begins = facts.get("decoder_start_token_id", target.controls.start)
    if not isinstance(begins, int) or not 0 <= begins < rows[1]:
        raise InteropError(
            f"{folder.path}: config.json begins texts with {begins!r} (decoder_start_token_id), "
            f"which is none of its {rows[1]} tokens"
        )
    target = with_all_controls(target)
    parts = {"tokenizer.source.json": source, "tokenizer.target.json": target}
    if not other.is_file():
        source, parts = target, {TOKENIZER: target}

    def fit(model: nn.Module) -> nn.Module:
        assert isinstance(model, Translator)
        first = model.decoder.embedding.weight[begins].detach()
        model = with_rows(with_rows(model, **known), source=len(source), target=len(target))
        if begins != target.start:
            assert model.output.bias is not None
            with torch.no_grad():
                model.decoder.embedding.weight[target.start] = first
                model.output.bias[target.start] = NEVER
        return model

    longest = facts.get("max_position_embeddings")
    options = text_to_text.TextToTextConfig(
        model=config,
        text=text_to_text.TranslationTextConfig(
            source=_made_like(source),
            target=_made_like(target) if other.is_file() else None,
            max_length=(longest if isinstance(longest, int) else 512) - 1,
        ),
    )
    return Draft(options, {name: x.to_string() for name, x in parts.items()}, fit)


def _classifier(folder: Folder) -> Draft:
    """One label, several, or a number, as `problem_type` says."""
    config = folder.described.config
    assert isinstance(config, TextClassifierConfig)
    pairs = folder.pairs or bool(folder.ours.get("pairs"))
    if pairs and config.num_segments < 2:
        raise InteropError(
            f"{folder.path} cannot read pairs: it tells no segments apart (type_vocab_size is "
            f"{config.num_segments})"
        )
    tokenizer = folder.vocabulary(("pad", "cls", "sep"))
    kind = _kind_of_labels(folder)
    about = {"pairs": pairs, "temperature": float(folder.ours.get("temperature", 1.0))}
    options = text_classification.TextClassificationConfig(
        model=config,
        text=text_classification.ClassificationTextConfig(
            vocabulary=_made_like(tokenizer), max_length=_places(config.encoder.position)
        ),
        labels=labels.LabelsConfig(
            kind=kind["kind"], separator=kind.get("separator", SEPARATORS[0])
        ),
    )
    parts = {
        TOKENIZER: tokenizer.to_string(),
        LABELS_FILE: json.dumps(kind, ensure_ascii=False),
        CLASSIFIER_FILE: json.dumps(about),
    }
    return Draft(options, parts, _cut_to(tokenizer))


def _masked_language_model(folder: Folder) -> Draft:
    """The vocabulary, and as many tokens at once as there are positions."""
    config = folder.described.config
    assert isinstance(config, MaskedLanguageModelConfig)
    tokenizer = folder.vocabulary(("cls", "sep", "mask"))
    options = masked_language_modeling.MaskedLanguageModelingConfig(
        model=config,
        text=masked_language_modeling.MaskedTextConfig(
            vocabulary=_made_like(tokenizer), max_length=_places(config.encoder.position)
        ),
    )
    return Draft(options, {TOKENIZER: tokenizer.to_string()}, _cut_to(tokenizer))


def _language_model(folder: Folder) -> Draft:
    """Text is one stream, as GPT-2 reads it, if the folder was not written here."""
    config = folder.described.config
    assert isinstance(config, LanguageModelConfig)
    layout = folder.ours.get("layout", "stream")
    tokenizer = folder.vocabulary(("stop", "start") if layout == "packed" else ("stop",))
    options = language_modeling.LanguageModelingConfig(
        model=config,
        text=language_modeling.LanguageTextConfig(
            vocabulary=_made_like(tokenizer),
            block=_places(config.decoder.position),
            layout=layout,
            opening=str(folder.ours.get("opening", "")),
        ),
    )
    return Draft(options, {TOKENIZER: tokenizer.to_string()}, _cut_to(tokenizer))


def _places(position: PositionConfig) -> int:
    assert position.places is not None
    return position.places


READERS: Mapping[str, Callable[[Folder], Draft]] = {
    "BertForSequenceClassification": _classifier,
    "BertForMaskedLM": _masked_language_model,
    "BertForPreTraining": _masked_language_model,
    "GPT2LMHeadModel": _language_model,
    "MarianMTModel": _translator,
}


def _refusal(described: Described) -> str:
    if described.architecture.startswith("ViT"):
        return "tasks on images cannot be imported yet"
    if described.config is None:
        return f"there is no task for it; what can be imported is {', '.join(READERS)}"
    return (
        "it has no head, so there is nothing that it could answer; train one on it with "
        "`saccade train RECIPE --data DATA --out RUN --init FOLDER`"
    )


def _kind_of_labels(folder: Folder) -> dict[str, Any]:
    """What labels.json says."""
    names = [name.strip() for name in folder.described.labels]
    problem = folder.facts.get("problem_type")
    if problem == "regression" or (problem is None and len(names) == 1):
        if len(names) != 1:
            raise InteropError(
                f"{folder.path} gives {len(names)} numbers for a text (problem_type is "
                '"regression"); a task here gives one'
            )
        return {"kind": "number", "mean": 0.0, "scale": 1.0}
    twice = [name for name in names if names.count(name) > 1]
    if twice or "" in names:
        raise InteropError(
            f"{folder.path}: id2label must give each class a name of its own, got {names}"
        )
    if problem == "multi_label_classification":
        free = [x for x in SEPARATORS if not any(x in name for name in names)]
        separator = folder.ours.get("separator") or next(iter(free), "\n")
        return {"kind": "several", "names": names, "separator": separator}
    return {"kind": "one", "names": names}


def _target_rows(folder: Folder) -> int:
    rows = folder.described.vocabulary or 0
    shared = folder.facts.get("share_encoder_decoder_embeddings", True)
    return rows if shared else folder.facts.get("decoder_vocab_size") or rows


def _cut_to(tokenizer: Tokenizer) -> Callable[[nn.Module], nn.Module]:
    """Without the rows that stand for no token: some models have a rounded number of them."""
    return lambda model: with_rows(model, source=len(tokenizer), target=len(tokenizer))


def _made_like(tokenizer: Tokenizer) -> VocabularyConfig:
    """The options that come nearest to a vocabulary, for a recipe to make another by."""
    kinds = {"BPE": "bpe", "Unigram": "unigram", "WordLevel": "word"}
    model = json.loads(tokenizer.to_string())["model"]
    kind: Any = kinds.get(model.get("type"), "bpe")
    smallest = VocabularyConfig(kind=kind).smallest
    return VocabularyConfig(kind=kind, size=max(len(tokenizer), smallest))
