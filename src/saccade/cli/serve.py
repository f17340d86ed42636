"""saccade serve: serve runs over HTTP."""

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import Device, OptionalEngine, Threads
from saccade.errors import ServeError


def run(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Run folders. NAME=RUN serves one under another name; a translator that is named "
            "like en-fr also answers /translate.",
            show_default=False,
        ),
    ],
    *,
    host: Annotated[
        str,
        typer.Option(
            metavar="HOST",
            help="Address to listen at. Any address but this machine's own needs a token.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, metavar="PORT", help="TCP port to listen at; 0 selects a free one."
        ),
    ] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the bearer token that clients must send, at least 16 characters. "
            "Default: the environment variable SACCADE_TOKEN, else no token.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Further host name by which clients may call the server; repeatable. Default: "
            "--host and the names of this machine.",
        ),
    ] = None,
    queue: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Requests per model that may wait or run; further ones get status 429.",
        ),
    ] = 128,
    batch_size: Annotated[
        int, typer.Option(min=1, metavar="N", help="Inputs of all requests predicted together.")
    ] = 64,
    seconds: Annotated[
        float,
        typer.Option(
            min=0.1, metavar="S", help="Seconds after which an unanswered request gets status 504."
        ),
    ] = 30.0,
    max_length: Annotated[
        int, typer.Option(min=1, metavar="N", help="Largest max_length of a request, in tokens.")
    ] = 512,
    max_beam: Annotated[
        int, typer.Option(min=1, metavar="N", help="Largest beam width of a request.")
    ] = 16,
    max_bytes: Annotated[
        int,
        typer.Option(
            min=1,
            max=2**28,
            metavar="N",
            help="Largest upload, in bytes. JSON bodies may have 1 MiB at most.",
        ),
    ] = 8 * 2**20,
    grace: Annotated[
        float,
        typer.Option(
            min=1.0,
            metavar="S",
            help="Seconds that running requests get to finish after SIGTERM or Ctrl-C.",
        ),
    ] = 20.0,
    threads: Threads = None,
    device: Device = "auto",
    engine: OptionalEngine = None,
    no_examples: Annotated[
        bool,
        typer.Option(
            "--no-examples",
            help="Do not offer validation inputs that the runs have kept as examples. Default: the "
            "page and /v1/models list four per model.",
        ),
    ] = False,
    log_text: Annotated[
        bool,
        typer.Option("--log-text", help="Include what users write in the log. Off for privacy."),
    ] = False,
) -> None:
    """Serve runs over HTTP: a JSON API and a web page.

    Open the printed address in a browser to try the models; /openapi.json describes the API.
    """
    try:
        import uvicorn  # noqa: F401

        from saccade.serve import app, server
    except ImportError as error:
        raise ServeError(
            f"saccade serve needs the package {error.name}, which is not installed; run: "
            "pip install 'saccade-attention[serve]'"
        ) from None
    from saccade.cpu_threads import set_thread_count
    from saccade.serve.auth import Authorization
    from saccade.serve.limits import RequestLimits
    from saccade.serve.logs import EngineNotices, start_logging
    from saccade.serve.models import ServedRun, load
    from saccade.serve.prometheus import ServerMetrics

    served, notify = [ServedRun.parse(text) for text in runs], EngineNotices()
    authorization = Authorization.for_address(
        host, token=_token(token_file), hosts=allow_host or (), open_paths=app.open_paths()
    )
    limits = RequestLimits(
        queue=queue,
        batch_size=batch_size,
        timeout=seconds,
        max_length=max_length,
        max_beam=max_beam,
        upload_bytes=max_bytes,
        grace_seconds=grace,
    )
    if threads is not None:
        set_thread_count(threads)
    with server.listen(host, port) as sock:
        metrics = ServerMetrics()
        models = load(
            served,
            device=device,
            engine=engine or "auto",
            limits=limits,
            metrics=metrics,
            notify=None if engine is None else notify,
            working=_working,
            examples=not no_examples,
        )
        start_logging(text=log_text)
        notify.logs = True
        middleware = app.build(
            models, authorization=authorization, limits=limits, metrics=metrics, log_text=log_text
        )
        names = ", ".join(f"{model.name} ({model.engine})" for model in models)
        address = f"[{host}]" if ":" in host else host
        message = f"serving {names} at http://{address}:{sock.getsockname()[1]}"
        server.serve(middleware, sock, limits, lambda: print(message, flush=True))


def _working(label: str) -> AbstractContextManager[object]:
    from saccade.training.console import Console

    return Console().working(label)


def _token(path: Path | None) -> str | None:
    """Return the token from the file or the environment; command lines are visible to others."""
    if path is None:
        return os.environ.get("SACCADE_TOKEN", "").strip() or None
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ServeError(
            f"--token-file {path} cannot be read: {error}. Expected a text file with the token"
        ) from None
    if not token:
        raise ServeError(f"--token-file {path} is empty; write a token into it")
    return token
