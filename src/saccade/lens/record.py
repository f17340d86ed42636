"""AttentionRecord: where each written token looked, kept with the texts it belongs to."""

import base64
import io
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float32

from saccade.errors import FigureError, ShapeError, WatchError
from saccade.lens.align import Link, strongest
from saccade.lens.written import readable_json

if TYPE_CHECKING:
    from saccade.lens.figures import Chart

FORMAT = 1
SUFFIXES = (".json", ".npz", ".png", ".svg", ".pdf")
DECIMALS = 5  # of weights in JSON
_INDEX = int | None
_DAMAGE = (  # what readers raise on files that are not what they seem
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    EOFError,
    MemoryError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class Side:
    """A text that was read or written: its tokens, its words, and which word each token is of.

    `word_of` is None for control tokens such as </s>, which are of no word.
    """

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    word_of: tuple[int | None, ...]

    def __post_init__(self) -> None:
        if len(self.word_of) != len(self.tokens):
            raise ShapeError(
                f"each token is of one word or None: got {len(self.tokens)} tokens but "
                f"{len(self.word_of)} in word_of"
            )
        for token, word in zip(self.tokens, self.word_of, strict=True):
            if word is not None and not 0 <= word < len(self.words):
                raise ShapeError(
                    f"token {token!r} is said to be of word {word}, but there are "
                    f"{len(self.words)} words, counted from 0"
                )

    @classmethod
    def of_words(cls, words: Sequence[str], *, stop: str | None = None) -> "Side":
        """A text whose tokens are its words, with a control token after them if it has one."""
        control = () if stop is None else (stop,)
        return cls((*words, *control), tuple(words), (*range(len(words)), *(None for _ in control)))

    def membership(self) -> Float32[np.ndarray, "tokens words"]:
        """1 where a token is of a word."""
        member = np.zeros((len(self.tokens), len(self.words)), dtype=np.float32)
        for token, word in enumerate(self.word_of):
            if word is not None:
                member[token, word] = 1.0
        return member


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """The attention of one answer: the weights of every layer and head, and both texts.

    `weights` maps the dotted name of a layer to (heads, tokens written, tokens read). A model
    without attention has a record without layers.
    """

    read: Side
    wrote: Side
    weights: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        size = (len(self.wrote.tokens), len(self.read.tokens))
        kept = {}
        for name, given in self.weights.items():
            array = np.array(given, dtype=np.float32)
            if array.ndim != 3 or array.shape[0] == 0 or array.shape[1:] != size:
                raise ShapeError(
                    f"the weights of layer {name!r} must be (heads, {size[0]} tokens written, "
                    f"{size[1]} tokens read), got {array.shape}"
                )
            if not np.isfinite(array).all():
                raise ShapeError(f"the weights of layer {name!r} hold NaN or infinity")
            array.setflags(write=False)
            kept[name] = array
        object.__setattr__(self, "weights", kept)

    def __repr__(self) -> str:
        return (
            f"AttentionRecord({len(self.wrote.tokens)} tokens written, "
            f"{len(self.read.tokens)} read; layers: {', '.join(self.layers) or 'none'})"
        )

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers, in the order of the model."""
        return tuple(self.weights)

    def mean(
        self, layer: str | None = None, head: int | None = None
    ) -> Float32[np.ndarray, "wrote read"]:
        """The weights of one head of one layer; None stands for the mean over all."""
        chosen = self.slice(
            layers=None if layer is None else [layer], heads=None if head is None else [head]
        )
        if not chosen.layers:
            raise WatchError("this record has no attention: its model has no layer that looks back")
        means = [array.mean(0, dtype=np.float64) for array in chosen.weights.values()]
        return np.mean(means, axis=0).astype(np.float32)

    def slice(
        self, *, layers: Sequence[str] | None = None, heads: Sequence[int] | None = None
    ) -> "AttentionRecord":
        """The record with these layers and heads only, in this order."""
        names = self.layers if layers is None else tuple(layers)
        for name in names:
            if name not in self.weights:
                known = ", ".join(map(repr, self.layers)) or "none"
                raise WatchError(f"this record has no layer {name!r}; it has {known}")
            number = len(self.weights[name])
            for head in () if heads is None else heads:
                if not 0 <= head < number:
                    raise WatchError(
                        f"layer {name!r} has heads 0 to {number - 1}; there is no head {head}"
                    )
        chosen = slice(None) if heads is None else list(heads)
        return replace(self, weights={name: self.weights[name][chosen] for name in names})

    def by_words(
        self, layer: str | None = None, head: int | None = None
    ) -> Float32[np.ndarray, "wrote read"]:
        """The weights between words: summed over the tokens of a word read, averaged over those of
        a word written. Control tokens are left out, so a row may sum to less than 1.
        """
        written = self.wrote.membership()
        pieces = np.maximum(written.sum(0), 1.0)  # a word without tokens looked nowhere
        return (written / pieces).T @ self.mean(layer, head) @ self.read.membership()

    def alignment(self, layer: str | None = None, *, threshold: float | None = None) -> set[Link]:
        """0-based pairs (word read, word written): each written word with what it looked at most.

        A word that looked at control tokens only, or nowhere above `threshold`, has no pair.
        """
        return strongest(self.by_words(layer), threshold=threshold)

    def figure(
        self, layer: str | None = None, head: int | None = None, *, words: bool = False
    ) -> "Chart":
        """A map of the weights: a row for each token (or word) written, a column for each read."""
        import torch

        from saccade.lens.figures import heatmap

        shown = self.by_words(layer, head) if words else self.mean(layer, head)
        rows = self.wrote.words if words else self.wrote.tokens
        columns = self.read.words if words else self.read.tokens
        return heatmap(torch.from_numpy(shown), rows, columns, title=self._title(layer, head))

    def _title(self, layer: str | None, head: int | None) -> str:
        only = self.layers[0] if len(self.layers) == 1 else None
        where = f"mean of {len(self.layers)} layers" if layer is only is None else layer or only
        return f"{where or 'attention'}, {'mean of heads' if head is None else f'head {head}'}"

    def to_json(self) -> str:
        """Both texts and all weights, these rounded to 5 decimals."""
        weights = {
            name: np.round(array.astype(np.float64), DECIMALS).tolist()
            for name, array in self.weights.items()
        }
        return readable_json({**self._texts(), "weights": weights})

    @classmethod
    def from_json(cls, text: str) -> "AttentionRecord":
        """What `to_json` wrote."""
        try:
            return cls._of(json.loads(text))
        except _DAMAGE as error:
            raise FigureError(f"this is no attention record as `to_json` writes it: {error}") from (
                error
            )

    def save(self, path: str | Path) -> Path:
        """Write the record (.json, or .npz with exact weights) or its figure (.png .svg .pdf).

        A figure shows the mean of all layers and heads (`slice` first for others) and has the
        record beside it, as .json.
        """
        path = Path(path)
        if path.suffix not in SUFFIXES:
            raise FigureError(
                f"a record is saved as one of {', '.join(SUFFIXES)}; got {str(path)!r}"
            )
        if path.suffix == ".npz":
            content = self._npz()
        elif path.suffix == ".json":
            content = self.to_json().encode()
        else:
            content = self.figure().picture(path.suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if path.suffix not in {".npz", ".json"}:
            path.with_suffix(".json").write_bytes(self.to_json().encode())
        return path

    @classmethod
    def load(cls, path: str | Path) -> "AttentionRecord":
        """What `save` wrote as .json or .npz."""
        path = Path(path)
        if path.suffix not in {".json", ".npz"}:
            raise FigureError(f"a record is read from .json or .npz; got {str(path)!r}")
        try:
            if path.suffix == ".json":
                return cls.from_json(path.read_text(encoding="utf-8"))
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
                texts = json.loads(bytes(arrays["texts"]).decode())
                weights = {
                    name: arrays[f"weights.{i}"] for i, name in enumerate(texts.pop("layers"))
                }
            return cls._of({**texts, "weights": weights})
        except OSError as error:
            raise FigureError(f"cannot read {str(path)!r}: {error}") from error
        except _DAMAGE as error:
            raise FigureError(f"{str(path)!r} holds no attention record: {error}") from error

    def _npz(self) -> bytes:
        texts = json.dumps({**self._texts(), "layers": self.layers}).encode()
        arrays: dict[str, Any] = {
            f"weights.{i}": array for i, array in enumerate(self.weights.values())
        }
        file = io.BytesIO()
        np.savez_compressed(file, texts=np.frombuffer(texts, dtype=np.uint8), **arrays)
        return file.getvalue()

    def _texts(self) -> dict[str, Any]:
        return {"format": FORMAT, "read": _side_json(self.read), "wrote": _side_json(self.wrote)}

    @classmethod
    def _of(cls, found: Any) -> "AttentionRecord":
        if found["format"] != FORMAT:
            raise ValueError(f"its format is {found['format']!r}, this version reads {FORMAT}")
        weights = {
            name: np.array(layer, dtype=np.float32) for name, layer in found["weights"].items()
        }
        return cls(_side_of(found["read"]), _side_of(found["wrote"]), weights)

    def _repr_html_(self) -> str:
        """In a notebook, as an image: nothing inside it can act on the page."""
        if not self._drawable():
            return f"<code>{escape(repr(self))}</code>"
        picture = base64.b64encode(self.figure().picture(".svg")).decode()
        return f'<img alt="{escape(repr(self))}" src="data:image/svg+xml;base64,{picture}">'

    def _repr_png_(self) -> bytes | None:
        return self.figure().picture(".png", dpi=100) if self._drawable() else None

    def _drawable(self) -> bool:
        return bool(self.layers and self.read.tokens and self.wrote.tokens)


def _side_json(side: Side) -> dict[str, Any]:
    return {"kind": "text", "tokens": side.tokens, "words": side.words, "word_of": side.word_of}


def _side_of(found: Any) -> Side:
    if found["kind"] != "text":
        raise ValueError(f"it is of {found['kind']!r}, this version reads 'text'")
    return Side(
        _all_of(str, found["tokens"]),
        _all_of(str, found["words"]),
        _all_of(_INDEX, found["word_of"]),
    )


def _all_of(kind: Any, found: Any) -> tuple[Any, ...]:
    if not isinstance(found, list) or not all(
        isinstance(one, kind) and not isinstance(one, bool) for one in found
    ):
        raise ValueError(f"{str(found)[:60]!r} should be a list of {kind}")
    return tuple(found)
