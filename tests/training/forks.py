"""Child processes that have torch loaded already: a server imports everything once, then forks.

As a script it is the server: it reads one command line of saccade per line, with the name of a
disturbance from `DISTURBANCES`, and runs it in a fork; or the id of a child to wait for.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path


class Forks:
    """The server, and how to talk to it."""

    def __enter__(self):
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        self._folder, self._count = tempfile.TemporaryDirectory(), 0
        return self

    def __exit__(self, *_):
        self._folder.cleanup()
        self._server.stdin.close()
        self._server.wait(10)
        self._server.stdout.close()

    def ask(self, **question):
        self._server.stdin.write(json.dumps(question) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())

    def start(self, arguments, disturbance=""):
        self._count += 1
        output = Path(self._folder.name) / str(self._count)
        pid = self.ask(arguments=arguments, disturbance=disturbance, output=str(output))
        return Child(self, pid, output)

    def run(self, arguments, disturbance=""):
        return self.start(arguments, disturbance).wait()


@dataclass
class Child:
    """A process that trains; `wait` returns its exit code and its output."""

    forks: Forks
    pid: int
    output: Path

    def send(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def until(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.output.read_text()
            time.sleep(0.01)

    def wait(self):
        code = self.forks.ask(wait=self.pid)
        return code, self.output.read_text()


def _slow_vocabulary(folder):
    from saccade.text import Tokenizer

    _slow(Tokenizer, "train", folder)


def _slow_encoding(folder):
    from saccade.tasks.text_to_text import TextToText

    _slow(TextToText, "encode", folder)


def _slow_answers(folder):
    from saccade.decoding import Eager

    _slow(Eager, "generate", folder, 0.5)


def _slow(owner, name, folder, seconds=60.0):
    """Mark that this call was reached, and make it slow."""
    plain = getattr(owner, name)

    def slow(*args, **kwargs):
        (folder / "there").touch()
        time.sleep(seconds)
        return plain(*args, **kwargs)

    setattr(owner, name, slow)


def _slow_disk(folder):
    plain = os.fsync

    def slow(handle):
        time.sleep(0.01)
        plain(handle)

    os.fsync = slow


DISTURBANCES = {
    "slow vocabulary": _slow_vocabulary,
    "slow encoding": _slow_encoding,
    "slow answers": _slow_answers,
    "slow disk": _slow_disk,
}


def _child(question):
    """Run `saccade` in this process."""
    from saccade.cli import main

    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(question["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for old, new in ((0, nothing), (1, output), (2, output)):
        os.dup2(new, old)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    sys.argv = ["saccade", *question["arguments"]]
    code = 0
    try:
        if name := question["disturbance"]:
            out = sys.argv[sys.argv.index("--out") + 1]
            DISTURBANCES[name](Path(out).parent)
        main()
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _serve():
    import torch.distributed  # noqa: F401

    from saccade.tasks import text_to_text  # noqa: F401
    from saccade.training import session  # noqa: F401

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    for line in sys.stdin:
        question = json.loads(line)
        if "wait" in question:
            answer = os.waitstatus_to_exitcode(os.waitpid(question["wait"], 0)[1])
        else:
            Path(question["output"]).touch()
            answer = os.fork()
            if answer == 0:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                _child(question)
        print(answer, flush=True)


if __name__ == "__main__":
    _serve()
