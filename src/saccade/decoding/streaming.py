"""Streaming: tokens as they are generated, and a sliding window for texts of any length."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Generic

import torch

from saccade.decoding.greedy_search import most_likely
from saccade.decoding.hypothesis import GenerationLimits
from saccade.decoding.options import GenerationConfig
from saccade.decoding.sampling import sampler
from saccade.decoding.stepping import Choose, steps
from saccade.errors import DecodingError
from saccade.interfaces import State, Stepper
from saccade.shapes import Float, Int, Tensor


def stream(
    stepper: Stepper[State],
    state: State,
    first: Int[Tensor, "1"],
    limits: GenerationLimits,
    *,
    options: GenerationConfig,
    row: int = 0,
) -> Generator[int, None, bool]:
    """Yield the tokens of one text as they are generated, without the stop token.

    They are those of `greedy`, or of `sample` with the seed `options.seed` + `row`.

    Args:
        stepper: The model.
        state: The state that `stepper.start` returned; it cannot be used again.
        first: The first token: the start token, or the last token of a prompt.
        limits: When generation ends, and which tokens are never generated.
        options: Options of generation; `beam` must be 1.
        row: Index of the input, for its seed.

    Returns:
        A generator of token ids. Its return value is True if the text ended with the stop token.

    Raises:
        DecodingError: If `options.beam` is above 1, or generation fails.
    """
    if options.beam > 1:
        raise DecodingError(
            f"the text of a beam of {options.beam} is not known before it ends; stream with "
            "sample=True or beam=1"
        )
    choose: Choose = most_likely
    if options.sample:
        choose = sampler(
            first,
            limits,
            seeds=[options.seed + row],
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
        )
    generated = steps(stepper, state, first, limits, choose)

    def tokens() -> Generator[int, None, bool]:
        while True:
            with torch.no_grad():  # not around the yield, where the caller's own code runs
                step = next(generated, None)
            if step is None or step.tokens.item() == limits.stop:
                return step is not None
            yield int(step.tokens)

    return tokens()


@dataclass(frozen=True)
class Window(Generic[State]):
    """The state of the inner stepper, and the tokens that it has read."""

    inner: State
    tokens: Int[Tensor, "b n"]


class Windowed(Generic[State]):
    """A stepper that shows another one only the last tokens, for texts of any length.

    When the window is full, the last half of it is read again, and generation continues: the text
    can be longer than the positions of the model allow.

    Args:
        stepper: The model; its `start` takes a prompt (b, n), whose last token is for the first
            step.
        size: Largest number of tokens that the model sees.

    Raises:
        DecodingError: If `size` is below 1.
    """

    def __init__(self, stepper: Stepper[State], size: int) -> None:
        if size < 1:
            raise DecodingError(
                f"a window needs at least 1 token, got {size}; use the number of positions of the "
                "model"
            )
        self.stepper, self.size = stepper, size

    def start(self, prompt: Int[Tensor, "b n"]) -> Window[State]:
        """Return the state after the last `size` tokens of a prompt."""
        prompt = prompt[:, -self.size :]
        return Window(self.stepper.start(prompt), prompt[:, :-1])

    def step(
        self, tokens: Int[Tensor, " b"], state: Window[State]
    ) -> tuple[Float[Tensor, "b v"], Window[State]]:
        """Append one token per row; return the logits of the next token and the new state."""
        inner, before = state.inner, state.tokens
        if before.shape[1] == self.size:
            before = before[:, self.size - self.size // 2 :]
            inner = self.stepper.start(torch.cat((before, tokens.unsqueeze(1)), 1))
        logits, inner = self.stepper.step(tokens, inner)
        return logits, Window(inner, torch.cat((before, tokens.unsqueeze(1)), 1))

    def select(self, state: Window[State], rows: Int[Tensor, " n"]) -> Window[State]:
        """Return the state of these rows, in this order."""
        return Window(self.stepper.select(state.inner, rows), state.tokens.index_select(0, rows))
