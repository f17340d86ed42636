"""Decoding: a model that writes one token at a time becomes whole sequences.

hypothesis  what comes out, and the limits it keeps to
stepping    what the three share: one step of the model, the plain loop
greedy      the most likely token at each step
sampling    a drawn token at each step, seeded for each row
beam        several beginnings side by side, with an exact rule when to end
frontier    the beginnings that beam search is writing on
options     how to generate, as plain options, and one call for all three
eager       that call as an engine, which a task has until it is given another
stream      text without end: tokens as they are written, and a window that moves along

All three take any `saccade.interfaces.Stepper`, the state that its `start` gave, and the tokens to
write first; they give, for each row of the batch, its hypotheses, best first. The state is used up.
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
