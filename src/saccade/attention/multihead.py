"""Multi-head attention (Vaswani et al. 2017, section 3.2.2)."""

from typing import Literal

import torch
from torch import nn

from saccade.attention.attend import Attend
from saccade.attention.cache import KeyValueCache, Projected
from saccade.attention.masks import AlwaysSeen, Mask
from saccade.attention.projection import Packed, Separate
from saccade.attention.scores import ScaledDot, Score
from saccade.errors import ShapeError
from saccade.interfaces import Positional
from saccade.shapes import Float, Tensor


class MultiHeadAttention(nn.Module):
    """Multi-head attention: several attentions in parallel, each with its own projections.

        head_i = Attend(X Q_i, M K_i, M V_i),    output = [head_1; …; head_h] W_o

    (Vaswani et al. 2017, section 3.2.2.) `attention(x)` is self-attention, `attention(x, memory)`
    cross-attention. Inputs are always batch first; an unbatched (q, dim) works too.

    Args:
        dim: Width of queries and outputs.
        num_heads: Number of heads.
        key_dim: Width of the memory as it comes in; `dim` if None.
        value_dim: Width of the values as they come in; `dim` if None.
        num_kv_heads: Number of key and value heads, shared by groups of query heads (grouped-query
            attention, Ainslie et al. 2023); `num_heads` if None. Fewer need a smaller cache.
        score: Score within a head, for vectors of width `head_dim`; `ScaledDot()` if None.
        head: "split" projects to dim / num_heads per head, so the number of heads does not change
            the number of parameters. "full" projects to `dim` per head, and W_o maps
            num_heads · dim back to `dim`.
        head_dim: Width of a head, if not dim / num_heads.
        qk_norm: Apply an RMS norm to the queries and keys of each head, so that scores stay bounded
            (Henry et al. 2020; Dehghani et al. 2023).
        norm_eps: Epsilon of these norms.
        dropout: Dropout on the attention weights, in training mode only.
        bias: Give the projections a bias.
        add_bias_kv: Append one learned key and value that every query may see.
        add_zero_attn: Append a key and value of zeros that every query may see.

    Raises:
        ShapeError: If `dim` cannot be split into `num_heads`, or `num_heads` into `num_kv_heads`.

    Examples:
        >>> import torch
        >>> from saccade.attention import MultiHeadAttention, masks
        >>> attention = MultiHeadAttention(dim=16, num_heads=4)
        >>> x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
        >>> attention(x, mask=masks.causal()).shape
        torch.Size([2, 5, 16])
        >>> attention(x, memory, mask=masks.padding([7, 3])).shape
        torch.Size([2, 5, 16])
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        num_kv_heads: int | None = None,
        score: Score | None = None,
        head: Literal["split", "full"] = "split",
        head_dim: int | None = None,
        qk_norm: bool = False,
        norm_eps: float = 1e-5,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.num_heads = num_heads
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.dims = (
            dim,
            dim if key_dim is None else key_dim,
            dim if value_dim is None else value_dim,
        )
        self.head_dim = _head_dim(dim, num_heads, head, head_dim)
        if self.num_kv_heads < 1 or num_heads % self.num_kv_heads:
            raise ShapeError(
                f"num_heads={num_heads} must be a multiple of num_kv_heads={self.num_kv_heads}; "
                "change one of them"
            )
        width, kv_width = num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        self.projection: Packed | Separate
        if self.dims == (dim, dim, dim):
            self.projection = Packed(dim, width, kv_width, bias=bias)
        else:
            self.projection = Separate(self.dims, width, kv_width, bias=bias)
        self.query_norm, self.key_norm = (
            nn.RMSNorm(self.head_dim, eps=norm_eps) if qk_norm else nn.Identity() for _ in range(2)
        )
        self.attend = Attend(ScaledDot() if score is None else score, dropout)
        self.out_proj = nn.Linear(width, dim, bias=bias)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if bias:
            nn.init.zeros_(self.out_proj.bias)
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            self.bias_k = nn.Parameter(nn.init.xavier_normal_(torch.empty(1, 1, kv_width)))
            self.bias_v = nn.Parameter(nn.init.xavier_normal_(torch.empty(1, 1, kv_width)))
        self.add_zero_attn = add_zero_attn

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        memory: Float[Tensor, "*b k e"] | Projected | None = None,
        values: Float[Tensor, "*b k f"] | None = None,
        *,
        mask: Mask | None = None,
        positions: Positional | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "*b q d"]:
        """Return what each query reads.

        Args:
            query: Queries (b, q, dim), or (q, dim).
            memory: Vectors (b, k, key_dim) to attend to, or the result of `project`; `query` itself
                if None (self-attention).
            values: Vectors (b, k, value_dim) to read; `memory` if None.
            mask: Which keys each query may see; all, if None.
            positions: A positional encoding that acts inside attention, such as `Rotary`.
            cache: Keys and values of earlier tokens, to which those of this call are appended.

        Returns:
            Vectors (b, q, dim). A query that may see no key gets the output bias.

        Raises:
            ShapeError: If an input does not have the width that this module was built for.
            MaskError: If `mask` does not fit.
        """
        if query.ndim == 2:
            return self(
                query[None],
                memory[None] if isinstance(memory, Tensor) else memory,
                None if values is None else values[None],
                mask=mask,
                positions=positions,
                cache=cache,
            )[0]
        batch, q = query.shape[:2]
        if isinstance(memory, Projected):
            query = _sharing(query, memory.keys.shape[0])
        query, keys, values = self._heads(query, memory, values)
        bias = None
        if positions is not None:
            before = 0 if cache is None else cache.length
            at_k = torch.arange(before + keys.shape[2], device=keys.device)
            at_q = torch.arange(before, before + query.shape[2], device=keys.device)
            query, keys = positions.rotate(query, keys, at_q, at_k[before:])
            bias = positions.bias(query, at_q, at_k)
        if cache is not None:
            keys, values = cache.append(keys, values)
        keys, values, mask, bias = self._with_extra_keys(keys, values, mask, bias)
        context = self.attend(query, self._shared(keys), self._shared(values), mask, bias)
        return self.out_proj(context.transpose(1, 2).reshape(batch, q, -1))

    def project(
        self, memory: Float[Tensor, "b k e"], values: Float[Tensor, "b k f"] | None = None
    ) -> Projected:
        """Compute the keys and values of a memory once, to be passed as `memory` to many calls.

        Args:
            memory: Vectors (b, k, key_dim).
            values: Vectors (b, k, value_dim); `memory` if None.
        """
        values = memory if values is None else values
        self._check_widths(None, memory, values)
        keys, values = self.projection.memory(memory, values)
        # contiguous per head, else every call would copy them
        keys = self.key_norm(self._split(keys))
        return Projected(keys.contiguous(), self._split(values).contiguous())

    @classmethod
    def from_torch(cls, twin: nn.MultiheadAttention) -> "MultiHeadAttention":
        """Return the same attention with the weights of torch's module, but always batch first."""
        ours = cls(
            twin.embed_dim,
            twin.num_heads,
            key_dim=twin.kdim,
            value_dim=twin.vdim,
            dropout=twin.dropout,
            bias=twin.in_proj_bias is not None,
            add_bias_kv=twin.bias_k is not None,
            add_zero_attn=twin.add_zero_attn,
        )
        theirs = dict(twin.named_parameters())
        copied: dict[str, Tensor | None] = {
            "out_proj.weight": theirs["out_proj.weight"],
            "out_proj.bias": theirs.get("out_proj.bias"),
            "bias_k": theirs.get("bias_k"),
            "bias_v": theirs.get("bias_v"),
        }
        biases = theirs.get("in_proj_bias")
        if isinstance(ours.projection, Packed):
            copied["projection.weight"] = (
                theirs["in_proj_weight"]
                if "in_proj_weight" in theirs
                else torch.cat([theirs[f"{name}_proj_weight"] for name in "qkv"])
            )
            copied["projection.bias"] = biases
        else:
            for i, (name, letter) in enumerate(zip(("query", "key", "value"), "qkv", strict=True)):
                copied[f"projection.{name}_proj.weight"] = theirs[f"{letter}_proj_weight"]
                if biases is not None:
                    copied[f"projection.{name}_proj.bias"] = biases.chunk(3)[i]
        ours.load_state_dict({name: value for name, value in copied.items() if value is not None})
        like = twin.out_proj.weight
        return ours.to(device=like.device, dtype=like.dtype).train(twin.training)

    def _heads(
        self, query: Tensor, memory: Tensor | Projected | None, values: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, each split into heads (b, h, n, head_dim)."""
        if isinstance(memory, Projected):
            self._check_widths(query)
            query = self.query_norm(self._split(self.projection.query(query)))
            return query, memory.keys, memory.values
        memory = query if memory is None else memory
        values = memory if values is None else values
        self._check_widths(query, memory, values)
        query, keys, values = self.projection(query, memory, values)
        query, keys = self.query_norm(self._split(query)), self.key_norm(self._split(keys))
        return query, keys, self._split(values)

    def _split(self, vectors: Tensor) -> Tensor:
        return vectors.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def _shared(self, vectors: Tensor) -> Tensor:
        group = self.num_heads // self.num_kv_heads
        return vectors if group == 1 else vectors.repeat_interleave(group, 1)

    def _with_extra_keys(
        self, keys: Tensor, values: Tensor, mask: Mask | None, bias: Tensor | None
    ) -> tuple[Tensor, Tensor, Mask | None, Tensor | None]:
        """Append the learned key and the zero key, which no mask hides."""
        extra_keys, extra_values = [keys], [values]
        if self.bias_k is not None and self.bias_v is not None:
            extra_keys.append(self._split(self.bias_k).expand(keys.shape[0], -1, -1, -1))
            extra_values.append(self._split(self.bias_v).expand(keys.shape[0], -1, -1, -1))
        if self.add_zero_attn:
            extra_keys.append(torch.zeros_like(keys[:, :, :1]))
            extra_values.append(torch.zeros_like(values[:, :, :1]))
        extra = len(extra_keys) - 1
        if extra == 0:
            return keys, values, mask, bias
        return (
            torch.cat(extra_keys, 2),
            torch.cat(extra_values, 2),
            None if mask is None else AlwaysSeen(mask, extra),
            None if bias is None else nn.functional.pad(bias, (0, extra)),
        )

    def _check_widths(self, query: Tensor | None, *others: Tensor) -> None:
        """Raise unless query, memory and values (`others`) have their widths."""
        for name, width, vectors in zip(
            ("query", "memory", "values"), self.dims, (query, *others), strict=False
        ):
            if vectors is not None and vectors.shape[-1] != width:
                raise ShapeError(
                    f"this attention was built for {name} of width {width}, "
                    f"got {vectors.shape[-1]}; the widths are set by dim, key_dim and value_dim"
                )

    def extra_repr(self) -> str:
        return f"{self.dim}, num_heads={self.num_heads}, head_dim={self.head_dim}"


def _sharing(query: Tensor, rows: int) -> Tensor:
    """Return (n * rows, q, d) as (rows, n * q, d), so that n rows share one row of memory."""
    if query.shape[0] == rows:
        return query
    if len(query) % rows:
        raise ShapeError(
            f"{len(query)} rows of queries cannot share {rows} rows of memory evenly; their number "
            f"must be a multiple of {rows}"
        )
    return query.reshape(rows, -1, query.shape[-1])


def _head_dim(dim: int, num_heads: int, head: str, head_dim: int | None) -> int:
    if head_dim is not None:
        if head == "full":
            raise ShapeError(
                f'head_dim={head_dim} does not go with head="full", whose heads are {dim} wide; '
                "leave one of them out"
            )
        return head_dim
    if head == "full":
        return dim
    if head != "split":
        raise ShapeError(f'head must be "split" or "full", got {head!r}; leave it out for "split"')
    if num_heads < 1 or dim % num_heads:
        raise ShapeError(
            f"dim={dim} cannot be split into num_heads={num_heads} equal heads: "
            f"{dim} is not divisible by {num_heads}; change one of them, or set head_dim"
        )
    return dim // num_heads
