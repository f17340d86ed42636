"""Comparison of exported graphs with the task's own model, for several sizes."""

from collections.abc import Mapping

import numpy as np
import torch

from saccade.errors import InteropError
from saccade.interop.onnx.exports import OnnxExport
from saccade.interop.onnx.graphs import TOKENS, Port, Tensors
from saccade.interop.onnx.running import Array, Exported
from saccade.shapes import Float, Int, Tensor

CLOSE = 1e-4
"""Maximum difference of a logit from ours, divided by the largest logit if that is above 1."""
SIZES = ((1, 1), (2, 3), (3, 33))
"""The numbers of rows and tokens of the batches that are compared."""
WRITTEN = 6
"""The number of tokens that greedy search generates for each."""


@torch.no_grad()
def verify(export: OnnxExport, exported: Exported) -> None:
    """Raise `InteropError` if the logits or the greedy answers of the graphs differ from ours."""
    first = next(iter(export.graphs.values()))
    generator = torch.Generator().manual_seed(0)
    for rows, length in SIZES:
        sizes = {
            axis: min(length, export.limits.get(axis, length)) for axis in ("source", "length")
        }
        sizes["batch"] = rows
        given = {port.name: _random(port, sizes, generator) for port in first.inputs}
        if "model" in export.graphs:
            _compare("model", export.ours(given), exported.run("model", _arrays(given))["logits"])
        else:
            _verify_writing(export, exported, given, sizes, generator)


def _verify_writing(
    export: OnnxExport,
    exported: Exported,
    given: Tensors,
    sizes: Mapping[str, int],
    generator: torch.Generator,
) -> None:
    """Compare teacher forcing, then greedy search, each with and without a cache."""
    tokens = _random(export.graphs["decoder"].inputs[0], sizes, generator)
    values = _arrays(given)
    if "encoder" in export.graphs:
        values |= exported.run("encoder", values)
    ours = export.ours({**given, TOKENS: tokens})
    theirs = exported.run("decoder", {**values, TOKENS: tokens.numpy()})["logits"]
    _compare("decoder", ours, theirs)
    _verify_steps(export, exported, values, tokens, ours)
    longest = min(WRITTEN, export.limits["length"])
    for cached in (True, False):
        rows = exported.write(values, tokens[:, :1].numpy(), longest, cached=cached)
        _require_best(export, given, tokens[:, :1], rows, longest)


def _verify_steps(
    export: OnnxExport,
    exported: Exported,
    values: Mapping[str, Array],
    tokens: Int[Tensor, "b t"],
    ours: Float[Tensor, "b t v"],
) -> None:
    """Compare steps: the first half in one step if it may take several tokens, then one by one."""
    several = 1 in export.graphs["decoder_step"].inputs[0].named
    count = max(1, tokens.shape[1] // 2) if several else 1
    state, at = exported.begin(values, len(tokens)), 0
    while at < tokens.shape[1]:
        new, at = tokens[:, at : at + count].numpy(), at + count
        logits, state = exported.step(values, new, state)
        _compare("decoder_step", ours[:, at - 1], logits)
        count = 1


def _require_best(
    export: OnnxExport,
    given: Tensors,
    first: Int[Tensor, "b 1"],
    rows: list[list[int]],
    longest: int,
) -> None:
    """Raise unless each generated token is the best by our logits, up to rounding."""
    writing = export.facts["writing"]
    written = torch.full((len(rows), longest), writing["stop"])
    for i, row in enumerate(rows):
        written[i, : len(row)] = torch.tensor(row, dtype=torch.long)
    logits = export.ours({**given, TOKENS: torch.cat((first, written[:, :-1]), 1)})
    scale = float(logits.abs().max().clamp(min=1.0))
    logits[..., writing["never"]] = -torch.inf
    behind = logits.amax(-1) - logits.gather(-1, written.unsqueeze(-1)).squeeze(-1)
    lengths = torch.tensor([[len(row)] for row in rows])
    worst = float(behind[torch.arange(longest) <= lengths].max()) / scale
    if not worst <= 2 * CLOSE:
        raise InteropError(
            "the exported model gives other answers: greedy search chose a token that is "
            f"{worst:.2g} behind the best of ours; "
            "please report this"
        )


def _compare(graph: str, ours: Tensor, theirs: Array) -> None:
    if ours.shape != theirs.shape:
        raise InteropError(
            f"{graph}.onnx gives logits of shape {theirs.shape} where ours are {tuple(ours.shape)}"
            "; please report this"
        )
    scale = float(ours.abs().max().clamp(min=1.0))
    worst = float(np.abs(ours.numpy() - theirs).max()) / scale
    if not worst <= CLOSE:
        raise InteropError(
            f"{graph}.onnx does not give the same logits: {worst:.2g} apart; please report this"
        )


def _random(port: Port, sizes: Mapping[str, int], generator: torch.Generator) -> Tensor:
    """Return random values; a mask has no padding in its first row and no empty row."""
    shape = port.shape(sizes)
    if port.dtype == torch.bool:
        rows, length = shape
        lengths = torch.randint(1, length + 1, (rows, 1), generator=generator)
        lengths[0] = length
        return torch.arange(length) < lengths
    if port.dtype == torch.int64:
        return torch.randint(port.below, shape, generator=generator)
    return torch.randn(shape, generator=generator)


def _arrays(tensors: Tensors) -> dict[str, Array]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}
