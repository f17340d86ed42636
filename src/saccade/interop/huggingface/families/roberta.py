"""RoBERTa (Liu et al. 2019): BERT with other heads, whose positions follow the padding token."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import nn

from saccade.errors import InteropError
from saccade.interop.huggingface.config_json import Index
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
class Roberta(Bert):
    """RoBERTa; the first token has the position `pad_token_id` + 1.

    Positions count the tokens that are not padding, so padding must be at the end.
    """

    model_type: ClassVar = "roberta"
    architectures: ClassVar = {
        "RobertaModel": Architecture(TextEncoder, head=False),
        "RobertaForSequenceClassification": Architecture(
            TextClassifier, task="text_classification", labels=True
        ),
        "RobertaForTokenClassification": Architecture(Tagger, task="tagging", labels=True),
        "RobertaForMaskedLM": Architecture(MaskedLanguageModel, task="masked_language_modeling"),
    }
    unnamed: ClassVar = "RobertaModel"
    prefix: ClassVar = "roberta."
    heads: ClassVar = ("lm_head.", "classifier.")
    rank: ClassVar = 2

    pad_token_id: Index = 1

    @classmethod
    def of(cls, architecture: str, model: nn.Module) -> "Bert":
        """Return the keys that describe a model, with a row for each place before the first."""
        keys = super().of(architecture, model)
        assert isinstance(keys, cls)
        return keys.written_with({"pad_token_id": keys.pad_token_id}, keys.max_position_embeddings)

    def written_with(self, more: Mapping[str, object], positions: int | None = None) -> "Roberta":
        """Return the keys with the padding token of `more`, after which positions begin."""
        match more.get("pad_token_id"):
            case int() as padding:
                positions = self.max_positions if positions is None else positions
                length = positions + padding + 1
                return replace(self, pad_token_id=padding, max_position_embeddings=length)
        return self

    def config(self, architecture: str) -> TextReaderConfig | None:
        """Return the options of the encoder and of its head, whose activation is always gelu."""
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
            *layer("transform.0", "lm_head.dense"),
            *layer("transform.2", "lm_head.layer_norm"),
        )
        bias = "lm_head.decoder.bias"
        if self.tie_word_embeddings:
            return (*transform, tensor("output.bias", "lm_head.bias")), {
                "lm_head.decoder.weight": "embeddings.word_embeddings.weight",
                bias: "lm_head.bias",
            }
        weight = tensor("output.weight", "lm_head.decoder.weight")
        return (*transform, weight, Entry("output.bias", (bias, "lm_head.bias"))), {}

    @property
    def unused_positions(self) -> int:
        """The places up to the padding token."""
        return self.pad_token_id + 1
