"""Greedy search: the most likely token at each step."""

import torch

from saccade.decoding.hypothesis import GenerationLimits, Hypothesis
from saccade.decoding.stepping import write
from saccade.interfaces import State, Stepper
from saccade.shapes import Float, Int, Tensor

PART, SMALL = 128, 1 << 16
"""Tokens that are looked at together, and how many numbers in all are not worth it."""


def greedy(
    stepper: Stepper[State],
    state: State,
    first: Int[Tensor, " b"],
    limits: GenerationLimits,
    *,
    length_penalty: float = 1.0,
) -> list[list[Hypothesis]]:
    """One hypothesis for each row of the batch; of equally likely tokens the lowest id.

    `first` is what is written first: the start token, or the last token of a prompt.
    """
    return write(stepper, state, first, limits, most_likely, length_penalty)


def most_likely(
    log_p: Float[Tensor, "b v"], rows: Int[Tensor, " b"], step: int
) -> Int[Tensor, " b"]:
    """The choice of greedy search: argmax gives the lowest of equals.

    It takes one number after the other, where `amax` takes eight at once: of a large vocabulary
    the best part is found by the latter.
    """
    vocabulary = log_p.shape[1]
    whole = vocabulary // PART * PART
    if whole <= PART or log_p.numel() < SMALL:
        return log_p.argmax(-1)
    best = log_p[:, :whole].unflatten(1, (-1, PART)).amax(-1)
    if whole < vocabulary:
        best = torch.cat((best, log_p[:, whole:].amax(-1, keepdim=True)), 1)
    places = best.argmax(-1, keepdim=True) * PART + torch.arange(PART, device=log_p.device)
    places.clamp_(max=vocabulary - 1)  # the last part may be short: its last token fills it up
    return places.gather(1, log_p.gather(1, places).argmax(-1, keepdim=True)).squeeze(1)
