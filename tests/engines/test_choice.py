"""The choice of an engine, its answers, and what it leaves to the model itself."""

import random

import pytest
import torch

import saccade
from saccade.engines import choice
from saccade.errors import EngineError, InteropError
from saccade.interop import ctranslate2
from saccade.training import session
from saccade.training.run import Run
from tests.engines import tiny

FLOAT = "ctranslate2-float32"
INPUTS = [*tiny.SENTENCES, "", "  ", "floor cat", "the cat " * 30]


@pytest.fixture
def run(tmp_path):
    tiny.translator(tmp_path / "run")
    return tmp_path / "run"


def texts(answers) -> list[str]:
    return [answer.text for answer in answers]


def test_the_library_uses_eager_by_default(run, made):
    assert saccade.load(run).engine.name == "eager"
    assert made == []
    assert not (run / "engines").exists()


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_answers_equal_those_of_eager(run, batch_size, caplog):
    """Also for blank inputs and for inputs that are too long."""
    eager, fast = saccade.load(run), saccade.load(run, engine=FLOAT)
    assert fast.engine.name == FLOAT
    assert texts(fast.predict(INPUTS)) == texts(eager.predict(INPUTS))  # in pieces
    expected = eager.predict(INPUTS, batch_size=batch_size, split="none")
    caplog.clear()
    answers = fast.predict(INPUTS, batch_size=batch_size, split="none")
    assert texts(answers) == texts(expected)
    assert answers[5].text == ""
    assert answers[5].score == 0.0
    assert "only the first 20 are read (text.max_length)" in caplog.text


def some_texts(count: int, words: int) -> list[str]:
    chance, known = random.Random(0), " ".join(tiny.SENTENCES).split()
    return [" ".join(chance.choices(known, k=chance.randint(1, words))) for _ in range(count)]


def test_lengths_that_may_change_answers_are_not_batched_together(tmp_path, monkeypatch):
    folder = tmp_path / "long"
    tiny.translator(folder, "text.max_length=200", "generation.max_length=3")
    fast = saccade.load(folder, engine="ctranslate2")
    batches: list[list[int]] = []
    answers = fast.engine.generate

    def seen(inputs, request):
        batches.append([len(ids) for ids in inputs])
        return answers(inputs, request)

    monkeypatch.setattr(fast.engine, "generate", seen)
    fast.predict([*some_texts(40, 9), *some_texts(40, 90)])
    assert sum(map(len, batches)) == 80
    for lengths in batches:
        in_steps = {(length + 1) // 8 for length in lengths}  # 7 to 14, and so on
        assert len(in_steps if max(lengths) < 63 else set(lengths)) == 1
    assert any(len(set(lengths)) > 1 for lengths in batches)
    assert max(map(max, batches)) > 100


@pytest.mark.slow  # not for its time: where products change their order depends on the processor
@pytest.mark.parametrize("beam", [1, 3])
def test_int8_answers_do_not_depend_on_their_batch(run, beam):
    """To the last bit of their scores; in batches of any lengths several would differ."""
    many = some_texts(40, 9)
    fast = saccade.load(run, engine="ctranslate2")
    together = fast.predict(many, beam=beam)
    assert together == [fast.predict([text], beam=beam)[0] for text in many]


def test_attention_equals_that_of_eager(run):
    eager, fast = saccade.load(run), saccade.load(run, engine=FLOAT)
    for mine, its in zip(
        *(x.predict(INPUTS[:3], attention=True) for x in (eager, fast)), strict=True
    ):
        assert mine.attention.weights.keys() == its.attention.weights.keys()
        for name, weights in mine.attention.weights.items():
            assert its.attention.weights[name] == pytest.approx(weights, abs=1e-6)


def test_returns_several_answers(run):
    [answer] = saccade.load(run, engine=FLOAT).predict(INPUTS[:1], num_best=3)
    assert len(answer.alternatives) == 2
    assert answer.score >= answer.alternatives[0].score >= answer.alternatives[1].score


def test_samples_come_from_eager_which_is_reported_once(run, caplog):
    eager, fast = saccade.load(run), saccade.load(run, engine=FLOAT)
    options = {"sample": True, "seed": 5}
    for _ in range(2):
        assert texts(fast.predict(INPUTS, **options)) == texts(eager.predict(INPUTS, **options))
    reasons = [x.getMessage() for x in caplog.records if "eager answers instead" in x.getMessage()]
    assert len(reasons) == 1
    assert reasons[0].startswith(f"{FLOAT} cannot give sampled answers")


def test_watching_uses_the_model_itself(run):
    fast = saccade.load(run, engine=FLOAT)
    with saccade.watch(fast.model) as seen:
        fast.predict(INPUTS[:1])
    assert "decoder.layers.0.cross" in seen.keys()  # noqa: SIM118


def test_falls_back_to_eager_if_the_engine_fails(run, caplog, monkeypatch):
    eager, fast = saccade.load(run), saccade.load(run, engine=FLOAT)

    def fail(*_):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(fast.engine._program, "generate", fail)
    assert texts(fast.predict(INPUTS)) == texts(eager.predict(INPUTS))
    assert "failed (out of luck); the engine eager answers instead" in caplog.text


def test_language_models_equal_the_model(tmp_path):
    tiny.language_model(tmp_path / "run")
    eager, fast = (saccade.load(tmp_path / "run", engine=name) for name in ("eager", FLOAT))
    prompts = ["the cat", "", "a dog and", "the cat " * 9]
    for longest in (5, 70):
        expected = eager.predict(prompts, max_length=longest)
        assert texts(fast.predict(prompts, max_length=longest)) == texts(expected)


# --- auto


def test_auto_uses_an_engine_that_passes_its_check(run, made):
    messages: list[str] = []
    task = choice.load(run, engine="auto", notify=messages.append)
    assert task.engine.name in ("ctranslate2-int8", FLOAT)  # random weights may not bear int8
    assert made[0] == "int8"
    assert messages[0] == f"building ctranslate2-int8 for {run}, once"
    assert "24 greedy answers are those of the model itself" in messages[1]
    again: list[str] = []
    other = choice.load(run, engine="auto", notify=again.append)
    assert other.engine.name == task.engine.name
    assert again == []


def test_auto_rejects_int8_that_changes_too_much(run, monkeypatch):
    monkeypatch.setattr(choice, "AGREEING", 1.1)
    assert choice.load(run, engine="auto").engine.name == FLOAT
    monkeypatch.setattr(ctranslate2.Check, "exact", False)
    messages: list[str] = []
    assert choice.load(run, engine="auto", notify=messages.append).engine.name == "eager"
    assert messages[-1].startswith(
        "answering with the engine eager: ctranslate2-int8 does not answer as"
    )
    assert "; ctranslate2-float32 does not answer as the model itself" in messages[-1]
    assert choice.load(run, engine="ctranslate2").engine.name == "ctranslate2-int8"


@pytest.mark.parametrize("fault", [RuntimeError("boom"), MemoryError("no room"), OSError("gone")])
def test_auto_never_fails(run, monkeypatch, fault):
    def fail(*_):
        raise fault

    monkeypatch.setattr(ctranslate2, "write_folder", fail)
    messages: list[str] = []
    task = choice.load(run, engine="auto", notify=messages.append)
    assert task.engine.name == "eager"
    assert str(fault) in messages[-1]
    assert len(messages[-1].splitlines()) == 1
    assert [path.name for path in (run / "engines").iterdir() if path.is_dir()] == []


def test_raises_if_a_training_replaces_the_weights_meanwhile(run, monkeypatch):
    """A folder built from old weights must not be kept as one of the new weights."""
    read = session.load

    def replaced(*given, **options):
        task = read(*given, **options)
        shaken = read(*given, **options)
        tiny.shaken(shaken.model)
        Run(run).keep_best(shaken.model)
        return task

    monkeypatch.setattr(session, "load", replaced)
    with pytest.raises(EngineError, match="changed while an engine was built; try again"):
        choice.load(run, engine="ctranslate2")
    assert choice.load(run, engine="auto").engine.name == "eager"
    assert [path.name for path in (run / "engines").iterdir() if path.is_dir()] == []


def test_auto_tries_float32_if_int8_crashes(run, monkeypatch):
    survives = ctranslate2.require_survival

    def dies(task, folder, numbers):
        if numbers == "int8":
            raise InteropError("it died")
        survives(task, folder, numbers)

    monkeypatch.setattr(ctranslate2, "require_survival", dies)
    assert choice.load(run, engine="auto").engine.name == FLOAT


def test_a_crash_is_remembered_until_the_engine_is_requested(run, made, monkeypatch):
    survives = ctranslate2.require_survival

    def dies(*_):
        raise ctranslate2.DiedError("it ended with -4")

    monkeypatch.setattr(ctranslate2, "require_survival", dies)
    for _ in range(2):
        messages: list[str] = []
        assert choice.load(run, engine="auto", notify=messages.append).engine.name == "eager"
        assert messages[-1] == "answering with the engine eager: it ended with -4; it ended with -4"
    assert made == ["int8", "float32"]
    assert [path.name for path in (run / "engines" / FLOAT).iterdir()] == ["engine.json"]
    with pytest.raises(EngineError, match="it ended with -4"):
        choice.load(run, engine=FLOAT)
    assert made[2:] == ["float32"]
    monkeypatch.setattr(ctranslate2, "require_survival", survives)
    assert choice.load(run, engine=FLOAT).engine.name == FLOAT
    assert choice.load(run, engine="auto").engine.name == FLOAT
    assert made[3:] == ["float32"]


def test_failures_other_than_crashes_are_tried_again(run, made, monkeypatch):
    def fails(*_):
        raise InteropError("it did not end")

    monkeypatch.setattr(ctranslate2, "require_survival", fails)
    for _ in range(2):
        assert choice.load(run, engine="auto").engine.name == "eager"
    assert made == ["int8", "float32"] * 2


def test_the_name_of_an_engine_shows_that_eager_helped(run):
    task = choice.load(run, engine="ctranslate2", notify=lambda text: None)
    task.predict(INPUTS, sample=True)
    assert task.engine.name == "ctranslate2-int8 and eager"


def test_samples_of_the_run_are_compared(run):
    rows = list(zip(tiny.SENTENCES, reversed(tiny.SENTENCES), strict=True))
    from saccade.data.corpus import Item

    Run(run).keep_samples([Item((x,), (y,), 1) for x, y in rows])
    messages: list[str] = []
    choice.load(run, engine="ctranslate2", notify=messages.append)
    assert f"of {len(rows)} greedy answers" in messages[1]
    assert ("exact_match" in messages[1]) == (f"{len(rows)} of {len(rows)}" not in messages[1])


def test_unreadable_samples_are_ignored(run):
    assert Run(run).samples() == []
    Run(run).sampled.write_text('{"inputs": 3}\n')
    assert Run(run).samples() == []


def test_auto_uses_eager_for_sampling(tmp_path, made):
    tiny.language_model(tmp_path / "run", "generation.sample=true")
    messages: list[str] = []
    task = choice.load(tmp_path / "run", engine="auto", notify=messages.append)
    assert task.engine.name == "eager"
    assert made == []
    assert "answers are sampled" in messages[0]


# --- what cannot be had


def test_raises_on_unknown_engines(run):
    with pytest.raises(EngineError, match="'warp' is not a valid engine; use one of: auto, eager"):
        saccade.load(run, engine="warp")


def test_raises_without_ctranslate2(run, monkeypatch):
    monkeypatch.setattr(ctranslate2, "installed", lambda: False)
    with pytest.raises(EngineError, match=r'not installed: .*"saccade-attention\[fast\]"'):
        saccade.load(run, engine="ctranslate2")
    assert saccade.load(run, engine="auto").engine.name == "eager"
    assert choice.installed() == ["eager"]


def test_raises_on_models_that_it_cannot_run(tmp_path):
    tiny.translator(tmp_path / "run", "model.decoder.score={ kind = 'cosine' }")
    with pytest.raises(EngineError, match=r'model\.decoder\.score\.kind is "cosine"'):
        saccade.load(tmp_path / "run", engine="ctranslate2")
    messages: list[str] = []
    choice.load(tmp_path / "run", engine="auto", notify=messages.append)
    assert len(messages) == 1
    assert messages[0].startswith(
        "answering with the engine eager: CTranslate2 cannot run this model"
    )


def test_raises_if_float32_does_not_agree(run, monkeypatch):
    monkeypatch.setattr(
        ctranslate2, "check", lambda *_: ctranslate2.Check(compared=9, same=8, tokens=0.99)
    )
    with pytest.raises(EngineError, match="does not answer as the model itself: 8 of 9"):
        saccade.load(run, engine=FLOAT)
    assert saccade.load(run, engine="ctranslate2").engine.name == "ctranslate2-int8"


def test_there_is_one_worker_per_thread(run):
    torch.set_num_threads(2)
    fast = saccade.load(run, engine=FLOAT)
    assert torch.get_num_threads() == 2
    assert fast.engine._program.program.num_translators == 2
    assert texts(fast.predict(INPUTS * 3)) == texts(saccade.load(run).predict(INPUTS * 3))
    assert torch.get_num_threads() == 2
