"""One step of a plain Transformer decoder in as few operations as possible.

A step reads every weight for a few rows. On a CPU a small model then spends half of its time
entering and leaving operations, and the other half waiting for weights. The wait is shorter if a
matrix is stored along its longer side, or in the blocks that oneDNN uses (as torch does when it
compiles a model for a CPU). `FastPath` computes what `forward` of the layers computes for one more
token. `FastPath.of` returns None for a decoder with any part that it does not know exactly; such a
decoder takes the general path. Both give the same logits; a test compares them.

`FastPath` reads the weights of the model and copies a matrix into a faster layout once it has been
used often. It belongs to the state of one generation, so no copy outlives its weights. Callers that
generate repeatedly with unchanged weights share the copies with `sharing`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook

from saccade.attention import Attend, KeyValueCache, MultiHeadAttention, Projected
from saccade.attention.projection import Packed, Separate
from saccade.attention.scores import ScaledDot
from saccade.decoders.stack import TransformerDecoderLayer, TransformerStack
from saccade.layers.activations import ReLUSquared
from saccade.layers.dropout import Dropout
from saccade.layers.embeddings import OutputProjection
from saccade.layers.feed_forward import FeedForward
from saccade.layers.residual import Residual, StochasticDepth
from saccade.positions.rotary import Rotary
from saccade.shapes import Bool, Float, Tensor

FEW, LARGE = range(2, 65), 1 << 18
"""Products of this many rows with a matrix of at least LARGE numbers are faster if packed."""
MANY, TINY = 64, 400
"""From MANY products of one row with a matrix of fewer than TINY numbers, one sum is faster: below
that size torch multiplies in a plain loop."""
USES_BEFORE_COPY = 16
"""A copy of a matrix costs about as much time as this many products with it save."""
PACKS = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Linear:
    """x W + b, with W copied into the layout that is fastest for the number of rows."""

    def __init__(self, weight: Float[Tensor, "e d"], bias: Float[Tensor, " e"] | None) -> None:
        self.weight = weight.detach()
        self.bias = None if bias is None else bias.detach()
        self.transposed = self.weight.t()
        self.packed: Tensor | None = None
        self._wide = weight.shape[0] > weight.shape[1]
        self._can_pack = PACKS and weight.numel() >= LARGE
        self._plain_uses = self._packed_uses = 0

    def __call__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n e"]:
        """Map the rows of x."""
        if self._can_pack and x.shape[0] in FEW:
            if self.packed is None:
                self._packed_uses += 1
                if self._packed_uses > USES_BEFORE_COPY:
                    self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight, len(FEW))
            if self.packed is not None:
                return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        elif self._wide:
            self._plain_uses += 1
            if self._plain_uses > USES_BEFORE_COPY:
                self.transposed, self._wide = self.transposed.contiguous(), False
        if self.bias is None:
            return torch.mm(x, self.transposed)
        return torch.addmm(self.bias, x, self.transposed)


class Around(NamedTuple):
    """The norm and the residual connection around a part."""

    shape: tuple[int, ...]
    weight: Tensor
    bias: Tensor | None
    eps: float
    before: bool

    @classmethod
    def of(cls, residual: Residual) -> "Around":
        """Return those of a residual connection."""
        norm = residual.norm
        assert isinstance(norm, nn.LayerNorm)
        return cls(
            norm.normalized_shape,
            norm.weight.detach(),
            None if norm.bias is None else norm.bias.detach(),
            norm.eps,
            residual.order == "pre",
        )

    def normed(self, x: Tensor) -> Tensor:
        """Return the normalised tokens."""
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)

    def __call__(
        self, x: Float[Tensor, "n d"], part: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "n d"]:
        """Add the output of `part` to x."""
        if self.before:
            return part(self.normed(x)).add_(x)
        return self.normed(part(x).add_(x))


class Attention:
    """Multi-head attention of one new token to earlier tokens (`own`), or to a memory."""

    def __init__(self, attention: MultiHeadAttention, *, own: bool) -> None:
        self.num_heads, self.head_dim = attention.num_heads, attention.head_dim
        self.scale = attention.head_dim**-0.5
        self.into = _inputs(attention, own=own)
        self.out = Linear(attention.out_proj.weight, attention.out_proj.bias)

    def text(
        self, x: Float[Tensor, "n d"], cache: KeyValueCache, rotary: Rotary | None
    ) -> Float[Tensor, "n d"]:
        """Attend to the tokens so far, including the new one."""
        projected = self.into(x).view(x.shape[0], 3, self.num_heads, 1, self.head_dim)
        query, keys, values = projected.unbind(1)
        if rotary is not None:
            at = torch.tensor([cache.length], device=x.device)
            query, keys = rotary.rotate(query, keys, at, at)
        return self._attend(query, *cache.append(keys, values), None)

    def memory(
        self, x: Float[Tensor, "n d"], memory: Projected, bias: Float[Tensor, "m 1 1 s"] | None
    ) -> Float[Tensor, "n d"]:
        """Attend to the memory; neighbouring rows may share a row of it."""
        rows = memory.keys.shape[0]
        query = self.into(x).view(rows, -1, self.num_heads, self.head_dim).transpose(1, 2)
        return self._attend(query, memory.keys, memory.values, bias)

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
        rows, heads, shared, width = query.shape
        many = query.reshape(-1, shared, width)
        unused = many.new_empty(())
        scores = torch.baddbmm(unused, many, keys.flatten(0, 1).mT, beta=0, alpha=self.scale)
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
    """One decoder layer."""

    def __init__(self, layer: TransformerDecoderLayer) -> None:
        self.around_attention = Around.of(layer.around_attention)
        self.attention = Attention(layer.self_attention, own=True)
        self.cross: Attention | None = None
        if layer.cross is not None:
            self.around_cross = Around.of(layer.around_cross)
            self.cross = Attention(layer.cross, own=False)
        part = layer.feed_forward
        self.around_feed_forward = Around.of(layer.around_feed_forward)
        self.widen = Linear(part.widen.weight, part.widen.bias)
        self.activation = part.activation.forward
        self.narrow = Linear(part.narrow.weight, part.narrow.bias)

    def __call__(
        self,
        x: Float[Tensor, "n d"],
        cache: KeyValueCache,
        memory: Projected | None,
        bias: Float[Tensor, "m 1 1 s"] | None,
        rotary: Rotary | None,
    ) -> Float[Tensor, "n d"]:
        """Apply the layer to one new token per row."""
        x = self.around_attention(x, lambda x: self.attention.text(x, cache, rotary))
        if self.cross is not None and memory is not None:
            cross = self.cross
            x = self.around_cross(x, lambda x: cross.memory(x, memory, bias))
        return self.around_feed_forward(x, lambda x: self.narrow(self.activation(self.widen(x))))


class FastPath:
    """The layers, the last norm and the output projection of a decoder, for single steps."""

    def __init__(self, decoder: TransformerStack, output: OutputProjection) -> None:
        self.blocks = [Block(layer) for layer in decoder.blocks()]
        self.rotary = decoder.position if isinstance(decoder.position, Rotary) else None
        self.norm = decoder.norm
        self.output = Linear(output.weight, output.bias)

    @classmethod
    def of(cls, decoder: TransformerStack, output: OutputProjection) -> "FastPath | None":
        """Return the `FastPath` of a decoder, or None if it must take the general path."""
        if decoder.training or torch.is_autocast_enabled("cpu"):
            return None
        shared = _shared.get()
        layouts: Layouts = {} if shared is None else shared
        if decoder not in layouts:
            layouts[decoder] = cls(decoder, output) if _is_plain(decoder, output) else None
        return layouts[decoder]

    def __call__(
        self,
        x: Float[Tensor, "n d"],
        caches: Sequence[KeyValueCache],
        memories: Sequence[Projected],
        memory_mask: Bool[Tensor, "m s"] | None,
    ) -> Float[Tensor, "n v"]:
        """Return the logits of the token after the one that each row of x embeds."""
        bias = None
        if memory_mask is not None:
            bias = torch.where(memory_mask, 0.0, -torch.inf)[:, None, None]
        for i, block in enumerate(self.blocks):
            x = block(x, caches[i], memories[i] if memories else None, bias, self.rotary)
        return self.output(self.norm(x))


Layouts = dict[nn.Module, FastPath | None]
"""The `FastPath` of each decoder that generated inside a `sharing` block; None if it has none."""
_shared: ContextVar[Layouts | None] = ContextVar("_shared", default=None)


@contextmanager
def sharing(layouts: Layouts) -> Iterator[None]:
    """Share copied weights among all generations in this block, in which no weight may change.

    Args:
        layouts: Empty at first; pass it to another block to reuse its copies.
    """
    token = _shared.set(layouts)
    try:
        yield
    finally:
        _shared.reset(token)


def shared_layouts() -> Layouts:
    """Return the layouts of the enclosing `sharing` block, or empty ones to start a block with."""
    outer = _shared.get()
    return {} if outer is None else outer


ACTIVATIONS = (nn.ReLU, ReLUSquared, nn.GELU, nn.SiLU, nn.Tanh)


def _is_plain(decoder: TransformerStack, output: OutputProjection) -> bool:
    """Return whether `FastPath` computes every part exactly, down to its type and hooks."""
    position = decoder.position
    return (
        not _has_any_global_hook()
        and all(p.dtype == torch.float32 and p.device.type == "cpu" for p in decoder.parameters())
        and (type(position) is Rotary or not position.acts_inside)
        and _is(decoder.norm, nn.Identity, nn.LayerNorm)
        and _is(output, OutputProjection)
        and len(decoder.blocks()) == len(decoder.layers)
        and all(
            _is(layer, TransformerDecoderLayer) and _is_plain_layer(layer)
            for layer in decoder.blocks()
        )
    )


def _is(module: nn.Module, *types: type[nn.Module]) -> bool:
    """Return whether a module is exactly of one of these types and runs only its `forward`."""
    return (
        type(module) in types
        and not module._forward_hooks
        and not module._forward_pre_hooks
        and "forward" not in vars(module)
    )


def _is_plain_layer(layer: TransformerDecoderLayer) -> bool:
    part = layer.feed_forward
    return (
        _is_plain_residual(layer.around_attention)
        and _is_plain_attention(layer.self_attention, own=True)
        and (
            layer.cross is None
            or (
                _is_plain_residual(layer.around_cross)
                and _is_plain_attention(layer.cross, own=False)
            )
        )
        and _is_plain_residual(layer.around_feed_forward)
        and _is(part, FeedForward)
        and _is(part.widen, nn.Linear)
        and _is(part.activation, *ACTIVATIONS)
        and _is(part.dropout, Dropout)
        and _is(part.narrow, nn.Linear)
    )


def _is_plain_residual(residual: Residual) -> bool:
    norm = residual.norm
    return (
        _is(residual, Residual)
        and _is(norm, nn.LayerNorm)
        and norm.weight is not None
        and _is(residual.dropout, Dropout)
        and _is(residual.skip, nn.Identity, StochasticDepth)
    )


def _is_plain_attention(attention: MultiHeadAttention, *, own: bool) -> bool:
    inputs = attention.projection
    return (
        _is(attention, MultiHeadAttention)
        and _is(attention.query_norm, nn.Identity)
        and _is(attention.key_norm, nn.Identity)
        and _is(attention.attend, Attend)
        and _is(attention.attend.score, ScaledDot)
        and (
            _is(inputs, Packed)
            or (
                not own
                and _is(inputs, Separate)
                and all(_is(part, nn.Linear) for part in inputs.children())
            )
        )
        and _is(attention.out_proj, nn.Linear)
        and attention.num_kv_heads == attention.num_heads
        and attention.bias_k is None
        and not attention.add_zero_attn
    )


def _inputs(attention: MultiHeadAttention, *, own: bool) -> Linear:
    """Return the projection to queries, or with `own` to queries, keys and values."""
    projection = attention.projection
    width = attention.num_heads * attention.head_dim
    matrices = projection if isinstance(projection, Packed) else projection.query_proj
    rows = slice(None if own else width)
    return Linear(matrices.weight[rows], None if matrices.bias is None else matrices.bias[rows])
