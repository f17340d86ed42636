"""The tokenizer: text to token ids and back, stored in one file."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Encoding, normalizers
from tokenizers import Tokenizer as Backend

from saccade.errors import TextError, brief
from saccade.files import parse_json, read_text, write_file
from saccade.text.alphabet import BYTES, readable, unspell
from saccade.text.config import VocabularyConfig
from saccade.text.controls import OURS, Controls, guess, is_ours
from saccade.text.counting import require_text

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Bool, Int

UNUSED = 100_000
"""Number of ids without an entry that a vocabulary may have, in addition to three per entry."""
_UNKNOWN = OURS[3]
_NFC = normalizers.NFC()


@dataclass(frozen=True)
class Piece:
    """A token and its place in the text.

    Attributes:
        id: Token id.
        text: The piece as people read it.
        span: (start, end) in characters of `Tokenizer.normal(text)`, without surrounding white
            space. If a character had to be split, all its parts have its span.
        word: Index of the word, between white space, from 0. None for a piece of white space alone,
            such as the space put before every text, whose span is empty.
    """

    id: int
    text: str
    span: tuple[int, int]
    word: int | None


class Tokenizer:
    """Text to token ids and back.

    No text ever becomes a control token, and control tokens are never added: callers put
    `tokenizer.start` and the like where they belong. Vocabularies trained by Saccade give them the
    ids 0 to 6 (see `Controls`); a file of another tool has its own, or lacks some.

    Build one with `Tokenizer.train`, `Tokenizer.load` or `Tokenizer.from_string`.

    Args:
        text: The text of a tokenizer.json.
        controls: Ids of the control tokens, if they cannot be recognised by their usual names.
        where: Where the text came from, for errors.

    Raises:
        TextError: If the text is not a valid tokenizer.json.

    Examples:
        >>> from saccade.text import Tokenizer, VocabularyConfig
        >>> vocabulary = VocabularyConfig(kind="word", size=20)
        >>> tokenizer = Tokenizer.train(["a man sees a dog"], vocabulary)
        >>> ids = tokenizer.encode("a dog sees</s> a zebra")
        >>> tokenizer.pieces(ids)
        ['▁a', '▁dog', '▁sees', '⁇', '⁇', '⁇', '▁a', '⁇']
        >>> tokenizer.decode(tokenizer.encode("a zebra sees a man"))
        'a ⁇ sees a man'
    """

    def __init__(self, text: str, *, controls: Controls | None = None, where: str = "") -> None:
        where = where or "this text"
        self._text = text
        self._backend, content = _read(text, where)
        vocabulary = self._backend.get_vocab(with_added_tokens=True)
        if not vocabulary:
            raise TextError(f"{where} has an empty vocabulary; train the tokenizer on some text")
        self._entries = {id: entry for entry, id in vocabulary.items()}
        self._size = max(self._entries) + 1
        if self._size > 4 * len(self._entries) + UNUSED:
            raise TextError(
                f"{where} has {len(self._entries):,} entries, but the largest id is "
                f"{self._size - 1:,}: an embedding would have that many rows, almost all unused; "
                "number the entries without large gaps"
            )
        self._ours = is_ours(vocabulary)
        self._spelled = "ByteLevel" in json.dumps(content.get("decoder"))
        self._inside_words = str(content["model"].get("continuing_subword_prefix") or "")
        self.controls = controls or (
            Controls() if self._ours else guess(vocabulary, _unknown(content["model"]))
        )
        added = self._backend.get_added_tokens_decoder().items()
        special = {id for id, token in added if token.special}
        self._silent = (special | self.controls.ids) - {self.controls.unknown}

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        config: VocabularyConfig,
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Tokenizer:
        """Build a vocabulary from texts; the same texts always give the same file.

        Args:
            texts: Texts, read once.
            config: Options of the vocabulary.
            progress: Called now and then, and at the end, with the number of texts read.

        Raises:
            TextError: If the texts are empty, or an item is not valid text.
        """
        from saccade.text.training import train

        return cls(train(texts, config, progress=progress).to_str())

    @classmethod
    def from_string(cls, text: str, *, controls: Controls | None = None) -> Tokenizer:
        """Build a tokenizer from the text of a tokenizer.json.

        Args:
            text: The text.
            controls: Ids of the control tokens. By default those of another tool are recognised by
                their usual names.

        Raises:
            TextError: If the text is not a valid tokenizer.json.
        """
        return cls(text, controls=controls)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, controls: Controls | None = None) -> Tokenizer:
        """Load a tokenizer.json, ours or that of another tool.

        Args:
            path: The file.
            controls: Ids of the control tokens. By default those of another tool are recognised by
                their usual names.

        Raises:
            TextError: If the file cannot be read or is not a valid tokenizer.json.
        """
        try:
            text = read_text(path)
        except OSError as error:
            raise TextError(
                f"cannot read the tokenizer {path}: {error.strerror}; "
                "check the path and its permissions"
            ) from error
        except UnicodeDecodeError as error:
            raise TextError(
                f"{path} is not a valid tokenizer.json: byte {error.start} is not UTF-8; save it "
                "as UTF-8"
            ) from error
        return cls(text, controls=controls, where=str(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tokenizer.json; an existing file stays intact until the new one is complete."""
        write_file(Path(path), self._text.encode())

    def to_string(self) -> str:
        """Return the text of the tokenizer.json."""
        return self._text

    @property
    def entries(self) -> Mapping[int, str]:
        """The entries of the vocabulary, by their ids; some ids may have none."""
        return self._entries

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of the file, in hexadecimal: the same for the same vocabulary."""
        return hashlib.sha256(self._text.encode()).hexdigest()

    def __len__(self) -> int:
        """Return the number of rows of an embedding: the largest id plus 1."""
        return self._size

    def __repr__(self) -> str:
        return f"Tokenizer({len(self)} entries, sha256 {self.digest[:8]})"

    def __reduce__(self) -> tuple[Any, ...]:  # the backend's own copy would forget `_prepare`
        return functools.partial(Tokenizer, self._text, controls=self.controls), ()

    @property
    def pad(self) -> int:
        """The id that fills short rows."""
        return self._control("pad")

    @property
    def start(self) -> int:
        """The id that begins a generated text."""
        return self._control("start")

    @property
    def stop(self) -> int:
        """The id that ends a generated text."""
        return self._control("stop")

    @property
    def unknown(self) -> int:
        """The id for text that the vocabulary lacks."""
        return self._control("unknown")

    @property
    def cls(self) -> int:
        """The id whose state a classifier reads."""
        return self._control("cls")

    @property
    def sep(self) -> int:
        """The id between two texts."""
        return self._control("sep")

    @property
    def mask(self) -> int:
        """The id of masked tokens."""
        return self._control("mask")

    @functools.cached_property
    def ordinary(self) -> Int[np.ndarray, " n"]:
        """The ids that stand for a piece of text: all but control tokens and unknown."""
        import numpy as np

        ids = sorted(self._entries.keys() - self._silent - {self.controls.unknown})
        return np.array(ids, dtype=np.int64)

    @functools.cached_property
    def begins_word(self) -> Bool[np.ndarray, " v"]:
        """For each id, whether a word begins with it; all True if the entries do not show it.

        Byte-level pieces begin a word with white space, those of WordPiece by the lack of a prefix
        such as ##.
        """
        import numpy as np

        begins = np.ones(len(self), dtype=bool)
        begins[self.ordinary] = [self._begins_word(self._entries[id]) for id in self.ordinary]
        return begins

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without any control token.

        Raises:
            TextError: If this is not valid text.
        """
        return self._ids(self._encodings([text])[0])

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, as `encode` does."""
        return [self._ids(encoding) for encoding in self._encodings(texts)]

    def encode_part(self, text: str) -> list[int]:
        """Return the ids of a text that continues another, without a space before it."""
        return self._ids(self._encodings([text], self.within)[0])

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, without control tokens.

        Unknown tokens become ⁇, incomplete characters, which a model may generate, become �. The
        space before the first word is dropped, so decode a complete text at once, not in parts.

        Raises:
            TextError: If an id is not in the vocabulary.
        """
        entries = [self._surface(id) for id in ids if id not in self._silent]
        decoder = self._backend.decoder
        return " ".join(entries) if decoder is None else decoder.decode(entries)

    def decode_batch(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row of ids."""
        return [self.decode(ids) for ids in rows]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return each id as people read it: ▁ for the space before a word, bytes as \\xe2."""
        return [self._readable(id) for id in ids]

    def normal(self, text: str) -> str:
        """Return the text that the spans of `split` refer to: NFC, or unchanged for other files."""
        require_text(text, "the text")
        return _NFC.normalize_str(text) if self._ours else text

    def split(self, text: str) -> list[Piece]:
        """Return the pieces of a text, those of `encode`, each with its place."""
        text = self.normal(text)
        word_at: list[int | None] = [None] * len(text)
        for number, word in enumerate(re.finditer(r"\S+", text)):
            word_at[word.start() : word.end()] = [number] * len(word[0])
        [encoding] = self._encodings([text])
        return [self._piece(id, span, word_at) for id, span in self._tokens(encoding)]

    def words(self, ids: Sequence[int]) -> tuple[list[str], list[int | None]]:
        """Return the words of decoded ids, and for each id the index of its word or None.

        A model may split a text differently from `split`, so the ids are decoded one by one.
        """
        text = self.decode(ids)
        words = list(re.finditer(r"\S+", text))
        ends = [len(self.decode(ids[: i + 1])) for i in range(len(ids))]
        word_of: list[int | None] = []
        for id, before, end in zip(ids, [0, *ends], ends, strict=False):
            start = min(before, max(0, end - 1))  # the later bytes of a character add no length
            inside = (
                i for i, word in enumerate(words) if word.start() < end and start < word.end()
            )
            word_of.append(None if id in self._silent else next(inside, None))
        return [word[0] for word in words], word_of

    def _piece(self, id: int, span: tuple[int, int], word_at: list[int | None]) -> Piece:
        start, end = span
        inside = [at for at in range(start, end) if word_at[at] is not None]
        if inside and not self._entry(id).strip("Ġ▁"):  # only the space put before the text
            return Piece(id, self._readable(id), (start, start), None)
        if inside:
            start, end = inside[0], inside[-1] + 1
        return Piece(id, self._readable(id), (start, end), word_at[start] if inside else None)

    def _encodings(self, texts: Sequence[str], backend: Backend | None = None) -> list[Encoding]:
        backend = backend or self._backend
        if isinstance(texts, str):
            raise TextError("encode_batch takes several texts, got one string; use encode")
        try:
            if len(texts) == 1:  # without the threads of a batch
                return [backend.encode(texts[0], add_special_tokens=False)]
            return backend.encode_batch(list(texts), add_special_tokens=False)
        except Exception as error:  # the library raises nothing narrower
            for number, text in enumerate(texts, start=1):
                require_text(text, f"text {number} of {len(texts)}")
            raise TextError(
                f"the tokenizer cannot encode this text: {error}; please report this"
            ) from error

    @functools.cached_property
    def within(self) -> Backend:
        """The backend without the space that vocabularies of Saccade put before every text."""
        if not self._ours:
            return self._backend
        content = json.loads(self._text)
        steps = content["normalizer"]["normalizers"]
        content["normalizer"]["normalizers"] = [s for s in steps if s["type"] != "Prepend"]
        return _read(json.dumps(content), "this text")[0]

    def _begins_word(self, entry: str) -> bool:
        if self._inside_words:
            return not entry.startswith(self._inside_words)
        if not self._spelled or not all(letter in BYTES for letter in entry):
            return True
        return unspell(entry).decode(errors="replace")[:1].isspace()

    def _ids(self, encoding: Encoding) -> list[int]:
        return encoding.ids if self._ours else [id for id, _ in self._tokens(encoding)]

    def _tokens(self, encoding: Encoding) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield ids and spans; control tokens here come from literal text and become unknown."""
        for id, span in zip(encoding.ids, encoding.offsets, strict=True):
            if id not in self._silent:
                yield id, span
            elif self.controls.unknown is not None:
                yield self.controls.unknown, span

    def _surface(self, id: int) -> str:
        if id == self.controls.unknown and not self._ours:
            return _UNKNOWN
        return self._entry(id)

    def _readable(self, id: int) -> str:
        entry = self._entry(id)
        return readable(entry).strip() if self._spelled else entry

    def _entry(self, id: int) -> str:
        entry = self._entries.get(id)
        if entry is None:
            raise TextError(
                f"the vocabulary has no id {id}; its ids are 0 to {len(self) - 1}. Use the "
                "tokenizer of the same run"
            )
        return entry

    def _control(self, name: str) -> int:
        id: int | None = getattr(self.controls, name)
        if id is None:
            raise TextError(
                f"this vocabulary has no {name} token; load it with controls=Controls({name}=…), "
                "the id to use"
            )
        return id


def _read(text: str, where: str) -> tuple[Backend, dict[str, Any]]:
    try:
        content = parse_json(text)
    except ValueError as error:
        raise TextError(
            f"{where} is not a valid tokenizer.json: it is not complete JSON: {brief(error)}; save "
            "it again"
        ) from error
    if not (isinstance(content, dict) and isinstance(content.get("model"), dict)):
        raise TextError(
            f'{where} is not a valid tokenizer.json: it has no "model" with a vocabulary; save it '
            "with the tokenizers library or with Saccade"
        )
    try:
        backend = Backend.from_str(text)
    except Exception as error:  # the library raises nothing narrower
        raise TextError(
            f"{where} is not a valid tokenizer.json: {brief(error)}; save it with the tokenizers "
            "library or with Saccade"
        ) from error
    # files of other tools may truncate and pad every text, and turn a literal [CLS] into the token
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    return backend, content


def _unknown(model: dict[str, Any]) -> int | None:
    """Return the id that a model of another tool gives to unknown text."""
    if isinstance(model.get("unk_id"), int):
        return int(model["unk_id"])
    vocabulary = model.get("vocab")
    return vocabulary.get(model.get("unk_token")) if isinstance(vocabulary, dict) else None
