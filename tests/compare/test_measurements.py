"""What is measured of a run: chosen items, times, memory, and the way to a file and back."""

import json

import numpy as np

from saccade.compare import measurements
from saccade.compare.measurements import Answering, Measured, Sample, Training, answering, chosen
from saccade.compare.memory import peak_memory
from saccade.data.corpus import Item
from saccade.metrics import exact_match


def items(*lengths):
    return [Item(("x" * length,), ("y",), i) for i, length in enumerate(lengths)]


def test_chosen_items_go_from_short_to_long_without_the_extremes():
    found = chosen(items(9, 1, 8, 2, 7, 3, 6, 4), 4)
    assert [len(item.inputs[0]) for item in found] == [2, 4, 7, 9]
    assert [len(item.inputs[0]) for item in chosen(items(*range(100)), 4)] == [12, 37, 62, 87]
    assert len(chosen(items(3, 1), 4)) == 2


def test_times_are_medians_after_a_call_that_warms_up(monkeypatch):
    """A clock that only predict moves: 5 s when it is cold, then 2 s, and 0.5 s for each input."""
    now, calls = [0.0], []

    def predict(inputs):
        now[0] += (5.0 if not calls else 2.0) + 0.5 * len(inputs)
        calls.append(len(inputs))

    monkeypatch.setattr(measurements.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(measurements, "SECONDS", 1e9)
    found = answering(list("abcdefgh"), predict)
    assert found == Answering(latency_seconds=2.5, inputs_per_second=8 / 6, together=8)
    assert calls == [1] + [1] * 8 * 3 + [8] + [8] * 3


def test_slow_models_are_not_asked_for_ever(monkeypatch):
    now, calls = [0.0], []

    def predict(inputs):
        now[0] += 60.0
        calls.append(len(inputs))

    monkeypatch.setattr(measurements.time, "perf_counter", lambda: now[0])
    assert answering(["a"] * 64, predict).latency_seconds == 60.0
    assert calls == [1, 1, 64, 64]


def test_peak_memory_is_this_process_own():
    before = peak_memory()
    assert before > 20e6
    block = np.ones(before // 8 + 8_000_000)
    assert peak_memory() > block.nbytes


def test_measured_to_json_and_back():
    told = Measured(
        parameters=3,
        split="test",
        items=2,
        comparison_metric="exact_match",
        scores={"exact_match": exact_match(["a", "b"], [["a"], ["c"]], samples=20)},
        by_length=[{"from": 1, "to": 2, "unit": "words", "count": 2, "exact_match": 0.5}],
        training=Training(
            steps=1,
            best_step=1,
            seconds=0.5,
            epochs=None,
            ended="x",
            unit="tokens",
            tokens_per_second=None,
            peak_memory=None,
        ),
        answering=Answering(latency_seconds=0.1, inputs_per_second=3.0, together=2),
        curve=[{"step": 1, "valid_loss": None}],
        samples=[Sample(input="a", references=("b", "c"), answer="d", attention=None)],
    )
    assert Measured.from_json(json.loads(json.dumps(told.as_json()))) == told
