"""What greedy search, sampling and beam search share: one step of the model, and the plain loop.

They run under `no_grad` and not under `inference_mode`: a state or a table that a model grows on
the way may outlive the call, and as an inference tensor it could be neither written in place nor
used in training afterwards.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from saccade.cancellation import raise_if_cancelled
from saccade.decoding.hypothesis import GenerationLimits, Hypothesis
from saccade.errors import DecodingError
from saccade.interfaces import State, Stepper
from saccade.shapes import Float, Int, Tensor

Choose = Callable[[Tensor, Tensor, int], Tensor]
"""Log-probabilities (b, v), which rows of the batch they are (b,), step -> a token for each."""


def advance(
    stepper: Stepper[State],
    tokens: Int[Tensor, " b"],
    state: State,
    limits: GenerationLimits,
    rows: Int[Tensor, " b"],
    step: int,
) -> tuple[Float[Tensor, "b v"], State]:
    """Write `tokens`; the log-probabilities of what may follow, and the state after it.

    They are the model's own, in float32; what may not follow has -inf, and its share is not given
    to the others. `rows` and `step` (from 0) say in an error where generation was. Cancelled work
    ends here, before the step.
    """
    raise_if_cancelled()
    logits, state = stepper.step(tokens, state)
    vocabulary, largest = logits.shape[-1], max(limits.stop, *limits.forbidden, 0)
    if largest >= vocabulary:
        raise DecodingError(
            f"stop and forbidden tokens must be below the vocabulary size {vocabulary}, "
            f"got {largest}"
        )
    log_p = torch.log_softmax(logits, -1, dtype=torch.float32)
    broken = log_p[:, 0].isnan()  # one NaN or +inf makes its whole row NaN
    if broken.any():
        raise DecodingError(
            f"the model's logits have NaN or infinite values at step {step + 1} "
            f"in row {rows[broken][0].item()} of the batch; no token can be chosen"
        )
    log_p[:, limits.banned(step)] = -torch.inf
    return log_p, state


class Step(NamedTuple):
    """The tokens that rows of the batch were continued with, and their log-probabilities."""

    rows: Int[Tensor, " b"]
    tokens: Int[Tensor, " b"]
    log_p: Float[Tensor, " b"]


def steps(
    stepper: Stepper[State],
    state: State,
    first: Int[Tensor, " b"],
    limits: GenerationLimits,
    choose: Choose,
) -> Iterator[Step]:
    """One token after another, each as `choose` says; a row that has stopped leaves the batch."""
    rows = torch.arange(len(first), device=first.device)
    tokens = first
    for step in range(limits.max_length):
        if len(rows) == 0:
            break
        log_p, state = advance(stepper, tokens, state, limits, rows, step)
        tokens = choose(log_p, rows, step)
        chosen = log_p.gather(1, tokens.unsqueeze(1)).squeeze(1)
        if chosen.isinf().any():
            raise nothing_allowed(int(rows[chosen.isinf()][0]), step)
        yield Step(rows, tokens, chosen)
        going = (tokens != limits.stop).nonzero().squeeze(1)
        if len(going) < len(rows):
            rows, tokens = rows[going], tokens[going]
            if len(rows) > 0 and step + 1 < limits.max_length:
                state = stepper.select(state, going)


@torch.no_grad()
def write(
    stepper: Stepper[State],
    state: State,
    first: Int[Tensor, " b"],
    limits: GenerationLimits,
    choose: Choose,
    length_penalty: float = 1.0,
) -> list[list[Hypothesis]]:
    """All that `steps` writes: one hypothesis for each row."""
    require_length_penalty(length_penalty)
    written = torch.full((len(first), limits.max_length), limits.stop, device=first.device)
    log_probability = torch.zeros(len(first), device=first.device)
    for place, step in enumerate(steps(stepper, state, first, limits, choose)):
        written[step.rows, place] = step.tokens
        log_probability[step.rows] += step.log_p
    return [
        [_ended(row, total, limits.stop, length_penalty)]
        for row, total in zip(written.tolist(), log_probability.tolist(), strict=True)
    ]


def largest(
    values: Float[Tensor, "b n"], count: int
) -> tuple[Float[Tensor, "b m"], Int[Tensor, "b m"]]:
    """The `count` largest of each row with their places, in order; of equals those that come first.

    That is a stable sort. `topk` is much faster, but leaves open in what order equals come, and
    which of them. They are rare: those among the chosen are put in order, and only for those at
    the edge of the choice everything is sorted.
    """
    if count < values.shape[1]:
        top, places = values.topk(count + 1)
        equal = top[:, :-1] == top[:, 1:]
        if not equal.any():
            return top[:, :-1], places[:, :-1]
        if not (equal[:, -1] & top[:, -1].isfinite()).any():
            places, order = places[:, :-1].sort()
            top, order = top.gather(1, order).sort(stable=True, descending=True)
            return top, places.gather(1, order)
    top, places = values.sort(stable=True, descending=True)
    return top[:, :count], places[:, :count]


def require_length_penalty(length_penalty: float) -> None:
    """Raise unless lengths to this power stay within the range of a float."""
    if not abs(length_penalty) <= 10:
        raise DecodingError(f"length_penalty must be between -10 and 10, got {length_penalty}")


def nothing_allowed(row: int, step: int) -> DecodingError:
    """The error for a row that has no token left to go on with."""
    return DecodingError(
        f"no token is left for step {step + 1} in row {row} of the batch: each is forbidden, "
        "or a stop before min_length, or has probability 0"
    )


def _ended(row: list[int], log_probability: float, stop: int, length_penalty: float) -> Hypothesis:
    finished = stop in row
    tokens = row[: row.index(stop)] if finished else row
    return Hypothesis.of(tokens, log_probability, finished=finished, length_penalty=length_penalty)
