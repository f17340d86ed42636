"""Sequences of vectors: labels and texts, from files to attention over time (checklist I9)."""

import base64
import io
import json

import numpy as np
import pytest
import torch

from saccade.data import sources
from saccade.data.builtin import tones
from saccade.data.sources.vectors import vectors_from_lists
from saccade.data.transforms.vector_augment import VectorAugmentConfig, augment_vectors
from saccade.errors import BrokenImagesError, DataError, RunError, SaccadeError, WatchError
from saccade.lens.record import AttentionRecord, StripSide
from saccade.tasks import VectorInput
from saccade.tasks._shared.vectors import padded, read_scale
from saccade.tasks.measures.erasing import measure_erasure, probabilities_of
from saccade.training import recipe as recipes
from saccade.training import session
from saccade.training.choice import choose_recipe
from saccade.training.run import Run

SMALL = ("model.dim=16", "model.encoder.dim=12", "vectors.max_length=9")
CAPTIONER = (*SMALL, "model.decoder.dim=16", "generation.max_length=5")
WIDTH = 3


def write(folder, lengths=(4, 7, 12, 5, 6, 8, 3, 10)):
    """Write labelled sequences, the class of which is the sign of their middle."""
    generator, rows = np.random.default_rng(0), []
    for number, length in enumerate(lengths):
        values = generator.normal(100.0, 5.0, (length, WIDTH))
        values[length // 2] += 30 if number % 2 else -30
        np.save(folder / f"{number}.npy", values)
        rows.append(f"{number}.npy\t{'up' if number % 2 else 'down'}\ta {number % 2} b")
    (folder / "train.tsv").write_text("\n".join(["vectors\tlabel\ttext", *rows, ""]))
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write(tmp_path_factory.mktemp("vectors"))


def created(data, name="vector-classifier-rnn", changes=SMALL):
    recipe = recipes.load(name, changes)
    split = sources.open_corpus(data, recipe.options.columns, valid_fraction=0.0).splits["train"]
    torch.manual_seed(0)
    return recipe, recipe.options.create(split), split


@pytest.fixture(scope="module", params=["vector-classifier-rnn", "vector-captioner"])
def task(request, data):
    changes = CAPTIONER if request.param == "vector-captioner" else SMALL
    return created(data, request.param, changes)[1].eval()


@pytest.fixture(scope="module")
def classifier(data):
    return created(data)[1].eval()


def test_numbers_are_scaled_by_the_training_set(data, classifier, tmp_path):
    _, task, split = created(data)
    every = np.concatenate([np.load(data / f"{n}.npy")[:9] for n in range(8)])
    scale = task.vectors.scale
    assert np.allclose(scale.mean, every.mean(0), rtol=1e-5)
    assert np.allclose(scale.spread, every.std(0), rtol=1e-4)
    batch = task.collate(task.encode(split, tmp_path), range(8))
    scaled = task.vectors.scale(batch.vectors, batch.mask)
    assert scaled[batch.mask].mean(0).abs().max() < 1e-3
    assert scaled[~batch.mask].abs().max() == 0


def test_constant_numbers_do_not_divide_by_zero(tmp_path):
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", np.array([[7.0, number, 0.0]] * 3))
    rows = "".join(f"{n}.npy\t{'ab'[n % 2]}\n" for n in range(4))
    (tmp_path / "train.tsv").write_text("vectors\tlabel\n" + rows)
    scale = created(tmp_path)[1].vectors.scale
    assert scale.spread[0] == scale.spread[2] == 1.0


def test_batches_hold_sequences_of_similar_length_with_a_mask(data, tmp_path):
    _, task, split = created(data)
    examples = task.encode(split, tmp_path)
    assert task.sizes(examples)[:, 0].tolist() == [4, 7, 9, 5, 6, 8, 3, 9]
    batch = task.collate(examples, [0, 2])
    assert batch.vectors.shape == (2, 9, WIDTH)
    assert batch.mask.sum(1).tolist() == [4, 9]
    assert np.allclose(batch.vectors[0, :4], np.load(data / "0.npy"), atol=1e-4)


def test_cut_sequences_are_reported(data, tmp_path, caplog):
    _, task, split = created(data)
    remarks = list(task.remarks(task.encode(split, tmp_path)))
    assert any("2 of 8 sequences have more than 9 steps" in text for text in remarks)
    answers = task.predict([str(data / "2.npy"), str(data / "0.npy")])
    assert [answer.truncated for answer in answers] == [True, False]
    assert "of its 12 steps, only the first 9 are read (vectors.max_length)" in caplog.text
    split.name = "valid"  # the cache remembers its beginning
    task.encode(split, tmp_path)
    [example] = task.prepare([str(data / "2.npy")])
    assert (example.length, example.encoded) == (9, 12)


def test_a_recording_of_100_000_steps_gets_one_line(classifier, tmp_path, caplog):
    np.save(tmp_path / "long.npy", np.full((100_000, WIDTH), 100.0, np.float32))
    [answer] = classifier.predict([tmp_path / "long.npy"])
    assert answer.truncated
    assert "of its 100000 steps" in caplog.text


def test_paths_bytes_arrays_and_lists_give_the_same_answer(data, task):
    array = np.load(data / "0.npy")
    inputs = [str(data / "0.npy"), (data / "0.npy").read_bytes(), array, array.tolist()]
    answers = task.predict(inputs)
    assert len({answer.text for answer in answers}) == 1
    assert np.ptp([answer.score for answer in answers]) < 1e-4


def test_padding_and_batches_change_nothing(data, task):
    inputs = [str(data / f"{number}.npy") for number in range(8)]
    together = task.predict(inputs)
    alone = [task.predict([one])[0] for one in inputs]
    assert [answer.text for answer in together] == [answer.text for answer in alone]
    assert np.allclose([a.score for a in together], [a.score for a in alone], atol=1e-4)


def test_records_are_over_time(data, task, tmp_path):
    [answer] = task.predict([str(data / "1.npy")], attention=True)
    record = answer.attention
    assert isinstance(record.read, StripSide)
    assert record.read.words == tuple(map(str, range(7)))
    for weights in record.weights.values():
        assert np.allclose(weights.sum(-1), 1.0, atol=1e-5)
    record.save(tmp_path / "strip.png")
    texts = [text.get_text() for text in record.figure().texts]
    assert texts.count("step 0") == texts.count("step 6") == 1 + len(record.wrote.words)
    assert "vectors" in texts
    record.save(tmp_path / "strip.html")
    again = AttentionRecord.from_json(record.to_json())
    assert isinstance(again.read, StripSide)
    assert again.read.words == record.read.words
    with pytest.raises(WatchError, match="read from a file"):
        again.read.keep(None, [0])


def test_a_transformer_records_its_self_attention(data):
    changes = ("model.dim=16", "model.encoder.hidden_dim=16", "vectors.max_length=9")
    task = created(data, "vector-classifier", changes)[1].eval()
    [answer] = task.predict([str(data / "0.npy")], attention=True)
    assert answer.attention.reads_itself
    assert {weights.shape for weights in answer.attention.weights.values()} == {(4, 4, 4)}


def test_a_recurrent_encoder_without_attention_has_none_to_show(data):
    changes = (*SMALL, "model.pooling=summary")
    task = created(data, "vector-classifier-rnn", changes)[1].eval()
    with pytest.raises(WatchError, match="no attention"):
        task.predict([str(data / "0.npy")], attention=True)


def test_erased_steps_become_the_mean(data, classifier):
    array = np.load(data / "1.npy").astype(np.float32)
    side = classifier.vectors.side(array)
    kept = side.keep(None, [2])
    assert np.array_equal(kept[2], array[2])
    assert np.allclose(kept[0], classifier.vectors.scale.mean)
    items = list(classifier.items(created(data)[2]))
    findings = measure_erasure(classifier, items, probabilities_of(classifier))
    assert "steps it looked at most" in findings[0].meaning


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((4, WIDTH + 1)), "vectors of 4 numbers; expected 3"),
        (np.full((4, WIDTH), np.nan), "NaN or infinite"),
        (np.array([object()]), "holds object"),
        ([[1.0, 2.0, 3.0], [4.0]], "ragged"),
        (b"not an array", "is not a .npy file"),
        ("nowhere.npy", "does not exist"),
    ],
)
def test_raises_one_line_on_bad_inputs(classifier, given, message):
    with pytest.raises(Exception, match=message) as raised:
        classifier.predict([given])
    assert "\n" not in str(raised.value)


def test_files_of_another_width_are_listed_at_once(tmp_path):
    write(tmp_path)
    for number in (1, 4):
        np.save(tmp_path / f"{number}.npy", np.zeros((5, 2)))
    _, task, split = created(tmp_path)
    with pytest.raises(BrokenImagesError, match="2 of 8 vector files cannot be used") as raised:
        task.encode(split, tmp_path / "cache")
    for number in (1, 4):
        place = f"{tmp_path}/train.tsv:{number + 2}: {tmp_path}/{number}.npy"
        assert f"{place} has vectors of 2 numbers; expected 3" in str(raised.value)


def test_vectors_of_another_width_in_a_table_are_named_by_their_row(tmp_path, classifier):
    widths = (WIDTH, WIDTH, 2, WIDTH)
    rows = [{"vectors": [[1.0] * width] * 4, "label": "up"} for width in widths]
    rows[0]["label"] = "down"
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, task, split = created(tmp_path)
    with pytest.raises(BrokenImagesError) as raised:
        task.encode(split, tmp_path / "cache")
    assert f"{tmp_path}/train.jsonl:3: 4 × 2 vectors has vectors of 2 numbers" in str(raised.value)
    with pytest.raises(DataError, match=r"input 3 \(4 × 2 vectors\) has vectors of 2 numbers"):
        classifier.evaluate(list(classifier.items(split)))


def test_json_inputs_are_lists_or_base64_but_never_paths(data, classifier):
    file = io.BytesIO()
    np.save(file, np.load(data / "0.npy"))
    array = np.load(data / "0.npy").tolist()
    inputs = [classifier.from_json(array)]
    inputs += [classifier.from_json(base64.b64encode(file.getvalue()).decode())]
    first, second = classifier.predict(inputs)
    assert first.label == second.label
    for value, message in (
        (str(data / "0.npy"), "base64"),
        (7, "a number"),
        ([[1], [2, 3]], "ragged"),
        (base64.b64encode(b"PK\3\4").decode(), "zip"),
    ):
        with pytest.raises(DataError, match=message):
            classifier.from_json(value)


def test_a_run_keeps_the_scale_and_predicts_the_same(data, tmp_path):
    recipe, task, _ = created(data)
    Run(tmp_path / "run").folder.mkdir()
    Run(tmp_path / "run").begin(recipe, task, {})
    Run(tmp_path / "run").keep_best(task.model)
    facts = json.loads((tmp_path / "run" / "vectors.json").read_text())
    assert facts["width"] == WIDTH == len(facts["mean"]) == len(facts["spread"])
    again = session.load(tmp_path / "run")
    name = str(data / "3.npy")
    assert again.predict([name])[0].score == pytest.approx(task.eval().predict([name])[0].score)
    for broken in ({}, {**facts, "width": 2}, {**facts, "spread": [0] * 3}, {**facts, "mean": "x"}):
        (tmp_path / "vectors.json").write_text(json.dumps(broken))
        with pytest.raises(RunError, match="cannot be read"):
            read_scale(tmp_path)


def test_describes_its_input(task):
    reads = task.describe().reads
    assert isinstance(reads, VectorInput)
    assert (task.reads, reads.width, reads.max_length) == ("vectors", WIDTH, 9)


def test_learned_positions_must_have_room():
    position = "model.encoder.position"
    changes = (f"{position}.kind=learned", f"{position}.length=8", "vectors.max_length=9")
    with pytest.raises(SaccadeError, match=r"vectors\.max_length"):
        recipes.load("vector-classifier", changes)


def test_augmentation_masks_a_stretch_and_leaves_padding_alone():
    torch.manual_seed(0)
    vectors, mask = padded([np.ones((20, 10), np.float32), np.ones((12, 10), np.float32)])
    config = VectorAugmentConfig(mask_steps=0.5, mask_numbers=0.5)
    masked = augment_vectors(vectors, mask, config)
    assert masked[1, 12:].abs().max() == 0
    assert 0 < (masked[0] == 0).float().mean() < 0.9
    noisy = augment_vectors(vectors, mask, VectorAugmentConfig(noise=0.1))
    assert noisy[1, 12:].abs().max() == 0
    assert (noisy[0] - 1).std() == pytest.approx(0.1, rel=0.3)


def test_recipes_are_chosen_by_the_column(data, tmp_path):
    assert choose_recipe(data).recipe == "vector-classifier"
    rows = (data / "train.tsv").read_text().splitlines()
    text_only = [line.split("\t")[::2] for line in rows]
    (tmp_path / "train.tsv").write_text("\n".join(map("\t".join, text_only)) + "\n")
    for number in range(8):
        (tmp_path / f"{number}.npy").write_bytes((data / f"{number}.npy").read_bytes())
    assert choose_recipe(tmp_path).recipe == "vector-captioner"


def test_baselines_are_the_majority_and_the_mean_vector(data, classifier):
    pytest.importorskip("sklearn")
    split = created(data)[2]
    names = [method.name for method in classifier.baselines(split)]
    assert names == ["majority class", "mean vector + logistic regression"]
    captioner = created(data, "vector-captioner", CAPTIONER)[1]
    assert [method.name for method in captioner.baselines(split)] == ["most frequent output"]


def test_tones_have_one_high_sound_and_the_same_vectors_at_every_call():
    rows = list(tones.rows("test"))
    assert len(rows) == tones.SIZES["test"]
    assert {label for _, label, _ in rows} == set(tones.KINDS)
    for name, label, text in rows[:20]:
        vectors, (start, stop) = tones.vectors(name), tones.target(name)
        assert vectors.shape[1] == tones.BANDS
        assert 0 <= start < stop <= len(vectors)
        assert text.split().count("high") == 1
        assert f"high {label}" in text
    tones._features.cache_clear()
    assert np.array_equal(tones.vectors(rows[19][0]), vectors)
    with pytest.raises(DataError, match="does not exist"):
        tones.vectors("builtin:tones/999999")


def test_lists_become_vectors():
    assert vectors_from_lists([[1, 2], [3, 4]], "x").tolist() == [[1, 2], [3, 4]]


@pytest.mark.slow
def test_attention_points_at_the_high_sound(tmp_path):
    """The queries of the pooling look at the sound that decides (I9, K13)."""
    task = session.train(
        "vector-classifier-rnn", data="builtin:tones", out=tmp_path / "run", minutes=1.0
    )
    names = [name for name, _, _ in tones.rows("test")][:200]
    answers = task.predict(names, attention=True)
    truth = [label for _, label, _ in tones.rows("test")][:200]
    assert np.mean([a.label == t for a, t in zip(answers, truth, strict=True)]) >= 0.95
    hits, chance = [], []
    for name, answer in zip(names, answers, strict=True):
        (start, stop), weights = tones.target(name), answer.attention.by_words().sum(0)
        hits.append(start - 1 <= weights.argmax() <= stop)
        chance.append((stop - start + 2) / len(weights))
    assert np.mean(hits) >= 0.8
    assert np.mean(hits) > 1.5 * np.mean(chance)
