"""Copies of models that give the same predictions and are built as another format has them."""

import copy
from collections.abc import Iterator
from typing import TypeVar

import torch
from torch import nn

from saccade.attention.projection import Packed
from saccade.encoders.patches import FrozenEncoder
from saccade.encoders.transformer import TransformerEncoder
from saccade.interop.huggingface.model_diff import submodule, submodules
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.shapes import Tensor

M = TypeVar("M", bound=nn.Module)

NEVER = -1000.0
"""The logit of a token that is never generated."""


def unscaled(model: M, embedding: str) -> M:
    """Multiply √dim into the embedding; an output that shared it keeps its matrix.

    (E · √dim)[token] equals E[token] · √dim to the bit.
    """
    scale = submodule(model, embedding, TokenEmbedding).scale
    if scale == 1.0:
        return model
    model = copy.deepcopy(model)
    tokens = submodule(model, embedding, TokenEmbedding)
    tokens.weight = nn.Parameter(tokens.weight.detach() * scale)
    tokens.scale = 1.0
    return model


def thawed(model: M) -> M:
    """Return the model whose encoder reads images, if it reads its own states."""
    if not isinstance(getattr(model, "encoder", None), FrozenEncoder):
        return model
    model = copy.deepcopy(model)
    submodule(model, "encoder", TransformerEncoder).__class__ = TransformerEncoder
    return model


def with_segments(model: M, embedding: str) -> M:
    """Add an embedding of one segment, which is zero, if the model has no segments."""
    if submodule(model, embedding, TokenEmbedding).segments is not None:
        return model
    model = copy.deepcopy(model)
    tokens = submodule(model, embedding, TokenEmbedding)
    tokens.segments = nn.Embedding.from_pretrained(
        torch.zeros_like(tokens.weight[:1]), freeze=False
    )
    return model


def with_output_bias(model: M, output: str) -> M:
    """Add a bias of zeros to the logits, if there is none."""
    if submodule(model, output, OutputProjection).bias is not None:
        return model
    model = copy.deepcopy(model)
    projection = submodule(model, output, OutputProjection)
    projection.bias = nn.Parameter(torch.zeros_like(projection.weight[:, 0]))
    return model


def with_biases(model: M) -> M:
    """Add biases of zeros to the linear layers and layer norms that have none."""

    def without_bias(model: nn.Module) -> list[nn.Linear | nn.LayerNorm | Packed]:
        modules: dict[str, nn.Linear | nn.LayerNorm | Packed] = {
            **submodules(model, nn.Linear),
            **submodules(model, nn.LayerNorm),
            **submodules(model, Packed),
        }
        return [module for module in modules.values() if module.bias is None]

    if not without_bias(model):
        return model
    model = copy.deepcopy(model)
    for module in without_bias(model):
        module.bias = nn.Parameter(module.weight.new_zeros(len(module.weight)))
    return model


def with_rows(model: M, *, source: int, target: int) -> M:
    """Change the number of embedded tokens, in the encoder to `source`, elsewhere to `target`.

    Rows are removed or added at the end. Added rows are zeros, and their output bias is `NEVER`.
    """

    def with_counts(model: nn.Module) -> Iterator[tuple[TokenEmbedding | OutputProjection, int]]:
        modules: dict[str, TokenEmbedding | OutputProjection] = {
            **submodules(model, TokenEmbedding),
            **submodules(model, OutputProjection),
        }
        for name, module in modules.items():
            yield module, source if name.startswith("encoder.") else target

    if all(len(module.weight) == count for module, count in with_counts(model)):
        return model
    model = copy.deepcopy(model)
    resized: dict[nn.Parameter, nn.Parameter] = {}
    for module, count in with_counts(model):
        weight = module.weight
        if weight not in resized:
            resized[weight] = nn.Parameter(_rows(weight, count, 0.0))
        module.weight = resized[weight]
    for projection in submodules(model, OutputProjection).values():
        if projection.bias is not None:
            projection.bias = nn.Parameter(_rows(projection.bias, target, NEVER))
    return model


def _rows(x: Tensor, count: int, fill: float) -> Tensor:
    kept = x.detach()[:count]
    return torch.cat((kept, kept.new_full((count - len(kept), *x.shape[1:]), fill)))
