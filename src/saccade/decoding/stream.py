"""Text without end: tokens as they are written, and a window that moves along with them."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Generic

import torch

from saccade.decoding.greedy import most_likely
from saccade.decoding.hypothesis import GenerationLimits
from saccade.decoding.options import GenerationConfig
from saccade.decoding.sampling import drawing
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
    """The tokens of one text, each as soon as it is written, without the stop.

    They are those that greedy search, or `sample` with the seed `options.seed` + `row`, gives. The
    generator's own value is whether the stop was written.
    """
    if options.beam > 1:
        raise DecodingError(
            f"what a beam of {options.beam} writes is not known before it ends; a stream is drawn "
            "(sample=True) or greedy (beam=1)"
        )
    choose: Choose = most_likely
    if options.sample:
        choose = drawing(
            first,
            limits,
            seeds=[options.seed + row],
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
        )
    written = steps(stepper, state, first, limits, choose)

    def tokens() -> Generator[int, None, bool]:
        while True:
            with torch.no_grad():  # not around the yield: what the caller does is his own
                step = next(written, None)
            if step is None or step.tokens.item() == limits.stop:
                return step is not None
            yield int(step.tokens)

    return tokens()


@dataclass(frozen=True)
class Window(Generic[State]):
    """The state of the stepper within, and the tokens that it has read."""

    inner: State
    tokens: Int[Tensor, "b n"]


class Windowed(Generic[State]):
    """A Stepper that shows another the last tokens only, `size` at most.

    When the window is full, the last half of it is read anew, and writing goes on: any length can
    be written, whatever places the model knows. The other's `start` takes a prompt (b, n), whose
    last token is left for the first step.
    """

    def __init__(self, stepper: Stepper[State], size: int) -> None:
        if size < 1:
            raise DecodingError(f"a window needs at least 1 token, got {size}")
        self.stepper, self.size = stepper, size

    def start(self, prompt: Int[Tensor, "b n"]) -> Window[State]:
        """The state after a prompt, of which the last `size` tokens are read."""
        prompt = prompt[:, -self.size :]
        return Window(self.stepper.start(prompt), prompt[:, :-1])

    def step(
        self, tokens: Int[Tensor, " b"], state: Window[State]
    ) -> tuple[Float[Tensor, "b v"], Window[State]]:
        """One more token for each row; the logits of what follows, and the state after it."""
        inner, before = state.inner, state.tokens
        if before.shape[1] == self.size:
            before = before[:, self.size - self.size // 2 :]
            inner = self.stepper.start(torch.cat((before, tokens.unsqueeze(1)), 1))
        logits, inner = self.stepper.step(tokens, inner)
        return logits, Window(inner, torch.cat((before, tokens.unsqueeze(1)), 1))

    def select(self, state: Window[State], rows: Int[Tensor, " n"]) -> Window[State]:
        """The state of these rows, in this order."""
        return Window(self.stepper.select(state.inner, rows), state.tokens.index_select(0, rows))
