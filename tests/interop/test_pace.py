"""Calls that cannot be interrupted stay short, whatever the speed, and lose no input."""

import pytest

from saccade.cancellation import Cancelled, cancellable
from saccade.decoding import GenerationConfig, GenerationRequest, Hypothesis
from saccade.interop import ctranslate2 as ours
from saccade.interop.ctranslate2 import pace
from saccade.interop.ctranslate2.pace import LONGEST, Pace
from tests.engines import tiny

BEAM, TOKENS = 4, 100


class Clock:
    """Writes answers of a length, at a speed, in time that it makes up."""

    def __init__(self, monkeypatch, rate: float) -> None:
        self.now, self.rate, self.length, self.calls = 0.0, rate, TOKENS, []
        monkeypatch.setattr(pace, "perf_counter", lambda: self.now)

    def write(self, inputs):
        seconds = 0.002 + self.rate * len(inputs) * BEAM * self.length
        self.now += seconds
        self.calls.append(seconds)
        texts = ((number,) * self.length for [number] in inputs)
        return [[Hypothesis(text, 0.0, 0.0, finished=False)] for text in texts]

    def probe(self):
        self.length = 32
        result = self.write([[0]])
        self.length = TOKENS
        return result


@pytest.mark.parametrize("rate", [1e-6, 1e-4, 5e-4, 2e-3])
def test_calls_stay_short_and_answers_in_order(monkeypatch, rate):
    clock, speed = Clock(monkeypatch, rate), Pace()
    speed.probe(clock.probe, BEAM)
    inputs = [[number] for number in range(64)]
    for factor in (1.0, 1.8, 0.5, 1.5):  # the load of the machine changes
        clock.rate, clock.calls = rate * factor, []
        written = speed.write(clock.write, inputs, BEAM, TOKENS)
        assert [row[0].tokens[0] for row in written] == list(range(64))
        assert max(clock.calls) < 2.0
    if rate == 1e-6:
        assert len(clock.calls) == 1  # nothing is split without need


def test_short_answers_do_not_make_later_calls_long(monkeypatch):
    clock, speed = Clock(monkeypatch, 5e-4), Pace()
    speed.probe(clock.probe, BEAM)
    clock.length = 2
    speed.write(clock.write, [[0]] * 64, BEAM, TOKENS)
    clock.length, clock.calls = TOKENS, []
    speed.write(clock.write, [[0]] * 64, BEAM, TOKENS)
    assert max(clock.calls) < 2.0


def test_an_input_that_takes_too_long_does_not_fit(monkeypatch):
    clock, speed = Clock(monkeypatch, 1e-3), Pace()
    speed.probe(clock.probe, BEAM)
    assert speed.fits(BEAM, 200)
    assert not speed.fits(BEAM, 300)


def test_the_speed_is_probed_once(monkeypatch):
    clock, speed = Clock(monkeypatch, 1e-3), Pace()
    for _ in range(3):
        speed.probe(clock.probe, BEAM)
    assert len(clock.calls) == pace.PROBES


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("make", [tiny.translator, tiny.language_model])
def test_a_cancelled_engine_makes_no_further_call(tmp_path, monkeypatch, make, beam):
    task = make(tmp_path / "run")
    folder = tmp_path / "out"
    folder.mkdir()
    ours.write_folder(task, folder, "float32")
    engine = ours.open_engine(task, folder, "float32")
    inputs = [[8, 9, 10]] * 6
    request = GenerationRequest(
        limits=task.describe().writes.limits(9), options=GenerationConfig(beam=beam), rows=range(6)
    )
    whole, calls = engine.generate(inputs, request), []
    monkeypatch.setattr(pace, "SECONDS", 0.0)  # so that each call has one input
    write = engine.write

    def counted(part, request):
        calls.append(len(part))
        return write(part, request)

    monkeypatch.setattr(engine, "write", counted)
    with cancellable(lambda: False):
        assert engine.lacks(inputs, request) is None
        calls.clear()
        split = engine.generate(inputs, request)
    assert [[x.tokens for x in row] for row in split] == [[x.tokens for x in row] for row in whole]
    assert calls == [1] * 6
    calls.clear()
    with cancellable(lambda: len(calls) == 2), pytest.raises(Cancelled):
        engine.generate(inputs, request)
    assert calls == [1, 1]
    engine.pace._probed = LONGEST
    with cancellable(lambda: False):
        assert "calls cannot be cancelled" in engine.lacks(inputs, request)
    assert engine.lacks(inputs, request) is None
