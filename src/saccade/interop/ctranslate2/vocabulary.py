"""The names of tokens, by which CTranslate2 takes and returns them."""

from collections.abc import Sequence

from saccade.text import Tokenizer


class TokenNames:
    """The name of every token id of a vocabulary, also of ids without a token.

    Attributes:
        all: The names, by token id.
        ids: The token ids, by name.
        start: The name of the start token, or of the stop token if there is none.
        stop: The name of the stop token.
        unknown: The name of the unknown token, or of the stop token if there is none.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        entries = tokenizer.entries
        self.all = [entries.get(id) or f"⟨unused {id}⟩" for id in range(len(tokenizer))]
        self.ids = {name: id for id, name in enumerate(self.all)}
        controls = tokenizer.controls
        self.stop = self.all[tokenizer.stop]
        # CTranslate2 needs a name for a control token also where a vocabulary lacks it
        self.start = self.stop if controls.start is None else self.all[controls.start]
        self.unknown = self.stop if controls.unknown is None else self.all[controls.unknown]

    def of(self, ids: Sequence[int]) -> list[str]:
        """Return the names of token ids."""
        return [self.all[id] for id in ids]
