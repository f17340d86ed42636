"""Parts of our models as an exporter can follow them.

torch.export follows a model once, with shapes that are symbols and numbers that are not known. Most
of our parts pass as they are. Those that decide something by the numbers themselves (is any row
blind, is a place beyond the table, which tokens are padding) have a twin here: a subclass with the
same parameters that does the same without asking. A twin is only ever followed, never trained.

To add one, write the subclass and put it into `TWINS`.
"""

import copy
import math
from collections.abc import Mapping
from typing import Any, TypeVar

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
"""The version of ONNX's operators that is written."""

ModuleT = TypeVar("ModuleT", bound=nn.Module)


def followable(model: ModuleT) -> ModuleT:
    """A copy on the CPU, in eval mode and float32, whose parts are twins where they need one."""
    copied = copy.deepcopy(model).cpu().float().eval()
    for module in copied.modules():
        if type(module) in TWINS:
            module.__class__ = TWINS[type(module)]
    return copied


class PlainAttend(Attend):
    """Scores, softmax, context, with no other path; a blind query reads zeros."""

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        keys: Float[Tensor, "*c k e"] | Prepared,
        values: Float[Tensor, "*f k w"],
        mask: Mask | None = None,
        bias: Float[Tensor, "*g q k"] | None = None,
    ) -> Float[Tensor, "*a q w"]:
        """What each query reads."""
        prepared = (keys if isinstance(keys, Prepared) else self.prepare(keys)).keys
        scores = self.score.compare(query, prepared)
        if bias is not None:
            scores = scores + bias
        visible = None if mask is None else mask.visible(scores.shape, scores.device)
        if visible is None:
            return scores.softmax(-1) @ values
        blind = ~visible.any(-1, keepdim=True)
        weights = scores.masked_fill(~(visible | blind), -torch.inf).softmax(-1)
        return weights.masked_fill(blind, 0.0) @ values


class WholeAdditive(Additive):
    """All pairs at once, however many they are."""

    def compare(
        self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k r"]
    ) -> Float[Tensor, "*a q k"]:
        """v · tanh(query + key)."""
        pairs = self.query_proj(query).unsqueeze(-2) + prepared.unsqueeze(-3)
        return torch.tanh(pairs) @ self.energy.weight[0]


class ComputedSinusoidal(Sinusoidal):
    """The waves themselves, not a table of them: any length."""

    def table(self, at: Places, dtype: torch.dtype) -> Float[Tensor, "*b n d"]:
        """The vector of each place."""
        if isinstance(at, Grid):
            return super().table(at, dtype)
        return waves(at, self.dim, self.base, self.layout).to(dtype)


class UncheckedLearned(Learned):
    """The table, whose length whoever runs the model must keep to."""

    def _index(self, at: Places) -> Tensor:
        if not isinstance(at, Grid):
            return at
        assert not isinstance(self.length, int)
        return torch.where(at.placed, 1 + at.rows * self.length[1] + at.columns, 0)


class UncheckedRelative2d(Relative2d):
    """The distances, which the one size of image that a model reads keeps within the tables."""

    @staticmethod
    def _index(at_q: Tensor, at_k: Tensor, size: int, name: str) -> Tensor:
        return at_k.clamp(min=0) - at_q.clamp(min=0)[:, None] + size - 1


class SquareConditional(Conditional):
    """For text, and for square images after at most one token that stands nowhere."""

    def embed(self, x: Float[Tensor, "*b n d"], at: Places) -> Float[Tensor, "*b n d"]:
        """The tokens, each with what its neighbours say of its place."""
        if not isinstance(at, Grid):
            row = x.transpose(1, 2).unsqueeze(2)
            return x + self.convolution(row).squeeze(2).transpose(1, 2)
        side = math.isqrt(x.shape[1])
        nowhere, cells = x.split((x.shape[1] - side * side, side * side), 1)
        image = cells.unflatten(1, (side, side)).permute(0, 3, 1, 2)
        read = self.convolution(image).flatten(2).transpose(1, 2)
        return torch.cat((nowhere, cells + read), 1)


class OnnxRecurrent(Recurrent):
    """ONNX's own operators for whole layers, which take the lengths of the rows."""

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        state: RecurrentState | None = None,
        mask: Bool[Tensor, "b n"] | None = None,
    ) -> tuple[Float[Tensor, "b n e"], RecurrentState]:
        """States at every place, zero at padding, and the state after the last real token."""
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
        """One layer over (n, b, d), with all its directions."""
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
        """For each kind the weights of all directions, gates in ONNX's order."""
        return [
            torch.stack([self._ordered(getattr(self.network, f"{kind}_{name}")) for name in names])
            for kind in kinds
        ]

    def _ordered(self, weight: Tensor) -> Tensor:
        order = _GATES[self.cell]
        return weight.unflatten(0, (len(order), -1))[list(order)].flatten(0, 1)


# Where ONNX's gates stand in torch's weights: GRU's z r h in r z n, LSTM's i o f c in i f g o.
_GATES: Mapping[Cell, tuple[int, ...]] = {"rnn": (0,), "gru": (1, 0, 2), "lstm": (0, 3, 1, 2)}
_ATTRIBUTES: Mapping[Cell, dict[str, Any]] = {
    "rnn": {},
    "gru": {"linear_before_reset": 1},
    "lstm": {},
}

TWINS: Mapping[type[nn.Module], type[nn.Module]] = {
    Attend: PlainAttend,
    Additive: WholeAdditive,
    Sinusoidal: ComputedSinusoidal,
    Learned: UncheckedLearned,
    Relative2d: UncheckedRelative2d,
    Conditional: SquareConditional,
    Recurrent: OnnxRecurrent,
}


class Past(KeyValueCache):
    """Keys and values that come in and go out as tensors: appending makes new ones."""

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
        """Those of all tokens."""
        if self.kept:
            keys, values = torch.cat((self.kept[0], keys), 2), torch.cat((self.kept[1], values), 2)
        self.kept, self.length = (keys, values), keys.shape[2]
        return keys, values
