"""saccade serve: runs that answer over HTTP."""

import os
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import Device, Engine, Threads
from saccade.errors import ServeError


def run(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run folders; NAME=RUN gives one another name."),
    ],
    *,
    host: Annotated[
        str, typer.Option(help="The address; others than this machine's own need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with the token that clients must send; or SACCADE_TOKEN."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another name the server is called by; repeatable."),
    ] = None,
    queue: Annotated[
        int, typer.Option(min=1, help="Requests of a model that may wait; more get 429.")
    ] = 128,
    batch_size: Annotated[int, typer.Option(min=1, help="Inputs answered together.")] = 64,
    seconds: Annotated[float, typer.Option(min=0.1, help="Until a request is answered.")] = 30.0,
    max_length: Annotated[int, typer.Option(min=1, help="Tokens of an answer at most.")] = 512,
    max_beam: Annotated[int, typer.Option(min=1, help="The widest beam.")] = 16,
    max_bytes: Annotated[
        int,
        typer.Option(
            min=1, max=2**28, help="Largest upload, in bytes; JSON bodies have at most 1 MiB."
        ),
    ] = 8 * 2**20,
    grace: Annotated[float, typer.Option(min=1.0, help="Seconds to finish in at the end.")] = 20.0,
    threads: Threads = None,
    device: Device = "auto",
    engine: Engine = None,
    log_text: Annotated[
        bool, typer.Option("--log-text", help="Log also what users write.")
    ] = False,
) -> None:
    """Answer over HTTP, with several runs at once."""
    try:
        import uvicorn  # noqa: F401

        from saccade.serve import app, server
    except ImportError as error:
        raise ServeError(f"{error.name} is missing: pip install 'saccade[serve]'") from None
    import torch

    from saccade.serve.auth import Guard
    from saccade.serve.limits import Limits
    from saccade.serve.logs import Saying, start_logging
    from saccade.serve.models import Served, load
    from saccade.serve.prometheus import Measures

    served, notify = [Served.parse(text) for text in runs], Saying()
    guard = Guard.of(host, token=_token(token_file), names=allow_host or (), open=app.open_paths())
    limits = Limits(
        queue=queue,
        rows=batch_size,
        seconds=seconds,
        tokens=max_length,
        beam=max_beam,
        body=max_bytes,
        grace=grace,
    )
    where = f"[{host}]" if ":" in host else host
    if threads is not None:
        torch.set_num_threads(threads)
    with server.listen(host, port) as sock:
        address = f"http://{where}:{sock.getsockname()[1]}"
        measures = Measures()
        models = load(
            served,
            device=device,
            engine=engine or "auto",
            limits=limits,
            measures=measures,
            notify=None if engine is None else notify,
        )
        start_logging(text=log_text)
        notify.logs = True
        gate = app.build(models, guard=guard, limits=limits, measures=measures, log_text=log_text)
        names = ", ".join(f"{model.name} (by {model.engine})" for model in models)
        server.serve(gate, sock, limits, lambda: print(f"serving {names} at {address}", flush=True))


def _token(path: Path | None) -> str | None:
    """From the file, or else from the environment; the command line itself is no secret."""
    if path is None:
        return os.environ.get("SACCADE_TOKEN", "").strip() or None
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ServeError(f"the token cannot be read from {path}: {error}") from None
    if not token:
        raise ServeError(f"{path} is empty; a token is expected")
    return token
