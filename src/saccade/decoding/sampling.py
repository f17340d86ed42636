"""Sampling with temperature, top-k and top-p.

Each row has its own seed, and its random numbers are fixed before the first step. So the tokens of
a row do not depend on the other rows of its batch, nor on when they end.
"""

import math
from collections.abc import Sequence

import torch

from saccade.decoding.greedy_search import most_likely
from saccade.decoding.hypothesis import GenerationLimits, Hypothesis
from saccade.decoding.stepping import Choose, largest, write
from saccade.errors import DecodingError
from saccade.interfaces import State, Stepper
from saccade.shapes import Float, Int, Tensor


def sample(
    stepper: Stepper[State],
    state: State,
    first: Int[Tensor, " b"],
    limits: GenerationLimits,
    *,
    seeds: Sequence[int],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    length_penalty: float = 1.0,
) -> list[list[Hypothesis]]:
    """Generate by sampling.

    Tokens are sampled from p ∝ P^(1/temperature), restricted to the `top_k` most likely tokens (Fan
    et al. 2018), then to the smallest set whose probabilities sum to `top_p` (nucleus sampling,
    Holtzman et al. 2020). `log_probability` of a hypothesis is that under the model's own P.

    Args:
        stepper: The model.
        state: The state that `stepper.start` returned; it cannot be used again.
        first: The first token of each row: the start token, or the last token of a prompt.
        limits: When generation ends, and which tokens are never generated.
        seeds: Random seed of each row.
        temperature: Below 1 is less random; 0 is greedy search.
        top_k: Number of most likely tokens to sample from; all if None.
        top_p: Probability of the smallest set of tokens to sample from; 1 if None.
        length_penalty: Exponent α of the length in the score; it does not change the tokens.

    Returns:
        One hypothesis for each row.

    Raises:
        DecodingError: If an option is invalid, no token is allowed, or logits are not finite.
    """
    choose = sampler(first, limits, seeds=seeds, temperature=temperature, top_k=top_k, top_p=top_p)
    return write(stepper, state, first, limits, choose, length_penalty)


def sampler(
    first: Int[Tensor, " b"],
    limits: GenerationLimits,
    *,
    seeds: Sequence[int],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Choose:
    """Return the function that samples a token for each row; see `sample` for the arguments.

    Args:
        first: The start token of each row.
        limits: The limits of the generation.
        seeds: One random seed per row.
        temperature: Divisor of the logits; 0 is greedy search.
        top_k: Sample from this many of the most likely tokens; None for all.
        top_p: Sample from the smallest set of tokens with this total probability; None for all.
    """
    _require_options(temperature, top_k, top_p)
    _require_seeds(seeds, len(first))
    if temperature == 0:
        return most_likely
    numbers = _uniform(seeds, limits.max_length).to(first.device)

    def choose(
        log_p: Float[Tensor, "b v"], rows: Int[Tensor, " b"], step: int
    ) -> Int[Tensor, " b"]:
        log_p = _truncated(_tempered(log_p, temperature), top_k or log_p.shape[1], top_p or 1.0)
        return _inverse_cdf(log_p.softmax(-1), numbers[rows, step])

    return choose


def _uniform(seeds: Sequence[int], count: int) -> Float[Tensor, "b n"]:
    """Return `count` numbers in [0, 1) for each seed, the same on every device."""
    numbers = [
        torch.rand(count, generator=torch.Generator().manual_seed(seed), device="cpu")
        for seed in seeds
    ]
    return torch.stack(numbers) if numbers else torch.empty(0, count, device="cpu")


def _tempered(log_p: Float[Tensor, "b v"], temperature: float) -> Float[Tensor, "b v"]:
    """Return log-probabilities divided by the temperature; the largest is 0, so it stays finite."""
    return (log_p - log_p.amax(-1, keepdim=True)) / max(temperature, 1e-30)


def _truncated(log_p: Float[Tensor, "b v"], top_k: int, top_p: float) -> Float[Tensor, "b v"]:
    """Return log-probabilities with -inf outside top-k and top-p; of equals, low ids stay."""
    if top_k >= log_p.shape[1] and top_p >= 1:
        return log_p
    top, tokens = largest(log_p, top_k)
    if top_p < 1:
        p = top.softmax(-1)
        more_likely = p.cumsum(-1) - p  # the probability of all tokens before
        top = top.masked_fill(more_likely >= top_p, -torch.inf)
    return torch.full_like(log_p, -torch.inf).scatter(1, tokens, top)


def _inverse_cdf(
    probabilities: Float[Tensor, "b v"], numbers: Float[Tensor, " b"]
) -> Int[Tensor, " b"]:
    """Return the token at which the cumulative probability first exceeds the row's number."""
    sums = probabilities.cumsum(-1)
    tokens = torch.searchsorted(sums, numbers.unsqueeze(1) * sums[:, -1:], right=True)
    tokens = tokens.clamp(max=sums.shape[-1] - 1)
    # parallel sums may not be monotonic, and then lead to a token of probability 0
    possible = probabilities.gather(1, tokens) > 0
    return torch.where(possible, tokens, probabilities.argmax(-1, keepdim=True)).squeeze(1)


def _require_options(temperature: float, top_k: int | None, top_p: float | None) -> None:
    if not (math.isfinite(temperature) and temperature >= 0):
        raise DecodingError(
            f"temperature must be 0 (greedy) or above, got {temperature}; 1 leaves the "
            "distribution as it is"
        )
    if top_k is not None and top_k < 1:
        raise DecodingError(
            f"top_k must be at least 1, got {top_k}; leave it out to sample from all tokens"
        )
    if top_p is not None and not 0 < top_p <= 1:
        raise DecodingError(
            f"top_p must be above 0 and at most 1, got {top_p}; leave it out to sample from all "
            "tokens"
        )


def _require_seeds(seeds: Sequence[int], rows: int) -> None:
    if len(seeds) != rows:
        raise DecodingError(
            f"each row needs a seed, got {len(seeds)} seeds for {rows} rows; pass one per row"
        )
    for seed in seeds:
        if not 0 <= seed < 2**64:
            raise DecodingError(
                f"a seed must be between 0 and 2**64 - 1, got {seed}; choose a smaller seed"
            )
