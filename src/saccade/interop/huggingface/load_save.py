"""`load`, `save` and `describe`: models from Hugging Face folders and folders from models."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from saccade.errors import InteropError, SaccadeError
from saccade.interop.huggingface import folder as files
from saccade.interop.huggingface.config_json import Condition, label_names, read_keys, require
from saccade.interop.huggingface.families import families
from saccade.interop.huggingface.family import Architecture, Family, ModelConfig
from saccade.interop.huggingface.model_diff import require_same
from saccade.interop.huggingface.tensor_map import fill_parameters, split_parameters

FOR_ALL = (Condition("quantization_config", "quantised weights are", must_be=None),)


@dataclass(frozen=True)
class FolderDescription:
    """The contents of a folder's config.json.

    Attributes:
        architecture: The name of the model's class in transformers.
        config: The options of our model; None if no recipe can express it.
        vocabulary: The number of embedded tokens; None if the model reads no tokens.
        labels: The names of the classes in order; empty if the model has no classes.
        facts: All keys of config.json.
    """

    architecture: str
    config: ModelConfig | None
    vocabulary: int | None
    labels: tuple[str, ...]
    facts: Mapping[str, Any]


Described = FolderDescription
"""Deprecated alias of `FolderDescription`."""


@dataclass(frozen=True)
class HuggingFaceFolder:
    """A folder whose config.json has been read and checked.

    path           the folder
    facts          all keys of config.json
    architecture   the name of the model's class in transformers
    network        the network that config.json describes
    """

    path: Path
    facts: Mapping[str, Any]
    architecture: str
    network: Family

    @classmethod
    def open(cls, folder: str | Path) -> "HuggingFaceFolder":
        """Read and check the config.json of a folder; no weights are read."""
        path = Path(folder)
        facts = files.read_config(path)
        where = str(path / files.CONFIG)
        family = _family_of(facts, where)
        architecture = _architecture_of(family, facts, where)
        require((*FOR_ALL, *family.conditions), facts, where)
        return cls(path, facts, architecture, read_keys(family, facts, where))

    @property
    def where(self) -> str:
        """The path of config.json, for messages."""
        return str(self.path / files.CONFIG)

    @property
    def kind(self) -> Architecture:
        """The model's class."""
        return self.network.architectures[self.architecture]

    @property
    def config(self) -> ModelConfig | None:
        """The options of our model; None if no recipe can express it."""
        try:
            return self.network.config(self.architecture)
        except SaccadeError as error:
            raise InteropError(f"{self.where}: {error}") from error

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes in order; empty if the model has no classes."""
        if not self.kind.labels:
            return ()
        return label_names(self.facts.get("id2label"), self.network.num_labels, self.where)

    def load(self) -> nn.Module:
        """Return the model with its weights, in eval mode."""
        model = _without_weights(self.network, self.architecture, self.where)
        tensor_map = self.network.tensor_map(self.architecture)
        fill_parameters(model, tensor_map, files.Weights(self.path))
        return model.eval()


def describe(folder: str | Path) -> FolderDescription:
    """Return what the config.json of a folder says about its model; no weights are read.

    Args:
        folder: A folder as `transformers` saves it.

    Raises:
        InteropError: If the folder has no valid config.json, or its model is not supported.
    """
    opened = HuggingFaceFolder.open(folder)
    vocabulary = next(iter(opened.network.vocabulary_sizes), None)
    return FolderDescription(
        opened.architecture, opened.config, vocabulary, opened.labels, opened.facts
    )


def load(folder: str | Path) -> nn.Module:
    """Load the model of a Hugging Face folder.

    The model is on the CPU and in eval mode. Half precision becomes float32. Dropout is that of
    config.json, for further training. Nothing is downloaded, and no pickle is read.

    Args:
        folder: A folder as `transformers` saves it, with config.json and safetensors.

    Returns:
        One of `saccade.models`: the class that corresponds to the folder's architecture.

    Raises:
        InteropError: If the folder has no valid config.json, or its model is not supported.
        WeightsError: If weights are missing, damaged, or not those of the model.

    Example:
        >>> import tempfile, torch
        >>> from saccade.interop import huggingface
        >>> from saccade.training import recipe
        >>> model = recipe.load("gpt-mini").options.model.build(100)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     huggingface.save(model, folder)
        ...     loaded = huggingface.load(folder)
        >>> loaded(torch.tensor([[5, 8, 2]])).shape
        torch.Size([1, 3, 100])
    """
    return HuggingFaceFolder.open(folder).load()


def save(
    model: nn.Module,
    folder: str | Path,
    more: Mapping[str, object] | None = None,
    *,
    family: str | None = None,
) -> None:
    """Write a model as a folder that transformers reads.

    Embeddings that are multiplied by √dim are stored multiplied if the format does not scale them;
    an output that shares them then gets a matrix of its own.

    Args:
        model: One of `saccade.models`, built as one of the families has it.
        folder: The folder, which is created or overwritten.
        more: More keys for config.json: token ids (a translator needs `decoder_start_token_id`,
            `pad_token_id` and `eos_token_id` to generate text there), `id2label`, or all that
            `read_config` returned. Keys that describe the network are always the model's own.
        family: The `model_type`, such as "bert"; by default that of `more`, if the model fits it,
            or the only one that it fits. A model that fits BERT and families like it is written as
            BERT.

    Raises:
        InteropError: If the model fits no family (the error names the first differences), or
            several (it lists them), or if the folder cannot be written.
    """
    more = more or {}
    fitted = _fit_named(model, more.get("model_type")) if family is None else None
    fitted = fitted or fit(model, family)
    fitted = replace(fitted, network=fitted.network.written_with(more))
    config = {
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
        **fitted.keys(more),
        "architectures": [fitted.architecture],
        "model_type": fitted.network.model_type,
    }
    tensors = split_parameters(fitted.model, fitted.network.tensor_map(fitted.architecture))
    config["dtype"] = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
    files.write(folder, config, tensors)


@dataclass(frozen=True)
class _Fit:
    """A model as a family has it, and the network that describes it."""

    model: nn.Module
    architecture: str
    network: Family

    def keys(self, more: Mapping[str, object]) -> dict[str, object]:
        """Return the keys of config.json: the network's, labels if it has some, and `more`."""
        conditions = (*FOR_ALL, *self.network.conditions)
        denied = {"num_labels", "torch_dtype", *(condition.key for condition in conditions)}
        config = {key: value for key, value in more.items() if key not in denied}
        config |= {key: value for key, value in asdict(self.network).items() if key not in denied}
        if self.network.architectures[self.architecture].labels:
            where = f"this {type(self.model).__name__}"
            names = label_names(more.get("id2label"), self.network.num_labels, where)
            config["id2label"] = {str(i): name for i, name in enumerate(names)}
            config["label2id"] = {name: i for i, name in enumerate(names)}
        return config


def _fit_named(model: nn.Module, family: object) -> _Fit | None:
    """Return the model as a family has it; None if it does not fit or the family is not known."""
    try:
        return fit(model, family) if isinstance(family, str) else None
    except InteropError:
        return None


def fit(model: nn.Module, family: str | None = None) -> _Fit:
    """Return the model as the family has it that it fits; nothing is written.

    Raises:
        InteropError: If the model fits no family, or several.
    """
    known = candidates(type(model), family)
    fits: dict[str, _Fit] = {}
    failures: dict[str, InteropError] = {}
    for kind, architecture in known:
        try:
            fits[kind.model_type] = _fit_family(model, kind, architecture)
        except InteropError as error:
            if kind.rank == 0 or family is not None:
                failures[kind.model_type] = error
    lowest = min((x.network.rank for x in fits.values()), default=0)
    fits = {name: x for name, x in fits.items() if x.network.rank == lowest}
    if len(fits) == 1:
        return next(iter(fits.values()))
    if fits:
        raise InteropError(
            f"this {type(model).__name__} fits several families: {', '.join(fits)}; choose one "
            "with family=..."
        )
    if len(failures) == 1:
        raise next(iter(failures.values()))
    reasons = "; ".join(f"{name}: {error}" for name, error in failures.items())
    raise InteropError(f"this {type(model).__name__} fits no family. {reasons}")


def fitting(model: nn.Module) -> list[str]:
    """Return the names of all families that have such a model."""
    names = []
    for kind, architecture in candidates(type(model)):
        with suppress(InteropError):
            _fit_family(model, kind, architecture)
            names.append(kind.model_type)
    return names


def candidates(model: type[nn.Module], family: str | None = None) -> list[tuple[type[Family], str]]:
    """Return the families that have a class of models, and its name there."""
    known = families()
    if family is not None and family not in known:
        raise InteropError(f"{family!r} is not a known family; known are: {', '.join(known)}")
    chosen = list(known.values()) if family is None else [known[family]]
    matches = []
    for kind in chosen:
        names = [name for name, x in kind.architectures.items() if x.model is model]
        if names:
            matches.append((kind, names[0]))
    if matches:
        return matches
    models = dict.fromkeys(x.model.__name__ for kind in chosen for x in kind.architectures.values())
    raise InteropError(
        f"a {model.__name__} has no counterpart in transformers"
        + (f" of the family {family}" if family else "")
        + f"; these models can be written: {', '.join(models)}"
    )


def _fit_family(model: nn.Module, family: type[Family], architecture: str) -> _Fit:
    model = family.rewrite(model)
    network = family.of(architecture, model)
    expected = _without_weights(network, architecture, f"this {type(model).__name__}")
    require_same(model, expected, family.model_type)
    return _Fit(model, architecture, network)


def _without_weights(network: Family, architecture: str, where: str) -> nn.Module:
    """Return the model that a network describes, on `meta`."""
    try:
        with torch.device("meta"):
            return network.build(architecture)
    except SaccadeError as error:
        raise InteropError(f"{where}: {error}") from error


def _family_of(config: Mapping[str, Any], where: str) -> type[Family]:
    known = families()
    match config.get("model_type"):
        case str() as name if name in known:
            return known[name]
        case other:
            raise InteropError(
                f"{where}: model_type is {other!r}; supported are {', '.join(known)}"
            )


def _architecture_of(family: type[Family], config: Mapping[str, Any], where: str) -> str:
    match config.get("architectures") or [family.unnamed]:
        case [str() as name, *_] if name in family.architectures:
            return name
    raise InteropError(
        f"{where}: architectures is {config.get('architectures')!r}; supported for "
        f"{family.model_type} are {', '.join(family.architectures)}"
        + (f"; {family.hint}" if family.hint else "")
    )
