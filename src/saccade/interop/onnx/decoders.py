"""How decoders write, as graphs that speak of the same tensors:

    encoder        what is read -> the memory, and the state before the first token
    decoder        tokens so far, memory -> the logits of what follows each
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
from saccade.interfaces import Memory
from saccade.interop.onnx.graphs import LOGITS, TOKENS, Graph, Looped, Port, Tensors
from saccade.interop.onnx.twins import Past
from saccade.shapes import Tensor

SOURCE_MASK = "source_mask"


class Writing(ABC):
    """How a decoder writes, in terms of named tensors.

    memory   what it reads at each step and does not change, besides a mask of the source
    state    what each step changes, and the name of it after the step
    empty    of a state that the encoder does not give: its shape before the first token
    """

    memory: Sequence[Port]
    state: Mapping[Port, str]
    empty: Mapping[str, Sequence[int | str]]
    new: int | str
    """How many tokens a step takes."""

    def __init__(self, *, masked: bool) -> None:
        self.mask = [Port.mask(SOURCE_MASK, "source")] if masked else []

    @property
    @abstractmethod
    def begun(self) -> list[str]:
        """What `begin` gives, in its order."""

    @abstractmethod
    def begin(self, memory: Memory) -> list[Tensor]:
        """What is kept of what was read: memory and state."""

    @abstractmethod
    def step(self, given: Tensors) -> list[Tensor]:
        """The logits of what follows the last token, and the state after it."""

    @abstractmethod
    def whole_graph(self, step: Graph) -> Graph:
        """All tokens so far, where `step` takes the new ones."""

    def graphs(self, model: nn.Module, vocabulary: int) -> dict[str, Graph]:
        """Both decoders of this model."""
        tokens = Port.tokens(TOKENS, self.new, vocabulary)
        inputs = [tokens, *self.mask, *self.memory, *self.state]
        step = Graph(model, self.step, inputs, [LOGITS, *self.state.values()])
        return {"decoder": self.whole_graph(step), "decoder_step": step}


class TransformerWriting(Writing):
    """Keys and values of the memory are made once, those of the text grow with it."""

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
        """The memory; a text begins with nothing."""
        return [port.name for port in self.memory]

    def begin(self, memory: Memory) -> list[Tensor]:
        """The keys and values of each layer."""
        read = [block.project(memory.states) for block in self.decoder.blocks()]
        return [part for each in read for part in (each.keys, each.values)]

    def step(self, given: Tensors) -> list[Tensor]:
        """Several tokens at once are read as one after the other would be."""
        past = [given[port.name] for port in self.state]
        caches = [Past(*past[i : i + 2]) for i in range(0, len(past), 2)]
        x = self._extended(given, caches)
        return [self.decoder.output(x[:, -1]), *(part for each in caches for part in each.kept)]

    def whole(self, given: Tensors) -> list[Tensor]:
        """The logits of what follows each token."""
        return [self.decoder.output(self._extended(given, [Past() for _ in self.decoder.layers]))]

    def whole_graph(self, step: Graph) -> Graph:
        """Without a past."""
        inputs = [port for port in step.inputs if port not in self.state]
        return Graph(step.model, self.whole, inputs, [LOGITS])

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
    """The state of the cells, and what is fed on; a memory to look at, or one context vector."""

    new = 1
    empty: Mapping[str, Sequence[int | str]] = {}

    def __init__(self, decoder: RecurrentDecoder, *, masked: bool) -> None:
        looks = isinstance(decoder, AttentiveDecoder)
        super().__init__(masked=masked and looks)
        self.decoder = decoder
        self.fed_dim = decoder.fed_dim if isinstance(decoder, AttentiveDecoder) else 0
        self.cells = [
            Port(f"cells.{i}", ("batch", decoder.num_layers, decoder.dim))
            for i in range(decoder.recurrent.num_parts)
        ]
        self.fed = [Port("fed", ("batch", self.fed_dim))] if self.fed_dim else []
        self.state = {port: f"next_{port.name}" for port in (*self.cells, *self.fed)}
        self.memory = self._memory(decoder)

    @property
    def begun(self) -> list[str]:
        """The first state, and the memory."""
        return [port.name for port in (*self.state, *self.memory)]

    def begin(self, memory: Memory) -> list[Tensor]:
        """What the decoder starts from."""
        state = self.decoder.start(memory)
        read = [state.fed] if state.keys is None else [state.keys, state.values]
        return [*self._changing(state), *(part for part in read if part is not None)]

    def step(self, given: Tensors) -> list[Tensor]:
        """One token."""
        cells = tuple(given[port.name].transpose(0, 1) for port in self.cells)
        if isinstance(self.decoder, AttentiveDecoder):
            keys, values = (given[port.name] for port in self.memory)
            fed = given["fed"] if self.fed else values.new_zeros(values.shape[0], 0)
            state = RecurrentDecoderState(cells, fed, keys, values, given.get(SOURCE_MASK))
        else:
            [context] = (given[port.name] for port in self.memory)
            state = RecurrentDecoderState(cells, context)
        logits, after = self.decoder.step(given[TOKENS][:, 0], state)
        return [logits, *self._changing(after)]

    def whole_graph(self, step: Graph) -> Graph:
        """One after the other."""
        return Looped(step, self.state)

    def _changing(self, state: RecurrentDecoderState) -> list[Tensor]:
        cells = [part.transpose(0, 1) for part in state.cells]
        return [*cells, state.fed] if self.fed else cells

    @staticmethod
    def _memory(decoder: RecurrentDecoder) -> list[Port]:
        width = decoder.readout.in_features - decoder.dim
        if not isinstance(decoder, AttentiveDecoder):
            return [Port("memory_context", ("batch", width))]
        with torch.no_grad():
            keys = decoder.attend.prepare(torch.zeros(1, 1, width)).keys.shape[-1]
        return [
            Port("memory_keys", ("batch", "source", keys)),
            Port("memory_values", ("batch", "source", width)),
        ]


def writing_of(
    decoder: nn.Module, *, masked: bool = False
) -> TransformerWriting | RecurrentWriting:
    """How this decoder writes; `masked` tells that what it reads may be padded."""
    if isinstance(decoder, TransformerDecoder):
        return TransformerWriting(decoder, masked=masked)
    assert isinstance(decoder, RecurrentDecoder)
    return RecurrentWriting(decoder, masked=masked)
