"""ELECTRA (Clark et al. 2020): the encoder of BERT, trained to find replaced tokens."""

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import nn

from saccade.errors import InteropError
from saccade.interop.huggingface.config_json import Size
from saccade.interop.huggingface.families.bert import Bert
from saccade.interop.huggingface.family import Architecture
from saccade.interop.huggingface.tensor_map import Entry, layer, tensor
from saccade.models import (
    MaskedLanguageModel,
    Tagger,
    TextClassifier,
    TextEncoder,
    TextReaderConfig,
)


@dataclass(frozen=True, kw_only=True)
class Electra(Bert):
    """ELECTRA with embeddings as wide as the model, such as electra-base."""

    model_type: ClassVar = "electra"
    architectures: ClassVar = {
        "ElectraModel": Architecture(TextEncoder, head=False),
        "ElectraForSequenceClassification": Architecture(
            TextClassifier, task="text_classification", labels=True
        ),
        "ElectraForTokenClassification": Architecture(Tagger, task="tagging", labels=True),
        "ElectraForMaskedLM": Architecture(MaskedLanguageModel, task="masked_language_modeling"),
    }
    unnamed: ClassVar = "ElectraModel"
    hint: ClassVar = (
        "of the discriminator ElectraForPreTraining, name the encoder alone: "
        '"architectures": ["ElectraModel"]'
    )
    prefix: ClassVar = "electra."
    heads: ClassVar = ("generator_", "classifier.", "discriminator_predictions.")
    pooler_activation: ClassVar = "gelu"
    rank: ClassVar = 1

    embedding_size: Size = 128

    @classmethod
    def of(cls, architecture: str, model: nn.Module) -> "Bert":
        """Return the keys that describe a model."""
        keys = super().of(architecture, model)
        assert isinstance(keys, cls)
        return replace(keys, embedding_size=keys.hidden_size)

    def config(self, architecture: str) -> TextReaderConfig | None:
        """Return the options of the encoder and of its head, whose activation is always gelu."""
        if self.embedding_size != self.hidden_size:
            raise InteropError(
                f"embedding_size is {self.embedding_size} and hidden_size {self.hidden_size}; only "
                "models whose embeddings are as wide as their states are supported, such as "
                "electra-base"
            )
        is_masked = self.architectures[architecture].model is MaskedLanguageModel
        if is_masked and self.hidden_act not in ("gelu", "gelu_python"):
            raise InteropError(
                f"hidden_act is {self.hidden_act!r}, but the head of a {architecture} always has "
                "gelu; set both alike, or leave the head out"
            )
        return super().config(architecture)

    def head_map(self, kind: type[nn.Module]) -> tuple[tuple[Entry, ...], dict[str, str]]:
        """Return the entries of the head of a model, and the copies of its tensors."""
        if kind is TextClassifier:
            head = (*layer("pooler.0", "classifier.dense"), *layer("head", "classifier.out_proj"))
            return head, {}
        if kind is Tagger:
            return layer("head", "classifier"), {}
        transform = (
            *layer("transform.0", "generator_predictions.dense"),
            *layer("transform.2", "generator_predictions.LayerNorm"),
            tensor("output.bias", "generator_lm_head.bias"),
        )
        weight = "generator_lm_head.weight"
        if self.tie_word_embeddings:
            return transform, {weight: "embeddings.word_embeddings.weight"}
        return (*transform, tensor("output.weight", weight)), {}
