"""Recurrent networks with one interface.

Vanilla RNN (Elman 1990), LSTM (Hochreiter and Schmidhuber 1997) and GRU (Cho et al. 2014) of torch,
over a complete sequence or one step at a time. The state is a tuple of tensors (layers, b, d): one
for RNN and GRU, two (h, c) for LSTM.
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
    """A stack of recurrent layers of one kind.

    Args:
        cell: "rnn", "gru" or "lstm".
        input_dim: Width of the inputs.
        dim: Width of the state of one direction.
        num_layers: Number of layers.
        bidirectional: Read from both ends and concatenate the states.
        dropout: Dropout between layers.
    """

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
        """Return the same network with the weights of torch's module, but always batch first.

        Raises:
            ShapeError: If the module uses ReLU, projections or no bias.
        """
        kinds: dict[str, Cell] = {"RNN_TANH": "rnn", "GRU": "gru", "LSTM": "lstm"}
        if twin.mode not in kinds or twin.proj_size or not twin.bias:
            raise ShapeError(
                f"{twin} has no counterpart here; supported are nn.RNN with tanh, nn.GRU and "
                "nn.LSTM, with bias and without proj_size"
            )
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
        """The number of tensors in a state."""
        return 2 if self.cell == "lstm" else 1

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        state: RecurrentState | None = None,
        mask: Bool[Tensor, "b n"] | None = None,
    ) -> tuple[Float[Tensor, "b n e"], RecurrentState]:
        """Read a sequence.

        Args:
            x: Input vectors.
            state: State to start from; zeros if None.
            mask: True at real tokens, which must come first; padding is not read.

        Returns:
            The states at every place (zero at padding), and the state after the last real token.

        Raises:
            ShapeError: If padding is not at the end, or a row has no real token.
        """
        initial = None if state is None else (state if self.cell == "lstm" else state[0])
        if mask is None or bool(mask.all()):
            states, last = self.network(x, initial)
        else:
            packed = pack_padded_sequence(x, _lengths(mask), batch_first=True, enforce_sorted=False)
            states, last = self.network(packed, initial)
            states, _ = pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])
        return states, last if self.cell == "lstm" else (last,)


def select_rows(state: RecurrentState, rows: Int[Tensor, " n"]) -> RecurrentState:
    """Return the state of these rows of the batch."""
    return tuple(part.index_select(1, rows) for part in state)


def _lengths(mask: Tensor) -> Tensor:
    lengths = mask.sum(1)
    first = torch.arange(mask.shape[1], device=mask.device) < lengths.unsqueeze(1)
    if not torch.equal(first, mask):
        raise ShapeError("a recurrent network takes padding at the end only; put real tokens first")
    if bool((lengths == 0).any()):
        raise ShapeError(
            f"row {int(lengths.argmin())} of the batch is empty; each row needs at least 1 token"
        )
    return lengths.cpu()
