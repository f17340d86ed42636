"""Recipes adapt to the data and the budget, except in what was set by hand."""

import json
import re

import pytest

from saccade.data import sources
from saccade.training import recipe as recipes
from saccade.training import session, speed
from saccade.training.adapt import TrainingFacts, adapt, adaptable, count_words, repeated
from saccade.training.console import Console
from saccade.training.loop import Trainer
from saccade.training.run import Run
from tests.training.runs import metrics, outcome

SMALL = (
    "model.dim=16",
    "model.encoder.num_layers=1",
    "model.decoder.num_layers=1",
    "model.encoder.hidden_dim=16",
    "model.decoder.hidden_dim=16",
    "training.validate_items=2",
    "training.log_every=1",
)
ENCODER, DECODER = "model.encoder.dropout", "model.decoder.dropout"


class Heard(Console):
    """A console that keeps what it prints."""

    def __init__(self):
        super().__init__(quiet=True)
        self.lines = []

    def notify(self, text):
        self.lines.append(text)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "data").mkdir()
    for name, count in {"train": 40, "valid": 4}.items():
        rows = [f"word {i} of {name}\t{i} Wort" for i in range(count)]
        (tmp_path / "data" / f"{name}.tsv").write_text("\n".join(["source\ttarget", *rows]) + "\n")
    return tmp_path


def train(place, out, *changes, **options):
    return session.train(
        options.pop("recipe", "transformer-tiny"),
        data=place / "data",
        out=place / out,
        changes=(*SMALL, *changes),
        cache=place / "cache",
        device="cpu",
        console=options.pop("console", Console(quiet=True)),
        **options,
    )


@pytest.mark.parametrize(
    ("epochs", "dropout"),
    [(0, 0.0), (1.7, 0.0), (3, 0.0), (7, 0.1), (10, 0.1), (15, 0.2), (35, 0.3), (900, 0.3)],
)
def test_dropout_follows_the_number_of_epochs(epochs, dropout):
    recipe = recipes.load("transformer-tiny")
    adapted = adapt(recipe, TrainingFacts(updates=1, epochs=epochs)).recipe.options.model
    assert (adapted.encoder.dropout, adapted.decoder.dropout) == (dropout, dropout)


@pytest.mark.parametrize("name", ["rnn-tagger", "transformer-tagger"])
def test_taggers_keep_their_dropout(name):
    changes = adapt(recipes.load(name), TrainingFacts(updates=400, epochs=2)).changes
    assert not [key for key in changes if "dropout" in key]


def test_keys_set_by_hand_are_not_changed(tmp_path):
    facts = TrainingFacts(words=10, updates_per_epoch=1, updates=10, epochs=1)
    chosen = ["model.encoder.dropout=0.3", "training={batch_tokens=1024}", "text.source.size=10000"]
    assert adapt(recipes.load("transformer-tiny", chosen), facts).changes == {DECODER: 0.0}
    mine = tmp_path / "mine.toml"
    mine.write_text(recipes.load("transformer-tiny").to_toml())
    assert adapt(recipes.load(mine), facts).changes == {}
    assert not adaptable(recipes.load(mine))
    mine.write_text(
        'task = "text_to_text"\n[model.encoder]\nkind = "recurrent"\ndropout = 0.5\n'
        '[model.decoder]\nkind = "recurrent"\n'
    )
    own = adapt(recipes.load(mine), facts).changes
    assert ENCODER not in own
    assert own[DECODER] == 0.0


@pytest.mark.parametrize(
    ("changes", "rate"),
    [
        (["model.dim=512"], 0.002),
        (["model.dim=64"], None),  # a narrower model learns as well at the rate of the recipe
        (["training.update_tokens=8192"], 0.008),
        (["training.update_tokens=512"], 0.002),
        (["model.dim=512", "training.update_tokens=4096"], 0.00283),
        (["model.dim=512", "training.update_tokens=8192"], None),  # as much down as up
        (["model.dim=512", "training.learning_rate=0.01"], None),
        (["model.encoder.num_layers=2"], None),
    ],
)
def test_the_learning_rate_follows_width_and_update_that_are_set_by_hand(changes, rate):
    recipe = recipes.load("transformer-tiny", changes)
    once = adapt(recipe, TrainingFacts())
    expected = {} if rate is None else {"training.learning_rate": rate}
    assert {**recipe.table()["training"], "learning_rate": 0} == {
        **once.recipe.table()["training"],
        "learning_rate": 0,
    }
    assert once.recipe.training.learning_rate == (rate or recipe.training.learning_rate)
    assert once.changes.keys() == expected.keys()
    assert once.to(TrainingFacts()).changes == once.changes  # not twice


def test_the_model_of_a_warm_start_is_not_changed():
    model = recipes.load("transformer-tiny").table()["model"]
    recipe = recipes.load("transformer-tiny", (), model)
    assert adapt(recipe, TrainingFacts(updates=10, epochs=1)).changes == {}


def test_nothing_changes_when_it_is_turned_off():
    recipe = recipes.load("transformer-tiny", ["training.adapt=false"])
    facts = TrainingFacts(words=10, updates_per_epoch=1, updates=10, epochs=1)
    assert adapt(recipe, facts).recipe is recipe
    assert not adaptable(recipe)


@pytest.mark.parametrize(("words", "size"), [(10, 1000), (60_000, 3000), (10**7, 10_000)])
def test_the_vocabulary_of_few_words_is_smaller(words, size):
    adapted = adapt(recipes.load("transformer-tiny"), TrainingFacts(words=words))
    assert adapted.recipe.options.text.source.size == size
    assert bool(adapted.changes) == (size < 10_000)


def test_words_are_counted_also_without_spaces(tmp_path):
    (tmp_path / "train.tsv").write_text("source\ttarget\n" + "漢字" * 20 + "\ta b\n")
    recipe = recipes.load("transformer-tiny")
    split = sources.open_corpus(tmp_path / "train.tsv", recipe.options.columns, valid_fraction=0.0)
    train = split.splits["train"]
    assert count_words(recipe, train) == 40 // 2 + 2
    assert count_words(recipes.load("pronounce"), train) is None
    (tmp_path / "train.tsv").write_text("source\ttarget\none two\tun deux trois\n")
    assert count_words(recipe, train) == 5


@pytest.mark.parametrize(("per_epoch", "tokens"), [(4, 1024), (2, 512), (0.1, 128)])
def test_batches_of_tiny_data_are_smaller(per_epoch, tokens):
    adapted = adapt(recipes.load("transformer-tiny"), TrainingFacts(updates_per_epoch=per_epoch))
    assert adapted.recipe.training.batch_tokens == tokens


def test_a_warm_up_ends_within_a_tenth_of_the_budget():
    short = TrainingFacts(updates=2000)
    adapted = adapt(recipes.load("transformer-base"), short)
    assert adapted.changes == {"training.optim.warmup": 200}
    assert adapted.reasons == (
        "training.optim.warmup is 200, not 4000: the budget has 2,000 updates",
    )
    assert adapt(recipes.load("transformer-tiny"), short).changes == {}  # cosine has its own limit


def test_a_run_prints_and_records_what_was_adapted_and_resumes_with_it(place):
    console = Heard()
    train(place, "run", max_steps=3, console=console)
    about = Run(place / "run").about()["adapted"]
    assert about["changes"][ENCODER] == about["changes"][DECODER] == 0.0
    assert about["changes"]["text.source.size"] == 1000
    assert set(about["reasons"]) < set(console.lines)
    assert "--set training.adapt=false keeps the recipe as it is" in " ".join(console.lines)
    table = Run(place / "run").recipe().table()
    assert table["model"]["encoder"]["dropout"] == 0.0
    train(place, "run", max_steps=200, resume=True, console=console)  # dropout stays 0
    assert Run(place / "run").recipe().options.model.encoder.dropout == 0.0


def test_an_adapted_run_repeats_to_the_bit_and_from_its_own_recipe(place):
    train(place, "run", max_steps=4)
    train(place, "again", max_steps=2)
    train(place, "again", max_steps=2, resume=True)
    train(place, "copy", recipe=place / "run" / "recipe.toml")
    assert "adapted" not in Run(place / "copy").about()
    assert outcome(place / "copy") == outcome(place / "run")


def test_minutes_become_updates_by_a_trial(place, monkeypatch):
    """The trial leaves no trace in the weights."""

    def slow(*args):
        return measured(*args) * 0 + 2000.0  # 2.55 updates in 100 minutes

    measured = speed.seconds_per_update
    monkeypatch.setattr(session, "seconds_per_update", slow)
    options = {"max_steps": 3, "minutes": 100.0}
    train(place, "steps", "training.optim.schedule=constant", max_steps=3)
    train(place, "run", "training.optim.schedule=constant", **options)
    times = {}
    for name in ("steps", "run"):
        reasons = " ".join(Run(place / name).about()["adapted"]["reasons"])
        times[name] = float(re.search(r"reads the training data (\S+) times", reasons)[1])
    assert times["run"] == pytest.approx(times["steps"] * 2.55 / 3, rel=0.05)
    losses = [
        [line["loss"] for line in metrics(place / name) if "loss" in line]
        for name in ("steps", "run")
    ]
    assert losses[0] == losses[1]


def test_recorded_changes_yield_to_keys_set_by_hand():
    recipe = recipes.load("transformer-tiny", ["model.encoder.dropout=0.25"])
    again = repeated(recipe, {ENCODER: 0.0, DECODER: 0.0}).options.model
    assert (again.encoder.dropout, again.decoder.dropout) == (0.25, 0.0)


def test_the_adaptation_is_plain_json():
    adapted = adapt(recipes.load("transformer-tiny"), TrainingFacts(updates=5, epochs=1))
    assert json.loads(json.dumps(adapted.as_json())) == adapted.as_json()


def test_a_training_that_reads_its_data_often_keeps_its_dropout(place, monkeypatch):
    seen = []
    plain = Trainer.fit
    monkeypatch.setattr(Trainer, "fit", lambda self: seen.append(self) or plain(self))
    train(place, "run", "training.max_steps=200", "training.average.kind=none")
    assert seen[0].task.config.model.encoder.dropout == 0.3


def test_trained_weights_learn_slowly_by_adamw():
    recipe = recipes.load("bert-mini")
    adaptation = adapt(recipe, TrainingFacts(warm_start=True))
    training = adaptation.recipe.training
    assert (training.optim.kind, training.learning_rate) == ("adamw", 1e-4)
    assert "training.optim.kind is adamw, not muon: the model starts from trained weights" in (
        adaptation.reasons
    )
    by_hand = recipes.load("bert-mini", ["training.optim.kind=muon", "training.learning_rate=3e-4"])
    assert not adapt(by_hand, TrainingFacts(warm_start=True)).changes
    slower = recipes.load("bert-mini", ["training.optim.kind=adamw", "training.learning_rate=2e-5"])
    assert not adapt(slower, TrainingFacts(warm_start=True)).changes


def test_a_warm_start_is_adapted_and_printed(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    options = {"data": "builtin:reverse", "max_steps": 1, "cache": tmp_path / "cache"}
    tiny = ("training.validate_items=2", "model.dim=8")
    session.train("reverse", out=first, changes=tiny, console=Console(quiet=True), **options)
    console = Heard()
    session.train("reverse", out=second, init=first, changes=tiny, console=console, **options)
    assert Run(second).recipe().training.learning_rate == 1e-4
    assert any("the model starts from trained weights" in line for line in console.lines)
