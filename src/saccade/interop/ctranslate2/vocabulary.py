"""The names of tokens, by which CTranslate2 takes and gives them."""

from collections.abc import Sequence

from tokenizers import Tokenizer as Backend

from saccade.text import Tokenizer


class TokenNames:
    """The name of each token of a vocabulary; a number without a token has one, too."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        entries = Backend.from_str(tokenizer.to_string()).get_vocab(with_added_tokens=True)
        self.all = [f"⟨unused {id}⟩" for id in range(len(tokenizer))]
        for name, id in entries.items():
            self.all[id] = name
        self.ids = {name: id for id, name in enumerate(self.all)}
        controls = tokenizer.controls
        self.stop = self.all[tokenizer.stop]
        # of a token that the vocabulary lacks nothing is ever asked, but a name it must have
        self.start = self.stop if controls.start is None else self.all[controls.start]
        self.unknown = self.stop if controls.unknown is None else self.all[controls.unknown]

    def of(self, ids: Sequence[int]) -> list[str]:
        """The names of these tokens."""
        return [self.all[id] for id in ids]
