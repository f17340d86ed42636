"""The command line: one module per verb, put together here.

Heavy modules such as torch are imported only when a verb runs, so that `--help` is fast. Exit
codes: 0 done, 1 a training run of a comparison failed or another process of a training died, 2 a
user's mistake, 74 the disk is full, 130 interrupted and saved.
"""

import io
import logging
import os
import re
import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from saccade._version import __version__
from saccade.cli.accept import run as accept
from saccade.cli.clean import run as clean
from saccade.cli.compare import run as compare
from saccade.cli.demo import run as demo
from saccade.cli.doctor import run as doctor
from saccade.cli.evaluate import run as evaluate
from saccade.cli.export import run as export
from saccade.cli.import_ import run as import_
from saccade.cli.inspect import run as inspect
from saccade.cli.look import run as look
from saccade.cli.predict import run as predict
from saccade.cli.recipes import run as recipes
from saccade.cli.runs import run as runs
from saccade.cli.serve import run as serve
from saccade.cli.show import run as show
from saccade.cli.train import run as train
from saccade.errors import DiskFullError, LostProcessError, SaccadeError, StoppedError
from saccade.files import disk_full

VERBS: dict[str, Callable[..., None]] = {
    "inspect": inspect,
    "train": train,
    "evaluate": evaluate,
    "predict": predict,
    "look": look,
    "compare": compare,
    "serve": serve,
    "export": export,
    "import": import_,
    "show": show,
    "runs": runs,
    "clean": clean,
    "demo": demo,
    "recipes": recipes,
    "doctor": doctor,
    "accept": accept,
}


class _Verbs(TyperGroup):
    """The group of verbs, whose flags are off by default instead of None.

    Typer converts None by pydantic, and importing it doubles the time of `VERB --help`.
    """

    def get_params(self, ctx: Any) -> Any:
        """Return the options of `saccade` itself."""
        options = super().get_params(ctx)
        for option in options:
            if getattr(option, "is_flag", False) and option.default is None:
                option.default = False
        return options


class _Verb(TyperCommand):
    """A verb, whose arguments are shown by their names alone: RUN, not {RUN} or RUN <path>."""

    def get_params(self, ctx: Any) -> Any:
        """Return the arguments and options."""
        params = super().get_params(ctx)
        for param in params:
            if param.param_type_name == "argument":
                vars(param)["display_type_rich"] = lambda ctx: None
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; an error about a missing option has its help."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if hasattr(error, "param_type") and not error.message:  # it is missing
                error.message = str(getattr(error.param, "help", None) or "")
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the line that shows how the verb is called."""
        pieces = super().collect_usage_pieces(ctx)
        return [re.sub(r"[{}]", "", piece) for piece in pieces]


app = typer.Typer(
    cls=_Verbs,
    help="Train, compare, serve and look into attention models on your own data.",
    epilog="Start with: saccade demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would take `VERB --help` to 0.3 s
)
for _name, _run in VERBS.items():
    app.command(_name, cls=_Verb)(_run)


@app.callback(invoke_without_command=True)
def _front(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"saccade {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; an error becomes a line on stderr and an exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an arrow must not crash on an old terminal
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        app(prog_name="saccade")  # also for `python -m saccade`
    except StoppedError as error:
        _exit(f"{error}", 130)
    except DiskFullError as error:
        _exit(f"error: {error.strerror}", 74)
    except LostProcessError as error:
        _exit(f"error: {error}", 1)
    except SaccadeError as error:
        _exit(f"error: {error}", 2)
    except KeyboardInterrupt:
        _exit("interrupted", 130)
    except OSError as error:  # such as an unreadable file
        _exit(f"error: {error}", 74 if disk_full(error) else 2)


def _exit(text: str, code: int) -> NoReturn:
    if os.environ.get("RANK", "0") == "0":  # only the first of several processes prints
        print(text, file=sys.stderr)
    sys.exit(code)
