"""The clock of the race is the same for all contestants: updates count, measuring does not."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def race(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return importlib.import_module("race")


def test_points_have_the_seconds_of_training_alone(race, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(race.time, "monotonic", lambda: now[0])

    def quality():
        now[0] += 100.0  # as long as it takes, and not counted
        return len(curve.points)

    curve = race.Curve(20.0, quality)
    while not curve.over:
        now[0] += 15.0
    assert [seconds for seconds, _ in curve.points] == [60.0 * (i + 1) for i in range(20)]
    assert curve.seconds == 1200.0
    assert race.reached(curve.points, 4, lower=False) == 5.0
