"""Graphs: what is exported of a model, with named inputs and outputs, for any batch and length."""

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
"""Bytes that an ONNX file cannot hold."""
Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Port:
    """An input. An axis that has a name may be of any length; whole numbers are below `below`."""

    name: str
    axes: tuple[int | str, ...]
    dtype: torch.dtype = torch.float32
    below: int = 1

    @classmethod
    def tokens(cls, name: str, length: int | str, vocabulary: int) -> "Port":
        """Token numbers, or others such as segments."""
        return cls(name, ("batch", length), torch.int64, vocabulary)

    @classmethod
    def mask(cls, name: str, length: str) -> "Port":
        """True for what is real."""
        return cls(name, ("batch", length), torch.bool)

    def shape(self, sizes: Mapping[str, int]) -> list[int]:
        """Its shape where the axes that have a name are of these sizes."""
        return [sizes[axis] if isinstance(axis, str) else axis for axis in self.axes]

    def example(self, sizes: Mapping[str, int]) -> Tensor:
        """What the model is followed with."""
        return torch.ones(self.shape(sizes), dtype=torch.bool).to(self.dtype)

    def any_of(self, lengths: Mapping[str, Any]) -> dict[int, Any]:
        """The axes that have a name, by their number."""
        return {i: lengths[axis] for i, axis in enumerate(self.axes) if isinstance(axis, str)}

    def facts(self) -> dict[str, Any]:
        """As plain values."""
        return {"type": str(self.dtype).removeprefix("torch."), "shape": list(self.axes)}


class Graph(nn.Module):
    """A function of named tensors over a model."""

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
        """The outputs, in their order."""
        names = (port.name for port in self.inputs)
        return tuple(self.function(dict(zip(names, tensors, strict=True))))

    def facts(self) -> dict[str, Any]:
        """What its file takes and gives."""
        return {
            "inputs": {port.name: port.facts() for port in self.inputs},
            "outputs": list(self.outputs),
        }

    @cached_property
    def exported(self) -> "ModelProto":
        """As ONNX has it."""
        size = sum(x.numel() * x.element_size() for x in self.model.parameters())
        if size >= TOO_LARGE:
            raise InteropError(
                f"this model has {size / 2**30:.1f} GB of weights, and an ONNX file holds 2 GB"
            )
        axes = dict.fromkeys(x for port in self.inputs for x in port.axes if isinstance(x, str))
        # sizes that differ, and none of them 0 or 1, of which torch would think that it must be so
        sizes = {axis: size for size, axis in enumerate(axes, 2)}
        lengths = {axis: torch.export.Dim(axis) for axis in axes}
        try:
            with _quiet():
                program = torch.onnx.export(
                    self,
                    ([port.example(sizes) for port in self.inputs],),
                    input_names=[port.name for port in self.inputs],
                    output_names=list(self.outputs),
                    dynamic_shapes=([port.any_of(lengths) for port in self.inputs],),
                    opset_version=OPSET,
                    dynamo=True,
                    verbose=False,
                )
        except Exception as error:  # the exporter raises almost anything
            raise InteropError(
                f"torch {torch.__version__} cannot write this model as ONNX: {_reason(error)}"
            ) from error
        assert program is not None
        return _without_traces(program.model_proto)


class Looped(Graph):
    """A step of one token, over all tokens so far."""

    def __init__(self, step: Graph, state: Mapping[Port, str]) -> None:
        first, *others = step.inputs
        inputs = [replace(first, axes=("batch", "length")), *others]
        super().__init__(step.model, step.function, inputs, [LOGITS])
        self.step, self.state = step, {port.name: after for port, after in state.items()}

    @cached_property
    def exported(self) -> "ModelProto":
        """As ONNX has it: a loop."""
        return over_time(self.step.exported, self.state, TOKENS, LOGITS)


def _reason(error: BaseException) -> str:
    """What was wrong in the first place, without the advice that torch gives."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _without_traces(model: "ModelProto") -> "ModelProto":
    """Without the lines of code, and the folders they lie in, that each operator came from."""
    graph = model.graph
    for node in graph.node:
        node.ClearField("doc_string")
    named = (graph.node, graph.initializer, graph.input, graph.output, graph.value_info)
    for part in (model, graph, *chain.from_iterable(named)):
        part.ClearField("metadata_props")
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter tells of its own deprecations, and of what it leaves as it is."""
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
