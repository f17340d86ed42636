"""Recordings of synthetic sounds as mel features: one high sound, and low ones beside it.

A recording has one to three sounds, one after the other, with pauses and noise. Exactly one is
high. The label is how it moves; the text describes all sounds in their order. So a classifier has
to find the high sound in time. Waves are synthesised at 8 kHz and become logarithms of 24 mel
bands, in windows of 32 ms every 16 ms.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from saccade.data.builtin._shared import Sampler, image_name, image_number, split_slice

DESCRIPTION = "synthetic sounds as mel features, 24 numbers per step: how the high sound moves"
COLUMNS = ("vectors", "label", "text")
SIZES = {"train": 4_000, "valid": 300, "test": 500}
KINDS = ("rising", "falling", "steady", "trill", "pulsing")
RATE, WINDOW, HOP, BANDS = 8_000, 256, 128, 24


class Sound(NamedTuple):
    """A sound: whether it is high, how it moves, and its place in steps (from, to)."""

    high: bool
    kind: str
    start: int
    stop: int


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """Yield the name of the vectors, how the high sound moves, and all sounds in their order."""
    place = split_slice(SIZES, split)
    for number in range(place.start, place.stop):
        sounds = _plan(number)[0]
        label = next(sound.kind for sound in sounds if sound.high)
        text = " ".join(f"{'high' if sound.high else 'low'} {sound.kind}" for sound in sounds)
        yield image_name("tones", number), label, text


def vectors(name: str) -> npt.NDArray[np.float32]:
    """Return the features (steps, 24) of a name such as `builtin:tones/123`."""
    return _features(image_number(name, "tones", sum(SIZES.values()), "recording"))


def target(name: str) -> tuple[int, int]:
    """Return the first step of the high sound, and the step after its last."""
    sounds = _plan(image_number(name, "tones", sum(SIZES.values()), "recording"))[0]
    high = next(sound for sound in sounds if sound.high)
    return high.start, high.stop


def _plan(number: int) -> tuple[tuple[Sound, ...], int]:
    """Return the sounds of a recording, and its number of steps."""
    sample = Sampler(number)
    count = sample.between(1, 3)
    high = sample.between(0, count - 1)
    step, sounds = sample.between(2, 8), list[Sound]()
    for place in range(count):
        length = sample.between(12, 22)
        sounds.append(Sound(place == high, sample.one_of(KINDS), step, step + length))
        step += length + sample.between(3, 8)
    return tuple(sounds), step


@lru_cache(maxsize=512)
def _features(number: int) -> npt.NDArray[np.float32]:
    sounds, steps = _plan(number)
    sample, noise = Sampler(1_000_003 + number), np.random.default_rng(number)
    wave = 0.03 * noise.standard_normal(steps * HOP + WINDOW - HOP)
    for sound in sounds:
        samples = (sound.stop - sound.start) * HOP
        at = np.linspace(0.0, 1.0, samples)
        middle = (1_400 if sound.high else 350) * 2 ** (0.5 * (sample.random() - 0.5))
        octaves = {
            "rising": 1.2 * (at - 0.5),
            "falling": 1.2 * (0.5 - at),
            "trill": 0.3 * np.sign(np.sin(2 * np.pi * at * sample.between(3, 5))),
        }.get(sound.kind, np.zeros(samples))
        phase = 2 * np.pi * np.cumsum(middle * 2**octaves) / RATE
        loud = np.minimum(1.0, 12 * np.minimum(at, 1 - at)) * (0.4 + 0.6 * sample.random())
        if sound.kind == "pulsing":
            loud = loud * (np.sin(2 * np.pi * at * sample.between(3, 5)) > -0.2)
        start = sound.start * HOP
        wave[start : start + samples] += loud * (np.sin(phase) + 0.3 * np.sin(2 * phase))
    frames = np.lib.stride_tricks.sliding_window_view(wave, WINDOW)[::HOP] * np.hanning(WINDOW)
    power = np.abs(np.fft.rfft(frames)) ** 2
    features: npt.NDArray[np.float32] = np.log(power @ _mel_bands() + 1e-3).astype(np.float32)
    features.setflags(write=False)
    return features


@lru_cache(maxsize=1)
def _mel_bands() -> npt.NDArray[np.float64]:
    """Return triangular filters (frequencies, bands), evenly spaced on the mel scale."""
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, BANDS + 2) / 2595) - 1)
    frequencies = np.fft.rfftfreq(WINDOW, 1 / RATE)[:, None]
    rise = (frequencies - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - frequencies) / (edges[2:] - edges[1:-1])
    return np.maximum(0.0, np.minimum(rise, fall))
