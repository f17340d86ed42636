"""XLM-RoBERTa (Conneau et al. 2020): RoBERTa on text in a hundred languages."""

from dataclasses import dataclass
from typing import ClassVar

from saccade.interop.huggingface.families.roberta import Roberta


@dataclass(frozen=True, kw_only=True)
class XlmRoberta(Roberta):
    """XLM-RoBERTa."""

    model_type: ClassVar = "xlm-roberta"
    architectures: ClassVar = {
        f"XLM{name}": architecture for name, architecture in Roberta.architectures.items()
    }
    unnamed: ClassVar = "XLMRobertaModel"
    rank: ClassVar = 3
