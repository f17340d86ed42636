"""A task becomes a folder that transformers reads: model, vocabulary, labels, how to generate."""

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from saccade.decoding import GenerationConfig
from saccade.errors import InteropError
from saccade.interop.huggingface.family import ModelConfig
from saccade.interop.huggingface.load_save import load, save
from saccade.interop.huggingface.model_diff import part
from saccade.interop.huggingface.vocabulary import (
    TARGET,
    Frame,
    puts_space_before,
    token_ids,
    write_vocabulary,
)
from saccade.layers.block import BlockConfig
from saccade.models import TextClassifier, Translator
from saccade.tasks import Task
from saccade.tasks._shared.labels import Labels, Number, Several
from saccade.tasks.language_modeling import LanguageModeling
from saccade.tasks.masked_language_modeling import MaskedLanguageModeling
from saccade.tasks.text_classification import TextClassification
from saccade.tasks.text_to_text import TextToText
from saccade.text import Tokenizer

GENERATION = "generation_config.json"
ONLY: Mapping[str, object] = {
    "norm": "layer",
    "feed_forward": "plain",
    "head": "split",
    "head_dim": None,
    "qk_norm": False,
}
"""The parts of a block that all families have."""
CLOSE = 1e-4
"""By how much a logit may differ from ours, in relation to the largest."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What is to be written.

    config        the options of the model
    facts         what config.json says besides the network
    target        the vocabulary of the target, where it has one of its own
    generation    how answers are written, where the model writes
    """

    model: nn.Module
    config: ModelConfig
    facts: Mapping[str, Any]
    vocabulary: Tokenizer
    frame: Frame
    max_length: int
    target: Tokenizer | None = None
    generation: Mapping[str, Any] | None = None


def write_task(task: Task, folder: str | Path) -> None:
    """Write a task as a folder, and see that it gives the same answers when it is read."""
    folder = Path(folder)
    draft = _draft(task)
    if obstacles := list(_obstacles(draft.config)):
        raise InteropError(
            f"transformers cannot run this {type(draft.model).__name__}: {'; '.join(obstacles)}"
        )
    save(draft.model, folder, draft.facts)
    write_vocabulary(folder, draft.vocabulary, draft.frame, draft.max_length)
    if draft.target is not None:
        write_vocabulary(folder / TARGET, draft.target, draft.frame, draft.max_length)
    if draft.generation is not None:
        text = json.dumps(draft.generation, indent=2)
        (folder / GENERATION).write_text(text + "\n", encoding="utf-8")
    _require_same_answers(draft.model, load(folder))


def _draft(task: Task) -> Draft:
    match task:
        case TextToText():
            return _translator(task)
        case TextClassification():
            return _classifier(task)
        case MaskedLanguageModeling():
            return _masked_language_model(task)
        case LanguageModeling():
            return _language_model(task)
    raise InteropError(f"the task {task.name} has no counterpart in transformers")


def _obstacles(model: ModelConfig) -> Iterator[str]:
    """The keys of blocks that no family has a place for."""
    for side in ("encoder", "decoder"):
        block = getattr(model, side, None)
        if not isinstance(block, BlockConfig):
            continue
        split = block.head_width(model.dim) == model.dim // block.num_heads
        for key, only in ONLY.items():
            value = getattr(block, key)
            if value != only and not (split and key.startswith("head")):
                yield f"model.{side}.{key} is {json.dumps(value)}, and it has {json.dumps(only)}"


def _translator(task: TextToText) -> Draft:
    """The start is ours in generation, the stop ends both sides."""
    longest = task.config.text.max_length + 1
    ids = token_ids(task.target)
    writes = {
        **{key: ids[key] for key in ("pad_token_id", "bos_token_id", "eos_token_id")},
        "decoder_start_token_id": task.target.start,
        "forced_eos_token_id": None,  # which would else be 0, whatever that is
    }
    options = task.config.generation
    return Draft(
        model=task.model,
        config=task.config.model,
        facts={**writes, "max_position_embeddings": max(longest, options.max_length + 1)},
        vocabulary=task.source,
        target=None if task.target is task.source else task.target,
        frame=Frame(single=("A", "stop")),
        max_length=longest,
        generation={
            **writes,
            **_written_by(task.target, options),
            "max_length": options.max_length + 1,
        },
    )


def _classifier(task: TextClassification) -> Draft:
    """A number is given as it is, not in units of the training data's spread."""
    found, facts = task.labels, token_ids(task.tokenizer)
    ours: dict[str, Any] = {"pairs": task.pairs, "temperature": task.temperature}
    if isinstance(found, Several):
        ours["separator"] = found.separator
    return Draft(
        model=_in_its_own_units(task.model, found),
        config=task.config.model,
        facts={**facts, **_labels(found), "saccade": ours},
        vocabulary=task.tokenizer,
        frame=_around(segments=task.config.model.num_segments > 1),
        max_length=task.config.text.max_length,
    )


def _masked_language_model(task: MaskedLanguageModeling) -> Draft:
    """A mask may be typed in a text."""
    ours = {"space_before": puts_space_before(task.tokenizer)}
    return Draft(
        model=task.model,
        config=task.config.model,
        facts={**token_ids(task.tokenizer), "saccade": ours},
        vocabulary=task.tokenizer,
        frame=_around(segments=task.config.model.num_segments > 1, typed=True),
        max_length=task.config.text.max_length,
    )


def _language_model(task: LanguageModeling) -> Draft:
    """Before a prompt stands what stands there here: nothing, an opening, or the start."""
    text, options = task.config.text, task.config.generation
    opening = tuple(task.tokenizer.encode_part(text.opening))
    before = ("opening",) if opening else ("start",) if text.layout == "packed" else ()
    ids = token_ids(task.tokenizer)
    ends = {key: ids[key] for key in ("pad_token_id", "bos_token_id", "eos_token_id")}
    ours = {
        "layout": text.layout,
        "opening": text.opening,
        "space_before": bool(opening) and puts_space_before(task.tokenizer),
    }
    drawn = options.sample and options.temperature > 0
    draws = {
        "temperature": options.temperature,
        "top_k": options.top_k or 0,
        "top_p": options.top_p or 1.0,
    }
    return Draft(
        model=task.model,
        config=task.config.model,
        facts={**ends, "saccade": ours},
        vocabulary=task.tokenizer,
        frame=Frame(single=(*before, "A"), opening=opening),
        max_length=text.block,
        generation={
            **ends,
            **_written_by(task.tokenizer, options),
            "max_new_tokens": options.max_length,
            "do_sample": drawn,
            **(draws if drawn else {}),
        },
    )


def _written_by(tokenizer: Tokenizer, options: GenerationConfig) -> dict[str, Any]:
    """What all writers are told: no control token but the stop, and how many beams."""
    controls = tokenizer.controls
    never = {*controls.ids, controls.unknown} - {None, controls.stop}
    return {
        "suppress_tokens": sorted(never),
        "num_beams": options.beam,
        "length_penalty": options.length_penalty,
    }


def _around(*, segments: bool, typed: bool = False) -> Frame:
    """The frame of all that BERT reads."""
    return Frame(
        single=("cls", "A", "sep"),
        pair=("cls", "A", "sep", "B", "sep"),
        segments=segments,
        typed=typed,
    )


def _labels(found: Labels) -> dict[str, Any]:
    if isinstance(found, Number):
        return {"problem_type": "regression"}
    several = isinstance(found, Several)
    return {
        "problem_type": f"{'multi' if several else 'single'}_label_classification",
        "id2label": dict(enumerate(found.facts()["names"])),
    }


def _in_its_own_units(model: TextClassifier, found: Labels) -> TextClassifier:
    if not isinstance(found, Number):
        return model
    model = copy.deepcopy(model)
    head = part(model, "head", nn.Linear)
    with torch.no_grad():
        head.weight.mul_(found.scale)
        head.bias.mul_(found.scale).add_(found.mean)
    return model


@torch.no_grad()
def _require_same_answers(model: nn.Module, again: nn.Module) -> None:
    """Compare what both make of some tokens."""
    tokens = torch.arange(12).view(3, 4) % 7
    inputs = (tokens, tokens) if isinstance(model, Translator) else (tokens,)
    ours, theirs = model.eval()(*inputs), again(*inputs)
    worst = float((ours - theirs).abs().max() / ours.abs().max().clamp(min=1.0))
    if not worst <= CLOSE:
        raise InteropError(f"what was written does not give the same logits: {worst:.2g} apart")
