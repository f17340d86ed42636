"""Greedy search: the most likely token at each step."""

from saccade.decoding.hypothesis import Hypothesis, Limits
from saccade.decoding.stepping import write
from saccade.interfaces import State, Stepper
from saccade.shapes import Float, Int, Tensor


def greedy(
    stepper: Stepper[State], state: State, first: Int[Tensor, " b"], limits: Limits
) -> list[list[Hypothesis]]:
    """One hypothesis for each row of the batch; of equally likely tokens the lowest id.

    `first` is what is written first: the start token, or the last token of a prompt.
    """
    return write(stepper, state, first, limits, most_likely)


def most_likely(
    log_p: Float[Tensor, "b v"], rows: Int[Tensor, " b"], step: int
) -> Int[Tensor, " b"]:
    """The choice of greedy search: argmax gives the lowest of equals."""
    return log_p.argmax(-1)
