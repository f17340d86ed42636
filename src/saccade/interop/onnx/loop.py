"""A recurrent decoder over a complete text: its step inside ONNX's operator for loops.

torch unrolls a loop over time for one length only. So the graph of the step is exported instead,
and becomes the body of a `Scan`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

INSIDE = "inside."
"""The prefix of names in the body that the graph around it has as well."""


def over_time(
    step: "ModelProto", state: Mapping[str, str], tokens: str, logits: str
) -> "ModelProto":
    """Turn tokens (b, 1) -> logits (b, v) into tokens (b, t) -> logits (b, t, v).

    Args:
        step: The graph of a step.
        state: The outputs of the step, by the inputs of the next step that they become.
        tokens: The name of the input.
        logits: The name of the output.
    """
    from onnx import TensorProto, helper

    model = type(step)()
    model.CopyFrom(step)
    graph, axis, last = model.graph, "token_axis", [f"last.{name}" for name in state]
    axis_value = helper.make_tensor(axis, TensorProto.INT64, [1], [1])
    nodes = [
        helper.make_node("Transpose", [tokens], ["tokens_by_time"], perm=[1, 0]),
        helper.make_node(
            "Scan",
            [*state, "tokens_by_time"],
            [*last, "logits_by_time"],
            body=_body(step.graph, state, tokens, logits, axis),
            num_scan_inputs=1,
        ),
        helper.make_node("Transpose", ["logits_by_time"], [logits], perm=[1, 0, 2]),
    ]
    del graph.node[:], graph.output[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.append(axis_value)
    graph.output.append(helper.make_tensor_value_info(logits, TensorProto.FLOAT, None))
    [value] = [value for value in graph.input if value.name == tokens]
    value.type.tensor_type.shape.dim[1].dim_param = "length"
    return model


def _body(
    step: "GraphProto", state: Mapping[str, str], tokens: str, logits: str, axis: str
) -> "GraphProto":
    """Return the step with one token per row (b,); weights and memory are those around it."""
    from onnx import TensorProto, ValueInfoProto, helper

    inside = {name: INSIDE + name for name in (*state, tokens, logits)}

    def renamed(value: ValueInfoProto) -> ValueInfoProto:
        copied = ValueInfoProto()
        copied.CopyFrom(value)
        copied.name = inside.get(value.name, value.name)
        return copied

    def copy_of(node: "NodeProto") -> "NodeProto":
        copied = type(node)()
        copied.CopyFrom(node)
        copied.input[:] = [inside.get(name, name) for name in node.input]
        copied.output[:] = [inside.get(name, name) for name in node.output]
        return copied

    inputs = {value.name: value for value in step.input}
    outputs = {value.name: value for value in step.output}
    token = helper.make_tensor_value_info("token", TensorProto.INT64, None)
    row = helper.make_node("Unsqueeze", ["token", axis], [inside[tokens]])
    return helper.make_graph(
        [row, *map(copy_of, step.node)],
        "step",
        [*(renamed(inputs[name]) for name in state), token],
        [*(renamed(outputs[name]) for name in state.values()), renamed(outputs[logits])],
    )
