"""Sampling: each token is drawn from the model's distribution, sharpened or cut as asked.

Each row has its own seed, and the numbers it draws with are fixed before the first step. So what a
row says does not depend on the other rows of its batch, nor on when they end.
"""

import math
from collections.abc import Sequence

import torch

from saccade.decoding.greedy import most_likely
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
    """One sampled hypothesis for each row of the batch.

    p ∝ P^(1/temperature), cut to the `top_k` most likely tokens (Fan et al. 2018), then to the
    fewest whose probabilities sum to `top_p` (Holtzman et al. 2020). Temperature 0 is greedy
    search. `log_probability` is under the model's own P all the same.
    """
    choose = drawing(first, limits, seeds=seeds, temperature=temperature, top_k=top_k, top_p=top_p)
    return write(stepper, state, first, limits, choose, length_penalty)


def drawing(
    first: Int[Tensor, " b"],
    limits: GenerationLimits,
    *,
    seeds: Sequence[int],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Choose:
    """The choice of sampling for the rows that begin with `first`."""
    _require_options(temperature, top_k, top_p)
    _require_seeds(seeds, len(first))
    if temperature == 0:
        return most_likely
    numbers = _uniform(seeds, limits.max_length).to(first.device)

    def draw(log_p: Float[Tensor, "b v"], rows: Int[Tensor, " b"], step: int) -> Int[Tensor, " b"]:
        log_p = _cut(_tempered(log_p, temperature), top_k or log_p.shape[1], top_p or 1.0)
        return _inverse_cdf(log_p.softmax(-1), numbers[rows, step])

    return draw


def _uniform(seeds: Sequence[int], count: int) -> Float[Tensor, "b n"]:
    """`count` numbers in [0, 1) from each seed, the same for every device: made on the CPU."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    numbers = [torch.rand(count, generator=each, device="cpu") for each in generators]
    return torch.stack(numbers) if numbers else torch.empty(0, count, device="cpu")


def _tempered(log_p: Float[Tensor, "b v"], temperature: float) -> Float[Tensor, "b v"]:
    """Log-probabilities divided by the temperature, the largest at 0 so that it stays finite."""
    return (log_p - log_p.amax(-1, keepdim=True)) / max(temperature, 1e-30)


def _cut(log_p: Float[Tensor, "b v"], top_k: int, top_p: float) -> Float[Tensor, "b v"]:
    """Log-probabilities of which only the top are left; of equals the lowest tokens."""
    if top_k >= log_p.shape[1] and top_p >= 1:
        return log_p
    top, tokens = largest(log_p, top_k)
    if top_p < 1:
        share = top.softmax(-1)
        before = share.cumsum(-1) - share  # the share of all that are more likely
        top = top.masked_fill(before >= top_p, -torch.inf)
    return torch.full_like(log_p, -torch.inf).scatter(1, tokens, top)


def _inverse_cdf(
    probabilities: Float[Tensor, "b v"], numbers: Float[Tensor, " b"]
) -> Int[Tensor, " b"]:
    """The token at which the sum of the probabilities first exceeds the row's number."""
    sums = probabilities.cumsum(-1)
    drawn = torch.searchsorted(sums, numbers.unsqueeze(1) * sums[:, -1:], right=True)
    drawn = drawn.clamp(max=sums.shape[-1] - 1)
    # sums made in parallel may not rise evenly, and then point at a token of probability 0
    possible = probabilities.gather(1, drawn) > 0
    return torch.where(possible, drawn, probabilities.argmax(-1, keepdim=True)).squeeze(1)


def _require_options(temperature: float, top_k: int | None, top_p: float | None) -> None:
    if not (math.isfinite(temperature) and temperature >= 0):
        raise DecodingError(f"temperature must be 0 (greedy) or above, got {temperature}")
    if top_k is not None and top_k < 1:
        raise DecodingError(f"top_k must be at least 1, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise DecodingError(f"top_p must be above 0 and at most 1, got {top_p}")


def _require_seeds(seeds: Sequence[int], rows: int) -> None:
    if len(seeds) != rows:
        raise DecodingError(f"each row needs a seed, got {len(seeds)} seeds for {rows} rows")
    for seed in seeds:
        if not 0 <= seed < 2**64:
            raise DecodingError(f"a seed must be between 0 and 2**64 - 1, got {seed}")
