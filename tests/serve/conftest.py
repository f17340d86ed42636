"""Tiny untrained models of every task, and servers of them."""

import asyncio
import base64
import io
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from saccade.data import sources
from saccade.serve import app
from saccade.serve.auth import Authorization
from saccade.serve.cards import ModelCard
from saccade.serve.limits import RequestLimits
from saccade.serve.middleware import RequestMiddleware
from saccade.serve.models import ModelRegistry, ServedModel
from saccade.serve.prometheus import ServerMetrics
from saccade.tasks import Task
from saccade.training import recipe as recipes
from saccade.training.run import Run

TINY = ("model.dim=16", "model.encoder.num_layers=1", "model.encoder.hidden_dim=16")
SMALL = {
    "reverse": (
        "generation.max_length=12",
        "model.dim=16",
        "model.encoder.dim=16",
        "model.decoder.dim=16",
    ),
    "bert-mini": (*TINY, "text.vocabulary.size=300"),
    "bert-mini-masked": (*TINY, "text.vocabulary.size=300"),
    "transformer-tagger": (*TINY, "text.vocabulary.size=300"),
    "gpt-char": (
        "model.dim=16",
        "model.decoder.num_layers=1",
        "model.decoder.hidden_dim=16",
        "text.block=16",
        "generation.max_length=24",
    ),
    "vit-tiny": (
        *TINY,
        "image.size=8",
        "model.patch_size=2",
        "model.encoder.num_heads=2",
        "augment.crop=1",
    ),
    "caption-attention": (
        "image.size=8",
        "text.vocabulary.min_count=1",
        "generation.max_length=6",
        "model.dim=16",
        "model.decoder.dim=16",
        "model.encoder.kind=resnet",
        "model.encoder.widths=[6,8]",
        "model.encoder.blocks=1",
        "model.encoder.dim=12",
    ),
}
NAMES = {
    "en-fr": "reverse",
    "mood": "bert-mini",
    "nli": "bert-mini",
    "names": "transformer-tagger",
    "holes": "bert-mini-masked",
    "book": "gpt-char",
    "photos": "vit-tiny",
    "captions": "caption-attention",
}
TOKEN = "a token that nobody guesses"


def picture(side: int = 10) -> bytes:
    """Return a PNG of noise."""
    file = io.BytesIO()
    pixels = np.random.default_rng(side).integers(0, 255, (side, side, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


INPUTS: dict[str, list[Any]] = {
    "en-fr": ["a b c", "d e"],
    "mood": ["i am happy", "it is bad"],
    "nli": [["a cat", "a dog"], ["it", "is"]],
    "names": ["Ann sings, she said.", ["we", "like", "Rome"]],
    "holes": ["the [MASK] cat", "[MASK]"],
    "book": ["the cat", ""],
    "photos": [in_base64(picture(10)), in_base64(picture(12))],
    "captions": [in_base64(picture(10)), in_base64(picture(12))],
}
"""Inputs of each model, as JSON."""


def _write_data(folder: Path) -> dict[str, Path]:
    letters = ["a b c", "d e f", "b a", "c c d", "e f a b"] * 8
    tables = {
        "en-fr": [("source", "target"), *((text, text[::-1]) for text in letters)],
        "mood": [("text", "label"), *((f"i am {n}", ("good", "bad")[n % 2]) for n in range(16))],
        "nli": [
            ("text", "text_pair", "label"),
            *((f"{n}", "b", ("no", "yes")[n % 2]) for n in range(16)),
        ],
        "names": [
            ("words", "tags"),
            *[("Ann sings .", "B-person O O"), ("in Rome", "O B-place")] * 8,
        ],
        "holes": [("text",), *[("the cat sees a dog",), ("a dog is the cat",)] * 8],
    }
    paths = {}
    for name, rows in tables.items():
        paths[name] = folder / f"{name}.tsv"
        paths[name].write_text("".join("\t".join(row) + "\n" for row in rows))
    paths["book"] = folder / "book.txt"
    paths["book"].write_text("the cat sees a naïve dog\n" * 40, encoding="utf-8")
    paths["photos"] = folder / "photos"
    for number in range(8):
        where = paths["photos"] / ("dark", "light")[number % 2]
        where.mkdir(parents=True, exist_ok=True)
        (where / f"{number}.png").write_bytes(picture(9 + number))
    rows = [f"photos/dark/{n}.png\ta dark square\n" for n in (0, 2, 4, 6)]
    paths["captions"] = folder / "captions.tsv"
    paths["captions"].write_text("image\ttext\n" + "".join(rows))
    return paths


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Run folders of every task, by the names of the models."""
    folder = tmp_path_factory.mktemp("served")
    data, folders = _write_data(folder), {}
    for name, recipe in NAMES.items():
        chosen = recipes.load(recipe, SMALL[recipe])
        corpus = sources.open_corpus(data[name], chosen.options.columns)
        task = chosen.options.create(corpus.splits["train"])
        folders[name] = folder / "runs" / name
        folders[name].mkdir(parents=True)
        Run(folders[name]).begin(chosen, task, {})
        Run(folders[name]).keep_best(task.model)
    return folders


@pytest.fixture(scope="session")
def tasks(runs: dict[str, Path]) -> dict[str, Task]:
    """Tasks of the run folders."""
    return {name: Run(folder).task() for name, folder in runs.items()}


Build = Callable[..., RequestMiddleware]


@pytest.fixture(scope="session")
def build(tasks: dict[str, Task]) -> Iterator[Build]:
    """Give `build("book", token=..., queue=2)`: a server of these models, or of all."""
    built: list[RequestMiddleware] = []

    def make(
        *names: str,
        token: str | None = None,
        host: str = "127.0.0.1",
        log_text: bool = False,
        others: dict[str, Any] | None = None,
        cards: dict[str, ModelCard] | None = None,
        **limits: Any,
    ) -> RequestMiddleware:
        metrics, caps = ServerMetrics(), RequestLimits(**limits)
        chosen = {name: tasks[name] for name in names or tasks} | (others or {})
        if others and not names:
            chosen = dict(others)
        models = [
            ServedModel(
                name,
                task,
                limits=caps,
                metrics=metrics,
                languages=("en", "fr") if name == "en-fr" else None,
                card=(cards or {}).get(name),
            )
            for name, task in chosen.items()
        ]
        authorization = Authorization.for_address(host, token=token, open_paths=app.open_paths())
        middleware = app.build(
            ModelRegistry(models, metrics),
            authorization=authorization,
            limits=caps,
            metrics=metrics,
            log_text=log_text,
        )
        built.append(middleware)
        return middleware

    yield make
    for middleware in built:
        middleware.models.close(5.0)


@pytest.fixture(scope="session")
def all_models(build: Build) -> RequestMiddleware:
    """A server of all models, with a long timeout for slow machines."""
    return build(timeout=300.0)


def metric(middleware: RequestMiddleware, name: str, **labels: str) -> float:
    """Return the value of a metric of this server; 0 before its first event."""
    return middleware.metrics.registry.get_sample_value(name, labels) or 0.0


def client(middleware: RequestMiddleware, **options: Any) -> httpx.AsyncClient:
    """Return a client of a server in this process."""
    transport = httpx.ASGITransport(app=middleware, raise_app_exceptions=True)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", **options)


def send_request(
    middleware: RequestMiddleware, method: str, path: str, **options: Any
) -> httpx.Response:
    """Return the response to one request."""

    async def send() -> httpx.Response:
        async with client(middleware) as http:
            return await http.request(method, path, **options)

    return asyncio.run(send())


def together(
    middleware: RequestMiddleware, calls: list[Callable[[httpx.AsyncClient], Awaitable[Any]]]
) -> list[Any]:
    """Return the results of several calls at the same time."""

    async def send() -> list[Any]:
        async with client(middleware) as http:
            return await asyncio.gather(*(call(http) for call in calls))

    return asyncio.run(send())
