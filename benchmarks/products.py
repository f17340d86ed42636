"""How much of a training step is matrix products: the step against its products alone.

    SACCADE_DATA=... python benchmarks/products.py [RECIPE ...] [--steps 20] [--rounds 5]

A training step (reading, forward, backward, clipping, optimizer, average of the weights; one
thread) is timed, and its matrix products and convolutions are recorded with their shapes and
strides. These are then replayed alone, on tensors of the same layout. Attention counts as the six
products of its definition, two forward and four backward, whatever kernel computes it. Steps and
replays take turns, and medians of the rounds count. The share is at most 100 % if the machine could
do nothing faster than these products.
"""

# before torch, which then uses large pages, as in training
from saccade.allocator import keep_freed_memory  # isort: skip

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import race
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from saccade.data.sources import open_corpus
from saccade.training import recipe as recipes
from saccade.training.loop import seed_of_batch
from saccade.training.optim import Average

WRITERS = {
    "translation": race.pairs,
    "language": race.characters,
    "sentences": race.sentences,
    "images": race.images,
}
RECIPES = {
    "transformer-small": "translation",
    "transformer-tiny": "translation",
    "bert-mini": "sentences",
    "vit-tiny": "images",
    "gpt-char": "language",
    "pronounce": "builtin:pronounce",
}
PLAIN = {"mm", "addmm", "addmm_", "bmm", "baddbmm", "convolution", "convolution_backward"}
FORWARD = "_scaled_dot_product_flash_attention_for_cpu"
BACKWARD = "_scaled_dot_product_flash_attention_for_cpu_backward"

Product = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Products(TorchDispatchMode):
    """Records the matrix products of the block, with tensors of the same layout."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[Product] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = function.overloadpacket.__name__
        if name in PLAIN:
            inputs = tuple(_like(value) for value in args)
            self.products.append((function, inputs, kwargs or {}))
        elif name in (FORWARD, BACKWARD):
            self.products += _attention(name, *(args[:3] if name == FORWARD else args[1:4]))
        return function(*args, **(kwargs or {}))


def _like(value: Any) -> Any:
    return torch.empty_strided(value.shape, value.stride()).normal_() if _full(value) else value


def _full(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _attention(name: str, *inputs: Tensor) -> list[Product]:
    """Return the products of the definition of attention."""
    query, key, value = (tensor.flatten(0, 1) for tensor in map(_like, inputs))
    weights = torch.rand(len(query), query.shape[1], key.shape[1])
    if name == FORWARD:
        return [(torch.bmm, (query, key.mT), {}), (torch.bmm, (weights, value), {})]
    output = torch.empty_like(query).normal_()
    return [
        (torch.bmm, (weights.mT, output), {}),
        (torch.bmm, (output, value.mT), {}),
        (torch.bmm, (weights, key), {}),
        (torch.bmm, (weights.mT, query), {}),
    ]


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def steps_of(step: Callable[[int], None], numbers: range) -> None:
    for number in numbers:
        step(number)


def replay(products: list[Product]) -> None:
    for function, inputs, options in products:
        function(*inputs, **options)


def measure(name: str, data: str, steps: int, rounds: int) -> tuple[float, float]:
    """Return the milliseconds of a step, and of its products."""
    recipe = recipes.load(name)
    config = recipe.training
    corpus = open_corpus(data, recipe.options.columns)
    rows = corpus.splits["train"]
    torch.manual_seed(0)
    task = recipe.options.create(rows)
    with tempfile.TemporaryDirectory() as folder:
        examples = task.encode(rows, Path(folder))
        plan = config.plan(task.sizes(examples))
        optimizer = config.optim.build(task.model, config.learning_rate)
        average = Average(config.average, task.model)
        task.train()

        def step(number: int) -> None:
            optimizer.zero_grad(set_to_none=True)
            for index, chosen in plan.update(number * plan.size):
                torch.manual_seed(seed_of_batch(0, index))
                loss = task(task.collate(examples, chosen))
                loss.total.backward()
            gradients = [p.grad for p in task.model.parameters() if p.grad is not None]
            length = float(torch.nn.utils.get_total_norm(gradients))
            torch._foreach_mul_(gradients, min(1.0, 1 / length))
            optimizer.step()
            average.after_update(number)

        for number in range(3):
            step(number)
        whole, bare = [], []
        for turn in range(rounds):
            numbers = range(3 + turn * steps, 3 + (turn + 1) * steps)
            whole.append(seconds(partial(steps_of, step, numbers)) / steps)
            replayed = 0.0
            for number in numbers:
                with Products() as recorded:
                    step(number)
                work = recorded.products
                replay(work)  # once, so that memory is there
                replayed += seconds(partial(replay, work))
            bare.append(replayed / steps)
    return 1e3 * statistics.median(whole), 1e3 * statistics.median(bare)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", default=list(RECIPES))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/products"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    print("| recipe | step (ms) | its products alone (ms) | share |", "|---|---|---|---|", sep="\n")
    for name in options.recipes:
        data = RECIPES[name]
        if data in WRITERS:
            if not (options.out / "data" / data).exists():
                WRITERS[data](options.out)
            data = str(options.out / "data" / data)
        step, bare = measure(name, data, options.steps, options.rounds)
        print(f"| {name} | {step:.1f} | {bare:.1f} | {100 * bare / step:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
