"""A task of another package, in one file, works everywhere without an edit of Saccade."""

import json
import random
from pathlib import Path

import pytest

import saccade
from saccade import tasks
from saccade.errors import RecipeError
from saccade.interop import onnx
from saccade.serve import app
from saccade.serve.auth import Authorization
from saccade.serve.limits import RequestLimits
from saccade.serve.models import ModelRegistry, ServedModel
from saccade.serve.prometheus import ServerMetrics
from saccade.training import recipe
from saccade.training.console import Console
from tests.compare import tiny
from tests.onnx_export import without_shape_checks
from tests.serve.conftest import send_request
from tests.serve.test_page_in_browser import PATIENCE, served, write  # noqa: F401
from tests.tasks.count_vowels import RECIPE, CountVowelsConfig

VOWELS = "aeiou"


def offer(folder: Path, package: str, **tasks: str) -> Path:
    """Write the entry points of an installed package, as pip does."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in tasks.items())
    (info / "entry_points.txt").write_text(f"[saccade.tasks]\n{lines}")
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the recipe, data, and the package that offers the task."""
    folder = tmp_path_factory.mktemp("vowels")
    offer(folder / "packages", "vowel-counting", count_vowels="tests.tasks.count_vowels")
    (folder / "vowels.toml").write_text(RECIPE)
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefgiknoru", k=chance.randint(2, 8))) for _ in range(300)]
    rows = [f"{word}\t{sum(letter in VOWELS for letter in word)}\n" for word in words]
    (folder / "data").mkdir()
    for name, part in (("train", rows[:220]), ("valid", rows[220:260]), ("test", rows[260:])):
        (folder / "data" / f"{name}.tsv").write_text("word\tvowels\n" + "".join(part))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder / "packages"))
        yield folder


@pytest.fixture(scope="module")
def run(place):
    """A trained run of the task."""
    saccade.train(
        str(place / "vowels.toml"),
        data=place / "data",
        out=place / "run",
        cache=place / "cache",
        device="cpu",
        precision="float32",
        console=Console(quiet=True),
    )
    return place / "run"


def test_the_task_is_found_by_its_entry_point(place):
    assert "count_vowels" in tasks.names()
    assert tasks.config_of("count_vowels") is CountVowelsConfig
    assert recipe.load(place / "vowels.toml").options.model.dim == 8


def test_it_is_trained_and_evaluated(place, run):
    scores = saccade.evaluate(run, data=place / "data", split="test")
    assert scores["exact_match"] > 0.9
    assert (run / "report.html").exists()


def test_it_predicts_and_shows_its_attention(run):
    task = saccade.load(run)
    inputs = ["banana", "oui", ""]
    answers = task.predict(inputs, attention=True)
    assert [answer.text for answer in answers] == ["3", "3", ""]
    [weights] = answers[0].attention.weights.values()
    assert weights.shape == (2, 6, 6)
    assert weights.sum(-1) == pytest.approx(1.0, abs=1e-5)
    assert task.attention_size(inputs, {}) == 2 * (36 + 9)
    with saccade.watch(task.model) as seen:
        task.predict(["banana"])
    assert seen["attention"].weights[0].numpy() == pytest.approx(weights, abs=1e-6)


def test_it_is_compared(place):
    specs = [f"{name}={place}/vowels.toml" for name in ("one", "two")]
    comparison, _ = tiny.run(place, *specs, changes=("one:model.num_heads=1",), max_steps=10)
    table = json.loads((place / "out" / "compare.json").read_text())
    assert table["task"] == "count_vowels"
    assert [entry["name"] for entry in table["recipes"]] == ["one", "two"]
    assert "exact match" in (place / "out" / "compare.html").read_text().lower()
    assert len(comparison.contenders) == 2


@pytest.fixture(scope="module")
def server(run):
    """A server of the run."""
    limits, metrics = RequestLimits(timeout=300.0), ServerMetrics()
    model = ServedModel("vowels", saccade.load(run), limits=limits, metrics=metrics)
    paths = app.open_paths()
    middleware = app.build(
        ModelRegistry([model], metrics),
        authorization=Authorization.for_address("127.0.0.1", token=None, open_paths=paths),
        limits=limits,
        metrics=metrics,
    )
    yield middleware
    middleware.models.close(5.0)


def test_it_is_served_by_the_api(server):
    [entry] = send_request(server, "GET", "/v1/models").json()["data"]
    assert (entry["id"], entry["task"], entry["reads"]) == ("vowels", "count_vowels", "text")
    queries = {"model": "vowels", "inputs": ["banana", "xyz"], "attention": True}
    answers = send_request(server, "POST", "/v1/predict", json=queries).json()["answers"]
    assert answers[0]["text"] == "3"
    assert answers[0]["attention"]["weights"]


def test_it_is_exported_to_onnx_and_verified(place, run, monkeypatch):
    without_shape_checks(monkeypatch)
    (place / "onnx").mkdir()
    onnx.write_task(saccade.load(run), place / "onnx")  # compares the graph with the model
    facts = json.loads((place / "onnx" / "saccade.json").read_text())
    assert facts["task"] == "count_vowels"
    assert facts["labels"]["kind"] == "number"
    assert set(onnx.load(place / "onnx").facts["graphs"]) == {"model"}


def test_a_name_of_a_built_in_task_is_an_error(tmp_path, monkeypatch):
    offer(tmp_path, "other", text_to_text="tests.tasks.count_vowels")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RecipeError, match=r"package other offers .* text_to_text, .* built-in"):
        tasks.names()
    assert tasks.config_of("text_to_text").__name__ == "TextToTextConfig"  # which wins


def test_two_packages_with_one_name_are_an_error(tmp_path, monkeypatch):
    offer(tmp_path / "a", "first", new="tests.tasks.count_vowels")
    offer(tmp_path / "b", "second", new="json")
    monkeypatch.syspath_prepend(str(tmp_path / "a"))
    monkeypatch.syspath_prepend(str(tmp_path / "b"))
    with pytest.raises(RecipeError, match="both offer a task new"):
        tasks.config_of("new")


@pytest.mark.parametrize("value", ["json", "tests.tasks.nowhere", "tests.tasks:missing"])
def test_a_package_that_offers_no_task_is_an_error(tmp_path, monkeypatch, value):
    offer(tmp_path, "broken", new=value)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RecipeError, match=r"the task new cannot be loaded from .* the package bro"):
        tasks.config_of("new")


def test_a_path_is_not_a_task(tmp_path):
    for name in ("tests/tasks/count_vowels.py", "tests.tasks.count_vowels", str(tmp_path)):
        with pytest.raises(RecipeError, match="task cannot be"):
            tasks.config_of(name)


def test_it_is_served_by_the_page(server, served, browser):  # noqa: F811
    """The last test here: while a browser is open, nothing else can run an event loop."""
    tab = browser.new_page()
    tab.set_default_timeout(PATIENCE)
    tab.goto(served(server))
    tab.wait_for_selector("#work:not([hidden])")
    assert tab.locator("#model option").all_inner_texts() == ["vowels"]
    write(tab, "banana")
    assert tab.wait_for_selector("#answers .answer").inner_text() == "3"
    tab.close()
