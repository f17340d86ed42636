"""Recurrent cells behind one face: vanilla RNN (Elman 1990), LSTM (Hochreiter and Schmidhuber 1997)
and GRU (Cho et al. 2014), torch's own, over a whole sequence or one step at a time.

The state is a tuple of tensors (layers, b, d): one for RNN and GRU, two (h, c) for LSTM.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from saccade.errors import ShapeError
from saccade.shapes import Bool, Float, Int, Tensor

Cell = Literal["rnn", "gru", "lstm"]
RecurrentState = tuple[Tensor, ...]


class Recurrent(nn.Module):
    """A stack of recurrent layers of one kind."""

    def __init__(
        self,
        cell: Cell,
        input_dim: int,
        dim: int,
        num_layers: int = 1,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        kinds: dict[Cell, Callable[..., nn.RNNBase]]
        kinds = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
        self.cell = cell
        self.network = kinds[cell](
            input_dim,
            dim,
            num_layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if num_layers > 1 else 0.0,
        )

    @classmethod
    def from_torch(cls, twin: nn.RNNBase) -> "Recurrent":
        """The same network with the weights of torch's (ours is always batch first)."""
        kinds: dict[str, Cell] = {"RNN_TANH": "rnn", "GRU": "gru", "LSTM": "lstm"}
        if twin.mode not in kinds or twin.proj_size or not twin.bias:
            raise ShapeError(f"{twin} has no counterpart here")
        ours = cls(
            kinds[twin.mode],
            twin.input_size,
            twin.hidden_size,
            twin.num_layers,
            bidirectional=twin.bidirectional,
            dropout=twin.dropout,
        )
        ours.network.load_state_dict(twin.state_dict())
        return ours.to(twin.weight_ih_l0).train(twin.training)  # type: ignore[arg-type]

    @property
    def num_parts(self) -> int:
        """How many tensors a state holds."""
        return 2 if self.cell == "lstm" else 1

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        state: RecurrentState | None = None,
        mask: Bool[Tensor, "b n"] | None = None,
    ) -> tuple[Float[Tensor, "b n e"], RecurrentState]:
        """States at every place, zero at padding, and the state after the last real token.

        `mask` is True at real tokens, which must come first; padding is not read at all.
        """
        given = None if state is None else (state if self.cell == "lstm" else state[0])
        if mask is None or bool(mask.all()):
            states, last = self.network(x, given)
        else:
            packed = pack_padded_sequence(x, _lengths(mask), batch_first=True, enforce_sorted=False)
            states, last = self.network(packed, given)
            states, _ = pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])
        return states, last if self.cell == "lstm" else (last,)


def select_rows(state: RecurrentState, rows: Int[Tensor, " n"]) -> RecurrentState:
    """The states of these rows of the batch."""
    return tuple(part.index_select(1, rows) for part in state)


def _lengths(mask: Tensor) -> Tensor:
    lengths = mask.sum(1)
    first = torch.arange(mask.shape[1], device=mask.device) < lengths.unsqueeze(1)
    if not torch.equal(first, mask):
        raise ShapeError("a recurrent reader takes padding at the end only")
    if bool((lengths == 0).any()):
        raise ShapeError(f"row {int(lengths.argmin())} of the batch is empty: nothing to read")
    return lengths.cpu()
