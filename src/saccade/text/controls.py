"""Control tokens: ids that do not stand for text."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

# names in our own files contain characters outside the byte alphabet, so no text becomes one
OURS = ("⟨pad⟩", "⟨start⟩", "⟨stop⟩", "⁇", "⟨cls⟩", "⟨sep⟩", "⟨mask⟩")

# names in files of other tools, the most certain first
_ELSEWHERE = {
    "pad": ("[PAD]", "<pad>", "<|pad|>"),
    "start": ("<s>", "[BOS]", "<bos>", "<|startoftext|>", "<|begin_of_text|>", "<|endoftext|>"),
    "stop": ("</s>", "[EOS]", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    "unknown": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<cls>", "<s>"),
    "sep": ("[SEP]", "<sep>", "</s>"),
    "mask": ("[MASK]", "<mask>"),
}


@dataclass(frozen=True, kw_only=True)
class Controls:
    """The ids of the control tokens; None if a vocabulary of another tool has no such token.

    Attributes:
        pad: Fills short rows.
        start: Begins a generated text.
        stop: Ends a generated text.
        unknown: Stands for text that the vocabulary lacks.
        cls: The token whose state a classifier reads.
        sep: Separates two texts.
        mask: Stands for tokens that a masked language model predicts.
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
        """The ids of all that exist, except unknown, which stands for text."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {id for name, id in values.items() if id is not None and name != "unknown"}


def is_ours(vocabulary: Mapping[str, int]) -> bool:
    """Return whether the vocabulary was trained by Saccade: our names have the ids 0 to 6."""
    names = {id: name.strip() for name, id in vocabulary.items() if id < len(OURS)}
    return [names.get(id) for id in range(len(OURS))] == [*OURS]


def guess(vocabulary: Mapping[str, int], unknown: int | None) -> Controls:
    """Return the control tokens of another tool's vocabulary, by their usual names."""
    ids = {
        name: next((vocabulary[entry] for entry in usual if entry in vocabulary), None)
        for name, usual in _ELSEWHERE.items()
    }
    if unknown is not None:
        ids["unknown"] = unknown
    return Controls(**ids)
