"""A step of a plain Transformer decoder in as few operations as it takes.

A step reads every weight for a few rows. On a CPU a small model then spends half of its time on
the way into and out of operations, and the other half waiting for weights, which is shorter if
a matrix lies in memory along its longer side, or in the blocks that oneDNN works with (what torch
itself does when it compiles a model for a CPU). `Quick` holds such a layout, and does what the
layers' `forward` does for one more token; `Quick.of` gives None for a decoder with parts it does
not know, which goes the general way. Both give the same logits; a test compares them.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from saccade.attention import Cache, MultiHeadAttention, Projected
from saccade.attention.projection import Packed
from saccade.attention.scores import ScaledDot
from saccade.layers.residual import Residual
from saccade.positions.rotary import Rotary
from saccade.shapes import Bool, Float, Tensor

if TYPE_CHECKING:
    from saccade.decoders.transformer import TransformerDecoder, TransformerDecoderLayer

FEW, LARGE = range(2, 65), 1 << 18
"""Rows for which a product with a matrix of LARGE numbers is faster if it is packed."""
MANY, TINY = 64, 400
"""So many products of a row with a matrix of so few numbers are faster as one sum: below that size
torch multiplies by a plain loop."""
PACKS = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Linear:
    """x W + b, with W laid out for one row and, when they are first met, for a few."""

    def __init__(self, weight: Float[Tensor, "e d"], bias: Float[Tensor, " e"] | None) -> None:
        self.given = weight.detach()
        self.bias = None if bias is None else bias.detach()
        wide = weight.shape[0] > weight.shape[1]
        self.along = self.given.t().contiguous() if wide else self.given.t()
        self.packs = PACKS and weight.numel() >= LARGE
        self.packed: Tensor | None = None

    def __call__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n e"]:
        """The rows of x, mapped."""
        if self.packs and x.shape[0] in FEW:
            if self.packed is None:
                self.packed = torch.ops.mkldnn._reorder_linear_weight(self.given, len(FEW))
            return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        if self.bias is None:
            return torch.mm(x, self.along)
        return torch.addmm(self.bias, x, self.along)


class Around(NamedTuple):
    """The norm and the residual connection around a part."""

    shape: tuple[int, ...]
    weight: Tensor
    bias: Tensor
    eps: float
    before: bool

    @classmethod
    def of(cls, residual: Residual) -> "Around":
        """As the block has it."""
        norm = residual.norm
        assert isinstance(norm, nn.LayerNorm)
        return cls(
            norm.normalized_shape,
            norm.weight.detach(),
            norm.bias.detach(),
            norm.eps,
            residual.order == "pre",
        )

    def normed(self, x: Tensor) -> Tensor:
        """Each token's features normalised."""
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)

    def __call__(
        self, x: Float[Tensor, "n d"], part: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "n d"]:
        """x with what `part` makes of it added."""
        if self.before:
            return part(self.normed(x)).add_(x)
        return self.normed(part(x).add_(x))


class Reading:
    """Multi-head attention of one new token: its own text's, or a memory's."""

    def __init__(self, attention: MultiHeadAttention, *, own: bool) -> None:
        self.num_heads, self.head_dim = attention.num_heads, attention.head_dim
        self.into = _inputs(attention, own=own)
        self.out = Linear(attention.out_proj.weight, attention.out_proj.bias)

    def text(
        self, x: Float[Tensor, "n d"], cache: Cache, turned: Rotary | None
    ) -> Float[Tensor, "n d"]:
        """What the tokens so far say to the new one, which joins them."""
        made = self.into(x).view(x.shape[0], 3, self.num_heads, 1, self.head_dim)
        query, keys, values = made.unbind(1)
        if turned is not None:
            at = torch.tensor([cache.length])
            query, keys = turned.rotate(query, keys, at, at)
        return self._read(query, *cache.append(keys, values), None)

    def memory(
        self, x: Float[Tensor, "n d"], memory: Projected, bias: Float[Tensor, "m 1 1 s"] | None
    ) -> Float[Tensor, "n d"]:
        """What the memory says; neighbouring rows may share a row of it."""
        rows = memory.keys.shape[0]
        query = self.into(x).view(rows, -1, self.num_heads, self.head_dim).transpose(1, 2)
        return self._read(query, memory.keys, memory.values, bias)

    def _read(self, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
        rows, heads, shared, width = query.shape
        # the scale of the scores is in the weights that made the query
        scores = torch.bmm(query.reshape(-1, shared, width), keys.flatten(0, 1).mT)
        if bias is not None:
            scores = (scores.view(rows, heads, shared, -1) + bias).flatten(0, 1)
        weights, values = scores.softmax(-1), values.flatten(0, 1)
        if shared == 1 and rows * heads >= MANY and values[0].numel() < TINY:
            context = (values * weights.mT).sum(1)
        else:
            context = torch.bmm(weights, values)
        if shared > 1:
            context = context.view(rows, heads, shared, width).transpose(1, 2)
        return self.out(context.reshape(rows * shared, -1))


class Block:
    """One layer."""

    def __init__(self, layer: "TransformerDecoderLayer") -> None:
        self.around_attention = Around.of(layer.around_attention)
        self.attention = Reading(layer.self_attention, own=True)
        self.cross: Reading | None = None
        if layer.cross is not None:
            self.around_cross = Around.of(layer.around_cross)
            self.cross = Reading(layer.cross, own=False)
        part = layer.feed_forward
        self.around_feed_forward = Around.of(layer.around_feed_forward)
        self.widen = Linear(part.widen.weight, part.widen.bias)
        self.activation = part.activation.forward
        self.narrow = Linear(part.narrow.weight, part.narrow.bias)

    def __call__(
        self,
        x: Float[Tensor, "n d"],
        cache: Cache,
        memory: Projected | None,
        bias: Float[Tensor, "m 1 1 s"] | None,
        turned: Rotary | None,
    ) -> Float[Tensor, "n d"]:
        """The new tokens, each having read those before it, and the memory."""
        x = self.around_attention(x, lambda x: self.attention.text(x, cache, turned))
        if self.cross is not None and memory is not None:
            cross = self.cross
            x = self.around_cross(x, lambda x: cross.memory(x, memory, bias))
        return self.around_feed_forward(x, lambda x: self.narrow(self.activation(self.widen(x))))


class Quick:
    """The layers, the last norm and the output of a decoder, laid out for its steps.

    The layout is a copy: `stamp` tells of which weights, and a decoder whose weights have changed
    since makes a new one.
    """

    def __init__(self, decoder: "TransformerDecoder") -> None:
        self.stamp = stamp(decoder)
        self.blocks = [Block(layer) for layer in decoder.blocks()]
        self.turned = decoder.position if isinstance(decoder.position, Rotary) else None
        self.norm = decoder.norm
        self.output = Linear(decoder.output.weight, decoder.output.bias)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """In a copy of the decoder it is None, and made anew: packed matrices cannot be copied."""
        return type(None), ()

    @classmethod
    def of(cls, decoder: "TransformerDecoder", known: "Quick | None") -> "Quick | None":
        """The decoder's layout, or the known one if that still is it; None if it has none."""
        weight = decoder.output.weight
        if decoder.training or weight.device.type != "cpu" or weight.dtype != torch.float32:
            return None
        if known is not None and known.stamp == stamp(decoder):
            return known
        return cls(decoder) if _is_plain(decoder) else None

    def __call__(
        self,
        x: Float[Tensor, "n d"],
        caches: Sequence[Cache],
        memories: Sequence[Projected],
        memory_mask: Bool[Tensor, "m s"] | None,
    ) -> Float[Tensor, "n v"]:
        """The logits of what follows the token that each row of x embeds."""
        bias = None
        if memory_mask is not None:
            bias = torch.where(memory_mask, 0.0, -torch.inf)[:, None, None]
        for i, block in enumerate(self.blocks):
            x = block(x, caches[i], memories[i] if memories else None, bias, self.turned)
        return self.output(self.norm(x))


def stamp(decoder: nn.Module) -> tuple[tuple[int, int], ...]:
    """Where the weights lie and how often each was written: another stamp, other weights."""
    return tuple((p.data_ptr(), p._version) for p in decoder.parameters())


def _is_plain(decoder: "TransformerDecoder") -> bool:
    position = decoder.position
    return (isinstance(position, Rotary) or not position.acts_inside) and all(
        isinstance(around.norm, nn.LayerNorm) and _is_plain_attention(attention)
        for layer in decoder.blocks()
        for around, attention in (
            (layer.around_attention, layer.self_attention),
            (layer.around_cross, layer.cross) if layer.cross else (layer.around_feed_forward, None),
        )
    )


def _is_plain_attention(attention: MultiHeadAttention | None) -> bool:
    return attention is None or (
        isinstance(attention.attend.score, ScaledDot)
        and attention.num_kv_heads == attention.num_heads
        and attention.bias_k is None
        and not attention.add_zero_attn
    )


def _inputs(attention: MultiHeadAttention, *, own: bool) -> Linear:
    """What makes queries, and with `own` keys and values beside them; queries come out scaled."""
    made = attention.projection
    width = attention.num_heads * attention.head_dim
    matrices = made if isinstance(made, Packed) else made.query_proj
    rows = slice(None if own else width)
    weight, bias = matrices.weight[rows], None if matrices.bias is None else matrices.bias[rows]
    scale = torch.ones_like(weight[:, 0])
    scale[:width] = attention.head_dim**-0.5
    return Linear(weight * scale.unsqueeze(1), None if bias is None else bias * scale)
