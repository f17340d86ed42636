"""Copies of models that give the same answers and are built as another format has them."""

import copy
from typing import TypeVar

import torch
from torch import nn

from saccade.interop.huggingface.structure import part
from saccade.layers.embeddings import OutputProjection, TokenEmbedding

M = TypeVar("M", bound=nn.Module)


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
