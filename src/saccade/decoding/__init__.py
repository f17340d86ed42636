"""Decoding: generate sequences with a model that predicts one token at a time.

    greedy_search   the most likely token at each step
    sampling        sampling with temperature, top-k and top-p, one seed per row
    beam            beam search with an exact stopping rule
    strategies      `generate`, one call for all three
    options         options of generation, and requests to engines
    hypothesis      the result of generation, and its limits
    stepping        one step of the model, and the loop that greedy search and sampling share
    eager           `generate` as the default engine of a task
    streaming       tokens as they are generated, and a sliding window for texts of any length

Greedy search, sampling and beam search take any `saccade.interfaces.Stepper`, the state that its
`start` returned, and the first token of each row. They return the hypotheses of each row, best
first. The state cannot be used again.

Options, requests and hypotheses need no torch. The modules that do are imported when they are used.
"""

from typing import TYPE_CHECKING

from saccade.decoding.hypothesis import GenerationLimits, Hypothesis
from saccade.decoding.options import (
    GenerationConfig,
    GenerationRequest,
    TextEngine,
    length_bucket,
)
from saccade.lazy_exports import lazily

if TYPE_CHECKING:
    from saccade.decoding.beam import beam_search
    from saccade.decoding.eager import DecodingStart, Eager
    from saccade.decoding.greedy_search import greedy
    from saccade.decoding.sampling import sample
    from saccade.decoding.strategies import generate
    from saccade.decoding.streaming import Windowed, stream

__all__ = [
    "DecodingStart",
    "Eager",
    "GenerationConfig",
    "GenerationLimits",
    "GenerationRequest",
    "Hypothesis",
    "TextEngine",
    "Windowed",
    "beam_search",
    "generate",
    "greedy",
    "length_bucket",
    "sample",
    "stream",
]

Limits = GenerationLimits
"""Deprecated name of `GenerationLimits`."""

__getattr__ = lazily(
    __name__,
    {
        "saccade.decoding.beam": ["beam_search"],
        "saccade.decoding.eager": ["DecodingStart", "Eager"],
        "saccade.decoding.greedy_search": ["greedy"],
        "saccade.decoding.sampling": ["sample"],
        "saccade.decoding.strategies": ["generate"],
        "saccade.decoding.streaming": ["Windowed", "stream"],
    },
)
