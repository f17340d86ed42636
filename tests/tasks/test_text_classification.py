"""Text classification: reading, training and predictions."""

import json
import logging
from dataclasses import replace

import numpy as np
import pytest
import torch

from saccade.data import sources
from saccade.data.store.cache import Skipped
from saccade.errors import DataError, DecodingError, RecipeError, WatchError
from saccade.tasks._shared.labels import LabelCounts
from saccade.tasks.text_classification import TextClassification
from saccade.training import recipe as recipes
from saccade.training import session
from saccade.training.console import Console
from tests.training.runs import outcome

GOOD = ["a good day", "what a fine good film", "fine and good food", "such a good long trip here"]
BAD = ["a bad day", "what a poor bad film", "poor and bad food", "such a bad long trip here"]
ROWS = [(text, "good") for text in GOOD] + [(text, "bad") for text in BAD]
PAIRS = [("a b c", "a b", "same"), ("a b", "d e f", "other"), ("d", "d e", "same")]
SMALL = (
    "model.dim=16",
    "model.dropout=0.0",
    "model.encoder.num_layers=2",
    "model.encoder.num_heads=2",
    "model.encoder.hidden_dim=32",
    "model.encoder.dropout=0.0",
    "text.vocabulary.size=290",
)
RECURRENT = (
    "model.dim=16",
    "model.encoder.dim=8",
    "model.encoder.dropout=0.0",
    "model.dropout=0.0",
)


def write(path, rows):
    header = ("text", "text_pair", "label") if len(rows[0]) == 3 else ("text", "label")
    path.write_text("\n".join("\t".join(row) for row in (header, *rows)) + "\n")
    return path


def build(folder, rows=ROWS, *changes, recipe="bert-mini") -> TextClassification:
    small = SMALL if recipe == "bert-mini" else RECURRENT
    options = recipes.load(recipe, [*small, *changes]).options
    path = write(folder / "rows.tsv", rows)
    split = sources.open_corpus(path, options.columns, valid_fraction=0.0).splits["train"]
    torch.manual_seed(1)
    return options.create(split).eval()


def splits(folder, task, rows):
    path = write(folder / "more.tsv", rows)
    return sources.open_corpus(path, task.columns, valid_fraction=0.0).splits["train"]


def test_a_text_is_read_between_control_tokens(tmp_path):
    """The class token is the first one (I3)."""
    task = build(tmp_path)
    batch = task.force(["a good day", "bad"], ["good", "bad"])
    ids = task.tokenizer.encode("a good day")
    cls, sep, pad = task.tokenizer.cls, task.tokenizer.sep, task.tokenizer.pad
    assert batch.tokens[0].tolist() == [cls, *ids, sep]
    assert batch.tokens[1, -1] == pad
    assert batch.mask.sum(1).tolist() == [len(ids) + 2, len(task.tokenizer.encode("bad")) + 2]
    assert batch.segments.tolist() == torch.zeros_like(batch.tokens).tolist()
    assert batch.truth.tolist() == [1, 0]


def test_a_pair_has_two_segments(tmp_path):
    """Sentence pairs (I4)."""
    task = build(tmp_path, PAIRS)
    batch = task.force([("a b c", "d")], ["same"])
    one, other = task.tokenizer.encode("a b c"), task.tokenizer.encode("d")
    sep = task.tokenizer.sep
    assert batch.tokens[0].tolist() == [task.tokenizer.cls, *one, sep, *other, sep]
    assert batch.segments[0].tolist() == [0] * (len(one) + 2) + [1] * (len(other) + 1)


def test_the_loss_equals_cross_entropy(tmp_path):
    task = build(tmp_path)
    batch = task.force(GOOD, ["good"] * 4)
    loss = task(batch)
    logits = task.model(batch.tokens, batch.mask, batch.segments)
    assert loss.count == 4
    torch.testing.assert_close(loss.total, -logits.log_softmax(-1)[:, 1].sum())


def test_weights_and_focal_loss_apply_in_training_only(tmp_path):
    rows = ROWS[:5]  # four good, one bad
    task = build(tmp_path, rows, "loss.class_weights=balanced", "loss.focal_gamma=2")
    assert task.class_weights.tolist() == pytest.approx([5 / 2, 5 / 8])
    assert task.largest_weight == pytest.approx(5 / 2)
    assert build(tmp_path, rows).largest_weight == 1.0
    batch = task.force(["a good day", "bad"], ["good", "bad"])
    p = task.model(batch.tokens, batch.mask, batch.segments).softmax(-1)[[0, 1], batch.truth]
    torch.testing.assert_close(task(batch).total, -p.log().sum())
    focal = -((1 - p) ** 2 * p.log())
    loss = task.train()(batch)
    torch.testing.assert_close(loss.total, 5 / 8 * focal[0] + 5 / 2 * focal[1])
    assert loss.count == 2


def test_weights_survive_a_restart(tmp_path):
    task = build(tmp_path, ROWS[:5], "loss.class_weights={ bad = 3 }")
    for name, content in task.files().items():
        (tmp_path / name).write_text(content)
    again = task.config.restore(tmp_path)
    assert (
        again.class_weights.tolist()
        == task.class_weights.tolist()
        == pytest.approx([15 / 7, 5 / 7])
    )
    assert again.counts == LabelCounts(5, {"good": 4, "bad": 1})
    text = recipes.load("bert-mini", ["loss.class_weights={ bad = 3 }"]).to_toml()
    assert recipes.parse(text, "recipe")["loss"]["class_weights"] == {"bad": 3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["loss.class_weights=balance"], "class_weights cannot be 'balance'; it can be: none, bal"),
        (["loss.class_weights={ a = 0 }"], "or table of name = number above 0"),
        (["loss.focal_gamma=-1"], "loss.focal_gamma cannot be"),
        (["labels.kind=number", "loss.focal_gamma=2"], "loss.focal_gamma = 2.* no effect"),
        (["labels.kind=number", "loss.class_weights=balanced"], "class_weights = balanced: has no"),
    ],
)
def test_raises_on_unusable_options_of_the_loss(changes, message):
    with pytest.raises(RecipeError, match=message):
        recipes.load("bert-mini", changes)


@pytest.mark.parametrize("change", ["loss.class_weights=balanced", "loss.focal_gamma=2"])
def test_raises_if_numbers_have_options_of_classes(tmp_path, change):
    rows = [("a", "1.5"), ("b", "2.5")]
    with pytest.raises(RecipeError, match="needs classes, and these labels are numbers"):
        build(tmp_path, rows, change)


@pytest.mark.parametrize(
    ("empty", "too_long", "remark"),
    [
        (1, 0, "left out 1 row with an empty column: x:3: empty"),
        (2, 0, "left out 2 rows with an empty column, the first: x:3: empty"),
        (0, 1, "left out 1 row that is too long: x:3: empty"),
        (1, 2, "left out 1 row with an empty column and 2 rows that are too long, the first: x:3"),
    ],
)
def test_remarks_count_the_rows_that_are_left_out(tmp_path, empty, too_long, remark):
    task = build(tmp_path, ROWS)
    skipped = Skipped(empty, too_long, ("x:3: empty",))
    examples = replace(task.encode(splits(tmp_path, task, ROWS), tmp_path / "c"), skipped=skipped)
    [sentence, *_] = task.remarks(examples)
    assert sentence.startswith(remark)


def test_remarks_report_a_class_that_makes_accuracy_meaningless_once(tmp_path):
    rows = [(f"{text} {i}", "good") for i in range(3) for text in GOOD] + [("bad", "bad")]
    task = build(tmp_path, rows)
    examples = task.encode(splits(tmp_path, task, rows), tmp_path / "cache")
    [remark] = task.remarks(examples)
    assert "92.3 % of the labels are 'good'" in remark
    assert "loss.class_weights=balanced" in remark
    assert list(task.remarks(examples)) == []


def test_thresholds_are_chosen_after_training_and_kept(tmp_path):
    rows = [(f"{text} {i}", "a,b" if i % 4 else "b") for i in range(30) for text in GOOD]
    rows += [(f"{text} {i}", "") for i in range(5) for text in BAD]
    task = build(tmp_path, rows, "labels.kind=several", 'metrics.names=["macro_f1"]')
    split = splits(tmp_path, task, rows)
    with torch.no_grad():
        task.model.head.bias[:] = -1.0  # an untrained model that predicts no label
    examples = task.encode(split, tmp_path / "cache")
    before = task.evaluate(task.items(split), quick=True).values()["macro_f1"]
    sentence = task.finish(examples)
    assert "thresholds of 2 of 2 labels were chosen" in sentence
    evaluation = task.evaluate(task.items(split))
    assert evaluation.values()["macro_f1"] > max(before, 0.6)
    assert [row["label"] for row in evaluation.as_json()["per_class"]] == ["a", "b"]
    assert evaluation.tables["Precision and recall"][0]["threshold"] == task.labels.thresholds["a"]
    for name, content in task.files().items():
        (tmp_path / name).write_text(content)
    again = task.config.restore(tmp_path)
    assert again.labels.thresholds == task.labels.thresholds
    assert again.temperature == task.temperature
    assert again.calibration == task.calibration
    assert set(again.calibration) >= {"fitted", "applied", "error_before", "error_after"}
    again.train()  # more training, so nothing fits any more
    assert (again.temperature, set(again.labels.thresholds.values())) == (1.0, {0.5})


def test_consistency_adds_the_distance_of_two_readings(tmp_path):
    """R-Drop: the mean of both losses, and the cost of their distance; only in training."""
    changes = ("model.dropout=0.5", "loss.label_smoothing=0.1")
    plain = build(tmp_path, ROWS, *changes)
    task = build(tmp_path, ROWS, *changes, "loss.consistency=3")
    batch = task.force(GOOD, ["good"] * 4)
    assert torch.equal(task(batch).total, plain(batch).total)
    task.train()
    torch.manual_seed(0)
    loss = task(batch)
    torch.manual_seed(0)
    one, other = task.model(
        *(part.repeat(2, 1) for part in (batch.tokens, batch.mask, batch.segments))
    ).chunk(2)
    assert not torch.equal(one, other)
    losses = [
        torch.nn.functional.cross_entropy(x, batch.truth, reduction="sum", label_smoothing=0.1)
        for x in (one, other)
    ]
    apart = task.labels.distance(one, other)
    assert loss.count == 4
    torch.testing.assert_close(loss.total, sum(losses) / 2 + 3 * apart)
    rnn = build(tmp_path, ROWS, "loss.consistency=1", recipe="rnn-classifier").train()
    assert rnn(rnn.force(GOOD, ["good"] * 4)).count == 4


def test_answers_do_not_depend_on_neighbours(tmp_path):
    task = build(tmp_path)
    texts = [*GOOD, *BAD, "x " * 40]
    together = task.predict(texts, batch_size=4)
    alone = [task.predict([text])[0] for text in texts]
    for one, other in zip(together, alone, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
        assert sum(one.probabilities.values()) == pytest.approx(1)
        assert one.label == max(one.probabilities, key=one.probabilities.get)


def test_batches_hold_the_encoded_rows(tmp_path):
    task = build(tmp_path)
    examples = task.encode(splits(tmp_path, task, ROWS), tmp_path / "cache")
    assert task.sizes(examples)[:, 0].tolist() == [
        len(task.tokenizer.encode(text)) + 2 for text, _ in ROWS
    ]
    batch = task.collate(examples, np.array([5, 0]))
    forced = task.force([ROWS[5][0], ROWS[0][0]], ["bad", "good"])
    assert torch.equal(batch.tokens, forced.tokens)
    assert torch.equal(batch.truth, forced.truth)


LONG = "one two three four five six seven eight nine ten eleven twelve"


def test_warns_about_a_long_text_that_is_cut(tmp_path, caplog):
    task = build(tmp_path, ROWS, "text.max_length=8")
    with caplog.at_level(logging.WARNING):
        [answer] = task.predict([LONG])
    assert "only the first 8 are read (text.max_length)" in caplog.text
    ids = task.tokenizer.encode(LONG)
    assert task.force([LONG], ["good"]).tokens[0].tolist()[1:-1] == ids[:6]
    examples = task.encode(splits(tmp_path, task, [*ROWS, (LONG, "good")]), tmp_path / "cache")
    assert any("only their beginning is read" in remark for remark in task.remarks(examples))
    assert task.sizes(examples).max() == 8
    assert answer.label in ("good", "bad")


def test_windows_cover_a_long_text(tmp_path):
    task = build(tmp_path, ROWS, "text.max_length=8", "text.long=slide")
    ids = np.array(task.tokenizer.encode(LONG))
    windows = task._windows((ids,))
    assert all(len(window[0]) <= 6 for window in windows)
    assert set(np.concatenate([w[0] for w in windows]).tolist()) == set(ids.tolist())
    assert windows[-1][0][-1] == ids[-1]
    starts = [w[0][0] for w in windows]
    assert starts == [ids[i] for i in range(0, 3 * len(windows), 3)]
    [answer] = task.predict([LONG])
    shares = [
        task.model(*(x for x in (b.tokens, b.mask, b.segments))).detach().softmax(-1)[0]
        for b in (task._batch([w], torch.empty(0)) for w in windows)
    ]
    expected = torch.stack(shares).mean(0)
    assert answer.probabilities["bad"] == pytest.approx(float(expected[0]), abs=1e-5)


@pytest.mark.parametrize("lengths", [(10, 10), (30, 3), (3, 30), (30, 30), (0, 30)])
@pytest.mark.parametrize("long", ["cut", "slide"])
def test_windows_of_pairs_always_fit(tmp_path, lengths, long):
    task = build(tmp_path, PAIRS, "text.max_length=16", f"text.long={long}")
    texts = tuple(np.arange(7, 7 + n) for n in lengths)
    for window in task._windows(texts):
        assert sum(map(len, window)) <= 13
        assert len(window[0]) >= min(lengths[0], 6)
    if long == "slide":
        last = np.concatenate([w[1] for w in task._windows(texts)])
        assert set(last.tolist()) == set(texts[1].tolist())


def test_training_reads_any_window(tmp_path):
    task = build(tmp_path, ROWS, "text.max_length=8", "text.long=slide")
    examples = task.encode(splits(tmp_path, task, [(LONG, "good"), *ROWS]), tmp_path / "cache")
    task.train()
    seen = {tuple(task.collate(examples, [0]).tokens[0].tolist()) for _ in range(40)}
    assert len(seen) > 1
    torch.manual_seed(5)
    one = task.collate(examples, [0]).tokens
    torch.manual_seed(5)
    assert torch.equal(task.collate(examples, [0]).tokens, one)
    task.eval()
    assert len({tuple(task.collate(examples, [0]).tokens[0].tolist()) for _ in range(9)}) == 1


def test_attention_records_cover_the_tokens(tmp_path):
    task = build(tmp_path, PAIRS)
    [answer] = task.predict([("a b", "d e f")], attention=True)
    record = answer.attention
    assert record.read.tokens[0] == "[CLS]"
    assert record.read.words == ("a", "b", "d", "e", "f")
    assert len(record.layers) == 2
    for weights in record.weights.values():
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_raises_on_attention_of_a_model_without_attention(tmp_path):
    task = build(tmp_path, ROWS, recipe="rnn-classifier")
    assert task.predict(["a good day"])[0].label in ("good", "bad")
    with pytest.raises(WatchError, match="no attention"):
        task.predict(["a good day"], attention=True)


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        ("one text", {}, "put it into a list"),
        (["a"], {"beam": 3}, "'beam' is not an option"),
        (["a"], {"batch_size": 0}, "batch_size"),
        ([("a", "b")], {}, "input 1 must be one text, got 2"),
    ],
)
def test_raises_on_invalid_calls(tmp_path, inputs, options, message):
    with pytest.raises(DecodingError, match=message):
        build(tmp_path).predict(inputs, **options)


def test_unusual_texts_get_an_answer(tmp_path):
    task = build(tmp_path)
    for text in ("", " ", "\x00", "🙂" * 50, "[CLS] </s> ⟨mask⟩", "ß\u202e"):
        assert task.predict([text])[0].label in ("good", "bad")


def test_a_pair_is_parsed_from_a_line_with_a_tab(tmp_path):
    task = build(tmp_path, PAIRS)
    assert task.parse("a\tb") == ("a", "b")
    with pytest.raises(DataError, match="two texts with one tab"):
        task.parse("a b")
    assert build(tmp_path).parse("a\tb") == "a\tb"


def test_raises_on_data_with_other_columns(tmp_path):
    task = build(tmp_path)
    pairs = splits(tmp_path, task, PAIRS)
    with pytest.raises(DataError, match="reads single texts, but train has pairs"):
        list(task.items(pairs))
    with pytest.raises(DataError, match="reads single texts"):
        task.encode(pairs, tmp_path / "cache")
    unknown = splits(tmp_path, task, [("x", "good"), ("y", "ugly")])
    with pytest.raises(DataError, match=r"more.tsv:3: the label 'ugly' was not in"):
        list(task.items(unknown))


def test_raises_on_a_max_length_without_room_for_text(tmp_path):
    with pytest.raises(RecipeError, match=r"text.max_length must be at least 4"):
        build(tmp_path, ROWS, "text.max_length=3")
    with pytest.raises(RecipeError, match=r"text.max_length = 513 needs as many learned positions"):
        build(tmp_path, ROWS, "text.max_length=513")


def test_every_row_is_an_item(tmp_path):
    task = build(tmp_path)
    rows = [("same", "good"), ("same", "bad"), ("same", "good")]
    assert len(list(task.items(splits(tmp_path, task, rows)))) == 3


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classify")
    (folder / "data").mkdir()
    rows = [(f"{text} {i}", label) for i in range(6) for text, label in ROWS]
    write(folder / "data" / "train.tsv", rows)
    write(folder / "data" / "valid.tsv", [(f"{t} {i}", x) for i in range(6, 19) for t, x in ROWS])
    train(folder, "run")
    return folder


def train(folder, out, *changes, recipe="bert-mini", **options):
    small = SMALL if recipe == "bert-mini" else RECURRENT
    fast = (
        "training.learning_rate=0.01",
        "training.optim.warmup=5",
        "training.checkpoint_every=10",
        "training.optim.schedule=constant",
    )
    return session.train(
        recipe,
        data=folder / "data",
        out=folder / out,
        changes=[*small, *fast, "training.batch_tokens=256", *changes],
        max_steps=options.pop("max_steps", 40),
        cache=folder / "cache",
        device="cpu",
        console=Console(quiet=True),
        **options,
    )


def test_learns_and_predicts(trained):
    """A classifier that reads the class token (I3)."""
    task = session.load(trained / "run")
    assert [a.label for a in task.predict(["a good trip", "bad food"])] == ["good", "bad"]
    evaluation = session.assess(task, data=trained / "data" / "valid.tsv")
    assert evaluation.values()["accuracy"] == 1.0
    assert evaluation.values()["expected_calibration_error"] < 0.2
    assert sum(bucket["count"] for bucket in evaluation.as_json()["by_length"]) == 104
    assert task.temperature != 1.0
    page = (trained / "run" / "report.html").read_text()
    assert "Confusions" in page
    assert "The most confident mistakes" in page
    assert "Precision and recall" in page
    facts = json.loads((trained / "run" / "classifier.json").read_text())
    assert facts["calibration"]["applied"]
    assert sum(facts["label_counts"]["of"].values()) == facts["label_counts"]["rows"]
    rows = evaluation.as_json()["per_class"]
    assert rows[0] == {"label": "bad", "precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 52}


@pytest.mark.slow  # `make test` resumes translators, captioners and image classifiers
def test_a_resumed_training_is_identical(trained):
    train(trained, "halves", max_steps=20)
    train(trained, "halves", resume=True)
    train(trained, "whole")
    assert outcome(trained / "halves")["files"] == outcome(trained / "whole")["files"]


def test_the_recurrent_recipe_learns(trained):
    task = train(trained, "rnn", recipe="rnn-classifier")
    evaluation = session.assess(task, data=trained / "data" / "valid.tsv")
    assert evaluation.values()["accuracy"] == 1.0


def test_records_of_a_pooled_classifier_name_its_queries(tmp_path):
    """Learned queries over the words of a text (S2: one query over N inputs, D1)."""
    changes = ("model.attention_pooling.queries=2", "model.attention_pooling.score.kind=scaled_dot")
    task = build(tmp_path, ROWS, *changes, recipe="rnn-attention-classifier")
    texts = ["a good film", "what a long bad day it was"]
    answers = task.predict(texts, attention=True)
    for text, answer in zip(texts, answers, strict=True):
        record = answer.attention
        assert record.layers == ("pooling",)
        assert record.wrote.words == ("query 1", "query 2")
        assert record.read.words == tuple(text.split())
        np.testing.assert_allclose(record.weights["pooling"].sum(-1), 1, atol=1e-5)
        assert not record.reads_itself
    alone = task.predict(texts[:1], attention=True)[0].attention  # without padding
    np.testing.assert_allclose(
        alone.weights["pooling"], answers[0].attention.weights["pooling"], atol=1e-6
    )


def test_the_recurrent_recipe_with_attention_learns(trained):
    task = train(trained, "rnn-attention", recipe="rnn-attention-classifier")
    evaluation = session.assess(task, data=trained / "data" / "valid.tsv")
    assert evaluation.values()["accuracy"] == 1.0


def test_starts_from_another_run(trained, capsys):
    """A pretrained encoder with a new head (I6)."""
    task = train(
        trained, "next", "training.optim.freeze=['encoder.stem']", init=trained / "run", max_steps=3
    )
    before = session.load(trained / "run").model.state_dict()
    after = task.model.state_dict()
    name = "encoder.stem.embedding.weight"
    assert torch.equal(before[name], after[name])
    assert not torch.equal(before["head.weight"], after["head.weight"])
    moved = (
        (
            before["encoder.layers.0.feed_forward.widen.weight"]
            - after["encoder.layers.0.feed_forward.widen.weight"]
        )
        .abs()
        .max()
    )
    assert 0 < moved < 0.1
    train(trained, "next", "training.optim.freeze=['encoder.stem']", resume=True, max_steps=4)


def test_few_labels_do_not_calibrate(tmp_path):
    task = build(tmp_path)
    examples = task.encode(splits(tmp_path, task, ROWS), tmp_path / "cache")
    assert "that needs 100 validation texts, and there are 8" in task.finish(examples)
    assert task.temperature == 1.0
