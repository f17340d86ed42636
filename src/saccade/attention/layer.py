"""The general attention layer: any queries, keys and values from one set of vectors."""

from torch import nn

from saccade.attention.attend import Attend
from saccade.attention.masks import Mask
from saccade.attention.scores import Score, score_of
from saccade.errors import ShapeError
from saccade.shapes import Float, Tensor


class AttentionLayer(nn.Module):
    """Attention of M queries over N vectors, with its own keys and values.

        K = X W_k,    V = Y W_v,    a_j = softmax_i(e(q_j, k_i)),    y_j = Σ_i a_ji v_i

    Queries are used unchanged and may come from anywhere; with q = X W_q, the layer is
    self-attention. Keys are projected to the width of the queries, so that every score fits. Use
    `MultiHeadAttention` for heads, positions and caches.

    Args:
        query_dim: Width of the queries, and of the keys after W_k.
        key_dim: Width of the memory X. Default: `query_dim`.
        value_dim: Width of the values Y. Default: `key_dim`.
        out_dim: Width of the values after W_v, and of the output. Default: `value_dim`.
        score: A score for queries and keys of width `query_dim`, or the kind of one, such as
            "additive".
        dropout: Probability with which a weight is set to 0, in training mode only.
        bias: Add biases to W_k and W_v.

    Examples:
        >>> import torch
        >>> from saccade.attention import AttentionLayer
        >>> layer = AttentionLayer(query_dim=6, key_dim=4, out_dim=10, score="additive")
        >>> query, memory = torch.randn(2, 3, 6), torch.randn(2, 5, 4)
        >>> layer(query, memory).shape, layer(query, torch.randn(2, 7, 7, 4)).shape
        (torch.Size([2, 3, 10]), torch.Size([2, 3, 10]))
    """

    def __init__(
        self,
        query_dim: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        out_dim: int | None = None,
        *,
        score: Score | str = "scaled_dot",
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        key_dim = query_dim if key_dim is None else key_dim
        value_dim = key_dim if value_dim is None else value_dim
        out_dim = value_dim if out_dim is None else out_dim
        self.dims = (query_dim, key_dim, value_dim)
        self.key_proj = nn.Linear(key_dim, query_dim, bias=bias)
        self.value_proj = nn.Linear(value_dim, out_dim, bias=bias)
        self.attend = Attend(score_of(score, query_dim, query_dim), dropout)

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        memory: Float[Tensor, "*c k e"],
        values: Float[Tensor, "*c k f"] | None = None,
        *,
        mask: Mask | None = None,
    ) -> Float[Tensor, "*a q w"]:
        """Return one vector per query.

        Args:
            query: Queries (..., q, query_dim) with any leading axes.
            memory: Vectors (..., k, key_dim) with as many leading axes, which broadcast with those
                of the queries. With one axis more it is a grid (..., rows, columns, key_dim), whose
                cells are read row by row; to share queries among a batch, give them an axis of 1.
            values: Vectors that are summed, as many as in `memory`; the memory itself if None.
            mask: Which keys each query may see, the cells of a grid row by row; all, if None.

        Returns:
            The output (..., q, out_dim).

        Raises:
            ShapeError: If a width or the number of axes does not fit.
            MaskError: If the mask does not fit.
        """
        values = memory if values is None else values
        tensors = {"query": query, "memory": memory, "values": values}
        for (name, vectors), width in zip(tensors.items(), self.dims, strict=True):
            if vectors.shape[-1] != width:
                raise ShapeError(
                    f"this attention was built for {name} of width {width}, got "
                    f"{vectors.shape[-1]}; the widths are set by query_dim, key_dim and value_dim"
                )
        memory, values = (_flat(name, tensors[name], query.ndim) for name in ("memory", "values"))
        return self.attend(query, self.key_proj(memory), self.value_proj(values), mask)


def _flat(name: str, vectors: Tensor, axes: int) -> Tensor:
    """Return vectors with this number of axes; a grid has one more."""
    if vectors.ndim == axes + 1 and vectors.ndim > 2:
        return vectors.flatten(-3, -2)
    if vectors.ndim != axes:
        raise ShapeError(
            f"{name} must have {axes} axes like the queries, or {axes + 1} for a grid; got shape "
            f"{tuple(vectors.shape)}; add axes of 1 to the one that has fewer"
        )
    return vectors
