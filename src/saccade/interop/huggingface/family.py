"""Family: what each kind of folder says about itself, once for reading and writing."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

from torch import nn

from saccade.interop.huggingface.config_json import Condition
from saccade.interop.huggingface.tensor_map import Names
from saccade.models import LanguageModelConfig, TextReaderConfig, TranslatorConfig

ModelConfig = TextReaderConfig | LanguageModelConfig | TranslatorConfig
Options = TypeVar("Options")


class Family(ABC, Generic[Options]):
    """A `model_type`: its options, the models they describe, and the names of their tensors.

    architectures    what its classes are here; of two the first is written
    unnamed          the class of a folder that names none, where that is clear
    hint             what to do about a class that is not among them
    conditions       what the options cannot say and a config must not say
    """

    model_type: ClassVar[str]
    architectures: ClassVar[Mapping[str, type[nn.Module]]]
    unnamed: ClassVar[str | None] = None
    hint: ClassVar[str] = ""
    conditions: ClassVar[tuple[Condition, ...]] = ()
    options: type[Options]

    def config(self, architecture: str, options: Options) -> ModelConfig | None:
        """The options of our model, as a recipe has them; None where no recipe can say it."""
        return None

    @abstractmethod
    def build(self, architecture: str, options: Options) -> nn.Module:
        """The model that a config describes, not yet with its weights."""

    @abstractmethod
    def describe(self, model: nn.Module) -> Options:
        """The config that describes a model, if any does (which is tested by building it)."""

    @abstractmethod
    def names(self, architecture: str, options: Options) -> Names:
        """Where its tensors stand."""

    def fitted(self, model: nn.Module) -> nn.Module:
        """The model, or a copy that gives the same answers and is built as this family has it."""
        return model
