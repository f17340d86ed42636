"""One step of the model, and the loop that greedy search and sampling share.

Generation runs under `no_grad`, not under `inference_mode`: a state or table that a model builds on
the way may outlive the call, and an inference tensor could neither be written in place nor be used
in training afterwards.
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
"""A function (log-probabilities (b, v), rows of the batch (b,), step) → one token per row."""


def advance(
    stepper: Stepper[State],
    tokens: Int[Tensor, " b"],
    state: State,
    limits: GenerationLimits,
    rows: Int[Tensor, " b"],
    step: int,
) -> tuple[Float[Tensor, "b v"], State]:
    """Append one token per row; return the log-probabilities of the next token and the new state.

    Log-probabilities are the model's own, in float32. Tokens that are not allowed get -inf; the
    others are not renormalised.

    Args:
        stepper: The model.
        tokens: One token per row.
        state: The state before them.
        limits: Which tokens are allowed.
        rows: Row of the batch of each token, for errors.
        step: Index of the step, from 0.

    Raises:
        DecodingError: If logits are not finite, or an id exceeds the vocabulary.
        Cancelled: Before the step, if the work was cancelled.
    """
    raise_if_cancelled()
    logits, state = stepper.step(tokens, state)
    vocabulary, largest = logits.shape[-1], max(limits.stop, *limits.forbidden, 0)
    if largest >= vocabulary:
        raise DecodingError(
            f"stop and forbidden tokens must be below the vocabulary size {vocabulary}, "
            f"got {largest}; use ids of the vocabulary of this model"
        )
    log_p = torch.log_softmax(logits, -1, dtype=torch.float32)
    broken = log_p[:, 0].isnan()  # one NaN or +inf makes its complete row NaN
    if broken.any():
        raise DecodingError(
            f"the model's logits have NaN or infinite values at step {step + 1} "
            f"in row {rows[broken][0].item()} of the batch; no token can be chosen. Check the "
            "weights of the model, or use a higher precision"
        )
    log_p[:, limits.banned(step)] = -torch.inf
    return log_p, state


class Step(NamedTuple):
    """One generated token for each unfinished row of the batch, with its log-probability."""

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
    """Generate token by token with `choose`; rows that have ended leave the batch.

    Args:
        stepper: The model.
        state: Its state after reading the inputs.
        first: The start token of each row.
        limits: The limits of the generation.
        choose: Chooses the next token of each row from the log-probabilities.
    """
    rows = torch.arange(len(first), device=first.device)
    tokens = first
    for step in range(limits.max_length):
        if len(rows) == 0:
            break
        log_p, state = advance(stepper, tokens, state, limits, rows, step)
        tokens = choose(log_p, rows, step)
        chosen = log_p.gather(1, tokens.unsqueeze(1)).squeeze(1)
        if chosen.isinf().any():
            raise no_token_left(int(rows[chosen.isinf()][0]), step)
        yield Step(rows, tokens, chosen)
        unfinished = (tokens != limits.stop).nonzero().squeeze(1)
        if len(unfinished) < len(rows):
            rows, tokens = rows[unfinished], tokens[unfinished]
            if len(rows) > 0 and step + 1 < limits.max_length:
                state = stepper.select(state, unfinished)


@torch.no_grad()
def write(
    stepper: Stepper[State],
    state: State,
    first: Int[Tensor, " b"],
    limits: GenerationLimits,
    choose: Choose,
    length_penalty: float = 1.0,
) -> list[list[Hypothesis]]:
    """Generate with `choose` and return one hypothesis for each row.

    Args:
        stepper: The model.
        state: Its state after reading the inputs.
        first: The start token of each row.
        limits: The limits of the generation.
        choose: Chooses the next token of each row from the log-probabilities.
        length_penalty: Exponent of the length by which the log-probability is divided.
    """
    require_length_penalty(length_penalty)
    written = torch.full((len(first), limits.max_length), limits.stop, device=first.device)
    log_probability = torch.zeros(len(first), device=first.device)
    for place, step in enumerate(steps(stepper, state, first, limits, choose)):
        written[step.rows, place] = step.tokens
        log_probability[step.rows] += step.log_p
    return [
        [_hypothesis(row, total, limits.stop, length_penalty)]
        for row, total in zip(written.tolist(), log_probability.tolist(), strict=True)
    ]


def largest(
    values: Float[Tensor, "b n"], count: int
) -> tuple[Float[Tensor, "b m"], Int[Tensor, "b m"]]:
    """Return the `count` largest values of each row and their places, as a stable sort would.

    `topk` is much faster, but leaves the order and the choice of equal values open. They are rare:
    equal values among the chosen are put in order, and only if equal values lie at the edge of the
    choice, everything is sorted.
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
    """Raise `DecodingError` unless lengths to this power stay within the range of a float."""
    if not abs(length_penalty) <= 10:
        raise DecodingError(
            f"length_penalty must be between -10 and 10, got {length_penalty}; 1 is usual"
        )


def no_token_left(row: int, step: int) -> DecodingError:
    """Return the error for a row that cannot continue with any token."""
    return DecodingError(
        f"no token is left for step {step + 1} in row {row} of the batch: each is forbidden, "
        "or the stop token before min_length, or has probability 0; forbid fewer tokens or lower "
        "min_length"
    )


def _hypothesis(
    row: list[int], log_probability: float, stop: int, length_penalty: float
) -> Hypothesis:
    finished = stop in row
    tokens = row[: row.index(stop)] if finished else row
    return Hypothesis.of(tokens, log_probability, finished=finished, length_penalty=length_penalty)
