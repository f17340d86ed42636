"""Write the pages of the Python API, which mkdocstrings fills from the docstrings.

`pages()` returns the Markdown of each page of reference/python/; docs/make_site.py calls it.
"""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

import saccade

TITLES: Mapping[str, str] = {
    "saccade": "Front door: train, load, evaluate, watch",
    "saccade.attention": "Attention: scores, masks, heads",
    "saccade.positions": "Positional encodings",
    "saccade.layers": "Layers that encoders and decoders share",
    "saccade.encoders": "Encoders",
    "saccade.decoders": "Decoders",
    "saccade.models": "Models",
    "saccade.decoding": "Decoding: greedy, beam search, sampling",
    "saccade.text": "Tokenizers and vocabularies",
    "saccade.data": "Data: sources, store, batches",
    "saccade.metrics": "Metrics",
    "saccade.tasks": "Tasks",
    "saccade.training": "Training: recipe, loop, run folder",
    "saccade.inspection": "Inspection of data",
    "saccade.engines": "Engines",
    "saccade.lens": "Lens: records, figures, alignments, measures",
    "saccade.interop": "Hugging Face, ONNX, CTranslate2",
    "saccade.compare": "Comparisons",
    "saccade.serve": "Server",
}
NOT_DOCUMENTED = ("saccade.cli", "saccade.recipes")
"""Packages without a Python API: the command line has a page of its own."""


def pages() -> dict[str, str]:
    """Return the Markdown of every page by its file name, and of the index."""
    documents = {f"{_slug(name)}.md": _page(name, title) for name, title in TITLES.items()}
    index = "# Python API\n\nGenerated from the docstrings.\n\n| package | |\n|---|---|\n"
    for name, title in TITLES.items():
        index += f"| [`{name}`]({_slug(name)}.md) | {title} |\n"
    return {"index.md": index, **documents}


def packages() -> set[str]:
    """Return every package of Saccade that must have a page."""
    names = {f"saccade.{module.name}" for module in iter_modules(saccade.__path__) if module.ispkg}
    return {"saccade", *names} - set(NOT_DOCUMENTED)


def _slug(package: str) -> str:
    return package.rpartition(".")[2]


def _page(package: str, title: str) -> str:
    if package == "saccade":
        modules = ["saccade.errors", "saccade.interfaces", "saccade.cancellation", "saccade.config"]
        blocks = [
            f"::: {_home(name)}\n    options:\n      heading_level: 2\n"
            f"      heading: saccade.{name}\n      toc_label: {name}\n"
            for name in ("train", "load", "evaluate", "look", "watch")
        ]
    else:
        modules = _modules(package)
        blocks = [f"::: {package}\n    options:\n      members: false\n"]
    blocks += [f"::: {module}\n    options:\n      heading_level: 2\n" for module in modules]
    return f"# {title}\n\n" + "\n".join(blocks)


def _home(name: str) -> str:
    """Return where a name of the front door is defined."""
    thing = getattr(saccade, name)
    return f"{thing.__module__}.{thing.__qualname__}"


def _modules(package: str) -> list[str]:
    """Return the public modules below a package, those of its sub-packages included."""
    names: list[str] = []
    for module in iter_modules(import_module(package).__path__):
        name = f"{package}.{module.name}"
        if not module.name.startswith("_"):
            names.append(name)
            names += _modules(name) if module.ispkg else []
    return names
