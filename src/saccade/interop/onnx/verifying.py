"""Whether what was written answers as the task does, for several sizes of batch and length."""

from collections.abc import Mapping

import numpy as np
import torch

from saccade.errors import InteropError
from saccade.interop.onnx.drafts import OnnxExport
from saccade.interop.onnx.graphs import TOKENS, Port, Tensors
from saccade.interop.onnx.running import Array, Exported
from saccade.shapes import Float, Int, Tensor

CLOSE = 1e-4
"""By how much a logit may differ from ours, in relation to the largest where that is above 1."""
SIZES = ((1, 1), (2, 3), (3, 33))
"""Rows and tokens that are tried."""
WRITTEN = 6
"""Tokens that greedy search writes for each."""


@torch.no_grad()
def verify(draft: OnnxExport, exported: Exported) -> None:
    """Refuse graphs whose logits, or whose greedy answers, are others than ours."""
    first = next(iter(draft.graphs.values()))
    generator = torch.Generator().manual_seed(0)
    for rows, length in SIZES:
        sizes = {axis: min(length, draft.limits.get(axis, length)) for axis in ("source", "length")}
        sizes["batch"] = rows
        given = {port.name: _drawn(port, sizes, generator) for port in first.inputs}
        if "model" in draft.graphs:
            _compare("model", draft.ours(given), exported.run("model", _arrays(given))["logits"])
        else:
            _verify_writing(draft, exported, given, sizes, generator)


def _verify_writing(
    draft: OnnxExport,
    exported: Exported,
    given: Tensors,
    sizes: Mapping[str, int],
    generator: torch.Generator,
) -> None:
    """Teacher-forced with and without a cache, then freely with and without one."""
    tokens = _drawn(draft.graphs["decoder"].inputs[0], sizes, generator)
    values = _arrays(given)
    if "encoder" in draft.graphs:
        values |= exported.run("encoder", values)
    wanted = draft.ours({**given, TOKENS: tokens})
    found = exported.run("decoder", {**values, TOKENS: tokens.numpy()})["logits"]
    _compare("decoder", wanted, found)
    _verify_steps(draft, exported, values, tokens, wanted)
    longest = min(WRITTEN, draft.limits["length"])
    for cached in (True, False):
        rows = exported.write(values, tokens[:, :1].numpy(), longest, cached=cached)
        _require_best(draft, given, tokens[:, :1], rows, longest)


def _verify_steps(
    draft: OnnxExport,
    exported: Exported,
    values: Mapping[str, Array],
    tokens: Int[Tensor, "b t"],
    wanted: Float[Tensor, "b t v"],
) -> None:
    """The first half at once, where a step takes several tokens, then one by one."""
    several = isinstance(draft.graphs["decoder_step"].inputs[0].axes[1], str)
    count = max(1, tokens.shape[1] // 2) if several else 1
    state, at = exported.begin(values, len(tokens)), 0
    while at < tokens.shape[1]:
        new, at = tokens[:, at : at + count].numpy(), at + count
        logits, state = exported.step(values, new, state)
        _compare("decoder_step", wanted[:, at - 1], logits)
        count = 1


def _require_best(
    draft: OnnxExport,
    given: Tensors,
    first: Int[Tensor, "b 1"],
    rows: list[list[int]],
    longest: int,
) -> None:
    """Each token that was written is the best by our logits, or as good as that."""
    writing = draft.facts["writing"]
    written = torch.full((len(rows), longest), writing["stop"])
    for i, row in enumerate(rows):
        written[i, : len(row)] = torch.tensor(row, dtype=torch.long)
    logits = draft.ours({**given, TOKENS: torch.cat((first, written[:, :-1]), 1)})
    scale = float(logits.abs().max().clamp(min=1.0))
    logits[..., writing["never"]] = -torch.inf
    behind = logits.amax(-1) - logits.gather(-1, written.unsqueeze(-1)).squeeze(-1)
    lengths = torch.tensor([[len(row)] for row in rows])
    worst = float(behind[torch.arange(longest) <= lengths].max()) / scale
    if not worst <= 2 * CLOSE:
        raise InteropError(
            "what was written answers otherwise: greedy search chose a token that is "
            f"{worst:.2g} behind the best of ours"
        )


def _compare(graph: str, ours: Tensor, theirs: Array) -> None:
    if ours.shape != theirs.shape:
        raise InteropError(
            f"{graph}.onnx gives logits of shape {theirs.shape} where ours are {tuple(ours.shape)}"
        )
    scale = float(ours.abs().max().clamp(min=1.0))
    worst = float(np.abs(ours.numpy() - theirs).max()) / scale
    if not worst <= CLOSE:
        raise InteropError(f"{graph}.onnx does not give the same logits: {worst:.2g} apart")


def _drawn(port: Port, sizes: Mapping[str, int], generator: torch.Generator) -> Tensor:
    """By chance; of a mask the first row is all real, of the others at least one place."""
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
