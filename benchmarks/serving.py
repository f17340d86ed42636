"""The server under load: correct answers, fast rejections, constant memory, disconnecting clients.

    python benchmarks/serving.py                                  # 64 clients for five minutes
    python benchmarks/serving.py --seconds 10 --warm 3 --overload 5 --disconnects 50

`saccade serve` runs in a separate process, on loopback, with a translator (--run, or one that is
trained here for a few seconds) and a small language model. The clients are coroutines of this
process, because every answer is compared, which load generators such as wrk cannot do. Phases: a
warm-up with a little of everything; steady load, where every answer must equal that of `predict`;
four times as many clients as the queue has places, which wait as long as Retry-After demands;
clients that disconnect in the middle of an answer; SIGTERM. The exit code is 1 if a requirement is
not met.

    python benchmarks/serving.py --deadlines                      # about a minute

measures instead how soon a model is free after a request has missed its deadline: untrained models
of five tasks, heavy requests, a deadline of one second, and after each request the time until the
same model answers a small one.
"""

import argparse
import asyncio
import base64
import io
import json
import os
import random
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

TRANSLATOR, WRITER = "translator", "writer"


@dataclass
class Answer:
    """The response to a client: status, time, headers and body."""

    status: int
    seconds: float
    head: str
    body: bytes

    @property
    def retry_after(self) -> float:
        match = re.search(r"retry-after: (\d+)", self.head, re.IGNORECASE)
        return float(match[1]) if match else 0.0


@dataclass
class Load:
    """The responses of one phase."""

    answers: list[tuple[int, float]] = field(default_factory=list)
    wrong: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def times(self, status: int) -> list[float]:
        return [seconds for code, seconds in self.answers if code == status]

    def statuses(self) -> dict[int, int]:
        return dict(sorted(Counter(status for status, _ in self.answers).items()))


class Client:
    """A client with one connection to the server, reopened after it was closed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def send(self, path: str, body: Any) -> None:
        if self.writer is None or self.writer.is_closing():
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        self.writer.write(head.encode() + data)
        await self.writer.drain()

    async def ask(self, path: str, body: Any) -> Answer:
        started = time.monotonic()
        await self.send(path, body)
        assert self.reader is not None
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        content = await self.reader.readexactly(int(length[1]) if length else 0)
        if re.search(r"connection: close", head, re.IGNORECASE):
            self.close()
        return Answer(int(head.split()[1]), time.monotonic() - started, head, content)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.transport.abort()
        self.writer = None


@dataclass
class Server:
    """The server process."""

    process: subprocess.Popen[str]
    port: int

    def mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    async def measure(self, name: str) -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        text = (await reader.read()).decode()
        writer.close()
        lines = [line for line in text.splitlines() if line.startswith(name)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    async def until_idle(self, most: float) -> float:
        """Return the seconds until no request is waiting or being answered."""
        started = time.monotonic()
        while await self.measure("saccade_pending") > 0:
            if time.monotonic() - started > most:
                return float("inf")
            await asyncio.sleep(0.05)
        return time.monotonic() - started


@contextmanager
def serving(runs: dict[str, Path], log: Path, *options: str) -> Iterator[Server]:
    named = [f"{name}={folder}" for name, folder in runs.items()]
    command = [sys.executable, "-m", "saccade", "serve", *named, "--port", "0", *options]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True)
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], 300)
        line = process.stdout.readline() if ready else ""
        if not line.startswith("serving "):
            sys.exit(f"the server did not start: {log.read_text(encoding='utf-8')}")
        yield Server(process, int(line.strip().rpartition(":")[2]))
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


async def load(server: Server, answers: dict[str, str], clients: int, seconds: float) -> Load:
    """Run clients that send one request after another; a rejected one waits as Retry-After says."""
    result, end = Load(), time.monotonic() + seconds
    texts = list(answers)

    async def one(seed: int) -> None:
        client, generator = Client(server.port), random.Random(seed)
        while time.monotonic() < end:
            text = generator.choice(texts)
            try:
                got = await client.ask("/v1/predict", {"model": TRANSLATOR, "inputs": [text]})
            except (OSError, asyncio.IncompleteReadError) as error:
                result.errors[type(error).__name__] += 1
                client.close()
                continue
            result.answers.append((got.status, got.seconds))
            if got.status == 200 and json.loads(got.body)["answers"][0]["text"] != answers[text]:
                result.wrong += 1
            if got.retry_after:
                await asyncio.sleep(got.retry_after * generator.uniform(0.75, 1.25))
        client.close()

    started = time.monotonic()
    await asyncio.gather(*(one(seed) for seed in range(clients)))
    result.seconds = time.monotonic() - started
    return result


async def leave(server: Server, count: int, at_once: int) -> int:
    """Run clients that request a long text, read little or nothing of it, and disconnect.

    Return the number of requests that were accepted.
    """
    places, rejected = asyncio.Semaphore(at_once), 0
    streamed = {"model": WRITER, "prompt": "The", "stream": True, "max_tokens": 512}
    complete = {"model": WRITER, "inputs": ["The"] * 8, "max_length": 512}

    async def one(number: int) -> None:
        nonlocal rejected
        async with places:
            client = Client(server.port)
            if number % 2:
                await client.send("/v1/completions", streamed)
            else:
                await client.send("/v1/predict", complete)
            assert client.reader is not None
            with suppress(asyncio.TimeoutError):
                read = client.reader.read(200)
                begun = await asyncio.wait_for(read, 0.05 + 0.25 * (number % 4))
                rejected += not begun.startswith(b"HTTP/1.1 200")
            client.close()

    await asyncio.gather(*(one(number) for number in range(count)))
    return count - rejected


@dataclass
class Demands:
    """Requirements: what was measured, what is required, and whether it is met."""

    rows: list[tuple[str, str, str, bool]] = field(default_factory=list)

    def add(self, what: str, measured: str, required: str, *, met: bool) -> None:
        self.rows.append((what, measured, required, met))
        print(f"{what}: {measured} ({required}){'' if met else ' NOT MET'}", file=sys.stderr)

    def note(self, what: str, measured: str) -> None:
        self.add(what, measured, "", met=True)

    def table(self) -> str:
        lines = ["| what | measured | required | |", "|---|---|---|---|"]
        lines += [
            f"| {what} | {measured} | {required} | {'yes' if met else '**no**'} |"
            if required
            else f"| {what} | {measured} | | |"
            for what, measured, required, met in self.rows
        ]
        return "\n".join(lines)


async def phases(server: Server, answers: dict[str, str], options: Any) -> Demands:
    demands, clients = Demands(), options.clients
    await load(server, answers, clients, options.warm)
    await load(server, answers, 4 * options.queue, options.warm)
    await leave(server, 4 * clients, options.queue // 2)
    await server.until_idle(60)
    before = server.mib()
    steady = await load(server, answers, clients, options.seconds)
    done = len(steady.answers)
    demands.add(
        f"{clients} clients for {options.seconds:g} s",
        f"{done} requests, {done / steady.seconds:.0f}/s; {_outcomes(steady)}",
        "only 200, no errors",
        met=set(steady.statuses()) == {200} and not steady.errors,
    )
    demands.add("answers that differ from predict", f"{steady.wrong}", "0", met=steady.wrong == 0)
    demands.note("response time: median, p99", _milliseconds(steady.times(200)))
    over = await load(server, answers, 4 * options.queue, options.overload)
    demands.add(
        f"overload, {4 * options.queue} clients for {options.overload:g} s",
        _outcomes(over),
        "only 200 and 429",
        met=set(over.statuses()) <= {200, 429} and not over.errors and not over.wrong,
    )
    rejected = over.times(429)
    demands.add(
        "response time of a rejection: median, p99",
        _milliseconds(rejected),
        "100 ms, 500 ms",
        met=bool(rejected)
        and _percentile(rejected, 50) <= 0.1
        and _percentile(rejected, 99) <= 0.5,
    )
    idle = await server.until_idle(30)
    again = await load(server, answers, 1, 0.5)
    demands.add(
        "seconds from overload to an idle queue",
        f"{idle:.2f}",
        "5",
        met=idle <= 5 and set(again.statuses()) == {200},
    )
    abandoned = await server.measure("saccade_abandoned_total")
    accepted = await leave(server, options.disconnects, options.queue // 2)
    idle = await server.until_idle(60)
    abandoned = await server.measure("saccade_abandoned_total") - abandoned
    again = await load(server, answers, clients, 2)
    demands.add(
        f"{options.disconnects} clients that disconnect: seconds to an idle queue",
        f"{idle:.2f}; {accepted} accepted, {abandoned:.0f} answers abandoned",
        "nothing stuck",
        met=idle < 60 and set(again.statuses()) == {200},
    )
    after = server.mib()
    demands.add(
        "memory after warm-up and at the end",
        f"{before:.0f}, {after:.0f} MiB ({after / before - 1:+.1%})",
        "+5 %",
        met=after <= 1.05 * before,
    )
    return demands


DEADLINE, FREE, ENOUGH = 1.0, 2.0, 60.0
"""Seconds to the deadline, then until the model must be free, and until the benchmark gives up."""


async def deadlines(server: Server, engine: str, only: tuple[str, ...]) -> Demands:
    """Send heavy requests one by one, and measure how soon the model answers a small one again."""
    demands = Demands()
    small: dict[str, dict[str, Any]] = {
        "translator": {"inputs": ["ba"], "beam": 1, "max_length": 1},
        "writer": {"inputs": ["ba"], "beam": 1, "max_length": 1},
        "classifier": {"inputs": ["ba"]},
        "images": {"inputs": [_png(16)]},
        "captions": {"inputs": [_png(16)], "max_length": 1},
    }
    long = [" ".join(letters(6, seed)) for seed in range(64)]
    heavy: list[tuple[str, str, dict[str, Any]]] = [
        ("translator", "64 inputs, beam 16, 512 tokens", _writing(long, 16, 512)),
        ("translator", "16 inputs, beam 16, 512 tokens", _writing(long[:16], 16, 512)),
        ("translator", "64 inputs, beam 4, 512 tokens", _writing(long, 4, 512)),
        ("translator", "64 inputs, greedy, 512 tokens", _writing(long, 1, 512)),
        ("writer", "64 inputs, beam 4, 512 tokens", _writing(["ba"] * 64, 4, 512)),
        ("writer", "64 inputs, beam 4, 100 tokens", _writing(["ba"] * 64, 4, 100)),
        ("writer", "64 inputs, greedy, 512 tokens", _writing(["ba"] * 64, 1, 512)),
        ("writer", "64 inputs, sampled", {"inputs": ["ba"] * 64, "sample": True}),
        ("writer", "16 inputs, attention", {**_writing(["ba"] * 16, 1, 512), "attention": True}),
        ("classifier", "64 texts", {"inputs": long}),
        ("classifier", "64 texts, attention", {"inputs": long, "attention": True}),
        ("images", "16 of 7000 x 7000", {"inputs": [_png(7000)] * 16}),
        ("images", "1 of 7000 x 7000", {"inputs": [_png(7000)]}),
        ("captions", "16 of 7000 x 7000", {"inputs": [_png(7000)] * 16}),
        ("captions", "64, beam 4, 512 tokens", _writing([_png(64)] * 64, 4, 512)),
    ]
    for name, what, body in heavy:
        if name not in only:
            continue
        client = Client(server.port)
        got = await client.ask("/v1/predict", {"model": name, **body})
        ended = time.monotonic()
        while (await client.ask("/v1/predict", {"model": name, **small[name]})).status != 200:
            if time.monotonic() - ended > ENOUGH:
                break
        free = time.monotonic() - ended
        client.close()
        demands.add(
            f"{name} ({engine}): {what}",
            f"{got.status} after {got.seconds:.2f} s, free {free:.2f} s later",
            f"{FREE:g} s",
            met=free <= FREE,
        )
    return demands


def _writing(inputs: list[str], beam: int, tokens: int) -> dict[str, Any]:
    return {"inputs": inputs, "beam": beam, "max_length": tokens}


def _png(side: int) -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (side, side), (side % 256, 90, 30)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def untrained_runs(folder: Path) -> dict[str, Path]:
    """Build an untrained model of each task; its answers hardly ever end."""
    texts = letters(400, seed=1)
    pictures = folder / "pictures"
    for number in range(4):
        where = pictures / "ab"[number % 2] / f"{number}.png"
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_bytes(base64.b64decode(_png(32 + number)))
    tables = {
        "translator": [("source", "target"), *((text, text[::-1]) for text in texts)],
        "classifier": [("text", "label"), *((x, "ab"[i % 2]) for i, x in enumerate(texts))],
        "captions": [
            ("image", "text"),
            *((f"pictures/{'ab'[i % 2]}/{i}.png", text) for i, text in enumerate(texts[:4])),
        ],
    }
    for name, rows in tables.items():
        lines = "".join("\t".join(row) + "\n" for row in rows)
        (folder / f"{name}.tsv").write_text(lines, encoding="utf-8")
    (folder / "writer.txt").write_text("\n".join(texts), encoding="utf-8")
    grid = ["kind=resnet", "widths=[16,32]", "blocks=1", "dim=32"]
    caption = [f"model.encoder.{option}" for option in grid]
    return {
        "translator": _untrained("transformer-small", folder / "translator.tsv"),
        "writer": _untrained("gpt-mini", folder / "writer.txt"),
        "classifier": _untrained("bert-small", folder / "classifier.tsv"),
        "images": _untrained("vit-tiny", pictures),
        "captions": _untrained(
            "caption-attention",
            folder / "captions.tsv",
            *caption,
            "text.vocabulary.min_count=1",
            "image.size=64",
        ),
    }


def _untrained(recipe: str, data: Path, *changes: str) -> Path:
    from saccade.data import sources
    from saccade.training import recipe as recipes
    from saccade.training.run import Run

    chosen = recipes.load(recipe, changes)
    corpus = sources.open_corpus(data, chosen.options.columns)
    task = chosen.options.create(corpus.splits["train"])
    folder = data.parent / "runs" / data.stem
    folder.mkdir(parents=True)
    Run(folder).begin(chosen, task, {})
    Run(folder).keep_best(task.model)
    return folder


def measure_deadlines(folder: Path) -> Demands:
    """Measure all tasks with eager, and those that CTranslate2 can run also with it."""
    runs, demands = untrained_runs(folder), Demands()
    fast = ("translator", "writer")
    for engine, names in (("eager", tuple(runs)), ("ctranslate2", fast)):
        chosen = {name: runs[name] for name in names}
        options = ("--seconds", f"{DEADLINE:g}", "--engine", engine)
        with serving(chosen, folder / "log", *options) as server:
            demands.rows += asyncio.run(deadlines(server, engine, names)).rows
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(60)
    return demands


def _outcomes(result: Load) -> str:
    statuses = [f"{count} x {status}" for status, count in result.statuses().items()]
    return ", ".join([*statuses, *(f"{count} {name}" for name, count in result.errors.items())])


def _milliseconds(times: list[float]) -> str:
    if not times:
        return "none"
    return f"{1000 * statistics.median(times):.0f} ms, {1000 * _percentile(times, 99):.0f} ms"


def _percentile(times: list[float], percent: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * percent / 100))]


def letters(count: int, seed: int) -> list[str]:
    generator = random.Random(seed)
    return [
        " ".join(generator.choices("abcdefghij", k=generator.randint(3, 12))) for _ in range(count)
    ]


def make_runs(folder: Path, steps: int, translator: Path | None) -> dict[str, Path]:
    """Train a translator that reverses letters, and a language model, both only briefly."""
    pairs = "".join(f"{text}\t{text[::-1]}\n" for text in letters(600, seed=1))
    (folder / "pairs.tsv").write_text(f"source\ttarget\n{pairs}", encoding="utf-8")
    (folder / "text.txt").write_text((__doc__ or "") * 20, encoding="utf-8")
    small = ["model.dim=64", "model.decoder.num_layers=2", "training.batch_tokens=1024"]
    writer = _trained("gpt-char", folder / "text.txt", folder / WRITER, small, 5)
    if translator is None:
        batches = ["training.batch_tokens=1024"]
        translator = _trained("reverse", folder / "pairs.tsv", folder / TRANSLATOR, batches, steps)
    return {TRANSLATOR: translator, WRITER: writer}


def _trained(recipe: str, data: Path, out: Path, changes: list[str], steps: int) -> Path:
    from saccade.training import session
    from saccade.training.console import Console

    session.train(
        recipe,
        data=data,
        out=out,
        changes=[*changes, "training.validate_items=1"],
        max_steps=steps,
        cache=out.parent / "cache",
        console=Console(quiet=True),
    )
    return out


def right_answers(run: Path, inputs: Path | None) -> dict[str, str]:
    """Return the answer of `predict` to each input."""
    from saccade import engines

    texts = letters(200, seed=0)
    if inputs is not None:
        texts = inputs.read_text(encoding="utf-8").splitlines()[:2000]
    answers = engines.load(run, engine="auto").predict(texts)  # as the server does
    return {text: answer.text for text, answer in zip(texts, answers, strict=True)}


def measure_load(options: Any, folder: Path) -> Demands:
    """Measure steady load, overload and disconnecting clients."""
    runs = make_runs(folder, options.steps, options.run)
    answers = right_answers(runs[TRANSLATOR], options.inputs)
    with serving(runs, folder / "log", "--queue", str(options.queue)) as server:
        demands = asyncio.run(phases(server, answers, options))
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait(60)
        demands.add("exit code after SIGTERM", f"{code}", "0", met=code == 0)
    return demands


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, default=64, help="concurrent clients")
    parser.add_argument("--queue", type=int, default=64, help="size of the server's queue")
    parser.add_argument("--seconds", type=float, default=300.0, help="of steady load")
    parser.add_argument("--warm", type=float, default=30.0, help="seconds of each warm-up")
    parser.add_argument("--overload", type=float, default=30.0, help="seconds of overload")
    parser.add_argument("--disconnects", type=int, default=1000, help="clients that disconnect")
    parser.add_argument("--steps", type=int, default=100, help="updates of the translator")
    parser.add_argument("--run", type=Path, help="run folder of another translator")
    parser.add_argument("--inputs", type=Path, help="file of texts for it, one per line")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    parser.add_argument("--deadlines", action="store_true", help="measure only deadlines")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure = measure_deadlines if options.deadlines else partial(measure_load, options)
        demands = measure(Path(folder))
    text = f"{os.cpu_count()} cores, a queue of {options.queue} requests.\n\n{demands.table()}\n"
    print(text)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")
    if not all(met for *_, met in demands.rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
