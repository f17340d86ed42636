"""Counts and times of the server, in the text format that Prometheus reads."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32, 64)

Labels = tuple[str, ...]
Number = int | float


class Counter:
    """How often something happened, by labels."""

    kind = "counter"

    def __init__(self, name: str, about: str, labels: Sequence[str]) -> None:
        self.name, self.about, self.labels = name, about, tuple(labels)
        self._lock, self._counts = threading.Lock(), dict[Labels, Number]()

    def add(self, *labels: str, amount: Number = 1) -> None:
        """Once more."""
        with self._lock:
            self._counts[labels] = self._counts.get(labels, 0) + amount

    def value(self, *labels: str) -> Number:
        """How often."""
        return self._counts.get(labels, 0)

    def lines(self) -> Iterator[str]:
        """A line for each combination of labels."""
        with self._lock:
            counts = dict(self._counts)
        for labels, count in sorted(counts.items()):
            yield _line(self.name, zip(self.labels, labels, strict=True), count)


class Gauge:
    """Something that goes up and down, asked for when it is wanted: labels and numbers."""

    kind = "gauge"

    def __init__(
        self,
        name: str,
        about: str,
        labels: Sequence[str],
        read: Callable[[], Iterable[tuple[Labels, Number]]],
    ) -> None:
        self.name, self.about, self.labels, self._read = name, about, tuple(labels), read

    def lines(self) -> Iterator[str]:
        """A line for each combination of labels."""
        for labels, number in self._read():
            yield _line(self.name, zip(self.labels, labels, strict=True), number)


class Histogram:
    """How large something was, by labels: how often at most each bound."""

    kind = "histogram"

    def __init__(
        self, name: str, about: str, labels: Sequence[str], bounds: Sequence[Number]
    ) -> None:
        self.name, self.about, self.labels, self.bounds = name, about, tuple(labels), tuple(bounds)
        self._lock = threading.Lock()
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: Number, *labels: str) -> None:
        """One more of this size."""
        with self._lock:
            counts = self._counts.setdefault(labels, [0] * (len(self.bounds) + 1))
            counts[bisect_left(self.bounds, value)] += 1
            self._sums[labels] = self._sums.get(labels, 0.0) + value

    def lines(self) -> Iterator[str]:
        """For each combination of labels the counts up to each bound, the sum and the number."""
        with self._lock:
            taken = [
                (labels, list(accumulate(counts)), self._sums[labels])
                for labels, counts in sorted(self._counts.items())
            ]
        for labels, counts, total in taken:
            pairs = list(zip(self.labels, labels, strict=True))
            for bound, count in zip([*map(_number, self.bounds), "+Inf"], counts, strict=True):
                yield _line(f"{self.name}_bucket", [*pairs, ("le", bound)], count)
            yield _line(f"{self.name}_sum", pairs, total)
            yield _line(f"{self.name}_count", pairs, counts[-1])


class Measures:
    """All that is measured."""

    def __init__(self) -> None:
        self.requests = Counter(
            "saccade_requests_total", "Requests by what became of them.", ("route", "status")
        )
        self.seconds = Histogram(
            "saccade_request_seconds", "Time from a request to its answer.", ("route",), SECONDS
        )
        self.rows = Histogram(
            "saccade_batch_rows", "Inputs that were answered together.", ("model",), ROWS
        )
        self.batch_seconds = Histogram(
            "saccade_batch_seconds", "Time to answer a batch.", ("model",), SECONDS
        )
        self.abandoned = Counter(
            "saccade_abandoned_total", "Requests whose work was given up.", ("model",)
        )
        self.dropped = Counter(
            "saccade_connections_dropped_total", "Connections closed by a limit.", ("reason",)
        )
        self._all: list[Counter | Gauge | Histogram] = [
            self.requests,
            self.seconds,
            self.rows,
            self.batch_seconds,
            self.abandoned,
            self.dropped,
        ]

    def watch(self, gauge: Gauge) -> None:
        """Show this one, too."""
        self._all.append(gauge)

    def text(self) -> str:
        """All of it as Prometheus reads it."""
        lines = []
        for each in self._all:
            lines += [f"# HELP {each.name} {each.about}", f"# TYPE {each.name} {each.kind}"]
            lines += each.lines()
        return "\n".join(lines) + "\n"


def _line(name: str, labels: Iterable[tuple[str, str]], value: Number) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: Number) -> str:
    return f"{value:g}" if value == int(value) and abs(value) < 1e6 else repr(value)
