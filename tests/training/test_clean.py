"""Files that a finished run keeps, and files that cleaning removes."""

import shutil

import pytest

from saccade.errors import RunError
from saccade.training import session
from saccade.training.run import Run
from tests.training.runs import everything, outcome, prepare, train

LONGER = ("training.optim.schedule=constant",)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A finished run, and one that started from its weights."""
    folder = prepare(tmp_path_factory.mktemp("clean") / "it")
    train(folder, "run", *LONGER, max_steps=8)
    train(folder, "fine-tuned", *LONGER, max_steps=4, init=folder / "run")
    return folder


@pytest.fixture
def place(base, tmp_path):
    """A copy of those runs that a test may change."""
    return shutil.copytree(base, tmp_path / "copy")


def below(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_finished_run_keeps_its_newest_checkpoint_only(place):
    for name, step in {"run": 8, "fine-tuned": 4}.items():
        run = Run(place / name)
        assert [path.name for path in run.checkpoints.iterdir()] == [f"step-{step}"]
        assert not run.initial.exists()
        assert "initial" not in (run.folder / "MANIFEST.json").read_text()


@pytest.mark.parametrize("name", ["run", "fine-tuned"])
def test_a_finished_run_resumes_with_more_steps_as_if_uninterrupted(place, name):
    init = place / "run" if name == "fine-tuned" else None
    train(place, name, *LONGER, max_steps=12, resume=True, init=init)
    train(place, "one-go", *LONGER, max_steps=12, init=init)
    assert outcome(place / name) == outcome(place / "one-go")


def test_clean_frees_what_predicting_does_not_need(place):
    run = Run(place / "fine-tuned")
    (run.folder / "engines" / "ctranslate2-int8").mkdir(parents=True)
    (run.folder / "engines" / "ctranslate2-int8" / "model.bin").write_bytes(b"x" * 1000)
    inputs = ["a b c", "h g"]
    answers = [answer.text for answer in session.load(run.folder).predict(inputs)]
    held = below(run.checkpoints) + 1000
    before = everything(run.folder)
    assert run.clean() == held
    gone = {path for path in before if path.startswith(("checkpoints", "engines"))}
    assert everything(run.folder).keys() == before.keys() - gone
    assert [answer.text for answer in session.load(run.folder).predict(inputs)] == answers
    assert run.clean() == 0


def test_a_cleaned_run_is_not_trained_from_the_beginning_again(place):
    Run(place / "run").clean()
    before = everything(place / "run")
    with pytest.raises(RunError, match=r"`saccade clean` removed its checkpoints.*--init"):
        train(place, "run", *LONGER, max_steps=12, resume=True)
    assert everything(place / "run") == before
    train(place, "new", *LONGER, max_steps=1, init=place / "run")


def test_a_damaged_run_keeps_its_checkpoint(place):
    run = Run(place / "run")
    run.weights.write_bytes(run.weights.read_bytes()[:-1] + b"?")
    with pytest.raises(RunError, match="damaged or was changed"):
        run.clean()
    assert run.checkpoints.exists()


def test_a_run_in_training_is_not_cleaned(place):
    run = Run(place / "run")
    with run.locked(), pytest.raises(RunError, match="another process is training"):
        run.clean()
    assert run.checkpoints.exists()


def test_a_warm_start_is_not_replaced_by_random_weights(place):
    """The newest checkpoint is damaged, and the weights that the run started from are gone."""
    run = Run(place / "fine-tuned")
    (run.checkpoints / "step-4" / "state.json").unlink()
    with pytest.raises(RunError, match=r"has no intact checkpoint.*--init"):
        train(place, "fine-tuned", *LONGER, max_steps=12, resume=True)
