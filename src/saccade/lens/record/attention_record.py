"""AttentionRecord: what each written token attended to, with the texts or the image it belongs to.

    AttentionRecord(read, wrote, weights)      a translation: two texts
    AttentionRecord(text, text, weights)       a text that attends to itself
    AttentionRecord(image, caption, weights)   a caption over an image: (heads, tokens, cells)
    AttentionRecord(image, image, weights)     an image that attends to itself: (heads, n, n)

The tokens of an image are its cells row by row, after the class token if there is one.
"""

import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float32

from saccade.errors import FigureError, ShapeError, WatchError
from saccade.lens.alignment.align_by import AlignBy
from saccade.lens.alignment.extraction import Link, both_ways, symmetrise
from saccade.lens.formatting import numbers_json, readable_json
from saccade.lens.record.rollout import rollout
from saccade.lens.record.sides import AnySide, ImageSide, side_from_json

if TYPE_CHECKING:
    from torch import Tensor

    from saccade.lens.drawing.chart import Chart, Theme

FORMAT = 1
SUFFIXES = (".json", ".npz", ".html", ".png", ".svg", ".pdf")
DECIMALS = 5  # of weights in JSON
LARGEST_CELL = 4_000_000
"""Characters of a page that a notebook shows in a cell."""
CELL_HEIGHT = 720
"""Pixels of the explorer in a cell."""
_DAMAGE = (  # raised on files that are not what they seem
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


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """The attention of one answer: the weights of every layer and head, and both sides.

    In self-attention both sides are the same object. The record of a model without attention has
    no layers. A notebook shows a record as its explorer, or else as its figure.

    Args:
        read: the side that was attended to: a text or an image.
        wrote: the side that attended. An image can only attend to itself.
        weights: for each layer, by its dotted name, the weights (heads, tokens written, tokens
            read). They are copied as float32.
        align_by: the weights that align words best.
        belief: how far to trust the attention of the model, in words; "" if it was not measured.

    Raises:
        ShapeError: if the weights do not fit the sides or are not finite.

    Example:
        >>> from saccade.lens.record import Side
        >>> read, wrote = Side.of_words(["das", "Haus"]), Side.of_words(["the", "house"])
        >>> weights = np.array([[[0.9, 0.1], [0.2, 0.8]]])  # one head
        >>> record = AttentionRecord(read, wrote, {"decoder.cross": weights})
        >>> record
        AttentionRecord(2 tokens written, 2 read; layers: decoder.cross)
        >>> sorted(record.alignment())
        [(0, 0), (1, 1)]
        >>> record.by_words("decoder.cross", head=0).argmax(1).tolist()
        [0, 1]
    """

    read: AnySide
    wrote: AnySide
    weights: Mapping[str, np.ndarray]
    align_by: AlignBy = AlignBy()
    belief: str = ""

    def __post_init__(self) -> None:
        if self._is_image_alone:
            if self.wrote != self.read:
                raise ShapeError(
                    f"an image can only attend to itself, but {self.wrote!r} attends to "
                    f"{type(self.read).__name__} with {len(self.read.tokens)} tokens; pass the "
                    "same image as both sides"
                )
            object.__setattr__(self, "wrote", self.read)
        size = (len(self.wrote.tokens), len(self.read.tokens))
        kept = {}
        for name, weights in self.weights.items():
            array = np.array(weights, dtype=np.float32)
            if array.ndim != 3 or array.shape[0] == 0 or array.shape[1:] != size:
                raise ShapeError(
                    f"the weights of layer {name!r} must be (heads, {size[0]} tokens written, "
                    f"{size[1]} tokens read), got {array.shape}; "
                    "keep one axis per head, output and input"
                )
            if not np.isfinite(array).all():
                raise ShapeError(
                    f"the weights of layer {name!r} hold NaN or infinity; check the model's numbers"
                )
            array.setflags(write=False)
            kept[name] = array
        object.__setattr__(self, "weights", kept)

    def __repr__(self) -> str:
        return (
            f"AttentionRecord({len(self.wrote.tokens)} tokens written, "
            f"{len(self.read.tokens)} read; layers: {', '.join(self.layers) or 'none'})"
        )

    @property
    def reads_itself(self) -> bool:
        """Whether this is self-attention: both sides are the same object.

        Two equal texts do not count: a translation may repeat its source.
        """
        return self.read is self.wrote

    @property
    def is_causal(self) -> bool:
        """Whether no token attends to a later one, as in a language model."""
        above = (np.triu(array, 1) for array in self.weights.values())
        return self.reads_itself and len(self.wrote.tokens) > 1 and not any(map(np.any, above))

    def with_belief(self, belief: str) -> "AttentionRecord":
        """Return the record with a sentence about how far to trust its attention."""
        if belief == self.belief:
            return self
        record = copy(self)  # the weights cannot be changed, so both records may hold them
        object.__setattr__(record, "belief", belief)
        return record

    @property
    def _is_image_alone(self) -> bool:
        return isinstance(self.wrote, ImageSide)

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers, in the order of the model."""
        return tuple(self.weights)

    def mean(
        self, layer: str | None = None, head: int | None = None
    ) -> Float32[np.ndarray, "wrote read"]:
        """Return the weights between tokens, averaged over layers and heads.

        Args:
            layer: one layer; None averages all, each with the same weight.
            head: one head of each layer; None averages all.

        Raises:
            WatchError: if there is no such layer or head, or no attention at all.
        """
        chosen = self.slice(
            layers=None if layer is None else [layer], heads=None if head is None else [head]
        )
        if not chosen.layers:
            raise WatchError(
                "this record has no attention: its model has no attention layers; "
                "use a model with attention"
            )
        means = [array.mean(0, dtype=np.float64) for array in chosen.weights.values()]
        return np.mean(means, axis=0).astype(np.float32)

    def slice(
        self, *, layers: Sequence[str] | None = None, heads: Sequence[int] | None = None
    ) -> "AttentionRecord":
        """Return the record with some layers and heads only.

        Args:
            layers: the names of the layers, in the order wanted; None keeps all.
            heads: the indices of the heads to keep in each layer; None keeps all.

        Raises:
            WatchError: if there is no such layer or head.
        """
        names = self.layers if layers is None else tuple(layers)
        for name in names:
            if name not in self.weights:
                known = ", ".join(map(repr, self.layers)) or "none"
                raise WatchError(f"this record has no layer {name!r}; its layers: {known}")
            number = len(self.weights[name])
            for head in () if heads is None else heads:
                if not 0 <= head < number:
                    raise WatchError(
                        f"layer {name!r} has no head {head}; its heads are 0 to {number - 1}"
                    )
        chosen = slice(None) if heads is None else list(heads)
        return replace(self, weights={name: self.weights[name][chosen] for name in names})

    def by_words(
        self, layer: str | None = None, head: int | None = None
    ) -> Float32[np.ndarray, "wrote read"]:
        """Return the weights between words.

        Weights are summed over the tokens of a word read and averaged over the tokens of a word
        written. Control tokens belong to no word, so a row may sum to less than 1. The arguments
        are those of `mean`.
        """
        written = self.wrote.membership()
        pieces = np.maximum(written.sum(0), 1.0)  # a word without tokens attends to nothing
        return (written / pieces).T @ self.mean(layer, head) @ self.read.membership()

    def alignment(
        self, by: AlignBy | str | None = None, *, threshold: float | None = None
    ) -> set[Link]:
        """Align the words of both sides.

        Args:
            by: the weights to align by, or the name of a layer; by default `align_by`.
            threshold: ignore links whose weight is smaller than this.

        Returns:
            0-based pairs (word read, word written): for each word written the word it attends to
            most, and further links if both directions are joined. A word that attends only to
            control tokens has no link.
        """
        chosen = self._aligned_by(by)
        forward, backward = both_ways(self.to_align(chosen), threshold=threshold)
        return forward if chosen.join is None else symmetrise(forward, backward, chosen.join)

    def to_align(self, by: AlignBy | str | None = None) -> Float32[np.ndarray, "wrote read"]:
        """Return the weights between words that `alignment` uses."""
        chosen = self._aligned_by(by)
        record = self if chosen.layer is None else self.slice(layers=[chosen.layer])
        return (record.shifted() if chosen.shift else record).by_words(head=chosen.head)

    def _aligned_by(self, by: AlignBy | str | None) -> AlignBy:
        return AlignBy(layer=by) if isinstance(by, str) else by or self.align_by

    def shifted(self) -> "AttentionRecord":
        """Return the record with the weights of the next step, when a token is the input.

        At that step the decoder knows the word it has written, and attends to the word's source
        more often than at the step that writes it (Chen et al. 2020, "Accurate word alignment
        induction from neural machine translation"). The last token is never an input: its weights
        are 0.

        Raises:
            WatchError: in self-attention, where every token is an input already.
        """
        if self.reads_itself:
            raise WatchError(
                "self-attention cannot be shifted: every token is an input already; "
                "use alignment with shift=False"
            )
        later = {
            name: np.pad(array[:, 1:], ((0, 0), (0, 1), (0, 0)))
            for name, array in self.weights.items()
        }
        return replace(self, weights=later)

    def rollout(self, head: int | None = None) -> Float32[np.ndarray, "tokens tokens"]:
        """Return the attention rollout through all layers of self-attention.

            A' = 0.5 A + 0.5 I, with its rows normalised; rollout = A'ₗ · … · A'₁

        (Abnar and Zuidema 2020, "Quantifying attention flow in transformers"; see
        `saccade.lens.record.rollout`.)

        Args:
            head: one head of each layer; None averages all.

        Returns:
            How much of each token reaches each other token; rows sum to 1.

        Raises:
            WatchError: if this is not self-attention, or has no layers.
        """
        self._require_self_attention("attention rollout")
        return rollout([self.mean(layer, head) for layer in self.layers])

    def glance(
        self, layer: str | None = None, head: int | None = None
    ) -> Float32[np.ndarray, " words"]:
        """Return the attention to each word or cell of the token that an answer is read from.

        That token is the class token (the first token of a text) or, if no token sees a later one,
        the last; for an image without a class token, it is the mean over all cells.

        Args:
            layer: one layer; None takes the rollout through all.
            head: one head of each layer; None averages all.

        Raises:
            WatchError: if this is not self-attention.
        """
        self._require_self_attention("a glance")
        weights = self.rollout(head) if layer is None else self.mean(layer, head)
        row = weights[-1] if self.is_causal else self.wrote.answer_row(weights)
        return row @ self.read.membership()

    def _require_self_attention(self, what: str) -> None:
        if not self.reads_itself:
            raise WatchError(
                f"{what} needs self-attention, in which a text or an image attends to itself; in "
                "this record one side attends to another"
            )

    def figure(
        self, layer: str | None = None, head: int | None = None, *, words: bool | None = None
    ) -> "Chart":
        """Draw the attention.

        Args:
            layer: one layer; None averages all (for an image that attends to itself, it takes the
                rollout).
            head: one head; None averages all.
            words: draw words instead of tokens. By default a map of texts shows tokens, and a
                caption over an image shows words.

        Returns:
            For two texts, a map: one row per token written, one column per token read. For a
            caption over an image, one panel per word. For an image alone, its `glance`.
        """
        title = self._title(layer, head)
        if self._is_image_alone:
            if layer is None:
                title = f"rollout through {title.removeprefix('mean of ')}"
            name, shown = f"seen by {self.wrote.answer_name}", self.glance(layer, head)[None]
            return self.read.draw([name], shown, words=True, title=title)
        words = self.read.words_by_default if words is None else words
        weights = self.by_words(layer, head) if words else self.mean(layer, head)
        rows, _ = self._labels(words=words)
        return self.read.draw(rows, weights, words=words, title=title)

    def heads(self, layer: str, *, words: bool = False) -> "Chart":
        """Draw all heads of a layer side by side.

        Args:
            layer: the name of the layer.
            words: draw words instead of tokens.

        Returns:
            One map per head, all on one colour scale; for an image alone, its `glance` in each
            head, each up to its own strongest cell.
        """
        number = len(self.slice(layers=[layer]).weights[layer])
        if self._is_image_alone:
            glances = np.stack([self.glance(layer, head) for head in range(number)])
            names = [f"head {head}" for head in range(number)]
            return self.read.draw(names, glances, words=True, title=layer)
        from saccade.lens.drawing.figures import heads

        return heads(self._maps(layer, words=words), *self._labels(words=words), title=layer)

    def overview(self, *, words: bool = False) -> "Chart":
        """Draw small maps of all heads of all layers on one colour scale, one row per layer.

        Args:
            words: draw words instead of tokens.
        """
        from saccade.lens.drawing.figures import overview

        maps = {layer: self._maps(layer, words=words) for layer in self.layers}
        return overview(maps, *self._labels(words=words))

    def _maps(self, layer: str, *, words: bool) -> "Tensor":
        """Return the weights of all heads (heads, written, read), between tokens or words."""
        import torch

        weights = self.by_words if words else self.mean
        heads = range(len(self.weights[layer]))
        return torch.from_numpy(np.stack([weights(layer, head) for head in heads]))

    def _labels(self, *, words: bool) -> tuple[Sequence[str], Sequence[str]]:
        """Return the labels of rows and columns."""
        if words:
            return self.wrote.words, self.read.words
        return self.wrote.tokens, self.read.tokens

    def _title(self, layer: str | None, head: int | None) -> str:
        only = self.layers[0] if len(self.layers) == 1 else None
        where = f"mean of {len(self.layers)} layers" if layer is only is None else layer or only
        return f"{where or 'attention'}, {'mean of heads' if head is None else f'head {head}'}"

    def to_json(self) -> str:
        """Return the record as JSON: both sides (an image as PNG), weights with 5 decimals."""
        return "".join(self.json_pieces())

    def json_pieces(self) -> Iterator[str]:
        """Yield the text that `to_json` returns in pieces, since a record may be large."""
        yield readable_json(self._facts(images=True))[:-1]
        yield ', "weights": {'
        for i, (name, array) in enumerate(self.weights.items()):
            yield f"{', ' if i else ''}{json.dumps(name)}: "
            yield from numbers_json(array, DECIMALS)
        yield "}}"

    @classmethod
    def from_json(cls, text: str) -> "AttentionRecord":
        """Return the record that `to_json` wrote.

        Raises:
            FigureError: if the text is not such a record.
        """
        try:
            return cls._from_saved(json.loads(text))
        except _DAMAGE as error:
            raise FigureError(
                f"this text is not an attention record in JSON: {error}. Write one with `to_json` "
                "or `save`."
            ) from error

    def to_html(self) -> str:
        """Return a self-contained HTML page that shows all layers and heads.

        `saccade.lens.page.page` shows several records or models on one page.
        """
        from saccade.lens.page import page

        return page(self)

    def save(self, path: str | Path, *, theme: "Theme" = "light") -> Path:
        """Write the record, its page or its figure, by the suffix of the path.

        Args:
            path: `.json`, or `.npz` with exact weights, for the record; `.html` for its page;
                `.png`, `.svg` or `.pdf` for its figure. A figure shows the mean of all layers and
                heads (`slice` first for others), for an image alone the rollout; the record is
                written beside it as `.json`.
            theme: the colours of a figure, "light" or "dark".

        Returns:
            The path.

        Raises:
            FigureError: if the suffix is not one of these.
        """
        path = Path(path)
        if path.suffix not in SUFFIXES:
            raise FigureError(
                f"cannot save a record as {str(path)!r}; use one of {', '.join(SUFFIXES)}"
            )
        if path.suffix == ".npz":
            content = self._npz()
        elif path.suffix == ".json":
            content = self.to_json().encode()
        elif path.suffix == ".html":
            content = self.to_html().encode()
        else:
            content = self.figure().picture(path.suffix, theme=theme)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if path.suffix not in {".npz", ".json", ".html"}:
            path.with_suffix(".json").write_bytes(self.to_json().encode())
        return path

    @classmethod
    def load(cls, path: str | Path) -> "AttentionRecord":
        """Return the record that `save` wrote as `.json` or `.npz`.

        Raises:
            FigureError: if the file cannot be read or is not such a record.
        """
        path = Path(path)
        if path.suffix not in {".json", ".npz"}:
            raise FigureError(f"cannot load {str(path)!r}; a record is read from .json or .npz")
        try:
            if path.suffix == ".json":
                return cls.from_json(path.read_text(encoding="utf-8"))
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
                saved = json.loads(bytes(arrays["texts"]).decode())
                weights = {
                    name: arrays[f"weights.{i}"] for i, name in enumerate(saved.pop("layers"))
                }
                pixels = arrays.get("pixels")
            return cls._from_saved({**saved, "weights": weights}, pixels)
        except OSError as error:
            raise FigureError(
                f"cannot read {str(path)!r}: {error}; check the path and its permissions"
            ) from error
        except _DAMAGE as error:
            raise FigureError(
                f"{str(path)!r} is not an attention record: {error}; write one with `save`"
            ) from error

    def _npz(self) -> bytes:
        texts = json.dumps({**self._facts(images=False), "layers": self.layers}).encode()
        arrays: dict[str, Any] = {
            "texts": np.frombuffer(texts, dtype=np.uint8),
            **{f"weights.{i}": array for i, array in enumerate(self.weights.values())},
            **self.read.arrays(),
        }
        file = io.BytesIO()
        np.savez_compressed(file, **arrays)
        return file.getvalue()

    def _facts(self, *, images: bool) -> dict[str, object]:
        """Return everything but the weights, as JSON has it; an image is kept once."""
        return {
            "format": FORMAT,
            "read": self.read.to_json(image=images),
            "wrote": {"kind": "read"} if self._is_image_alone else self.wrote.to_json(),
            "reads_itself": self.reads_itself,
            "align_by": asdict(self.align_by),
            **({"belief": self.belief} if self.belief else {}),
        }

    @classmethod
    def _from_saved(
        cls, saved: Mapping[str, Any], pixels: np.ndarray | None = None
    ) -> "AttentionRecord":
        if saved["format"] != FORMAT:
            raise ValueError(
                f"its format is {saved['format']!r}; this version of Saccade reads {FORMAT}"
            )
        read = side_from_json(saved["read"], pixels)
        wrote = read if saved["wrote"]["kind"] == "read" else side_from_json(saved["wrote"])
        if saved.get("reads_itself", True) and wrote == read:  # older records lack the key
            wrote = read
        weights = {}
        for name, layer in saved["weights"].items():
            array = np.array(layer, dtype=np.float32)
            if array.size == 0:  # empty lists lose the lengths of the lists inside them
                array = array.reshape(len(array), len(wrote.tokens), len(read.tokens))
            weights[name] = array
        align_by = AlignBy.of(saved.get("align_by", {}))
        return cls(read, wrote, weights, align_by, str(saved.get("belief", "")))

    def _repr_html_(self) -> str:
        """Return the explorer in a sandboxed frame, for notebooks.

        Its scripts run in an origin of their own and cannot reach the notebook. A record that is
        too large for a cell is shown as its figure.
        """
        name = escape(repr(self))
        if not self._is_drawable:
            return f"<code>{name}</code>"
        page = self.to_html()
        if len(page) > LARGEST_CELL:
            return f'<img alt="{name}" src="{self.figure().data_url()}">'
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" title="{name}" '
            f'style="width:100%;height:{CELL_HEIGHT}px;border:0" srcdoc="{escape(page)}"></iframe>'
        )

    def _repr_svg_(self) -> str | None:
        """Return the figure, for notebooks that show no frames."""
        return self.figure().picture(".svg").decode() if self._is_drawable else None

    def _repr_png_(self) -> bytes | None:
        return self.figure().picture(".png", dpi=100) if self._is_drawable else None

    @property
    def _is_drawable(self) -> bool:
        return bool(self.layers and self.read.tokens and self.wrote.tokens)
