"""Decoders as graphs that share named tensors:

    encoder        inputs -> the memory, and the state before the first token
    decoder        tokens so far, memory -> the logits of what follows each token
    decoder_step   new tokens, memory, state -> the logits of what follows the last, the new state

Rows of the batch are the first axis of every tensor, so that a search can choose among them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from saccade.attention import Projected
from saccade.decoders.recurrent import AttentiveDecoder, RecurrentDecoder, RecurrentDecoderState
from saccade.decoders.transformer import TransformerDecoder, TransformerState
from saccade.errors import InteropError
from saccade.interfaces import Memory
from saccade.interop.onnx.graphs import LOGITS, TOKENS, Graph, Looped, Port, Tensors
from saccade.interop.onnx.twins import Past
from saccade.shapes import Tensor

SOURCE_MASK = "source_mask"


class Writing(ABC):
    """A decoder in terms of named tensors.

    Attributes:
        memory: The inputs of a step that it does not change, except the mask of the source.
        state: The inputs of a step that it changes, with their names after the step.
        empty: The shape before the first token of each state that the encoder does not return.
        new: The number of tokens that a step takes.
    """

    memory: Sequence[Port]
    state: Mapping[Port, str]
    empty: Mapping[str, Sequence[int | str]]
    new: int | str

    def __init__(self, *, masked: bool) -> None:
        self.mask = [Port.mask(SOURCE_MASK, "source")] if masked else []

    @property
    @abstractmethod
    def begun(self) -> list[str]:
        """The names of what `begin` returns, in its order."""

    @abstractmethod
    def begin(self, memory: Memory) -> list[Tensor]:
        """Return the memory and the state before the first token."""

    @abstractmethod
    def step(self, given: Tensors) -> list[Tensor]:
        """Return the logits of what follows the last token, and the state after it."""

    @abstractmethod
    def sequence_graph(self, step: Graph) -> Graph:
        """Return the graph that takes all tokens so far, where `step` takes the new ones."""

    def graphs(self, model: nn.Module, vocabulary: int) -> dict[str, Graph]:
        """Return both decoders of this model."""
        tokens = Port.tokens(TOKENS, self.new, vocabulary)
        inputs = [tokens, *self.mask, *self.memory, *self.state]
        step = Graph(model, self.step, inputs, [LOGITS, *self.state.values()])
        return {"decoder": self.sequence_graph(step), "decoder_step": step}


class TransformerWriting(Writing):
    """A Transformer: the memory's keys and values are computed once, those of the text grow."""

    new = "length"

    def __init__(self, decoder: TransformerDecoder, *, masked: bool) -> None:
        super().__init__(masked=masked)
        self.decoder = decoder
        blocks = list(enumerate(decoder.blocks()))
        self.memory = [
            Port(f"memory_{what}.{i}", ("batch", x.cross.num_kv_heads, "source", x.cross.head_dim))
            for i, x in blocks
            if x.cross is not None
            for what in ("keys", "values")
        ]
        self.state = {
            Port(
                f"past_{what}.{i}",
                ("batch", x.self_attention.num_kv_heads, "past", x.self_attention.head_dim),
            ): f"present_{what}.{i}"
            for i, x in blocks
            for what in ("keys", "values")
        }
        self.empty = {
            port.name: [0 if axis == "past" else axis for axis in port.axes] for port in self.state
        }

    @property
    def begun(self) -> list[str]:
        """The names of the memory; a text begins with nothing."""
        return [port.name for port in self.memory]

    def begin(self, memory: Memory) -> list[Tensor]:
        """Return the keys and values of each layer."""
        read = [block.project(memory.states) for block in self.decoder.blocks()]
        return [part for past in read for part in (past.keys, past.values)]

    def step(self, given: Tensors) -> list[Tensor]:
        """Return the logits after several tokens, which are read as if one after the other."""
        past = [given[port.name] for port in self.state]
        caches = [Past(*past[i : i + 2]) for i in range(0, len(past), 2)]
        x = self._extended(given, caches)
        return [self.decoder.output(x[:, -1]), *(part for cache in caches for part in cache.kept)]

    def sequence(self, given: Tensors) -> list[Tensor]:
        """Return the logits of what follows each token."""
        return [self.decoder.output(self._extended(given, [Past() for _ in self.decoder.layers]))]

    def sequence_graph(self, step: Graph) -> Graph:
        """Return the graph without a past."""
        inputs = [port for port in step.inputs if port not in self.state]
        return Graph(step.model, self.sequence, inputs, [LOGITS])

    def _extended(self, given: Tensors, caches: Sequence[Past]) -> Tensor:
        read = [given[port.name] for port in self.memory]
        state = TransformerState(
            caches=tuple(caches),
            memories=tuple(Projected(*read[i : i + 2]) for i in range(0, len(read), 2)),
            memory_mask=given.get(SOURCE_MASK),
            length=caches[0].length,
        )
        return self.decoder.extend(given[TOKENS], state)[0]


class RecurrentWriting(Writing):
    """A recurrent decoder that reads one context vector."""

    new = 1
    empty: Mapping[str, Sequence[int | str]] = {}

    def __init__(self, decoder: RecurrentDecoder, *, masked: bool = False) -> None:
        super().__init__(masked=masked)
        self.decoder = decoder
        self.width = decoder.readout.in_features - decoder.dim
        self.memory = [Port("memory_context", ("batch", self.width))]
        self.cells = [
            Port(f"cells.{i}", ("batch", decoder.num_layers, decoder.dim))
            for i in range(decoder.recurrent.num_parts)
        ]
        self.state = {port: f"next_{port.name}" for port in self.cells}

    @property
    def begun(self) -> list[str]:
        """The names of the first state and of the memory."""
        return [port.name for port in (*self.state, *self.memory)]

    def begin(self, memory: Memory) -> list[Tensor]:
        """Return the state and the memory that the decoder starts from."""
        state = self.decoder.start(memory)
        return [*self._changing(state), *self._constant(state)]

    def step(self, given: Tensors) -> list[Tensor]:
        """Return the logits after one token, and the new state."""
        logits, after = self.decoder.step(given[TOKENS][:, 0], self._state(given))
        return [logits, *self._changing(after)]

    def sequence_graph(self, step: Graph) -> Graph:
        """Return a loop over the steps."""
        return Looped(step, self.state)

    def _state(self, given: Tensors) -> RecurrentDecoderState:
        return RecurrentDecoderState(self._cells(given), given["memory_context"])

    def _cells(self, given: Tensors) -> tuple[Tensor, ...]:
        return tuple(given[port.name].transpose(0, 1) for port in self.cells)

    def _changing(self, state: RecurrentDecoderState) -> list[Tensor]:
        return [part.transpose(0, 1) for part in state.cells]

    def _constant(self, state: RecurrentDecoderState) -> list[Tensor]:
        return [state.fed]


class AttentiveWriting(RecurrentWriting):
    """A recurrent decoder that attends to the memory."""

    def __init__(self, decoder: AttentiveDecoder, *, masked: bool) -> None:
        super().__init__(decoder, masked=masked)
        with torch.no_grad():
            keys = decoder.attend.prepare(torch.zeros(1, 1, self.width)).keys.shape[-1]
        self.memory = [
            Port("memory_keys", ("batch", "source", keys)),
            Port("memory_values", ("batch", "source", self.width)),
        ]
        self.fed = [Port("fed", ("batch", decoder.fed_dim))] if decoder.fed_dim else []
        self.state = {port: f"next_{port.name}" for port in (*self.cells, *self.fed)}

    def _state(self, given: Tensors) -> RecurrentDecoderState:
        keys, values = given["memory_keys"], given["memory_values"]
        fed = given["fed"] if self.fed else values.new_zeros(values.shape[0], 0)
        return RecurrentDecoderState(self._cells(given), fed, keys, values, given.get(SOURCE_MASK))

    def _changing(self, state: RecurrentDecoderState) -> list[Tensor]:
        cells = super()._changing(state)
        return [*cells, state.fed] if self.fed else cells

    def _constant(self, state: RecurrentDecoderState) -> list[Tensor]:
        return [part for part in (state.keys, state.values) if part is not None]


def writing_of(decoder: nn.Module, *, masked: bool = False) -> Writing:
    """Return a decoder as graphs; `masked` if its memory may contain padding.

    Raises:
        InteropError: There are no graphs for such a decoder.
    """
    match decoder:
        case TransformerDecoder():
            return TransformerWriting(decoder, masked=masked)
        case AttentiveDecoder():
            return AttentiveWriting(decoder, masked=masked)
        case RecurrentDecoder():
            return RecurrentWriting(decoder)
    raise InteropError(
        f"a {type(decoder).__name__} cannot be exported to ONNX; predict with Saccade instead"
    )
