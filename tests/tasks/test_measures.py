"""Measures of attention, on models and data with known results."""

import json

import numpy as np
import pytest
import torch

from saccade.errors import WatchError
from saccade.lens.alignment.align_by import AlignBy
from saccade.lens.alignment.gold import Gold
from saccade.tasks.measures import align_both_ways, erasure, with_attention
from saccade.tasks.measures.erasing import against_random
from tests.tasks import test_image_classification as pictures
from tests.tasks import test_text_classification as labelled
from tests.tasks import test_text_to_text as written

ERASED = {
    f"{name}{compared}"
    for name in ("comprehensiveness", "sufficiency")
    for compared in ("", "_over_random")
}
OF_HEADS = {"attention_entropy", "head_importance"}


def evaluated(task, folder, split):
    return task.evaluate(list(task.items(split)), quick=True)


def measured(task, folder, split, **options):
    before = {name: value.clone() for name, value in task.state_dict().items()}
    evaluation = with_attention(task, evaluated(task, folder, split), **options)
    for name, value in task.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert set(evaluation.meanings) <= set(evaluation.scores)
    for message in evaluation.meanings.values():
        assert message.endswith(".")
        assert "nan" not in message
    json.dumps(evaluation.as_json(), allow_nan=False)
    return evaluation


@pytest.mark.parametrize("name", written.WITH_ATTENTION)
def test_measures_a_translator(tmp_path, name):
    task = written.build(tmp_path, name)
    golds = [Gold(frozenset({(0, 0), (1, 1)}))] * len(written.PAIRS)
    evaluation = measured(task, tmp_path, written.corpus(tmp_path), golds=golds)
    several = {"head_divergence"} if name == "transformer-tiny" else set()
    assert set(evaluation.meanings) == {"alignment_error_rate", *ERASED, *OF_HEADS, *several}
    rows = evaluation.attention["heads"]
    layers = {row["layer"] for row in rows}
    assert len(rows) == (4 * 5 if name == "transformer-tiny" else 1)
    assert set(task.model.cross_attentions()) <= layers
    assert all(row["entropy"] >= 0 for row in rows)
    best = evaluation.attention["candidates"][0]
    assert best["agreement"] == max(row["agreement"] for row in evaluation.attention["candidates"])
    assert evaluation.scores["alignment_error_rate"].value == best["alignment_error_rate"]


@pytest.mark.parametrize("name", written.WITH_ATTENTION)
def test_probabilities_together_are_those_of_each_input(tmp_path, name):
    task = written.build(tmp_path, name).eval()
    (source, target), (other, _), *_ = written.PAIRS
    inputs = [source, other, f"{source} {other}", source.split()[0]]
    together = task.probabilities(inputs, target)
    alone = [task.probability(given, target) for given in inputs]
    assert together == pytest.approx(alone, rel=1e-5)  # sums in another order
    assert len(set(together)) == len(inputs)


def test_probabilities_of_labels_together_are_those_of_each_input(tmp_path):
    pairs = labelled.build(tmp_path, labelled.PAIRS)
    kinds = ("labels.kind=several", 'metrics.names=["macro_f1"]')
    several = labelled.build(tmp_path, labelled.ROWS, *kinds)
    photos = pictures.build(tmp_path)
    split = pictures.split_of(tmp_path / "photos", photos)
    cases = [
        (labelled.build(tmp_path), [text for text, _ in labelled.ROWS][:4]),
        (several, [text for text, _ in labelled.ROWS][:4]),
        (pairs, [tuple(row[:2]) for row in labelled.PAIRS][:4]),
        (photos, [photos.input_of(item) for item in photos.items(split)][:4]),
    ]
    for task, inputs in cases:
        task.eval()
        label = task.labels.names[0]
        together = task.probabilities(inputs, label)
        assert together == pytest.approx([task.probability(given, label) for given in inputs])
        assert len(set(together)) > 1


def test_the_alignment_error_uses_the_chosen_attention(tmp_path):
    task = written.build(tmp_path, "luong")
    task.align_by = AlignBy(layer="decoder", shift=True)
    records = task.records(written.SOURCES, written.TARGETS)
    golds = [Gold(frozenset(record.alignment())) for record in records]
    evaluation = measured(task, tmp_path, written.corpus(tmp_path), golds=golds)
    assert evaluation.scores["alignment_error_rate"].value == 0.0
    assert "0.0%" in evaluation.meanings["alignment_error_rate"]


def test_combines_the_alignments_of_both_directions(tmp_path):
    task = written.build(tmp_path, "luong")
    links = align_both_ways(task, task, written.TARGETS, written.TARGETS)
    assert len(links) == len(written.PAIRS)
    golds = [Gold(frozenset({(0, 0)}))] * len(written.PAIRS)
    evaluation = measured(task, tmp_path, written.corpus(tmp_path), golds=golds, back=task)
    assert 0 <= evaluation.scores["alignment_error_rate_joined"].value <= 1


def test_measures_a_text_classifier(tmp_path):
    task = labelled.build(tmp_path)
    evaluation = measured(task, tmp_path, labelled.splits(tmp_path, task, labelled.ROWS))
    assert set(evaluation.meanings) == {*ERASED, *OF_HEADS, "head_divergence"}
    assert len(evaluation.attention["heads"]) == 2 * 2


def test_measures_pairs_of_texts(tmp_path):
    task = labelled.build(tmp_path, labelled.PAIRS)
    evaluation = measured(task, tmp_path, labelled.splits(tmp_path, task, labelled.PAIRS))
    assert set(evaluation.meanings) >= ERASED


def test_numbers_have_no_erasure(tmp_path):
    rows = [(text, f"{i}.5") for i, (text, _) in enumerate(labelled.ROWS)]
    task = labelled.build(tmp_path, rows, "labels.kind=number")
    evaluation = measured(task, tmp_path, labelled.splits(tmp_path, task, rows))
    assert set(evaluation.meanings) == {*OF_HEADS, "head_divergence"}


def test_measures_an_image_classifier(tmp_path):
    task = pictures.build(tmp_path)
    split = pictures.split_of(tmp_path / "photos", task)
    evaluation = measured(task, tmp_path, split, most=3)
    assert set(evaluation.meanings) >= {*ERASED, *OF_HEADS}
    assert "cells" in evaluation.meanings["comprehensiveness"]
    assert "items:3" in evaluation.scores["comprehensiveness"].signature


@pytest.mark.parametrize("recipe", ["rnn-attention-classifier", "cnn-attention"])
def test_measures_pooled_classifiers_K13(tmp_path, recipe):
    """Erasure uses the queries of the pooling; the pooling counts as one head."""
    changes = ["model.attention_pooling.queries=2"]
    if recipe == "cnn-attention":
        task = pictures.build(tmp_path, *changes, recipe=recipe)
        split = pictures.split_of(tmp_path / "photos", task)
    else:
        task = labelled.build(tmp_path, labelled.ROWS, *changes, recipe=recipe)
        split = labelled.splits(tmp_path, task, labelled.ROWS)
    evaluation = measured(task, tmp_path, split, most=3)
    assert set(evaluation.meanings) == {*ERASED, *OF_HEADS}
    assert [(row["layer"], row["head"]) for row in evaluation.attention["heads"]] == [
        ("pooling", 0)
    ]
    items = list(task.items(split))
    assert {finding.score.name for finding in erasure(task, items, most=3)} == ERASED


def test_a_head_that_does_nothing_has_no_importance(tmp_path):
    task = labelled.build(tmp_path)
    layer = "encoder.layers.0.self_attention"
    width = task.model.get_submodule(layer).head_dim
    with torch.no_grad():
        task.model.get_submodule(layer).out_proj.weight[:, width:] = 0
    evaluation = measured(task, tmp_path, labelled.splits(tmp_path, task, labelled.ROWS))
    [idle] = [r for r in evaluation.attention["heads"] if (r["layer"], r["head"]) == (layer, 1)]
    assert idle["importance"] == pytest.approx(0.0, abs=1e-6)
    assert any(abs(row["importance"]) > 1e-5 for row in evaluation.attention["heads"])


def test_the_sentence_follows_the_confidence_interval():
    """Six items that fall by 0.5 with attended and by 0.1 with random parts, and the reverse."""
    falls = np.tile([0.5, 0.1, 0.0], (6, 1))
    own, more = against_random("comprehensiveness", falls, "Without", "words", better=1)
    assert own.score.value == pytest.approx(0.5)
    assert more.score.value == pytest.approx(0.4)
    assert "falls by 0.500; with random words in their place by 0.100" in own.meaning
    assert "matter more than random ones" in more.meaning
    _, less = against_random("sufficiency", falls, "With", "words", better=-1)
    assert "matter less than random ones" in less.meaning
    falls[:, 0] = [0.1, 0.2, 0.0, 0.1, 0.0, 0.2]
    _, unsure = against_random("x", falls, "Without", "words", better=1)
    assert "are not significantly different from random ones" in unsure.meaning


def test_raises_on_models_without_attention(tmp_path):
    task = written.build(tmp_path, "rnn")
    evaluation = evaluated(task, tmp_path, written.corpus(tmp_path))
    with pytest.raises(WatchError, match="this model has no attention"):
        with_attention(task, evaluation)
    assert erasure(task, evaluation.items) == []
