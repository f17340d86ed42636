"""Write a task as a folder that transformers reads.

It holds the model, the vocabulary or the preparation of images, the labels, and the generation.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from saccade.decoding import GenerationConfig
from saccade.encoders.patches import PatchStem
from saccade.errors import InteropError
from saccade.interop.advice import advice
from saccade.interop.huggingface.load_save import candidates, fit, fitting, load, save
from saccade.interop.huggingface.model_diff import submodule
from saccade.interop.huggingface.model_rewrites import thawed
from saccade.interop.huggingface.recipe_changes import recipe_changes
from saccade.interop.huggingface.vocabulary import (
    TARGET,
    puts_space_before,
    token_ids,
    write_vocabulary,
)
from saccade.layers.block import BlockConfig
from saccade.tasks import (
    Description,
    GeneratedText,
    ImageInput,
    LabelOutput,
    Labels,
    Number,
    Several,
    TagOutput,
    Task,
    TextInput,
    TokenOutput,
    with_scaled_head,
)
from saccade.text import Tokenizer

GENERATION = "generation_config.json"
PREPROCESSOR = "preprocessor_config.json"
BICUBIC = 3
"""Pillow's number of the method that images are resized with."""
LUMINANCE = (0.299, 0.587, 0.114)
"""The part of each colour in a grey value (ITU-R BT.601), as Pillow computes it."""
SUPPORTED: Mapping[str, object] = {
    "norm": "layer",
    "feed_forward": "plain",
    "head": "split",
    "head_dim": None,
    "qk_norm": False,
}
"""The options of a block that most families have, and the only value they can have there."""
TOLERANCE = 1e-4
"""The largest difference of a logit from ours, relative to the largest logit."""

Facts = dict[str, object]
"""Keys of a JSON file."""


@dataclass(frozen=True, kw_only=True)
class ExportPlan:
    """The contents of a folder to be written.

    model        the model as it is written
    facts        keys of config.json that do not describe the network
    reads        the texts or images that the model reads
    target       the texts that it writes, if they have another vocabulary
    generation   how text is generated, if it is
    sides        the number of token inputs of the model
    """

    model: nn.Module
    facts: Facts
    reads: TextInput | ImageInput
    target: TextInput | None = None
    generation: Facts | None = None
    sides: int = 1


def write_task(
    task: Task,
    folder: str | Path,
    *,
    family: str | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> None:
    """Write a task as a folder, and check that it gives the same logits when it is read.

    Args:
        task: A trained task.
        folder: An empty folder.
        family: The `model_type`, such as "bert"; by default the only one that the model fits.
        notify: Called with a line about each long step.

    Raises:
        InteropError: If transformers has no such model.
    """
    folder, plan = Path(folder), require_exportable(task, family)
    save(plan.model, folder, plan.facts, family=family)
    if isinstance(plan.reads, TextInput):
        write_vocabulary(folder, plan.reads)
    else:
        _write_json(folder / PREPROCESSOR, _preprocessor(plan.reads))
    if plan.target is not None:
        write_vocabulary(folder / TARGET, plan.target)
    if plan.generation is not None:
        _write_json(folder / GENERATION, plan.generation)
    notify("reading the folder again and comparing its logits with the model's")
    _require_same_logits(plan, load(folder))


def _write_json(path: Path, facts: Facts) -> None:
    path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def require_exportable(task: Task, family: str | None = None) -> ExportPlan:
    """Return what is written of a task.

    Raises:
        InteropError: If transformers has no such model; the message names the changes to the
            recipe, or the recipes, that it has a model for.
    """
    description = task.describe()
    plan = _plan(task, description)
    if family is not None and (names := fitting(plan.model)) and family not in names:
        raise InteropError(
            f"this {type(plan.model).__name__} cannot be written as {family!r}; it fits "
            f"{', '.join(names)}. Choose one of these, or leave the family out"
        )
    try:
        _require_fit(description.model, plan.model, family)
    except InteropError as error:
        known = candidates(type(plan.model), family)
        known = [one for one in known if one[0].rank == 0 or family is not None]
        changes = recipe_changes(
            description.model, known, lambda options, model: _require_fit(options, model, family)
        )
        raise InteropError(f"{error}{advice('huggingface', task.name, changes)}") from None
    return plan


def _require_fit(options: object, model: nn.Module, family: str | None) -> None:
    if (obstacles := list(_obstacles(options))) and not _fits_open_block(model, family):
        raise InteropError(
            f"transformers cannot run this {type(model).__name__}: {'; '.join(obstacles)}"
        )
    fit(model, family)


def _fits_open_block(model: nn.Module, family: str | None) -> bool:
    """Return whether a family whose blocks have more options has such a model."""
    for kind, _ in candidates(type(model), family):
        if kind.open_block:
            with suppress(InteropError):
                fit(model, kind.model_type)
                return True
    return False


def _plan(task: Task, description: Description) -> ExportPlan:
    match description.reads, description.writes:
        case TextInput() as reads, GeneratedText(start=None) as writes:
            return _language_model(task.model, reads, writes)
        case TextInput() as reads, GeneratedText() as writes:
            return _translator(task.model, reads, writes)
        case TextInput() as reads, TagOutput() as writes:
            return _tagger(task.model, reads, writes)
        case TextInput() as reads, LabelOutput() as writes:
            return _classifier(task.model, reads, writes)
        case ImageInput() as reads, LabelOutput() as writes:
            return _image_classifier(thawed(task.model), reads, writes)
        case TextInput() as reads, TokenOutput():
            return _masked_language_model(task.model, reads)
    raise InteropError(
        f"the task {task.name} has no counterpart in transformers; export it to onnx instead"
    )


def _obstacles(model: object) -> Iterator[str]:
    """Yield the options of blocks that no family has."""
    for side in ("encoder", "decoder"):
        match getattr(model, side, None):
            case BlockConfig() as block:
                dim = int(getattr(model, "dim", 0))
                split = block.head_width(dim) == dim // block.num_heads
                for key, only in SUPPORTED.items():
                    value = getattr(block, key)
                    if value != only and not (split and key.startswith("head")):
                        yield (
                            f"model.{side}.{key} is {json.dumps(value)}, "
                            f"and must be {json.dumps(only)}"
                        )


def _translator(model: nn.Module, reads: TextInput, writes: GeneratedText) -> ExportPlan:
    longest = writes.options.max_length + 1
    ids = {
        **_end_ids(writes.tokenizer),
        "decoder_start_token_id": writes.start,
        "forced_eos_token_id": None,  # the default is 0, whatever token that is
    }
    own = replace(reads, tokenizer=writes.tokenizer, after=(writes.stop,))
    return ExportPlan(
        model=model,
        facts={**ids, "max_position_embeddings": max(reads.max_length, longest)},
        reads=reads,
        target=None if writes.tokenizer is reads.tokenizer else own,
        generation={**ids, **_generation(writes), "max_length": longest},
        sides=2,
    )


def _classifier(model: nn.Module, reads: TextInput, writes: LabelOutput) -> ExportPlan:
    model, facts, own = _head(model, writes)
    own["pairs"] = reads.pairs
    return ExportPlan(
        model=model, facts={**token_ids(reads.tokenizer), **facts, "saccade": own}, reads=reads
    )


def _image_classifier(model: nn.Module, reads: ImageInput, writes: LabelOutput) -> ExportPlan:
    """Plan an image classifier; a grey one reads colours, which pipelines of transformers give."""
    if reads.how != "squash":
        raise InteropError(
            f"images are prepared by image.how={reads.how}, which transformers' preparation of ViT "
            "does not have; train with --set image.how=squash, or export to onnx"
        )
    model, facts, own = _head(model, writes)
    if reads.channels == 1:
        model = _in_colour(model)
        reads = replace(reads, channels=3, mean=reads.mean * 3, spread=reads.spread * 3)
    return ExportPlan(model=model, facts={**facts, "saccade": own}, reads=reads)


def _in_colour(model: nn.Module) -> nn.Module:
    """Return a model of colours that gives for an image what the model gives for its grey values.

    Pillow rounds grey values, which is left out. Patches must be read by one linear map.
    """
    stem = getattr(model.get_submodule("encoder"), "stem", None)
    if type(stem) is not PatchStem:  # no family has another one
        return model
    model = copy.deepcopy(model)
    stem = submodule(model, "encoder.stem", PatchStem)
    grey = stem.project
    with torch.no_grad():
        stem.channels = 3
        size = stem.patch_size
        stem.project = nn.Conv2d(3, grey.out_channels, size, size).to(grey.weight)
        stem.project.weight.copy_(grey.weight * torch.tensor(LUMINANCE).view(1, 3, 1, 1))
        stem.project.bias = grey.bias
    return model


def _preprocessor(reads: ImageInput) -> Facts:
    """Return the preparation of images, as `ViTImageProcessor` reads it."""
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": reads.size, "width": reads.size},
        "resample": BICUBIC,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [mean / 255 for mean in reads.mean],
        "image_std": [spread / 255 for spread in reads.spread],
        "do_convert_rgb": True,
    }


def _head(model: nn.Module, writes: LabelOutput) -> tuple[nn.Module, Facts, Facts]:
    """Return the model with its final head, its keys of config.json, and those of Saccade.

    The head includes the temperature, so that transformers gives the same probabilities. A number
    is given in its own units, not relative to the training data.
    """
    own: Facts = {}
    match writes.labels:
        case Number(mean=mean, scale=scale):
            model = with_scaled_head(model, scale, mean)
        case Several(separator=separator, thresholds=thresholds):
            own |= {"separator": separator, "thresholds": thresholds}
    if writes.temperature != 1:
        model = with_scaled_head(model, 1 / writes.temperature)
    return model, _label_facts(writes.labels), own


def _tagger(model: nn.Module, reads: TextInput, writes: TagOutput) -> ExportPlan:
    """Plan a tagger whose head includes the temperature; a word is labelled at its first token."""
    facts = writes.labels.facts()
    own = {"splitting": facts.get("splitting", {})}
    if writes.temperature != 1:
        model = with_scaled_head(model, 1 / writes.temperature)
    names = dict(enumerate(writes.labels.names))
    return ExportPlan(
        model=model,
        facts={**token_ids(reads.tokenizer), "id2label": names, "saccade": own},
        reads=reads,
    )


def _masked_language_model(model: nn.Module, reads: TextInput) -> ExportPlan:
    own = {"space_before": puts_space_before(reads.tokenizer)}
    return ExportPlan(
        model=model, facts={**token_ids(reads.tokenizer), "saccade": own}, reads=reads
    )


def _language_model(model: nn.Module, reads: TextInput, writes: GeneratedText) -> ExportPlan:
    options, ids = writes.options, _end_ids(writes.tokenizer)
    own = {
        "layout": "packed" if reads.before and not reads.opening else "stream",
        "opening": reads.opening,
        "space_before": bool(reads.opening) and puts_space_before(reads.tokenizer),
    }
    sampling: Facts = {"do_sample": options.sample and options.temperature > 0}
    if sampling["do_sample"]:
        sampling |= {
            "temperature": options.temperature,
            "top_k": options.top_k or 0,
            "top_p": options.top_p or 1.0,
        }
    return ExportPlan(
        model=model,
        facts={**ids, "saccade": own},
        reads=reads,
        generation={
            **ids,
            **_generation(writes),
            "max_new_tokens": options.max_length,
            **sampling,
        },
    )


def _end_ids(tokenizer: Tokenizer) -> Facts:
    """Return the ids of the padding token and of the tokens at both ends of a text."""
    ids = token_ids(tokenizer)
    return {key: ids[key] for key in ("pad_token_id", "bos_token_id", "eos_token_id")}


def _generation(writes: GeneratedText) -> Facts:
    """Return the options of generation that all models have."""
    options: GenerationConfig = writes.options
    return {
        "suppress_tokens": list(writes.never),
        "num_beams": options.beam,
        "length_penalty": options.length_penalty,
    }


def _label_facts(labels: Labels) -> Facts:
    match labels:
        case Number():
            return {"problem_type": "regression"}
        case Several():
            problem = "multi_label_classification"
        case _:
            problem = "single_label_classification"
    return {"problem_type": problem, "id2label": dict(enumerate(labels.names))}


@torch.no_grad()
def _require_same_logits(plan: ExportPlan, written: nn.Module) -> None:
    """Compare the logits of some tokens, or of images of noise."""
    inputs = [torch.arange(12).view(3, 4) % 7] * plan.sides
    if isinstance(plan.reads, ImageInput):
        shape = (2, plan.reads.channels, plan.reads.size, plan.reads.size)
        inputs = [torch.randn(shape, generator=torch.Generator().manual_seed(0))]
    ours, theirs = plan.model.eval()(*inputs), written(*inputs)
    difference = float((ours - theirs).abs().max() / ours.abs().max().clamp(min=1.0))
    if not difference <= TOLERANCE:
        raise InteropError(
            f"the written model gives other logits, with a relative difference of {difference:.2g}"
            "; please report this"
        )
