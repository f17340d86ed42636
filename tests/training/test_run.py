"""The run folder: its lock, what may change in a resumed run, and what a full disk does to it."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import saccade
from saccade import cli, files
from saccade import recipes as builtin
from saccade.data import sources
from saccade.errors import RecipeError, RunError, TrainingError
from saccade.files import write_pieces
from saccade.tasks.text_to_text import TextToText
from saccade.training import checkpoint, manifest, run, session
from saccade.training.console import Console
from saccade.training.run import Run
from tests import tiny_recipes
from tests.training.runs import arguments, everything, outcome, prepare, same, train


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, which no test changes."""
    folder = prepare(tmp_path_factory.mktemp("finished") / "it")
    train(folder, "run")
    return folder


def command(monkeypatch, capsys, *arguments):
    """Run saccade in this process; return its exit code and its output on stderr."""
    monkeypatch.setattr(sys, "argv", ["saccade", *arguments])
    code = 0
    try:
        cli.main()
    except SystemExit as ended:
        code = ended.code or 0
    return code, capsys.readouterr().err


def test_files_of_a_run(finished):
    names = set(os.listdir(finished / "run")) - {".lock", "tensorboard"}
    assert names == {
        "MANIFEST.json",
        "alignment.json",
        "baseline.json",
        "checkpoints",
        "evaluation.json",
        "film.json",
        "metrics.jsonl",
        "model.safetensors",
        "recipe.toml",
        "report.html",
        "run.json",
        "samples.jsonl",
        "tokenizer.json",
    }
    assert not [path for path in (finished / "run").rglob("*.p*") if path.suffix in (".pt", ".pkl")]


def test_weights_contain_no_time_and_no_path(place):
    train(place, "one", max_steps=4)
    train(place, "elsewhere/two", max_steps=4)
    one, two = (place / name / "model.safetensors" for name in ("one", "elsewhere/two"))
    assert one.read_bytes() == two.read_bytes()
    size = int.from_bytes(one.read_bytes()[:8], "little")
    header = json.loads(one.read_bytes()[8 : 8 + size])
    assert set(header.get("__metadata__", {})) <= {"format"}
    facts = [Run(place / name).about() for name in ("one", "elsewhere/two")]
    assert all(about.pop("started") for about in facts)
    assert facts[0] == facts[1]


def test_raises_on_an_existing_run_without_resume(finished, monkeypatch, capsys):
    before = everything(finished / "run")
    code, output = command(monkeypatch, capsys, *arguments(finished, "run"))
    assert code == 2
    assert "already holds a run; resume it with --resume, or choose another folder" in output
    assert everything(finished / "run") == before


def test_a_finished_run_exits_with_0_and_is_not_changed(finished, monkeypatch, capsys):
    before = everything(finished / "run")
    code, output = command(monkeypatch, capsys, *arguments(finished, "run", "--resume"))
    assert code == 0
    assert "all 12 steps are done, at step 12" in output
    assert everything(finished / "run") == before


@pytest.mark.parametrize("exists", [False, True])
def test_resume_without_a_run_begins_one(place, exists):
    if exists:
        (place / "run").mkdir()
    train(place, "run", max_steps=2, resume=True)
    assert Run(place / "run").exists()


def test_raises_on_a_folder_with_other_files(place):
    (place / "run").mkdir()
    (place / "run" / "thesis.tex").write_text("mine")
    for resume in (False, True):
        with pytest.raises(RunError, match=r"is not empty \(thesis.tex\) and not a run"):
            train(place, "run", resume=resume)
    with pytest.raises(RunError, match="cannot be a folder, because a file"):
        train(place, "tiny.toml")
    with pytest.raises(RunError, match=r"cannot be created|cannot be a folder"):
        train(place, "tiny.toml/run")
    assert (place / "run" / "thesis.tex").read_text() == "mine"


def test_wrong_data_leaves_no_folder(place):
    with pytest.raises(saccade.SaccadeError, match="does not exist"):
        train(place, "run", data=place / "nowhere")
    assert not (place / "run").exists()


def test_a_second_process_raises_and_the_first_continues(place, forks):
    first = forks.start(arguments(place, "run", "--max-steps", "60"), "slow disk")
    first.until((place / "run" / "metrics.jsonl").exists)
    code, output = forks.run(arguments(place, "run", "--resume"))
    assert code == 2
    assert f"error: another process is training in {place / 'run'}; wait until it ends" in output
    code, output = first.wait()
    assert code == 0, output
    assert "all 60 steps are done" in output


# what may change in a resumed run


def test_raises_on_another_model_with_the_changed_keys(finished):
    before = everything(finished / "run")
    changes = ("model.dim=14", "model.encoder.cell=lstm", "text.source.size=50")
    with pytest.raises(RunError) as caught:
        train(finished, "run", *changes, resume=True)
    message = str(caught.value)
    assert "model.dim was 12, is 14" in message
    assert "model.encoder.cell was 'gru', is 'lstm'" in message
    assert "text.source.size was 60, is 50" in message
    assert "train into another folder" in message
    assert everything(finished / "run") == before


def test_warns_about_changes_of_recipe_data_and_threads(place, caplog, monkeypatch):
    train(place, "run", max_steps=4)
    train(place, "run", max_steps=5, resume=True)
    assert not caplog.records  # that much may change without a warning
    train(place, "run", "training.learning_rate=0.02", max_steps=5, resume=True)
    assert "training.learning_rate was 0.01, is 0.02" in caplog.text
    caplog.clear()
    with (place / "data" / "train.tsv").open("a") as file:
        file.write("a b\tb a\n")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    changed = ("training.learning_rate=0.02",)
    train(place, "run", *changed, max_steps=6, resume=True)
    assert "the data has changed since the run began" in caplog.text
    assert "the number of threads has changed from 1 to 7" in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("world", 3, "the number of processes has changed from 3 to 1"),
        ("update_batches", 6, "the number of batches of an update has changed from 6 to 2"),
        ("device", "cuda", "the device has changed from cuda to cpu"),
        ("precision", "bfloat16", "the precision has changed from bfloat16 to float32"),
    ],
)
def test_warns_about_changes_of_the_machine(place, caplog, name, value, message):
    train(place, "run", max_steps=1)
    path = place / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    train(place, "run", max_steps=1, resume=True)
    assert message in caplog.text


@pytest.mark.parametrize(
    ("recorded", "world", "changes", "batches"),
    [
        (6, 3, (), 6),  # every process read the batches of an update that the recipe names
        (2, 1, (), 2),
        (5, 3, (), 2),  # not what an earlier version has written
        (6, 3, ("training.accumulate=4",), 4),
    ],
)
@pytest.mark.parametrize("by_name", [True, False], ids=["recipe named", "own recipe"])
def test_updates_keep_the_size_that_they_had_with_several_processes_in_earlier_versions(
    place, caplog, by_name, recorded, world, changes, batches
):
    train(place, "run", max_steps=1)
    path = place / "run" / "run.json"
    about = json.loads(path.read_text())
    del about["update_batches"]
    path.write_text(json.dumps(about | {"batches_per_update": recorded, "world": world}))
    if by_name:
        train(place, "run", *changes, max_steps=2, resume=True)
    else:
        session.train(
            data=place / "data",
            out=place / "run",
            changes=changes,
            max_steps=2,
            resume=True,
            cache=place / "cache",
            device="cpu",
            console=Console(quiet=True),
        )
    assert bool(changes) == ("accumulate was" in caplog.text)
    assert changes or "update_tokens was" not in caplog.text
    assert Run(place / "run").recipe().training.batches_per_update() == batches
    state = checkpoint.newest(Run(place / "run").checkpoints).state
    assert state["batches"] == 2 + batches  # the first update had two


def test_a_run_keeps_its_recipe_when_the_built_in_one_has_changed(place, monkeypatch, caplog):
    """Only keys set by hand and the budget come from the command that resumes it."""

    def train_builtin(*changes, **options):
        small = ("model.dim=12", "model.encoder.dim=8", "model.decoder.dim=12", *changes)
        session.train(
            "rnn-attention",
            data=place / "data",
            out=place / "old",
            changes=(*small, "training.validate_items=2"),
            cache=place / "cache",
            device="cpu",
            console=Console(quiet=True),
            **options,
        )
        return Run(place / "old").recipe()

    before = train_builtin(max_steps=2, minutes=50.0)
    newer = builtin.text("rnn-attention").replace("2e-3", "7e-3").replace("0.2", "0.6")
    assert newer.count("7e-3") == 1
    assert newer.count("0.6") == 2
    monkeypatch.setattr(builtin, "text", lambda name: newer)
    after = train_builtin("training.log_every=2", max_steps=3, resume=True)
    assert "the recipe has changed: training.log_every was 10, is 2" in caplog.text
    assert after.options == before.options
    expected = replace(before.training, max_steps=3, minutes=None, log_every=2)
    assert after.training == expected
    with pytest.raises(RunError, match=r"begun with another recipe: model\.encoder\.dropout was"):
        train_builtin("model.encoder.dropout=0.5", max_steps=4, resume=True)


def test_a_changed_kind_of_average_starts_again(place):
    """Snapshots of one kind are of no use to another."""

    def snapshots(kind, steps):
        train(place, "run", f"training.average.kind={kind}", max_steps=steps, resume=True)
        saved = checkpoint.newest(place / "run" / "checkpoints")
        assert saved.step == steps
        names = [name.split(".") for name in saved.tensors.get("average", {})]
        assert all(name[0] == kind for name in names)
        return {int(name[1]) for name in names}

    assert max(snapshots("last", 4)) == 4
    assert snapshots("ema", 8) == {0}
    assert min(snapshots("last", 12)) > 8
    assert snapshots("none", 13) == set()


def test_raises_on_a_newer_format(place):
    train(place, "run", max_steps=1)
    path = place / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99, "saccade": "9.9"}))
    for act in (lambda: train(place, "run", resume=True), lambda: saccade.load(place / "run")):
        with pytest.raises(RunError, match=r"newer Saccade \(9\.9, run format 99; .* upgrade"):
            act()


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": "x"}', b"\xff", b"null"])
def test_raises_on_a_damaged_run_json(place, content):
    (place / "run").mkdir()
    (place / "run" / "run.json").write_bytes(content)
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        saccade.load(place / "run")


def test_raises_on_a_folder_that_is_not_a_run(tmp_path):
    with pytest.raises(RunError, match="does not exist; check the path"):
        saccade.load(tmp_path / "nowhere")
    (tmp_path / "x").touch()
    with pytest.raises(RunError, match=r"not a run folder: it has no run\.json, but x"):
        saccade.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"garbage" * 9, None])
def test_raises_on_damaged_weights(place, content):
    train(place, "run", max_steps=1)
    path = place / "run" / "model.safetensors"
    if content is None:
        path.write_bytes(path.read_bytes()[:-4])
    else:
        path.write_bytes(content)
    with pytest.raises(RunError, match=r"model\.safetensors cannot be read"):
        saccade.load(place / "run")


def test_raises_on_weights_of_another_model(place):
    train(place, "run", max_steps=1)
    train(place, "other", "model.decoder.cell=lstm", "model.dim=16", max_steps=1)
    train(place, "wide", "model.dim=16", max_steps=1)
    for other, message in (("other", "shape"), ("wide", r"has shape \(\d+, 16\), the model needs")):
        weights = (place / other / "model.safetensors").read_bytes()
        (place / "run" / "model.safetensors").write_bytes(weights)
        with pytest.raises(RunError, match=message):
            saccade.load(place / "run")


def test_raises_if_there_are_no_weights_yet(place):
    (place / "run").mkdir()
    with pytest.raises(TrainingError):
        train(place, "run", "training.learning_rate=1e30", "training.optim.warmup=0", max_steps=9)
    with pytest.raises(RunError, match="has no weights yet"):
        saccade.load(place / "run")


# a full disk


def test_a_full_disk_at_any_file_keeps_the_run(place, monkeypatch, capsys):
    import errno

    train(place, "complete")
    train(place, "run", max_steps=4)
    number = 0
    while True:
        number += 1
        left = [number]

        def full(path, content, left=left):
            left[0] -= 1
            if left[0] == 0:
                content = content if isinstance(content, bytes) else b"".join(content)
                path.write_bytes(content[: len(content) // 2])
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            return write_pieces(path, content)

        with monkeypatch.context() as patch:
            for module in (files, checkpoint, manifest):
                patch.setattr(module, "write_pieces", full)
            code, output = command(patch, capsys, *arguments(place, "run", "--resume"))
        if code == 0:
            break
        assert code == 74
        assert "error: the disk is full: " in output
        assert "kept" in output
        assert "Traceback" not in output
        assert not list((place / "run").rglob(".partial*"))
    assert number > 6
    assert (
        outcome(place / "run")["files"]["model.safetensors"]
        == (outcome(place / "complete")["files"]["model.safetensors"])
    )


@pytest.fixture
def small_disk(tmp_path):
    """A disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="tmpfs is Linux's")
@pytest.mark.parametrize("room", [1, 12])
def test_a_really_full_disk_keeps_the_checkpoint(place, finished, small_disk, forks, room):
    train(place, "disk/run", max_steps=4)
    newest = Run(small_disk / "run").checkpoints / "step-4"
    before = {path.name: path.read_bytes() for path in newest.iterdir()}
    filler = small_disk / "filler"
    fill(filler, room * 4096)
    code, output = forks.run(arguments(place, "disk/run", "--resume"))
    assert code == 74, output
    assert "error: the disk is full: " in output
    assert "Traceback" not in output
    assert not list(small_disk.rglob(".partial*"))
    if newest.exists():
        assert {path.name: path.read_bytes() for path in newest.iterdir()} == before
    filler.unlink()
    code, output = forks.run(arguments(place, "disk/run", "--resume"))
    assert code == 0, output
    final = "checkpoints/step-12/weights.safetensors"
    assert (small_disk / "run" / final).read_bytes() == (finished / "run" / final).read_bytes()
    best = "model.safetensors"
    assert (small_disk / "run" / best).read_bytes() == (finished / "run" / best).read_bytes()


def fill(path: Path, room: int) -> None:
    """Leave no more than `room` bytes free."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            file.truncate(max(0, file.tell() - room))


# from Python


def test_train_load_and_evaluate_from_python(place, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: place / "home")
    task = saccade.train(
        str(place / "tiny.toml"), data=str(place / "data"), out=str(place / "run"), max_steps=4
    )
    assert (place / "home" / ".cache" / "saccade").is_dir()
    assert not task.training
    loaded = saccade.load(str(place / "run"))
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, task.state_dict()[name])
    assert [a.text for a in loaded.predict(["a b c"])] == [a.text for a in task.predict(["a b c"])]
    scores = saccade.evaluate(task, data=place / "data")
    assert scores == saccade.evaluate(place / "run", data=place / "data" / "test.tsv")
    assert set(scores) == {"exact_match"}
    assert 0 <= scores["exact_match"] <= 1
    with pytest.raises(RunError, match="--resume"):
        saccade.train(place / "tiny.toml", data=place / "data", out=place / "run")


def test_train_returns_the_best_weights(place, monkeypatch):
    from saccade.training.loop import Trainer

    worth = iter([(2.0, 2.0), (1.0, 1.0), (3.0, 3.0)])
    monkeypatch.setattr(Trainer, "judge", lambda *_: next(worth))
    kept = []
    plain = Run.keep_best

    def keep(self, model):
        kept.append({name: value.clone() for name, value in model.state_dict().items()})
        plain(self, model)

    monkeypatch.setattr(Run, "keep_best", keep)
    task = train(place, "run")
    assert len(kept) == 2
    for name, value in task.model.state_dict().items():
        assert torch.equal(value, kept[1][name])


def test_the_task_is_built_once(place, monkeypatch):
    built, plain = [], TextToText.__init__

    def init(self, *args, **options):
        built.append(self)
        plain(self, *args, **options)

    monkeypatch.setattr(TextToText, "__init__", init)
    task = train(place, "run", max_steps=4)
    assert [id(one) for one in built] == [id(task)]
    assert all(p.grad is None and p.requires_grad for p in task.parameters())
    built.clear()
    task = train(place, "run", max_steps=8, resume=True)
    assert [id(one) for one in built] == [id(task)]


@pytest.mark.parametrize("name", ["rnn-attention", "bert-mini", "gpt-char", "vit-tiny"])
def test_a_new_task_has_the_weights_and_files_of_a_restored_one(tmp_path, name):
    """A run that is resumed before its first checkpoint is built from its folder."""
    recipe = tiny_recipes.small(name)
    [file] = tiny_recipes.data().glob(f"{recipe.task}.*")
    split = sources.open_corpus(file, recipe.options.columns).splits["train"]
    torch.manual_seed(5)
    task = recipe.options.create(split)
    Run(tmp_path).begin(recipe, task, {})
    restored = Run(tmp_path).initial_task(seed=5)
    assert restored.files() == task.files()
    assert same(restored.state_dict(), task.state_dict())


def test_raises_on_an_unknown_device_or_precision(place):
    for options in ({"device": "tpu"}, {"precision": "float8"}):
        with pytest.raises(RecipeError, match="it can be: auto"):
            session.train(place / "tiny.toml", data=place / "data", out=place / "run", **options)


def test_weights_with_several_names_are_written_once():
    tied = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2), "b": torch.nn.Linear(2, 2)})
    tied["b"].weight = tied["a"].weight
    tied.register_buffer("c", torch.ones(1))
    tensors = run.tensors_of(tied)
    assert sorted(tensors) == ["a.bias", "a.weight", "b.bias", "c"]
    run.put_tensors(tied, {name: torch.zeros_like(t) for name, t in tensors.items()}, "x")
    assert not any(p.any() for p in tied.parameters())
    with pytest.raises(RunError, match=r"x holds the weights of another model: .* b\.weight"):
        run.put_tensors(tied, {**tensors, "b.weight": torch.ones(2, 2)}, "x")
