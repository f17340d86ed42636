"""Graphs: functions of named tensors that are exported for any batch size and length."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from logging import ERROR, getLogger
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from saccade.errors import InteropError
from saccade.interop.onnx.loop import over_time
from saccade.interop.onnx.twins import OPSET
from saccade.shapes import Tensor

if TYPE_CHECKING:
    from onnx import ModelProto

TOKENS, LOGITS = "tokens", "logits"
TOO_LARGE = 2**31
"""The size in bytes from which on an ONNX file cannot hold the weights."""
Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Port:
    """An input of a graph.

    Attributes:
        name: The name.
        axes: The size of each axis; a name if it may be of any size.
        dtype: The type of its numbers.
        below: The upper bound (exclusive) of integers.
    """

    name: str
    axes: tuple[int | str, ...]
    dtype: torch.dtype = torch.float32
    below: int = 1

    @classmethod
    def tokens(cls, name: str, length: int | str, vocabulary: int) -> "Port":
        """Return the port of token ids, or of other integers below `vocabulary`."""
        return cls(name, ("batch", length), torch.int64, vocabulary)

    @classmethod
    def mask(cls, name: str, length: str) -> "Port":
        """Return the port of a mask, True at real tokens."""
        return cls(name, ("batch", length), torch.bool)

    @property
    def named(self) -> dict[int, str]:
        """The names of axes that may be of any size, by the number of the axis."""
        return {i: axis for i, axis in enumerate(self.axes) if isinstance(axis, str)}

    def shape(self, sizes: Mapping[str, int]) -> list[int]:
        """Return the shape if the named axes are of these sizes."""
        named = {i: sizes[axis] for i, axis in self.named.items()}
        return [int(named.get(i, axis)) for i, axis in enumerate(self.axes)]

    def example(self, sizes: Mapping[str, int]) -> Tensor:
        """Return the value that the model is followed with."""
        return torch.ones(self.shape(sizes), dtype=torch.bool).to(self.dtype)

    def facts(self) -> dict[str, Any]:
        """Return plain values."""
        return {"type": str(self.dtype).removeprefix("torch."), "shape": list(self.axes)}


class Graph(nn.Module):
    """A function of named tensors over a model.

    Args:
        model: The model, whose weights are exported.
        function: Compute the outputs from named inputs.
        inputs: The inputs.
        outputs: The names of the outputs, in the order of `function`.
    """

    def __init__(
        self,
        model: nn.Module,
        function: Callable[[Tensors], Sequence[Tensor]],
        inputs: Sequence[Port],
        outputs: Sequence[str],
    ) -> None:
        super().__init__()
        self.model, self.function = model, function
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)

    def forward(self, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        """Return the outputs, in their order."""
        names = (port.name for port in self.inputs)
        return tuple(self.function(dict(zip(names, tensors, strict=True))))

    def facts(self) -> dict[str, Any]:
        """Return the inputs and outputs of its file, as plain values."""
        return {
            "inputs": {port.name: port.facts() for port in self.inputs},
            "outputs": list(self.outputs),
        }

    @cached_property
    def exported(self) -> "ModelProto":
        """The graph in ONNX."""
        size = sum(x.numel() * x.element_size() for x in self.model.parameters())
        if size >= TOO_LARGE:
            raise InteropError(
                f"this model has {size / 2**30:.1f} GB of weights, and an ONNX file holds 2 GB; "
                "train a smaller model to export it"
            )
        axes = dict.fromkeys(axis for port in self.inputs for axis in port.named.values())
        # different sizes above 1, since torch takes 0 and 1 for constants
        sizes = {axis: size for size, axis in enumerate(axes, 2)}
        lengths = {axis: torch.export.Dim(axis) for axis in axes}
        try:
            with _quiet():
                program = torch.onnx.export(
                    self,
                    ([port.example(sizes) for port in self.inputs],),
                    input_names=[port.name for port in self.inputs],
                    output_names=list(self.outputs),
                    dynamic_shapes=(
                        [
                            {i: lengths[axis] for i, axis in port.named.items()}
                            for port in self.inputs
                        ],
                    ),
                    opset_version=OPSET,
                    dynamo=True,
                    verbose=False,
                )
        except Exception as error:  # the exporter raises almost anything
            raise InteropError(
                f"torch {torch.__version__} cannot write this model as ONNX: {_reason(error)}; "
                "try another version of torch, and please report this"
            ) from error
        assert program is not None
        return _without_traces(program.model_proto)


class Looped(Graph):
    """A loop of a one-token step over all tokens so far."""

    def __init__(self, step: Graph, state: Mapping[Port, str]) -> None:
        first, *others = step.inputs
        inputs = [replace(first, axes=("batch", "length")), *others]
        super().__init__(step.model, step.function, inputs, [LOGITS])
        self.step, self.state = step, {port.name: after for port, after in state.items()}

    @cached_property
    def exported(self) -> "ModelProto":
        """The loop in ONNX."""
        return over_time(self.step.exported, self.state, TOKENS, LOGITS)


def _reason(error: BaseException) -> str:
    """Return the first cause of an error, without torch's advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _without_traces(model: "ModelProto") -> "ModelProto":
    """Return the model without the lines and paths of code that each operator came from."""
    graph = model.graph
    for node in graph.node:
        node.ClearField("doc_string")
    named = (graph.node, graph.initializer, graph.input, graph.output, graph.value_info)
    for part in (model, graph, *chain.from_iterable(named)):
        part.ClearField("metadata_props")
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's warnings about its own deprecations."""
    logs = [getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
