"""Twins: parts of our models as torch's exporter can follow them.

torch.export follows a model once, with symbols for sizes and without values. Most of our parts pass
as they are. Those that branch on values (is a row fully masked, is a position beyond the table,
which tokens are padding) have a twin here: a subclass with the same parameters and the same result
without the branch. A twin is only ever followed, never trained.

To add one, write the subclass and put it into `TWINS`.
"""

import copy
import math
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import torch
from torch import nn

from saccade.attention import Attend, KeyValueCache, Prepared
from saccade.attention.masks import Mask
from saccade.attention.scores import Additive
from saccade.layers.recurrent import Cell, Recurrent, RecurrentState
from saccade.positions.base import Grid, Places
from saccade.positions.conditional import Conditional
from saccade.positions.learned import Learned
from saccade.positions.relative2d import Relative2d
from saccade.positions.sinusoidal import Sinusoidal, waves
from saccade.shapes import Bool, Float, Tensor

OPSET = 20
"""The version of ONNX's operators."""

ModuleT = TypeVar("ModuleT", bound=nn.Module)


def followable(model: ModuleT) -> ModuleT:
    """Return a copy on the CPU, in eval mode and float32, with twins where parts have one."""
    copied = copy.deepcopy(model).cpu().float().eval()
    for module in copied.modules():
        if type(module) in TWINS:
            module.__class__ = TWINS[type(module)]
    return copied


class PlainAttend(Attend):
    """Scores, softmax, context, without other paths; a fully masked query reads zeros."""

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        keys: Float[Tensor, "*c k e"] | Prepared,
        values: Float[Tensor, "*f k w"],
        mask: Mask | None = None,
        bias: Float[Tensor, "*g q k"] | None = None,
    ) -> Float[Tensor, "*a q w"]:
        """Return the context of each query."""
        match keys:
            case Prepared(keys=prepared):
                pass
            case _:
                prepared = self.prepare(keys).keys
        scores = self.score.compare(query, prepared)
        if bias is not None:
            scores = scores + bias
        visible = None if mask is None else mask.visible(scores.shape, scores.device)
        if visible is None:
            return scores.softmax(-1) @ values
        masked = ~visible.any(-1, keepdim=True)
        weights = scores.masked_fill(~(visible | masked), -torch.inf).softmax(-1)
        return weights.masked_fill(masked, 0.0) @ values


class PairwiseAdditive(Additive):
    """The additive score of all pairs at once, however many they are."""

    def compare(
        self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k r"]
    ) -> Float[Tensor, "*a q k"]:
        """Return v · tanh(query + key) for all pairs."""
        pairs = self.query_proj(query).unsqueeze(-2) + prepared.unsqueeze(-3)
        return torch.tanh(pairs) @ self.energy.weight[0]


class ComputedSinusoidal(Sinusoidal):
    """Sinusoids that are computed instead of looked up, for any length."""

    def table(self, at: Places, dtype: torch.dtype) -> Float[Tensor, "*b n d"]:
        """Return the vector of each position."""
        match at:
            case Grid():
                return super().table(at, dtype)
        return waves(at, self.dim, self.base, self.layout).to(dtype)


class UncheckedLearned(Learned):
    """A learned table without a check of the length, which the caller must keep to."""

    def _index(self, at: Places) -> Tensor:
        match at, self.length:
            case Grid() as grid, (_, columns):
                return torch.where(grid.placed, 1 + grid.rows * columns + grid.columns, 0)
        return cast("Tensor", at)


class UncheckedRelative2d(Relative2d):
    """Distances without a check: images of one size never exceed the tables."""

    @staticmethod
    def _index(at_q: Tensor, at_k: Tensor, size: int, name: str) -> Tensor:
        return at_k.clamp(min=0) - at_q.clamp(min=0)[:, None] + size - 1


class SquareConditional(Conditional):
    """For texts, and for square images after at most one token without a place."""

    def embed(self, x: Float[Tensor, "*b n d"], at: Places) -> Float[Tensor, "*b n d"]:
        """Return the tokens, each with the convolution over its neighbours added."""
        if type(at) is not Grid:
            row = x.transpose(1, 2).unsqueeze(2)
            return x + self.convolution(row).squeeze(2).transpose(1, 2)
        side = math.isqrt(x.shape[1])
        nowhere, cells = x.split((x.shape[1] - side * side, side * side), 1)
        image = cells.unflatten(1, (side, side)).permute(0, 3, 1, 2)
        read = self.convolution(image).flatten(2).transpose(1, 2)
        return torch.cat((nowhere, cells + read), 1)


class OnnxRecurrent(Recurrent):
    """Recurrent layers as ONNX's own operators, which take the lengths of the rows."""

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        state: RecurrentState | None = None,
        mask: Bool[Tensor, "b n"] | None = None,
    ) -> tuple[Float[Tensor, "b n e"], RecurrentState]:
        """Return the states at all positions, zero at padding, and the last real state."""
        lengths = None if mask is None else mask.sum(1).int()
        directions = 2 if self.network.bidirectional else 1
        x, ends = x.transpose(0, 1), []
        for layer in range(self.network.num_layers):
            rows = slice(layer * directions, (layer + 1) * directions)
            first = () if state is None else tuple(part[rows] for part in state)
            x, last = self._layer(layer, directions, x, lengths, first)
            ends.append(last)
        return x.transpose(0, 1), tuple(torch.cat(parts) for parts in zip(*ends, strict=True))

    def _layer(
        self, layer: int, directions: int, x: Tensor, lengths: Tensor | None, first: RecurrentState
    ) -> tuple[Tensor, RecurrentState]:
        """Run one layer over (n, b, d), with all its directions."""
        names = [f"l{layer}{end}" for end in ("", "_reverse")[:directions]]
        weights = self._weights(("weight_ih", "weight_hh"), names)
        bias = torch.cat(self._weights(("bias_ih", "bias_hh"), names), 1)
        shape = (directions, x.shape[1], self.network.hidden_size)
        states, *last = torch.onnx.ops.symbolic_multi_out(
            self.cell.upper(),
            (x, *weights, bias, lengths, *first),
            _ATTRIBUTES[self.cell]
            | {
                "hidden_size": self.network.hidden_size,
                "direction": "bidirectional" if directions == 2 else "forward",
            },
            dtypes=[x.dtype] * (1 + self.num_parts),
            shapes=[(x.shape[0], *shape), *[shape] * self.num_parts],
            version=OPSET,
        )
        return states.transpose(1, 2).flatten(2), tuple(last)

    def _weights(self, kinds: tuple[str, ...], names: list[str]) -> list[Tensor]:
        """Return for each kind the weights of all directions, gates in ONNX's order."""
        return [
            torch.stack([self._ordered(getattr(self.network, f"{kind}_{name}")) for name in names])
            for kind in kinds
        ]

    def _ordered(self, weight: Tensor) -> Tensor:
        order = _GATES[self.cell]
        return weight.unflatten(0, (len(order), -1))[list(order)].flatten(0, 1)


# The place of ONNX's gates in torch's weights: GRU's z r h in r z n, LSTM's i o f c in i f g o.
_GATES: Mapping[Cell, tuple[int, ...]] = {"rnn": (0,), "gru": (1, 0, 2), "lstm": (0, 3, 1, 2)}
_ATTRIBUTES: Mapping[Cell, dict[str, Any]] = {
    "rnn": {},
    "gru": {"linear_before_reset": 1},
    "lstm": {},
}

TWINS: Mapping[type[nn.Module], type[nn.Module]] = {
    Attend: PlainAttend,
    Additive: PairwiseAdditive,
    Sinusoidal: ComputedSinusoidal,
    Learned: UncheckedLearned,
    Relative2d: UncheckedRelative2d,
    Conditional: SquareConditional,
    Recurrent: OnnxRecurrent,
}


class Past(KeyValueCache):
    """A cache whose keys and values are inputs and outputs of a graph."""

    def __init__(
        self,
        keys: Float[Tensor, "b h n d"] | None = None,
        values: Float[Tensor, "b h n w"] | None = None,
    ) -> None:
        super().__init__()
        self.kept = () if keys is None or values is None else (keys, values)
        self.length = 0 if keys is None else keys.shape[2]

    def append(
        self, keys: Float[Tensor, "b h n d"], values: Float[Tensor, "b h n w"]
    ) -> tuple[Float[Tensor, "b h k d"], Float[Tensor, "b h k w"]]:
        """Return the keys and values of all tokens."""
        if self.kept:
            keys, values = torch.cat((self.kept[0], keys), 2), torch.cat((self.kept[1], values), 2)
        self.kept, self.length = (keys, values), keys.shape[2]
        return keys, values
