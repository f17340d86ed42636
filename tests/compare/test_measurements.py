"""Measurements of a run: selection of items, times, memory, and a round trip through JSON."""

import json

import numpy as np
from pydantic import TypeAdapter

from saccade.allocator import peak_memory
from saccade.compare import measurements
from saccade.compare.measurements import (
    Measurements,
    PredictionSpeed,
    Sample,
    TrainingCost,
    prediction_speed,
    spread_by_length,
)
from saccade.data.corpus import Item
from saccade.metrics import exact_match


def items(*lengths):
    return [Item(("x" * length,), ("y",), i) for i, length in enumerate(lengths)]


def test_selected_items_go_from_short_to_long_without_the_extremes():
    selected = spread_by_length(items(9, 1, 8, 2, 7, 3, 6, 4), 4)
    assert [len(item.inputs[0]) for item in selected] == [2, 4, 7, 9]
    assert [len(item.inputs[0]) for item in spread_by_length(items(*range(100)), 4)] == [
        12,
        37,
        62,
        87,
    ]
    assert len(spread_by_length(items(3, 1), 4)) == 2


def test_times_are_medians_after_a_warm_up_call(monkeypatch):
    """The clock only advances in predict: 5 s in the first call, then 2 s, and 0.5 s per input."""
    now, calls = [0.0], []

    def predict(inputs):
        now[0] += (5.0 if not calls else 2.0) + 0.5 * len(inputs)
        calls.append(len(inputs))

    monkeypatch.setattr(measurements.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(measurements, "MAX_SECONDS", 1e9)
    speed = prediction_speed(list("abcdefgh"), predict)
    assert speed == PredictionSpeed(latency_seconds=2.5, inputs_per_second=8 / 6, together=8)
    assert calls == [1] + [1] * 8 * 3 + [8] + [8] * 3


def test_timing_of_slow_models_stops_early(monkeypatch):
    now, calls = [0.0], []

    def predict(inputs):
        now[0] += 60.0
        calls.append(len(inputs))

    monkeypatch.setattr(measurements.time, "perf_counter", lambda: now[0])
    assert prediction_speed(["a"] * 64, predict).latency_seconds == 60.0
    assert calls == [1, 1, 64, 64]


def test_peak_memory_is_that_of_this_process():
    before = peak_memory()
    assert before > 20e6
    block = np.ones(before // 8 + 8_000_000)
    assert peak_memory() > block.nbytes


def test_measurements_survive_a_round_trip_through_json():
    before = Measurements(
        parameters=3,
        split="test",
        items=2,
        comparison_metric="exact_match",
        scores={"exact_match": exact_match(["a", "b"], [["a"], ["c"]], samples=20)},
        by_length=[{"from": 1, "to": 2, "unit": "words", "count": 2, "exact_match": 0.5}],
        training=TrainingCost(
            steps=1,
            best_step=1,
            seconds=0.5,
            epochs=None,
            ended="x",
            unit="tokens",
            tokens_per_second=None,
            peak_memory=None,
        ),
        answering=PredictionSpeed(latency_seconds=0.1, inputs_per_second=3.0, together=2),
        curve=[{"step": 1, "valid_loss": None}],
        samples=[Sample(input="a", references=("b", "c"), answer="d", attention=None)],
    )
    content = json.loads(json.dumps(before.as_json()))
    assert TypeAdapter(Measurements).validate_python(content) == before
