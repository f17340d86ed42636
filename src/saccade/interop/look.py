"""Attention records of transformers models for texts, translations, continuations and images.

    model, processor = read_model("all-MiniLM-L6-v2")
    records = look(model, processor, ["Two men are talking."])

Inputs run one at a time, so there is no padding. The record depends on the model:

    encoder of texts        self-attention of the text, or of a pair of texts
    decoder                 self-attention of the prompt and its continuation
    encoder and decoder     cross-attention of the generated text to the source text or image
    encoder of images       self-attention of the patches
    texts and images        self-attention of the encoder that reads the input
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from saccade.attention.watch import watch
from saccade.errors import InteropError, WatchError
from saccade.interop.huggingface.folder import CONFIG, Weights, read_config
from saccade.lens.alignment.extraction import word_spans
from saccade.lens.record import AttentionRecord, ImageSide, Side
from saccade.shapes import Tensor

MAX_NEW_TOKENS = 20
MOST_SPECIAL_TOKENS = 16
"""Maximum number of class tokens, registers and the like of an image encoder."""

Place = tuple[int, int, int]
"""The index of a text, and the start and end of a token in it."""


def read_model(folder: str | Path, *, quiet: bool = False) -> tuple[nn.Module, Any]:
    """Read a model of transformers and its tokenizer or processor from a folder.

    Weights are read from safetensors only, no code of the folder is run, and nothing is downloaded.

    Args:
        folder: A folder as `transformers` saves it.
        quiet: Silence progress bars and messages of transformers for the rest of the process.

    Raises:
        InteropError: If transformers is not installed or cannot read the folder.
        WeightsError: If the weights are not in safetensors.
    """
    folder = Path(folder)
    config = read_config(folder)
    Weights(folder)  # raises unless they are in safetensors
    try:
        import transformers
    except ImportError:
        raise InteropError(
            "looking into a Hugging Face folder needs the package transformers; install it: "
            "pip install transformers"
        ) from None
    if quiet:
        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
    name = next(iter(config.get("architectures") or ()), "AutoModel")
    kind = getattr(transformers, str(name), transformers.AutoModel)
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        kind = transformers.AutoModel
    local = {"local_files_only": True, "trust_remote_code": False}
    try:
        model = kind.from_pretrained(
            folder, use_safetensors=True, attn_implementation="eager", **local
        )
        return model.eval(), _read_processor(folder, local)
    except (OSError, ValueError, ImportError, KeyError, TypeError, AttributeError) as error:
        raise InteropError(
            f"transformers cannot read {folder} as {kind.__name__}: {error}. The folder needs "
            f"{CONFIG}, weights in safetensors and the files of its tokenizer or image processor"
        ) from error


def look(
    model: nn.Module,
    processor: Any,
    inputs: Sequence[Any],
    *,
    layers: str | Sequence[str] | None = None,
    max_new_tokens: int = MAX_NEW_TOKENS,
) -> list[AttentionRecord]:
    """Return the attention of a transformers model for each input.

    Args:
        model: A transformers model: an encoder, a decoder, an encoder-decoder, an image encoder, or
            one like CLIP.
        processor: Its tokenizer, image processor or processor.
        inputs: Texts, pairs of texts, or images: PIL images, arrays (height, width, 3), or paths.
        layers: Layers to record: a dotted name, a pattern, or several. Default: all.
        max_new_tokens: Maximum number of tokens to generate; 0 records the prompt only.

    Returns:
        One record per input, with words from the tokenizer's offsets. The weights of a generated
        text come from one pass over the finished text.

    Raises:
        InteropError: If the processor cannot read an input.
        WatchError: If there is no visible attention between the tokens of an input.

    Examples:
        >>> import saccade
        >>> model = AutoModel.from_pretrained("bert-base-uncased")  # doctest: +SKIP
        >>> tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")  # doctest: +SKIP
        >>> saccade.look(model, tokenizer, ["A text"])[0].save("text.html")  # doctest: +SKIP
    """
    if isinstance(inputs, str | bytes | Path):
        raise InteropError("look takes several inputs, got one: put it into a list")
    eye = Eye(model, processor, layers, max_new_tokens)
    with evaluation_mode(model), torch.no_grad():
        return [eye.record(item) for item in inputs]


@dataclass
class Eye:
    """A model with its processor, which reads inputs, generates, and records a watched pass."""

    model: Any
    processor: Any
    layers: str | Sequence[str] | None
    max_new_tokens: int

    def record(self, item: Any) -> AttentionRecord:
        """Return the record of one input."""
        if self.model.main_input_name not in ("input_ids", "pixel_values"):
            raise InteropError(
                f"{type(self.model).__name__} reads {self.model.main_input_name}, neither texts "
                "nor images; call it inside saccade.watch to see its weights"
            )
        inputs, side = self.read(item)
        if self.model.config.is_encoder_decoder:
            return self._cross(inputs, side)
        if side is not None and self.max_new_tokens and self.can_generate():
            ids = self.generate(inputs)
            return self._self({"input_ids": ids}, self._side_of(ids[0].tolist()))
        return self._self(inputs, side)

    def read(self, item: Any, *, prepared: bool = False) -> tuple[dict[str, Tensor], Side | None]:
        """Return the inputs of the model for a text, a pair of texts or an image, and its side.

        Args:
            item: The input.
            prepared: Whether an image has the size and the crop that the model reads.
        """
        if isinstance(item, str | tuple | list):
            return self._read_text(item)
        return self._read_image(item, prepared=prepared), None

    def _self(self, inputs: Mapping[str, Tensor], side: Side | None) -> AttentionRecord:
        """Return the self-attention of a text, or of an image if there is no side."""
        weights = self._watch(lambda: self.forward(inputs))
        if side is None:
            image, weights = self._image_side(inputs["pixel_values"], weights)
            return AttentionRecord(image, image, weights)
        return AttentionRecord(side, side, self._of_shape(weights, len(side.tokens)))

    def _cross(self, inputs: dict[str, Tensor], side: Side | None) -> AttentionRecord:
        """Return the attention of each generated token to the source."""
        ids = self.generate(inputs)
        written = self._side_of(ids[0, 1:].tolist())
        count = len(written.tokens)
        if side is None:
            cells = math.prod(self._grid(inputs["pixel_values"]))
            lengths = range(cells, cells + MOST_SPECIAL_TOKENS)
        else:
            lengths = range(len(side.tokens), len(side.tokens) + 1)
        # only self-attention is square; later tokens do not change earlier ones
        length = lengths.stop if count in lengths else count
        entered = torch.cat([ids[:, :-1], ids[:, -1:].expand(-1, length - count)], 1)
        weights = self._watch(lambda: self.model(**inputs, decoder_input_ids=entered))
        cross = {n: w[:, :count] for n, w in weights.items() if w.shape[1] == length != w.shape[2]}
        if side is None:
            image, cross = self._image_side(inputs["pixel_values"], cross)
            return AttentionRecord(image, written, cross)
        return AttentionRecord(side, written, self._of_shape(cross, count, len(side.tokens)))

    def _watch(self, run: Callable[[], object]) -> dict[str, np.ndarray]:
        """Return the weights (heads, q, k) of all calls, numbered if a module was called twice."""
        with watch(self.model, layers=self.layers, device="cpu", by_hand=True) as seen:
            run()
        return {
            name if len(watched.calls) == 1 else f"{name}#{number}": call[0].float().numpy()
            for name, watched in seen.items()
            for number, call in enumerate(watched.calls, 1)
        }

    def _of_shape(self, weights: Mapping[str, np.ndarray], *shape: int) -> dict[str, np.ndarray]:
        """Return the weights of this shape; raise if there are none."""
        kept = {name: w for name, w in weights.items() if w.shape[1:] == (shape[0], shape[-1])}
        if not kept:
            shapes = sorted({w.shape[1:] for w in weights.values()})
            raise WatchError(
                f"{type(self.model).__name__} has no attention between its tokens ({shape[0]} × "
                f"{shape[-1]}), only attention of the shapes {shapes}; read its weights with "
                "saccade.watch"
            )
        return kept

    def forward(self, inputs: Mapping[str, Tensor]) -> Any:
        """Run the model, or the encoder in it that reads these inputs."""
        name = "get_image_features" if "pixel_values" in inputs else "get_text_features"
        return getattr(self.model, name, self.model)(**inputs)

    def can_generate(self) -> bool:
        """Return whether the model can generate a text."""
        return bool(getattr(self.model, "can_generate", lambda: False)())

    def generate(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Return the tokens that the model generates greedily."""
        if not self.can_generate():
            raise InteropError(
                f"{type(self.model).__name__} cannot generate a text; load the class with a "
                "language head, such as MarianMTModel or T5ForConditionalGeneration"
            )
        return self.model.generate(
            **inputs, max_new_tokens=max(self.max_new_tokens, 1), num_beams=1, do_sample=False
        )

    def _read_text(self, item: Any) -> tuple[dict[str, Tensor], Side]:
        """Return the inputs of a text or of a pair of texts, and their tokens and words."""
        texts = (item,) if isinstance(item, str) else tuple(item)
        tokenizer = getattr(self.processor, "tokenizer", self.processor)
        if not hasattr(tokenizer, "convert_ids_to_tokens"):
            raise InteropError(
                f"{type(self.processor).__name__} does not read texts such as {texts[0][:40]!r}; "
                "pass the tokenizer of the model, or images"
            )
        offsets = {"return_offsets_mapping": True} if tokenizer.is_fast else {}
        encoded = tokenizer(*texts, return_tensors="pt", truncation=True, **offsets)
        ids = encoded["input_ids"][0].tolist()
        if not ids:
            raise InteropError(f"the text {texts[0]!r} has no tokens; pass one with a word")
        spans = encoded.pop("offset_mapping")[0].tolist() if offsets else None
        inputs = {key: value.to(self.model.device) for key, value in encoded.items()}
        if spans is None:
            return inputs, self._side_of(ids)
        places = [
            None if number is None or start == end else (number, start, end)
            for number, (start, end) in zip(encoded.sequence_ids(0), spans, strict=True)
        ]
        return inputs, _text_side(texts, tokenizer.convert_ids_to_tokens(ids), places)

    def _side_of(self, ids: list[int]) -> Side:
        """Return tokens and words of ids; a token is the text that its id adds."""
        tokenizer = getattr(self.processor, "tokenizer", self.processor)
        special, kept, ends = set(tokenizer.all_special_ids), [], [0]
        text = ""
        for token in ids:
            if token not in special:
                kept.append(token)
                text = tokenizer.decode(kept, clean_up_tokenization_spaces=False)
            ends.append(len(text))
        places: list[Place | None] = [
            None if token in special or start >= end else (0, start, end)
            for token, start, end in zip(ids, ends[:-1], ends[1:], strict=True)
        ]
        return _text_side((text,), tokenizer.convert_ids_to_tokens(ids), places)

    def _read_image(self, item: Any, *, prepared: bool) -> dict[str, Tensor]:
        from PIL import Image

        processor = getattr(self.processor, "image_processor", self.processor)
        if not hasattr(processor, "image_mean"):
            raise InteropError(
                f"{type(self.processor).__name__} does not read images; pass the image processor "
                "of the model, or texts"
            )
        image = Image.open(item) if isinstance(item, Path) else item
        image = image.convert("RGB") if isinstance(image, Image.Image) else image
        steps = {"do_resize": False, "do_center_crop": False} if prepared else {}
        pixels = processor(images=image, return_tensors="pt", **steps)["pixel_values"]
        return {"pixel_values": pixels.to(self.model.device)}

    def _grid(self, pixels: Tensor) -> tuple[int, int]:
        """Return the number of patches of an image, down and across."""
        config = self.model.config
        config = getattr(config, "vision_config", None) or getattr(config, "encoder", config)
        size = getattr(config, "patch_size", None)
        down, across = size if isinstance(size, list | tuple) else (size, size)
        if not down or not across:
            raise WatchError(
                f"{type(self.model).__name__} has no patches of one size (no patch_size in its "
                "config); read its weights with saccade.watch"
            )
        return pixels.shape[-2] // down, pixels.shape[-1] // across

    def _image_side(
        self, pixels: Tensor, weights: Mapping[str, np.ndarray]
    ) -> tuple[ImageSide, dict[str, np.ndarray]]:
        """Return the image that the model read, and the weights of its class token and patches.

        Other tokens, such as the distillation token of DeiT, are left out: rows sum to less than 1.
        """
        grid = self._grid(pixels)
        cells = math.prod(grid)
        after = getattr(self.model.config, "num_detection_tokens", 0)  # of YOLOS
        lengths = {w.shape[2] for w in weights.values() if w.shape[2] >= cells}
        before = min(lengths, default=0) - cells - after
        if before < 0:
            self._of_shape(weights, cells)
        kept = [*range(min(before, 1)), *range(before, before + cells)]
        total = before + cells + after
        chosen = {}
        for name, w in weights.items():
            if w.shape[2] == total:
                chosen[name] = w[:, kept][:, :, kept] if w.shape[1] == total else w[:, :, kept]
        processor = getattr(self.processor, "image_processor", self.processor)
        return ImageSide(_shown(pixels[0], processor), grid, class_token=before > 0), chosen


def _text_side(texts: Sequence[str], names: Sequence[str], places: Sequence[Place | None]) -> Side:
    """Return a side whose words are those of all texts; tokens without a place are control tokens.

    Args:
        texts: The texts.
        names: The tokens as the vocabulary has them.
        places: Where each token stands.
    """
    spans = [word_spans(text) for text in texts]
    firsts = np.cumsum([0, *map(len, spans)]).tolist()
    tokens, word_of = [], []
    for name, place in zip(names, places, strict=True):
        piece = "" if place is None else texts[place[0]][place[1] : place[2]].strip()
        tokens.append(piece or name)
        word = None
        if place is not None and piece:
            number, _, end = place
            last = (
                end
                - len(texts[number][place[1] : end])
                + len(texts[number][place[1] : end].rstrip())
            )
            word = firsts[number] + next(i for i, (_, e) in enumerate(spans[number]) if last <= e)
        word_of.append(word)
    words = [text[start:end] for text, own in zip(texts, spans, strict=True) for start, end in own]
    return Side(tuple(tokens), tuple(words), tuple(word_of))


def _shown(pixels: Tensor, processor: Any) -> np.ndarray:
    """Return the bytes (height, width, 3) of an image that was normalised for the model."""
    image = pixels.float().cpu()
    if getattr(processor, "do_normalize", False):
        mean, std = (
            torch.tensor(x)[:, None, None] for x in (processor.image_mean, processor.image_std)
        )
        image = image * std + mean
    if getattr(processor, "do_rescale", True):
        image = image * 255
    return image.round().clamp(0, 255).byte().permute(1, 2, 0).numpy()


def _read_processor(folder: Path, local: Mapping[str, bool]) -> Any:
    """Return the processor, image processor or tokenizer of a folder, whichever it has."""
    import transformers

    has_image = (folder / "preprocessor_config.json").is_file()
    has_text = any(
        (folder / name).is_file() for name in ("tokenizer_config.json", "tokenizer.json")
    )
    if has_image and has_text:
        return transformers.AutoProcessor.from_pretrained(folder, **local)
    kind = transformers.AutoImageProcessor if has_image else transformers.AutoTokenizer
    return kind.from_pretrained(folder, **local)


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Switch dropout off, and every module back to its mode afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
