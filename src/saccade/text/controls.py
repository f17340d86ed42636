"""The control tokens: ids that are not text."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

# The names in our own files hold characters outside the byte alphabet, so no text becomes one.
OURS = ("⟨pad⟩", "⟨start⟩", "⟨stop⟩", "⁇", "⟨cls⟩", "⟨sep⟩", "⟨mask⟩")

# What other tools call them, the surest name first.
_ELSEWHERE = {
    "pad": ("[PAD]", "<pad>", "<|pad|>"),
    "start": ("<s>", "[BOS]", "<bos>", "<|startoftext|>", "<|endoftext|>"),
    "stop": ("</s>", "[EOS]", "<eos>", "<|endoftext|>"),
    "unknown": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<cls>", "<s>"),
    "sep": ("[SEP]", "<sep>", "</s>"),
    "mask": ("[MASK]", "<mask>"),
}


@dataclass(frozen=True, kw_only=True)
class Controls:
    """The ids of the control tokens; None where a vocabulary of another tool has no such token.

    pad fills short rows, start and stop stand around a text that is written, unknown stands for
    what the vocabulary lacks, cls is what a classifier reads, sep parts two texts, mask is what a
    masked language model fills in.
    """

    pad: int | None = 0
    start: int | None = 1
    stop: int | None = 2
    unknown: int | None = 3
    cls: int | None = 4
    sep: int | None = 5
    mask: int | None = 6

    @property
    def ids(self) -> set[int]:
        """Those that there are, without unknown, which stands for text."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {id for name, id in values.items() if id is not None and name != "unknown"}


def is_ours(vocabulary: Mapping[str, int]) -> bool:
    """Whether the vocabulary was trained here: our names stand at 0 to 6."""
    found = {id: name.strip() for name, id in vocabulary.items() if id < len(OURS)}
    return [found.get(id) for id in range(len(OURS))] == [*OURS]


def guess(vocabulary: Mapping[str, int], unknown: int | None) -> Controls:
    """The control tokens of another tool's vocabulary, by their usual names."""
    found = {
        name: next((vocabulary[there] for there in usual if there in vocabulary), None)
        for name, usual in _ELSEWHERE.items()
    }
    if unknown is not None:
        found["unknown"] = unknown
    return Controls(**found)
