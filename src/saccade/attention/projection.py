"""The learned projections Q, K and V from inputs to queries, keys and values.

`Packed` keeps the three in one matrix, so that self-attention needs one product and cross-attention
two; all inputs must have the same width. `Separate` keeps three matrices.
"""

import torch
from torch import nn
from torch.nn import functional as F

from saccade.shapes import Float, Tensor


class Packed(nn.Module):
    """One matrix [Q; K; V] for inputs of the same width.

    Args:
        dim: Width of the inputs.
        query_width: Width of all query heads together.
        key_width: Width of all key heads together, and of all value heads.
        bias: Add a bias.
    """

    def __init__(self, dim: int, query_width: int, key_width: int, *, bias: bool) -> None:
        super().__init__()
        self.widths = (query_width, key_width, key_width)
        self.weight = nn.Parameter(torch.empty(sum(self.widths), dim))
        self.bias = nn.Parameter(torch.zeros(sum(self.widths))) if bias else None
        nn.init.xavier_uniform_(self.weight)

    def forward(
        self,
        query: Float[Tensor, "b q d"],
        memory: Float[Tensor, "b k d"],
        values: Float[Tensor, "b k d"],
    ) -> tuple[Float[Tensor, "b q e"], Float[Tensor, "b k g"], Float[Tensor, "b k g"]]:
        if query is memory is values:
            packed = F.linear(query, self.weight, self.bias)
            projected_query, keys, projected_values = packed.split(self.widths, -1)
            return projected_query, keys, projected_values
        return self._part(query, 0, 1), *self.memory(memory, values)

    def memory(
        self, memory: Float[Tensor, "b k d"], values: Float[Tensor, "b k d"]
    ) -> tuple[Float[Tensor, "b k g"], Float[Tensor, "b k g"]]:
        """Return keys and values alone."""
        if memory is values:
            keys, projected_values = self._part(memory, 1, 3).split(self.widths[1:], -1)
            return keys, projected_values
        return self._part(memory, 1, 2), self._part(values, 2, 3)

    def query(self, query: Float[Tensor, "b q d"]) -> Float[Tensor, "b q e"]:
        """Return queries alone."""
        return self._part(query, 0, 1)

    def _part(self, vectors: Tensor, first: int, last: int) -> Tensor:
        rows = slice(sum(self.widths[:first]), sum(self.widths[:last]))
        bias = None if self.bias is None else self.bias[rows]
        return F.linear(vectors, self.weight[rows], bias)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[1]} -> {self.widths}, bias={self.bias is not None}"


class Separate(nn.Module):
    """Three matrices, for a memory and values whose widths differ from that of the query.

    Args:
        dims: Widths of query, memory and values as they come in.
        query_width: Width of all query heads together.
        key_width: Width of all key heads together, and of all value heads.
        bias: Add biases.
    """

    def __init__(
        self,
        dims: tuple[int, int, int],
        query_width: int,
        key_width: int,
        *,
        bias: bool,
    ) -> None:
        super().__init__()
        self.query_proj = nn.Linear(dims[0], query_width, bias=bias)
        self.key_proj = nn.Linear(dims[1], key_width, bias=bias)
        self.value_proj = nn.Linear(dims[2], key_width, bias=bias)
        for proj in (self.query_proj, self.key_proj, self.value_proj):
            nn.init.xavier_uniform_(proj.weight)
            if bias:
                nn.init.zeros_(proj.bias)

    def forward(
        self,
        query: Float[Tensor, "b q d"],
        memory: Float[Tensor, "b k e"],
        values: Float[Tensor, "b k f"],
    ) -> tuple[Float[Tensor, "b q g"], Float[Tensor, "b k h"], Float[Tensor, "b k h"]]:
        return self.query(query), *self.memory(memory, values)

    def memory(
        self, memory: Float[Tensor, "b k e"], values: Float[Tensor, "b k f"]
    ) -> tuple[Float[Tensor, "b k g"], Float[Tensor, "b k g"]]:
        """Return keys and values alone."""
        return self.key_proj(memory), self.value_proj(values)

    def query(self, query: Float[Tensor, "b q d"]) -> Float[Tensor, "b q e"]:
        """Return queries alone."""
        projected: Tensor = self.query_proj(query)
        return projected
