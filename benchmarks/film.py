"""What the film of learning costs: the time it takes during training, and its size.

    python benchmarks/film.py [--steps 300]

Each recipe is trained twice for as many updates, with the film and without it. The cost is the
processor time spent in `Film.record`; the difference of both trainings holds the noise of the
machine as well. Uses one thread.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch

from saccade.training import session
from saccade.training.console import Console
from saccade.training.film import Film
from saccade.training.run import Run

RECIPES = {"rnn-attention": "builtin:phrases", "bert-mini": "builtin:mood"}


class Clock:
    """Processor time spent in `Film.record`."""

    def __init__(self) -> None:
        self.seconds, self.calls = 0.0, 0
        self._record = Film.record

    def __enter__(self) -> "Clock":
        def timed(film: Film, *arguments: object) -> None:
            began = time.process_time()
            self._record(film, *arguments)  # type: ignore[arg-type]
            self.seconds += time.process_time() - began
            self.calls += 1

        Film.record = timed  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        Film.record = self._record  # type: ignore[method-assign]


def trained(recipe: str, data: str, steps: int, out: Path, *, film: bool) -> tuple[float, Clock]:
    """Train and return the processor time of the training alone, and that of the film."""
    began = 0.0
    spent = 0.0
    fit = session.Trainer.fit

    def timed_fit(trainer: session.Trainer) -> object:
        nonlocal began, spent
        if not film:
            trainer.film = None
        began = time.process_time()
        try:
            return fit(trainer)
        finally:
            spent = time.process_time() - began

    session.Trainer.fit = timed_fit  # type: ignore[method-assign, assignment]
    try:
        with Clock() as clock:
            session.train(
                recipe,
                data=data,
                out=out,
                max_steps=steps,
                device="cpu",
                precision="float32",
                console=Console(quiet=True),
            )
    finally:
        session.Trainer.fit = fit  # type: ignore[method-assign]
    return spent, clock


def main() -> None:
    """Print the cost for each recipe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    for recipe, data in RECIPES.items():
        with tempfile.TemporaryDirectory() as folder:
            without, _ = trained(recipe, data, steps, Path(folder) / "without", film=False)
            with_film, clock = trained(recipe, data, steps, Path(folder) / "with", film=True)
            size = Run(Path(folder) / "with").film.stat().st_size
        print(
            f"{recipe} on {data}, {steps} updates: {without:.1f} s without, {with_film:.1f} s with; "
            f"{clock.calls} frames took {clock.seconds:.2f} s "
            f"({100 * clock.seconds / with_film:.2f} % of training), film.json {size / 1024:.0f} KB"
        )


if __name__ == "__main__":
    main()
