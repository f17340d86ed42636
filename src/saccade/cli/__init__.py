"""The command line: one file for each verb, and this one, which puts them together.

Nothing heavy is imported before a verb runs, so that `--help` is there at once. Exit codes: 0 done,
1 a training of a comparison failed, 2 a user's mistake, 74 a full disk, 130 stopped and saved.
"""

import io
import logging
import os
import sys
from typing import Annotated

import typer

from saccade._version import __version__
from saccade.cli.accept import run as accept
from saccade.cli.compare import run as compare
from saccade.cli.demo import run as demo
from saccade.cli.doctor import run as doctor
from saccade.cli.evaluate import run as evaluate
from saccade.cli.export import run as export
from saccade.cli.import_ import run as import_
from saccade.cli.predict import run as predict
from saccade.cli.recipes import run as recipes
from saccade.cli.serve import run as serve
from saccade.cli.train import run as train
from saccade.errors import DiskFullError, SaccadeError, StoppedError
from saccade.files import disk_full

app = typer.Typer(
    help="Train, compare, run and look into attention models, on your own data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("train")(train)
app.command("evaluate")(evaluate)
app.command("predict")(predict)
app.command("compare")(compare)
app.command("serve")(serve)
app.command("export")(export)
app.command("import")(import_)
app.command("demo")(demo)
app.command("recipes")(recipes)
app.command("doctor")(doctor)
app.command("accept")(accept)


@app.callback(invoke_without_command=True)
def _front(
    *,
    version: Annotated[bool, typer.Option("--version", help="Say which version this is.")] = False,
) -> None:
    if version:
        typer.echo(f"saccade {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command; a mistake becomes one line on stderr and an exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an arrow must not end a run on an old terminal
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        app()
    except StoppedError as error:
        _end(f"{error}", 130)
    except DiskFullError as error:
        _end(f"error: {error.strerror}", 74)
    except SaccadeError as error:
        _end(f"error: {error}", 2)
    except KeyboardInterrupt:
        _end("stopped", 130)
    except OSError as error:  # a file that may not be read, a disk that fails
        _end(f"error: {error}", 74 if disk_full(error) else 2)


def _end(text: str, code: int) -> None:
    if os.environ.get("RANK", "0") == "0":  # of several processes, one speaks
        print(text, file=sys.stderr)
    sys.exit(code)
