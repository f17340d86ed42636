"""The named tasks: their data is right, and a short training prints every result (I3, I4, I8)."""

import importlib
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from saccade.metrics.brackets import parse_tree

FOLDER = Path(__file__).parents[2] / "examples" / "named_tasks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "named_task")


def load(name):
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(name)


def samples(name, count=300):
    chance = random.Random(1)
    return [load(name).TASK.sample(chance) for _ in range(count)]


def test_all_are_listed():
    assert NAMES == ["acceptability", "parsing", "sentence_pairs", "sets", "similarity"]


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_different_and_the_same_at_every_call(name):
    task = replace(load(name).TASK, sizes=(60, 20, 20))
    rows = task.rows()
    assert [len(rows[split]) for split in ("train", "valid", "test")] == [60, 20, 20]
    assert len({row[:-1] for of_split in rows.values() for row in of_split}) == 100
    assert all(len(row) == len(task.columns) for row in rows["test"])
    assert task.rows() == rows


@pytest.mark.parametrize("name", NAMES)
def test_a_short_training_prints_metrics_and_baselines(name, tmp_path, monkeypatch, capsys):
    """Acceptability (I3), pairs and similarity (I4), sets (I8) and parsing (I9)."""
    module = load(name)
    monkeypatch.setattr(module, "TASK", replace(module.TASK, sizes=(24, 4, 4)))
    module.TASK.main(["--steps", "2", "--out", str(tmp_path / "out")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == module.__doc__.splitlines()[0]
    assert lines[1] == f"{module.TASK.recipe}, 2 updates on 24 generated rows"
    for metric in module.TASK.metrics:
        values = [line.split() for line in lines if line.split()[:1] == [metric]]
        assert len(values) >= 2, metric  # the model and at least one baseline
        assert all(-1 <= float(value[1]) <= 25 for value in values)
    assert any(line.startswith("baseline: ") for line in lines)
    assert "predictions for unseen rows (4 were measured)" in lines
    assert (tmp_path / "out" / "run" / "model.safetensors").exists()
    if name == "sets":
        [without] = [line.split()[-1] for line in lines if line.startswith("  without positions")]
        [with_] = [line.split()[-1] for line in lines if line.startswith("  with positions")]
        assert float(without) < 1e-5 < float(with_)


LEAST = {
    "acceptability": 0.9,
    "parsing": 0.9,
    "sentence_pairs": 0.9,
    "sets": 0.9,
    "similarity": 0.85,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_is_learned_and_beats_its_baselines(name, tmp_path, capsys):
    module = load(name)
    module.TASK.main([])
    metric = module.TASK.metrics[0]
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    model, *baselines = [float(words[1]) for words in printed if words[:1] == [metric]]
    assert model >= LEAST[name]
    assert model > max(baselines) + 0.2


def test_the_verb_of_an_acceptable_sentence_agrees_with_its_subject():
    plurals = load("acceptability").VERBS.values()
    for text, label in samples("acceptability"):
        words = text.split()
        plural = any(f" {verb} " in f" {text} " for verb in plurals)
        assert (words[1].endswith("s") == plural) == (label == "acceptable")


def test_similarity_of_equal_and_different_sentences():
    parts = load("similarity").PARTS
    meaning = {word: words for _, meanings in parts for words in meanings for word in words}
    for one, other, similarity in samples("similarity"):
        pairs = zip(one.split(), other.split(), strict=True)
        same = [meaning[a] == meaning[b] for a, b in pairs if a in meaning]
        weights = [weight for weight, _ in parts]
        verb = 1  # the second part
        assert float(similarity) == pytest.approx(
            sum(weight for weight, equal in zip(weights, same, strict=True) if equal)
        )
        assert same[verb] or float(similarity) <= 3


def test_pairs_relate_as_labelled():
    module = load("sentence_pairs")
    values = {value: part for part, of_part in module.VALUES.items() for value in of_part}
    values |= dict.fromkeys(module.KINDS.values(), "who")

    def parts(text):
        return {part: value for value, part in values.items() if f" {value} " in f" {text} "}

    for premise, hypothesis, label in samples("sentence_pairs"):
        stated, claimed = parts(premise), parts(hypothesis)
        claimed.pop("who")
        if label == "contradiction":
            assert any(stated.get(part, value) != value for part, value in claimed.items())
        else:
            assert (claimed.items() <= stated.items()) == (label == "entailment")
            assert all(stated.get(part, value) == value for part, value in claimed.items())


def test_sets_hold_two_numbers_with_the_sum_as_labelled():
    for text, label in samples("sets"):
        numbers = set(map(int, text.split()))
        assert len(numbers) == 5
        assert any(21 - number in numbers for number in numbers) == (label == "yes")


def test_trees_are_over_their_sentences():
    for sentence, tree in samples("parsing"):
        assert parse_tree(tree).words == tuple(sentence.split())


def test_the_usual_tree_of_a_length_by_hand():
    train = [("a b", "(S a b )"), ("c d", "(S c d )"), ("a b", "(S (X a b ) )"), ("a", "(S a )")]
    assert load("parsing").most_frequent_shapes(train) == {2: "(S {} {} )", 1: "(S {} )"}
