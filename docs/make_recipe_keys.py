"""Write the list of all recipe keys from the option classes themselves.

`page()` returns the Markdown of reference/recipe-keys.md; docs/make_site.py calls it.
"""

from collections.abc import Iterator
from itertools import groupby

from saccade import config, tasks
from saccade.config import Key
from saccade.data import builtin
from saccade.recipes import exports
from saccade.training import recipe as recipes
from saccade.training.recipe import TrainingConfig

ABOUT = """# Recipe keys

Every key of every task, generated from the option classes. [Recipes](recipes.md) explains how
they are set. `model.encoder<recurrent>.cell` means: the key `model.encoder.cell`, if
`model.encoder.kind` is `recurrent`. A key of another kind is an error that names the kinds that
have it.

"""


def page() -> str:
    """Return the complete page."""
    return ABOUT + "".join(table())


def built_in() -> str:
    """Return the Markdown of reference/built-in.md: the recipes and data sets of the package."""
    page = "# Built-in recipes and data\n\n`saccade recipes` prints the same list, and "
    page += "`saccade recipes NAME` one recipe with every key.\n\n"
    page += "## Recipes\n\n| recipe | task | | exports to |\n|---|---|---|---|\n"
    for name, formats in exports().items():
        task = recipes.load(name).task
        text = recipes.description(name)
        page += f"| `{name}` | `{task}` | {text} | {', '.join(formats)} |\n"
    page += "\n## Data sets\n\nNo download is needed for these.\n\n| data | |\n|---|---|\n"
    for name, text in builtin.descriptions().items():
        page += f"| `builtin:{name}` | {text} |\n"
    return page


def table() -> Iterator[str]:
    """Yield the keys of each task and of `[training]`, one table per table of the recipe."""
    for name in tasks.names():
        yield f"\n## {name}\n"
        yield from _tables(config.keys(tasks.config_of(name)))
    yield "\n## Every task\n"
    yield from _tables(config.keys(TrainingConfig, "training"))


def _tables(keys: Iterator[Key]) -> Iterator[str]:
    for name, inside in groupby(keys, lambda key: key.path.split(".")[0]):
        yield f"\n`[{name}]`\n\n| key | values | default | |\n|---|---|---|---|\n"
        for key in inside:
            text = _cell(key.description)
            yield f"| `{key.path}` | {key.allowed} | {key.default} | {text} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
