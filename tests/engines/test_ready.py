"""Runs that answer without torch: the same answers as with it, and the task where it is needed."""

import json
import subprocess
import sys

import pytest

import saccade
from saccade import engines
from saccade.engines import choice, ready
from saccade.engines.cache import ABOUT
from saccade.interfaces import HasEngine
from saccade.interop import ctranslate2
from saccade.tasks import Aligns, Predictor, ReadyPredictor, Streams, Task
from saccade.training.run import Run
from tests.engines import tiny

FLOAT = "ctranslate2-float32"
LONG = "the cat " * 30 + "\n\n a dog ran away from the cat."
INPUTS = [*tiny.SENTENCES, "", " \n ", LONG, "mat\nfloor", "floor cat", "⟨stop⟩ </s> é"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs whose engine is ready: in the package's own words, by task."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ctranslate2, "require_survival", lambda *_: None)
        tiny.translator(folder / "one" / "run")
        tiny.translator(folder / "two" / "run", *tiny.SEPARATE, "generation.beam=2")
        tiny.language_model(folder / "lm" / "run")
        names = {path.name: path / "run" for path in folder.iterdir()}
        for run in names.values():
            saccade.load(run, engine=FLOAT)
    return names


def opened(run, engine: str = FLOAT, **options) -> ReadyPredictor:
    predictor = engines.open_ready(run, engine=engine, **options)
    assert predictor is not None
    return predictor


def without_torch(code: str, *arguments: object) -> str:
    """Return the output of a program that cannot import torch."""
    program = f"import sys; sys.modules['torch'] = None\n{code}"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["one", "two", "lm"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beam": 3, "num_best": 2, "max_length": 7},
        {"max_length": 3, "batch_size": 2, "first": 5},
        {"split": "none"},
        {"sample": True, "seed": 3},  # which the engine leaves to the model
    ],
    ids=lambda options: " ".join(options) or "plain",
)
def test_answers_equal_those_of_the_task_with_the_same_engine(runs, name, options, caplog):
    inputs = INPUTS[: 6 if options.get("beam") and name == "lm" else None]
    task, predictor = saccade.load(runs[name], engine=FLOAT), opened(runs[name])
    expected = task.predict(inputs, **options)
    of_task = [record.getMessage() for record in caplog.records]
    caplog.clear()
    answers = predictor.predict(inputs, **options)
    assert answers == expected
    assert [one.to_dict() for one in answers] == [one.to_dict() for one in expected]
    assert [one.tokens for one in answers] == [one.tokens for one in expected]
    assert [record.getMessage() for record in caplog.records] == of_task  # such as cut inputs
    assert predictor.engine.name == task.engine.name


@pytest.mark.parametrize("name", ["one", "two", "lm"])
def test_describes_itself_as_the_task_does(runs, name):
    task, predictor = saccade.load(runs[name], engine=FLOAT), opened(runs[name])
    assert isinstance(predictor, Predictor)
    assert isinstance(predictor, HasEngine)
    assert not isinstance(predictor, Task)
    for protocol in (Aligns, Streams):
        assert isinstance(predictor, protocol) == isinstance(task, protocol)
    assert (predictor.name, predictor.reads, predictor.unsplit) == (
        task.name,
        task.reads,
        task.unsplit,
    )
    assert predictor.generation == task.generation
    ours, its = predictor.describe(), task.describe()
    for mine, other in ((ours.reads, its.reads), (ours.writes, its.writes)):
        fields, expected = dict(vars(mine)), dict(vars(other))
        assert fields.pop("tokenizer").digest == expected.pop("tokenizer").digest
        assert fields == expected
    assert getattr(predictor, "align_by", None) == getattr(task, "align_by", None)


def test_leaves_to_the_task_what_needs_the_model(runs):
    task, predictor = saccade.load(runs["one"], engine=FLOAT), opened(runs["one"])
    [answer] = predictor.predict(INPUTS[:1], attention=True)
    [expected] = task.predict(INPUTS[:1], attention=True)
    assert answer.attention.to_json() == expected.attention.to_json()
    assert predictor.score(["the cat"], ["a dog"]) == task.score(["the cat"], ["a dog"])
    assert predictor.attention_size(INPUTS, {}) == task.attention_size(INPUTS, {})
    records = predictor.records(["the cat"], ["a dog"])
    assert records[0].to_json() == task.records(["the cat"], ["a dog"])[0].to_json()
    assert predictor.task() is predictor.task()
    assert predictor.task().engine is predictor.engine


def test_language_models_stream_from_the_task(runs):
    task, predictor = saccade.load(runs["lm"]), opened(runs["lm"])
    assert "".join(predictor.stream("the cat")) == "".join(task.stream("the cat"))


def test_predict_and_serve_load_no_torch(runs):
    """The command line, from its arguments to its output, in processes without torch."""
    code = "from saccade.cli import app; app(sys.argv[1:])"
    [line] = without_torch(
        code, "predict", runs["one"], INPUTS[0], "--json", "--engine", FLOAT
    ).splitlines()
    [expected] = saccade.load(runs["one"], engine=FLOAT).predict(INPUTS[:1])
    assert json.loads(line) == {"input": INPUTS[0], **expected.to_dict()}
    served = """
import json, os, signal, threading, urllib.request
from saccade.cli import app
from saccade.serve import server

serve = server.serve

def ask(port):
    body = json.dumps({"inputs": [sys.argv[2]]}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/predict", body, {"Content-Type": "application/json"}
    )
    try:
        print(urllib.request.urlopen(request).read().decode())
    except urllib.error.HTTPError as error:
        print(error.read().decode())
    os.kill(os.getpid(), signal.SIGTERM)

def serve_once(middleware, sock, limits, on_start):
    start = lambda: threading.Thread(target=ask, args=sock.getsockname()[1:]).start()
    serve(middleware, sock, limits, start)

server.serve = serve_once
app(["serve", sys.argv[1], "--port", "0", "--engine", sys.argv[3]])
"""
    answer = json.loads(without_torch(served, runs["one"], INPUTS[0], FLOAT))
    assert answer["answers"][0]["text"] == expected.text


@pytest.mark.slow
def test_torch_is_loaded_for_attention(runs):
    code = """
import sys
from saccade.cli import app
try:
    app(sys.argv[1:])
finally:
    print("torch" in sys.modules)
"""
    command = [sys.executable, "-c", code, "predict", runs["one"], "the cat"]
    for more, loaded in (["--engine", FLOAT], "False"), (["--align", "--engine", FLOAT], "True"):
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == loaded, done.stderr


def change_recipe(run):
    path = run / "recipe.toml"
    path.write_text(path.read_text().replace("max_length = 12", "max_length = 13"))


def change_weights(run):
    task = Run(run).task()
    tiny.shaken(task.model)
    Run(run).keep_best(task.model)


def tear(run):
    path = run / "engines" / FLOAT / "model.bin"
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def lose(run):
    (run / "engines" / FLOAT / "config.json").unlink()


def forget(run):
    path = run / "engines" / FLOAT / ABOUT
    path.write_text(json.dumps({**json.loads(path.read_text()), "record": {}}))


def newer(run):
    path = run / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))


@pytest.mark.parametrize("change", [change_recipe, change_weights, tear, lose, forget, newer])
def test_is_not_ready_after_a_change(tmp_path, change):
    tiny.translator(tmp_path / "run")
    saccade.load(tmp_path / "run", engine=FLOAT)
    opened(tmp_path / "run")
    change(tmp_path / "run")
    assert engines.open_ready(tmp_path / "run", engine=FLOAT) is None


def test_files_with_other_times_are_read_again(tmp_path):
    tiny.translator(tmp_path / "run")
    saccade.load(tmp_path / "run", engine=FLOAT)
    for path in [path for path in (tmp_path / "run").rglob("*") if path.is_file()]:
        path.with_name("copy").write_bytes(path.read_bytes())
        path.with_name("copy").replace(path)
    opened(tmp_path / "run")


def test_is_not_ready_without_the_package_an_engine_or_a_cpu(runs, monkeypatch, tmp_path):
    assert engines.open_ready(runs["one"], engine="eager") is None
    assert engines.open_ready(runs["one"], engine="ctranslate2") is None  # was never built
    assert engines.open_ready(runs["one"], engine=FLOAT, device="cuda") is None
    assert engines.open_ready(tmp_path / "nothing", engine=FLOAT) is None
    opened(runs["one"], device="auto")
    monkeypatch.setattr(ready, "devices", lambda: ["9.9", "/dev/nvidiactl"])
    assert engines.open_ready(runs["one"], engine=FLOAT, device="auto") is None
    opened(runs["one"], device="cpu")
    monkeypatch.setattr(ctranslate2, "installed", lambda: False)
    assert engines.open_ready(runs["one"], engine=FLOAT) is None


def test_auto_takes_the_engine_that_load_takes(tmp_path, monkeypatch):
    run = tmp_path / "run"
    tiny.translator(run)
    assert engines.open_ready(run, engine="auto") is None
    task = engines.load(run, engine="auto")
    assert opened(run, "auto").engine.name == task.engine.name
    monkeypatch.setattr(choice, "AGREEING", 1.1)
    assert engines.load(run, engine="auto").engine.name == FLOAT
    assert opened(run, "auto").engine.name == FLOAT


def test_auto_leaves_sampled_answers_to_the_task(tmp_path):
    run = tmp_path / "run"
    tiny.language_model(run, "generation.sample=true")
    saccade.load(run, engine=FLOAT)
    opened(run)
    assert engines.open_ready(run, engine="auto") is None


def test_raises_if_the_weights_change_before_the_task_is_loaded(tmp_path):
    run = tmp_path / "run"
    tiny.translator(run)
    saccade.load(run, engine=FLOAT)
    predictor = opened(run)
    change_weights(run)
    with pytest.raises(saccade.SaccadeError, match=r"weights of .* changed"):
        predictor.predict(["the cat"], attention=True)
