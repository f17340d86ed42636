"""describe, load and save: what a folder says, a folder as a model, a model as a folder."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from saccade.errors import InteropError, SaccadeError
from saccade.interop.huggingface import folder as files
from saccade.interop.huggingface.config_json import Condition, read_options, require
from saccade.interop.huggingface.families.bert import Bert
from saccade.interop.huggingface.families.gpt2 import Gpt2
from saccade.interop.huggingface.families.marian import Marian
from saccade.interop.huggingface.families.vit import Vit
from saccade.interop.huggingface.family import Family, ModelConfig
from saccade.interop.huggingface.model_diff import require_same
from saccade.interop.huggingface.tensor_map import fill, parted
from saccade.models import ImageClassifier, Tagger, TextClassifier

FAMILIES: tuple[Family[Any], ...] = (Bert(), Gpt2(), Vit(), Marian())
FOR_ALL = (Condition("quantization_config", "quantised weights are"),)
WITH_CLASSES = (TextClassifier, Tagger, ImageClassifier)


@dataclass(frozen=True)
class Described:
    """What a folder says of its model.

    architecture    its class in transformers
    config          the options of our model, or None where no recipe can say them
    vocabulary      its tokens, where it has any
    labels          the names of its classes in their order, none where it has no classes
    facts           all of config.json
    """

    architecture: str
    config: ModelConfig | None
    vocabulary: int | None
    labels: tuple[str, ...]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class _Folder:
    """A folder whose config.json has been read and understood."""

    path: Path
    facts: Mapping[str, Any]
    family: Family[Any]
    architecture: str
    options: Any

    @property
    def where(self) -> str:
        return str(self.path / files.CONFIG)


def describe(folder: str | Path) -> Described:
    """What the config.json of a folder says; no weights are read."""
    found = _open(folder)
    try:
        config = found.family.config(found.architecture, found.options)
    except SaccadeError as error:
        raise InteropError(f"{found.where}: {error}") from error
    labels: tuple[str, ...] = ()
    if issubclass(found.family.architectures[found.architecture], WITH_CLASSES):
        names = _label_names(found.facts.get("id2label"), found.options.num_labels, found.where)
        labels = tuple(names.values())
    vocabulary = getattr(found.options, "vocab_size", None)
    return Described(found.architecture, config, vocabulary, labels, found.facts)


def load(folder: str | Path) -> nn.Module:
    """The model of a folder, in eval mode, on the CPU, in float32 where the file has less.

    Dropout is the config's, for training it further. Nothing is downloaded and no pickle is read.
    """
    found = _open(folder)
    model = _empty(found.family, found.architecture, found.options, found.where)
    fill(model, found.family.names(found.architecture, found.options), files.Weights(found.path))
    return model.eval()


def save(model: nn.Module, folder: str | Path, more: Mapping[str, Any] | None = None) -> None:
    """Write a model as a folder that transformers reads, if it has a counterpart there.

    `more` goes into config.json too: ids of tokens (a translator needs `decoder_start_token_id`,
    `pad_token_id` and `eos_token_id` to generate there), `id2label`, or all that `read_config`
    gave. What describes the network is always the model's own. Embeddings that are multiplied by
    √dim are multiplied in the file where the format does not do it, and an output that shares them
    then gets a matrix of its own there.
    """
    family, architecture = _counterpart_of(model)
    model = family.fitted(model)
    options = family.describe(model)
    wanted = _empty(family, architecture, options, f"this {type(model).__name__}")
    require_same(model, wanted, family.model_type)
    said = asdict(options)
    labels = _labels(model, said.pop("num_labels", None), more)
    tensors = parted(model, family.names(architecture, options))
    denied = {"num_labels", "torch_dtype", *(x.key for x in (*FOR_ALL, *family.conditions))}
    config = {
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
        **{key: value for key, value in (more or {}).items() if key not in denied},
        **said,
        **labels,
        "architectures": [architecture],
        "model_type": family.model_type,
        "dtype": str(next(iter(tensors.values())).dtype).removeprefix("torch."),
    }
    files.write(folder, config, tensors)


def _open(folder: str | Path) -> _Folder:
    path = Path(folder)
    facts = files.read_config(path)
    where = str(path / files.CONFIG)
    family = _family_of(facts, where)
    architecture = _architecture_of(family, facts, where)
    require((*FOR_ALL, *family.conditions), facts, where)
    return _Folder(path, facts, family, architecture, read_options(family.options, facts, where))


def _empty(family: Family[Any], architecture: str, options: Any, where: str) -> nn.Module:
    """The model that the options describe, without a number in it."""
    try:
        with torch.device("meta"):
            return family.build(architecture, options)
    except SaccadeError as error:
        raise InteropError(f"{where}: {error}") from error


def _family_of(config: Mapping[str, Any], where: str) -> Family[Any]:
    for family in FAMILIES:
        if config.get("model_type") == family.model_type:
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise InteropError(
        f"{where}: model_type is {config.get('model_type')!r}, and what can be read is {known}"
    )


def _architecture_of(family: Family[Any], config: Mapping[str, Any], where: str) -> str:
    named = config.get("architectures") or [family.unnamed]
    if isinstance(named, list) and str(named[0]) in family.architectures:
        return str(named[0])
    raise InteropError(
        f"{where}: architectures is {config.get('architectures')!r}, and of {family.model_type} "
        f"what can be read is {', '.join(family.architectures)}"
        + (f"; {family.hint}" if family.hint else "")
    )


def _counterpart_of(model: nn.Module) -> tuple[Family[Any], str]:
    for family in FAMILIES:
        for architecture, kind in family.architectures.items():
            if type(model) is kind:
                return family, architecture
    kinds = dict.fromkeys(x.__name__ for f in FAMILIES for x in f.architectures.values())
    raise InteropError(
        f"a {type(model).__name__} has no counterpart in transformers; what can be written is "
        f"{', '.join(kinds)}"
    )


def _labels(
    model: nn.Module, count: int | None, more: Mapping[str, Any] | None
) -> dict[str, dict[str, Any]]:
    """The names of the classes, which also tell their number, where the model has classes."""
    if count is None or not isinstance(model, WITH_CLASSES):
        return {}
    names = _label_names((more or {}).get("id2label"), count, f"this {type(model).__name__}")
    return {
        "id2label": {str(i): name for i, name in names.items()},
        "label2id": {name: i for i, name in names.items()},
    }


def _label_names(given: Any, count: int, where: str) -> dict[int, str]:
    """The classes from 0 on with their names; LABEL_0 and so on where none are given."""
    if given is None:
        return {i: f"LABEL_{i}" for i in range(count)}
    names = {str(i): str(name) for i, name in given.items()} if isinstance(given, dict) else {}
    if set(names) != {str(i) for i in range(count)}:
        raise InteropError(
            f"{where}: id2label must name the classes 0 to {count - 1} of this model, got "
            f"{sorted(names) or given!r}"
        )
    return {i: names[str(i)] for i in range(count)}
