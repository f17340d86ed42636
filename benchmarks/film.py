"""The cost of the film of learning: the time it takes during training, and its size.

    python benchmarks/film.py [--steps 300]

Each recipe is trained twice for as many updates, without the film and with it. The cost is the
processor time spent in `Film.record`; the difference of both trainings holds the noise of the
machine as well. Uses one thread.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from saccade.training import session
from saccade.training.console import Console
from saccade.training.film import Film
from saccade.training.loop import Trainer
from saccade.training.run import Run

RECIPES = {"rnn-attention": "builtin:phrases", "bert-mini": "builtin:mood"}


class Clock:
    """Processor time spent in the calls of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds, self.calls = function, 0.0, 0

    def timed(self) -> Callable[..., Any]:
        """Return the function, which is timed from now on."""

        def call(*arguments: Any, **options: Any) -> Any:
            began = time.process_time()
            try:
                return self.function(*arguments, **options)
            finally:
                self.seconds += time.process_time() - began
                self.calls += 1

        return call


def trained(recipe: str, data: str, steps: int, out: Path, *, film: bool) -> tuple[Clock, Clock]:
    """Train a recipe and return the clocks of the training and of the film."""
    training, recording = Clock(Trainer.fit), Clock(Film.record)
    record = recording.timed() if film else lambda *_: None
    with patch.object(Trainer, "fit", training.timed()), patch.object(Film, "record", record):
        session.train(
            recipe,
            data=data,
            out=out,
            max_steps=steps,
            device="cpu",
            precision="float32",
            console=Console(quiet=True),
        )
    return training, recording


def main() -> None:
    """Print the cost for each recipe."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    for recipe, data in RECIPES.items():
        with tempfile.TemporaryDirectory() as folder:
            without, _ = trained(recipe, data, steps, Path(folder) / "without", film=False)
            with_film, film = trained(recipe, data, steps, Path(folder) / "with", film=True)
            size = Run(Path(folder) / "with").film.stat().st_size
        fraction = film.seconds / with_film.seconds
        print(
            f"{recipe}, {steps} updates: {without.seconds:.1f} s without the film, "
            f"{with_film.seconds:.1f} s with it; {film.calls} frames took {film.seconds:.2f} s, "
            f"{100 * fraction:.2f} % of the training; film.json {size / 1024:.0f} KB",
            flush=True,
        )


if __name__ == "__main__":
    main()
