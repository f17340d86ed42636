"""Copies of models that give the same answers and are built as another format has them."""

import copy
from typing import TypeVar

import torch
from torch import nn

from saccade.attention.projection import Packed
from saccade.interop.huggingface.model_diff import part
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.shapes import Tensor

M = TypeVar("M", bound=nn.Module)

NEVER = -1000.0
"""The logit of a token that is never written."""


def unscaled(model: M, embedding: str) -> M:
    """With √dim multiplied into the embedding; an output that shared it keeps the matrix as it was.

    (E · √dim)[token] is E[token] · √dim to the bit.
    """
    scale = part(model, embedding, TokenEmbedding).scale
    if scale == 1.0:
        return model
    model = copy.deepcopy(model)
    tokens = part(model, embedding, TokenEmbedding)
    tokens.weight = nn.Parameter(tokens.weight.detach() * scale)
    tokens.scale = 1.0
    return model


def with_segments(model: M, embedding: str) -> M:
    """With one segment for all tokens, which adds nothing, where there is none."""
    if part(model, embedding, TokenEmbedding).segments is not None:
        return model
    model = copy.deepcopy(model)
    tokens = part(model, embedding, TokenEmbedding)
    tokens.segments = nn.Embedding.from_pretrained(
        torch.zeros_like(tokens.weight[:1]), freeze=False
    )
    return model


def with_output_bias(model: M, output: str) -> M:
    """With a bias of zeros on the logits, where there is none."""
    if part(model, output, OutputProjection).bias is not None:
        return model
    model = copy.deepcopy(model)
    projection = part(model, output, OutputProjection)
    projection.bias = nn.Parameter(torch.zeros_like(projection.weight[:, 0]))
    return model


def with_biases(model: M) -> M:
    """With biases of zeros in the linear maps and layer norms that have none."""

    def without(model: nn.Module) -> list[nn.Linear | nn.LayerNorm | Packed]:
        kinds = nn.Linear | nn.LayerNorm | Packed
        return [x for x in model.modules() if isinstance(x, kinds) and x.bias is None]

    if not without(model):
        return model
    model = copy.deepcopy(model)
    for module in without(model):
        module.bias = nn.Parameter(module.weight.new_zeros(len(module.weight)))
    return model


def with_rows(model: M, *, source: int, target: int) -> M:
    """With so many rows in the embedding of a reader, and in those of a writer and its output.

    Rows at the end are left out or added. Added ones are zeros, and have the bias NEVER.
    """

    def with_counts(model: nn.Module) -> list[tuple[TokenEmbedding | OutputProjection, int]]:
        return [
            (module, source if name.startswith("encoder.") else target)
            for name, module in model.named_modules()
            if isinstance(module, TokenEmbedding | OutputProjection)
        ]

    if all(len(module.weight) == count for module, count in with_counts(model)):
        return model
    model = copy.deepcopy(model)
    made: dict[nn.Parameter, nn.Parameter] = {}
    for module, count in with_counts(model):
        weight = module.weight
        if weight not in made:
            made[weight] = nn.Parameter(_rows(weight, count, 0.0))
        module.weight = made[weight]
        if isinstance(module, OutputProjection) and module.bias is not None:
            module.bias = nn.Parameter(_rows(module.bias, count, NEVER))
    return model


def _rows(x: Tensor, count: int, fill: float) -> Tensor:
    kept = x.detach()[:count]
    return torch.cat((kept, kept.new_full((count - len(kept), *x.shape[1:]), fill)))
