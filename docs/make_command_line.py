"""Write the reference of the command line from the commands themselves.

`page()` returns the Markdown of reference/command-line.md; docs/make_site.py calls it.
"""

from collections.abc import Iterator
from typing import Any

import typer

from saccade import cli

ABOUT = """# Command line

```
saccade VERB [OPTIONS] [ARGUMENTS]
```

`saccade VERB --help` prints the same as this page. Options may be given in any order.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a training run of a comparison failed; the others were kept |
| 2 | invalid input: one line on stderr names what is wrong, what would be right, and what to do |
| 74 | the disk is full; the previous checkpoint is intact |
| 130 | interrupted; a training run was saved and can be resumed |

"""


def page() -> str:
    """Return the complete page."""
    # newer releases of Typer carry their own copy of click, so no class of click is named here
    group: Any = typer.main.get_command(cli.app)
    verbs = group.commands
    table = "| verb | |\n|---|---|\n" + "".join(
        f"| [`{name}`](#saccade-{name}) | {_summary(verb)} |\n" for name, verb in verbs.items()
    )
    return ABOUT + table + "".join("".join(_section(name, verbs[name])) for name in verbs)


def _section(name: str, verb: Any) -> Iterator[str]:
    context = verb.make_context(f"saccade {name}", [], resilient_parsing=True)
    arguments = [param for param in verb.params if param.param_type_name == "argument"]
    options = [param for param in verb.params if param.param_type_name == "option"]
    usage = " ".join(["[OPTIONS]", *(param.metavar or param.name.upper() for param in arguments)])
    yield f"\n## saccade {name}\n\n```\nsaccade {name} {usage}\n```\n\n"
    yield f"{_text(verb.help)}\n\n"
    for kind, params in (("argument", arguments), ("option", options)):
        if params:
            yield f"| {kind} | | default, range |\n|---|---|---|\n"
            yield from (_row(*param.get_help_record(context)) for param in params)
            yield "\n"


def _row(names: str, description: str) -> str:
    """Return a row of a table from what `--help` prints about a parameter."""
    description, _, facts = description.partition("  [")
    facts = facts.removesuffix("]").replace("default: ", "")
    return f"| `{names.replace(' range>', '>')}` | {_text(description)} | {_text(facts)} |\n"


def _summary(verb: Any) -> str:
    return _text((verb.help or "").strip().split("\n\n")[0])


def _text(words: str | None) -> str:
    """Return a help text as one line of a Markdown table."""
    line = " ".join((words or "").split())
    for mark in "|*_<":
        line = line.replace(mark, f"\\{mark}" if mark != "<" else "&lt;")
    return line
