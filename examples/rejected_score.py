"""A score that cannot work: one linear layer on the concatenation of query and key.

    e(q, k) = w · [q; k] + c

The query contributes the same number to the score of every key, so softmax over the keys cancels
it: all queries get the same weights. A score that reads both needs the tanh of `Additive`.

    python examples/rejected_score.py
"""

import torch
from torch import Tensor, nn

from saccade.attention import Additive, Factor, FactoredScore
from saccade.shapes import Float


class Affine(FactoredScore):
    """e(q, k) = w · [q; k] + c, as factors [w_q · q + c, 1] · [1, w_k · k].

    Args:
        query_dim: Width of the queries.
        key_dim: Width of the keys.
    """

    def __init__(self, query_dim: int, key_dim: int) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, 1)
        self.key_proj = nn.Linear(key_dim, 1, bias=False)

    def prepare(self, keys: Float[Tensor, "*c k e"]) -> Float[Tensor, "*c k 2"]:
        """Return [1, w_k · k] for each key."""
        projected = self.key_proj(keys)
        return torch.cat((torch.ones_like(projected), projected), -1)

    def factor(self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k 2"]) -> Factor:
        """Return [w_q · q + c, 1] for each query."""
        projected = self.query_proj(query)
        return Factor(torch.cat((projected, torch.ones_like(projected)), -1), 1.0)


def spread(weights: Float[Tensor, "q k"]) -> float:
    """Return the largest difference between the weights of two queries for the same key."""
    return float((weights.amax(0) - weights.amin(0)).max())


def main() -> None:
    """Print by how much the weights of several queries differ, for both scores."""
    torch.manual_seed(0)
    query, keys = torch.randn(5, 8), torch.randn(7, 6)
    for score in (Affine(8, 6), Additive(8, 6, 16)):
        weights = score(query, keys).softmax(-1).detach()
        print(f"{type(score).__name__}: weights of 5 queries differ by up to {spread(weights):.4f}")


if __name__ == "__main__":
    main()
