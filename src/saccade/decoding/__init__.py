"""Decoding: generate sequences with a model that predicts one token at a time.

    greedy       greedy search: the most likely token at each step
    sampling     sampling with temperature, top-k and top-p, one seed per row
    beam         beam search with an exact stopping rule
    options      options of generation, and `generate`, one call for all three
    hypothesis   the result of generation, and its limits
    stepping     one step of the model, and the loop that greedy search and sampling share
    eager        `generate` as the default engine of a task
    stream       tokens as they are generated, and a sliding window for texts of any length

Greedy search, sampling and beam search take any `saccade.interfaces.Stepper`, the state that its
`start` returned, and the first token of each row. They return the hypotheses of each row, best
first. The state cannot be used again.
"""

from saccade.decoding.beam import beam_search
from saccade.decoding.eager import DecodingStart, Eager, TextEngine
from saccade.decoding.greedy import greedy
from saccade.decoding.hypothesis import GenerationLimits, Hypothesis
from saccade.decoding.options import GenerationConfig, GenerationRequest, generate, length_bucket
from saccade.decoding.sampling import sample
from saccade.decoding.stream import Windowed, stream

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
