"""AttentionRecord: where each written token looked, kept with the texts or image it belongs to.

A text is a `Side`, an image an `ImageSide`:

    Side(tokens, words, word_of)                       a text that was read or written
    ImageSide(pixels, grid=(7, 7), class_token=True)   uint8 (height, width, 3), and its cells

    AttentionRecord(read, wrote, weights)      translation, and text that looks at itself
    AttentionRecord(image, caption, weights)   caption over an image: (heads, tokens, cells)
    AttentionRecord(image, image, weights)     image that looks at itself: (heads, n, n)

`weights` maps the dotted name of a layer to (heads, tokens written, tokens read). The tokens of an
image are its cells row by row, after its class token if `class_token` says that there is one, so n
is rows · columns, or 1 more.
"""

import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float32

from saccade.errors import FigureError, ShapeError, WatchError
from saccade.lens.alignment.extraction import AlignBy, Link, both_ways, symmetrise
from saccade.lens.formatting import numbers_json, readable_json
from saccade.lens.record.rollout import rollout
from saccade.lens.record.sides import AnySide, ImageSide, Side, side_json, side_of

if TYPE_CHECKING:
    from torch import Tensor

    from saccade.lens.drawing.chart import Chart, Theme

__all__ = ["SUFFIXES", "AttentionRecord", "ImageSide", "Side"]

FORMAT = 1
SUFFIXES = (".json", ".npz", ".html", ".png", ".svg", ".pdf")
DECIMALS = 5  # of weights in JSON
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


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """The attention of one answer: the weights of every layer and head, and both sides.

    `weights` maps the dotted name of a layer to (heads, tokens written, tokens read). A model
    without attention has a record without layers. Of self-attention both sides are the same, and
    only so can an image be the side that looks. `align_by` says which of the weights tell best
    what is aligned with what.
    """

    read: AnySide
    wrote: AnySide
    weights: Mapping[str, np.ndarray]
    align_by: AlignBy = AlignBy()

    def __post_init__(self) -> None:
        if isinstance(self.wrote, ImageSide) and self.wrote != self.read:
            raise ShapeError(
                f"no model writes an image: {self.wrote!r} can only look at itself, but what was "
                f"read is {type(self.read).__name__} with {len(self.read.tokens)} tokens"
            )
        if isinstance(self.wrote, ImageSide):
            object.__setattr__(self, "wrote", self.read)
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
    def reads_itself(self) -> bool:
        """Whether this is self-attention: both sides are one, not only alike, as those of a
        translation that repeats its source.
        """
        return self.read is self.wrote

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

    def alignment(
        self, by: AlignBy | str | None = None, *, threshold: float | None = None
    ) -> set[Link]:
        """0-based pairs (word read, word written): each written word with what it looked at most.

        `by` says by which weights, or names their layer; left out, the record's own `align_by`,
        which may also join in what each read word was looked at by. A word that looked at control
        tokens only, or nowhere above `threshold`, has no pair.
        """
        chosen = self._aligned_by(by)
        forward, backward = both_ways(self.to_align(chosen), threshold=threshold)
        return forward if chosen.join is None else symmetrise(forward, backward, chosen.join)

    def to_align(self, by: AlignBy | str | None = None) -> Float32[np.ndarray, "wrote read"]:
        """The weights between words that alignments are taken from."""
        chosen = self._aligned_by(by)
        looked = self if chosen.layer is None else self.slice(layers=[chosen.layer])
        return (looked.shifted() if chosen.shift else looked).by_words(head=chosen.head)

    def _aligned_by(self, by: AlignBy | str | None) -> AlignBy:
        return AlignBy(layer=by) if isinstance(by, str) else by or self.align_by

    def shifted(self) -> "AttentionRecord":
        """Where the model looked one step later: when a written token was its input.

        By then it knows the word it has written, and looks at where that came from more often than
        when it had yet to find it (Chen et al. 2020, "Accurate word alignment induction from neural
        machine translation"). The last token, which is never an input, looks nowhere.
        """
        if self.reads_itself:
            raise WatchError("in self-attention every token is an input already")
        later = {
            name: np.pad(array[:, 1:], ((0, 0), (0, 1), (0, 0)))
            for name, array in self.weights.items()
        }
        return replace(self, weights=later)

    def rollout(self, head: int | None = None) -> Float32[np.ndarray, "tokens tokens"]:
        """Attention rollout: how much of each token reaches each other through all layers.

        Heads are averaged unless `head` picks one per layer. Rows sum to 1.
        """
        if not self.reads_itself:
            raise WatchError(
                "attention rolls out through layers in which a text or an image looks at itself; "
                "in this record, what was written looks at something else"
            )
        return rollout([self.mean(layer, head) for layer in self.layers])

    def glance(
        self, layer: str | None = None, head: int | None = None
    ) -> Float32[np.ndarray, " cells"]:
        """Where an image's answer looked: the cells as its class token saw them, or where there is
        none as all cells did on average; in one layer, or rolled out through all.
        """
        if not isinstance(self.wrote, ImageSide):
            raise WatchError("only an image that looks at itself has cells for a glance")
        seen = self.rollout(head) if layer is None else self.mean(layer, head)
        looking = seen[0] if self.wrote.class_token else seen.mean(0)
        return looking @ self.wrote.membership()

    def figure(
        self, layer: str | None = None, head: int | None = None, *, words: bool | None = None
    ) -> "Chart":
        """What was read and how strongly.

        Of texts, a map: a row for each token written, a column for each read; `words` makes them
        words. Over an image, a panel for each word written (or token, with `words=False`). Of an
        image alone, the glance of its answer.
        """
        if isinstance(self.read, ImageSide):
            return self._overlays(self.read, layer, head, words=words is not False)
        import torch

        from saccade.lens.drawing.figures import heatmap

        shown = self.by_words(layer, head) if words else self.mean(layer, head)
        labels = self._labels(words=words)
        return heatmap(torch.from_numpy(shown), *labels, title=self._title(layer, head))

    def heads(self, layer: str, *, words: bool | None = None) -> "Chart":
        """All heads of a layer side by side: a map for each, on one scale, or, of an image alone,
        its glance in each, whose colours go to its own strongest cell.
        """
        number = len(self.slice(layers=[layer]).weights[layer])
        if isinstance(self.wrote, ImageSide):
            from saccade.lens.drawing.overlays import overlays

            seen = np.stack([self.glance(layer, head) for head in range(number)])
            names = [f"head {head}" for head in range(number)]
            return overlays(self.wrote, seen, names, title=layer)
        from saccade.lens.drawing.figures import heads

        return heads(self._maps(layer, words=words), *self._labels(words=words), title=layer)

    def overview(self, *, words: bool | None = None) -> "Chart":
        """Small maps of all heads of all layers, on one scale: a row for each layer."""
        from saccade.lens.drawing.figures import overview

        maps = {layer: self._maps(layer, words=words) for layer in self.layers}
        return overview(maps, *self._labels(words=words))

    def _maps(self, layer: str, *, words: bool | None) -> "Tensor":
        """(heads, written, read) of a layer, between tokens or words."""
        import torch

        shown = self.by_words if words else self.mean
        heads = range(len(self.weights[layer]))
        return torch.from_numpy(np.stack([shown(layer, head) for head in heads]))

    def _labels(self, *, words: bool | None) -> tuple[Sequence[str], Sequence[str]]:
        """Of rows and columns."""
        if words:
            return self.wrote.words, self.read.words
        return self.wrote.tokens, self.read.tokens

    def _overlays(
        self, image: ImageSide, layer: str | None, head: int | None, *, words: bool
    ) -> "Chart":
        from saccade.lens.drawing.overlays import overlays

        title = self._title(layer, head)
        if isinstance(self.wrote, ImageSide):
            shown = self.glance(layer, head)[None]
            labels: Sequence[str] = [f"seen by {'class token' if image.class_token else 'all'}"]
            if layer is None:
                title = f"rollout through {title.removeprefix('mean of ')}"
        elif words:
            shown, labels = self.by_words(layer, head), self.wrote.words
        else:
            shown, labels = self.mean(layer, head) @ image.membership(), self.wrote.tokens
        return overlays(image, shown, labels, title=title)

    def _title(self, layer: str | None, head: int | None) -> str:
        only = self.layers[0] if len(self.layers) == 1 else None
        where = f"mean of {len(self.layers)} layers" if layer is only is None else layer or only
        return f"{where or 'attention'}, {'mean of heads' if head is None else f'head {head}'}"

    def to_json(self) -> str:
        """Both sides (an image as PNG) and all weights, these rounded to 5 decimals."""
        return "".join(self.json_pieces())

    def json_pieces(self) -> Iterator[str]:
        """Yield what `to_json` returns, piece by piece: a record may be large."""
        yield readable_json(self._facts(images=True))[:-1]
        yield ', "weights": {'
        for i, (name, array) in enumerate(self.weights.items()):
            yield f"{', ' if i else ''}{json.dumps(name)}: "
            yield from numbers_json(array, DECIMALS)
        yield "}}"

    @classmethod
    def from_json(cls, text: str) -> "AttentionRecord":
        """What `to_json` wrote."""
        try:
            return cls._of(json.loads(text))
        except _DAMAGE as error:
            raise FigureError(f"this is no attention record as `to_json` writes it: {error}") from (
                error
            )

    def to_html(self) -> str:
        """A page that shows all layers and heads and needs nothing else; see `saccade.lens.page`,
        also for several records or models on one page.
        """
        from saccade.lens.page import page

        return page(self)

    def save(self, path: str | Path, *, theme: "Theme" = "light") -> Path:
        """Write the record (.json, or .npz with exact weights), its page (.html) or its figure
        (.png .svg .pdf).

        A figure shows the mean of all layers and heads (`slice` first for others), of an image
        alone the rollout, and has the record beside it, as .json.
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
                pixels = arrays.get("pixels")
            return cls._of({**texts, "weights": weights}, pixels)
        except OSError as error:
            raise FigureError(f"cannot read {str(path)!r}: {error}") from error
        except _DAMAGE as error:
            raise FigureError(f"{str(path)!r} holds no attention record: {error}") from error

    def _npz(self) -> bytes:
        texts = json.dumps({**self._facts(images=False), "layers": self.layers}).encode()
        arrays: dict[str, Any] = {
            f"weights.{i}": array for i, array in enumerate(self.weights.values())
        }
        if isinstance(self.read, ImageSide):
            arrays["pixels"] = self.read.pixels
        file = io.BytesIO()
        np.savez_compressed(file, texts=np.frombuffer(texts, dtype=np.uint8), **arrays)
        return file.getvalue()

    def _facts(self, *, images: bool) -> dict[str, Any]:
        """All but the weights."""
        wrote: Any = {"kind": "read"}  # an image is kept once
        if isinstance(self.wrote, Side):
            wrote = side_json(self.wrote)
        return {
            "format": FORMAT,
            "read": side_json(self.read, image=images),
            "wrote": wrote,
            "reads_itself": self.reads_itself,
            "align_by": asdict(self.align_by),
        }

    @classmethod
    def _of(cls, found: Any, pixels: np.ndarray | None = None) -> "AttentionRecord":
        if found["format"] != FORMAT:
            raise ValueError(f"its format is {found['format']!r}, this version reads {FORMAT}")
        read = side_of(found["read"], pixels)
        wrote = read if found["wrote"]["kind"] == "read" else side_of(found["wrote"])
        if found.get("reads_itself", True) and wrote == read:  # older records do not say it
            wrote = read
        weights = {}
        for name, layer in found["weights"].items():
            array = np.array(layer, dtype=np.float32)
            if array.size == 0:  # empty lists do not tell how long those in them would be
                array = array.reshape(len(array), len(wrote.tokens), len(read.tokens))
            weights[name] = array
        return cls(read, wrote, weights, AlignBy.of(found.get("align_by", {})))

    def _repr_html_(self) -> str:
        """In a notebook, as an image."""
        if not self._drawable():
            return f"<code>{escape(repr(self))}</code>"
        return f'<img alt="{escape(repr(self))}" src="{self.figure().address()}">'

    def _repr_png_(self) -> bytes | None:
        return self.figure().picture(".png", dpi=100) if self._drawable() else None

    def _drawable(self) -> bool:
        return bool(self.layers and self.read.tokens and self.wrote.tokens)
