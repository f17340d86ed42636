"""The base class of families: one `model_type` of config.json, for loading and saving."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from saccade.interop.huggingface.config_json import Condition, Size
from saccade.interop.huggingface.tensor_map import TensorMap
from saccade.models import (
    ImageClassifierConfig,
    LanguageModelConfig,
    TextReaderConfig,
    TranslatorConfig,
)

ModelConfig = TextReaderConfig | LanguageModelConfig | TranslatorConfig | ImageClassifierConfig


@dataclass(frozen=True)
class Architecture:
    """A model class of transformers.

    Attributes:
        model: Our class of the same model.
        task: The name of the task that `saccade import` makes of it; None if it cannot.
        head: Whether it has a head; without one it cannot predict anything.
        labels: Whether its head has one output per label.
    """

    model: type[nn.Module]
    task: str | None = None
    head: bool = True
    labels: bool = False


@dataclass(frozen=True, kw_only=True)
class Family(ABC):
    """One `model_type`: its fields are the keys of config.json that describe the network.

    An instance describes one network. Fields have the defaults of transformers; their types are
    checked when a config.json is read.

    Attributes:
        model_type: The value of that key in config.json.
        architectures: Its classes by name; of several with the same model the first is saved.
        unnamed: The class of a folder that names none; None if that is an error.
        hint: What to do about a class that is not in `architectures`.
        conditions: Keys that are not fields and must have one value.
        open_block: Whether its blocks have options that BERT, GPT-2, ViT and Marian lack.
        layout: The layout of a language model's texts (see `LanguageModelingTextConfig`).
        rank: Where several families have the same model, those of the lowest rank are written.
        num_labels: The number of outputs of a head with labels.
    """

    model_type: ClassVar[str]
    architectures: ClassVar[Mapping[str, Architecture]]
    unnamed: ClassVar[str | None] = None
    hint: ClassVar[str] = ""
    conditions: ClassVar[tuple[Condition, ...]] = ()
    open_block: ClassVar[bool] = False
    layout: ClassVar[str] = "stream"
    rank: ClassVar[int] = 0

    num_labels: Size = 2

    @classmethod
    @abstractmethod
    def of(cls, architecture: str, model: nn.Module) -> "Family":
        """Return the keys that describe a model.

        It may read them off the first block: whether they describe all of the model is checked
        afterwards, by comparing it with what `build` makes of them.
        """

    @abstractmethod
    def build(self, architecture: str) -> nn.Module:
        """Return the model with new weights."""

    @abstractmethod
    def tensor_map(self, architecture: str) -> TensorMap:
        """Return where the file has our parameters."""

    def config(self, architecture: str) -> ModelConfig | None:
        """Return the options of our model, as a recipe has them; None if no recipe can."""
        return None

    @property
    def vocabulary_sizes(self) -> tuple[int, ...]:
        """The number of embedded tokens of the source and of the target; empty without tokens."""
        return ()

    @property
    def max_positions(self) -> int | None:
        """The number of learned positions; None if there is no limit."""
        return None

    def written_with(self, more: Mapping[str, object]) -> "Family":
        """Return the keys for a folder that also has the keys `more`, such as ids of tokens."""
        return self

    @classmethod
    def rewrite(cls, model: nn.Module) -> nn.Module:
        """Return the model, or an equivalent copy that is built as this family has it."""
        return model
