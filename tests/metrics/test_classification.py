"""Metrics of labels: by hand, against scikit-learn, and with invalid items and options."""

import random
import warnings
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn
from sklearn.preprocessing import MultiLabelBinarizer

from saccade import metrics
from saccade.errors import MetricError
from saccade.metrics import (
    ClassificationMetricsConfig,
    accuracy,
    balanced_accuracy,
    best_threshold,
    class_scores,
    confusion,
    f1,
    macro_f1,
    matthews,
    micro_f1,
    paired_bootstrap,
)
from saccade.metrics.classification import (
    ONE_LABEL,
    ClassificationMetric,
    accuracy_tally,
    balanced_accuracy_tally,
    f1_tally,
    macro_f1_tally,
    matthews_tally,
    micro_f1_tally,
)
from saccade.metrics.score import scores_of

LABELS = ["calm", "happy", "sad"]
# right: 2 of 3 calm, 1 of 2 happy, 0 of 1 sad; predicted: 3 calm, 2 happy, 1 sad
REFERENCES = ["calm", "calm", "calm", "happy", "happy", "sad"]
PREDICTIONS = ["calm", "calm", "happy", "happy", "sad", "calm"]
SINGLE = [accuracy, balanced_accuracy, f1, macro_f1, micro_f1, matthews]
MANY = ["a", "b", "c", "d", "e"]

one = st.sampled_from(MANY)
several = st.frozensets(one)


def pairs(label):
    return st.lists(st.tuples(label, label), min_size=1, max_size=30)


def expected_score(score, predictions, references, **options):
    with warnings.catch_warnings():  # a single label is valid here
        warnings.simplefilter("ignore")
        return pytest.approx(float(score(references, predictions, **options)), abs=1e-12)


def require_equal_class_scores(predictions, references, right, given_, labels):
    """Compare with scikit-learn, which takes the labels as `right` and `given_`."""
    expected = sklearn.precision_recall_fscore_support(
        right, given_, labels=labels, zero_division=0
    )
    scores = class_scores(predictions, references, MANY)
    assert [score.label for score in scores] == MANY
    columns = list(zip(*(score[1:] for score in scores), strict=True))
    np.testing.assert_allclose(columns, expected, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=30))
def test_best_threshold_has_the_largest_f1(items):
    eighths, right = (np.array(column) for column in zip(*items, strict=True))
    probabilities = eighths / 8
    threshold, best = best_threshold(probabilities, right)

    def f1_above(limit):
        return sklearn.f1_score(right, probabilities > limit, zero_division=0)

    limits = [-0.01, *(np.arange(8) / 8 + 1 / 16)]
    assert best == pytest.approx(max(map(f1_above, limits)), abs=1e-12)
    if probabilities.min() > 0:
        assert f1_above(threshold) == pytest.approx(best)


def test_scores_of_one_label_by_hand():
    assert accuracy(PREDICTIONS, REFERENCES, LABELS).value == 3 / 6
    assert micro_f1(PREDICTIONS, REFERENCES, LABELS).value == 3 / 6
    balanced = balanced_accuracy(PREDICTIONS, REFERENCES, LABELS).value
    assert balanced == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    assert f1(PREDICTIONS, REFERENCES, LABELS, positive="calm").value == pytest.approx(4 / 6)
    assert f1(PREDICTIONS, REFERENCES, LABELS, positive="happy").value == pytest.approx(2 / 4)
    assert f1(PREDICTIONS, REFERENCES, LABELS, positive="sad").value == 0
    assert macro_f1(PREDICTIONS, REFERENCES, LABELS).value == pytest.approx((4 / 6 + 2 / 4) / 3)
    # (6 · 3 - (9 + 4 + 1)) / (36 - 14)
    assert matthews(PREDICTIONS, REFERENCES, LABELS).value == pytest.approx(4 / 22)


def test_confusion_equals_scikit_learn():
    table = confusion(PREDICTIONS, REFERENCES, LABELS)
    assert table.tolist() == [[2, 1, 0], [0, 1, 1], [1, 0, 0]]
    expected = sklearn.confusion_matrix(REFERENCES, PREDICTIONS, labels=LABELS)
    assert table.tolist() == expected.tolist()
    assert confusion(["sad"], ["calm"], LABELS).sum() == 1


def test_f1_of_two_labels_scores_the_second():
    predictions, references, labels = ["yes", "yes", "no"], ["yes", "no", "yes"], ["no", "yes"]
    assert f1(predictions, references, labels).value == 2 / 4
    assert f1(predictions, references, labels[::-1]).value == 0
    assert f1(predictions, references, labels, positive="no").value == 0
    assert "positive:yes" in f1(predictions, references, labels).signature


@settings(max_examples=40, deadline=None)
@given(pairs(one))
def test_scores_of_one_label_per_item_equal_scikit_learn(items):
    predictions, references = map(list, zip(*items, strict=True))
    # labels that do not occur change nothing
    assert accuracy_tally(predictions, references, MANY).of() == expected_score(
        sklearn.accuracy_score, predictions, references
    )
    assert macro_f1_tally(predictions, references, MANY).of() == expected_score(
        sklearn.f1_score, predictions, references, average="macro", zero_division=0
    )
    assert micro_f1_tally(predictions, references, MANY).of() == expected_score(
        sklearn.f1_score, predictions, references, average="micro", zero_division=0
    )
    assert balanced_accuracy_tally(predictions, references, MANY).of() == expected_score(
        sklearn.balanced_accuracy_score, predictions, references
    )
    require_equal_class_scores(predictions, references, references, predictions, MANY)
    assert matthews_tally(predictions, references, MANY).of() == expected_score(
        sklearn.matthews_corrcoef, predictions, references
    )
    assert f1_tally(predictions, references, MANY, positive="c").of() == expected_score(
        sklearn.f1_score, predictions, references, labels=["c"], average="macro", zero_division=0
    )


@settings(max_examples=40, deadline=None)
@given(pairs(several))
def test_scores_of_several_labels_per_item_equal_scikit_learn(items):
    predictions, references = map(list, zip(*items, strict=True))
    columns = MultiLabelBinarizer(classes=MANY).fit(references)
    given_, right = columns.transform(predictions), columns.transform(references)
    assert accuracy_tally(predictions, references, MANY).of() == expected_score(
        sklearn.accuracy_score, given_, right
    )
    assert micro_f1_tally(predictions, references, MANY).of() == expected_score(
        sklearn.f1_score, given_, right, average="micro", zero_division=0
    )
    assert f1_tally(predictions, references, MANY, positive="b").of() == expected_score(
        sklearn.f1_score, given_[:, 1], right[:, 1], zero_division=0
    )
    require_equal_class_scores(predictions, references, right, given_, range(len(MANY)))
    occurring = np.flatnonzero(given_.any(0) | right.any(0))
    expected = (
        expected_score(
            sklearn.f1_score, given_, right, labels=occurring, average="macro", zero_division=0
        )
        if len(occurring)
        else 0
    )
    assert macro_f1_tally(predictions, references, MANY).of() == expected


def test_several_labels_by_hand():
    predictions = [{"calm", "happy"}, {"sad"}, set()]
    references = [{"calm", "happy"}, {"sad", "calm"}, set()]
    assert accuracy(predictions, references, LABELS).value == pytest.approx(2 / 3)
    assert micro_f1(predictions, references, LABELS).value == pytest.approx(2 * 3 / 7)
    assert macro_f1(predictions, references, LABELS).value == pytest.approx((2 / 3 + 1 + 1) / 3)
    assert "labels:several" in accuracy(predictions, references, LABELS).signature


def test_scores_without_predicted_and_right_labels():
    nothing = [set(), set()]
    assert accuracy(nothing, nothing, LABELS).value == 1
    assert micro_f1(nothing, nothing, LABELS).value == 0
    assert macro_f1(nothing, nothing, LABELS).value == 0
    assert f1(["calm"], ["calm"], LABELS, positive="sad").value == 0


def test_matthews_is_zero_if_one_side_is_constant():
    assert matthews(["sad"] * 4, REFERENCES[:4], LABELS).value == 0
    assert matthews(PREDICTIONS[:3], REFERENCES[:3], LABELS).value == 0
    assert matthews(["sad"], ["sad"], LABELS).value == 0
    assert matthews(REFERENCES, REFERENCES, LABELS).value == pytest.approx(1)
    assert matthews(["no", "yes"], ["yes", "no"], ["yes", "no"]).value == pytest.approx(-1)


@pytest.mark.parametrize(
    "count",
    [
        accuracy_tally,
        balanced_accuracy_tally,
        f1_tally,
        macro_f1_tally,
        micro_f1_tally,
        matthews_tally,
    ],
)
def test_tallies_are_additive_and_small(count):
    generator = random.Random(3)
    labels = [f"label {i}" for i in range(101)]
    predictions, references = generator.choices(labels, k=47), generator.choices(labels, k=47)
    options = {"positive": "label 5"} if count is f1_tally else {}
    tally = count(predictions, references, labels, **options)
    assert tally.counts.shape[1] <= 2 * len(labels) + 1
    some = [3, 5, 7, 7, 40]
    again = count([predictions[i] for i in some], [references[i] for i in some], labels, **options)
    assert tally.of(some) == pytest.approx(again.of())


@pytest.mark.parametrize("metric", SINGLE)
def test_scores_have_name_direction_signature_and_interval(metric):
    options = {"positive": "happy"} if metric is f1 else {}
    score = metric(PREDICTIONS, REFERENCES, LABELS, samples=40, **options)
    assert score.name == metric.__name__
    assert score.higher_is_better
    assert score.signature.startswith("nrefs:1|bs:40|seed:12345|classes:3|labels:one")
    low, high = score.interval
    assert low <= score.value <= high
    bare = metric(PREDICTIONS, REFERENCES, LABELS, samples=0, **options)
    assert bare.interval is None
    assert bare.signature.startswith("nrefs:1|classes:3|")


def scores_by(config, *items):
    return scores_of(config.tally(*items), config.samples, config.seed)


def scores_by_sets(config, *items):
    return scores_of(config.tally_several(*items), config.samples, config.seed)


def test_the_default_is_accuracy_and_macro_f1():
    scores = scores_by(ClassificationMetricsConfig(), PREDICTIONS, REFERENCES, LABELS)
    assert list(scores) == ["accuracy", "macro_f1"]
    assert scores["accuracy"] == accuracy(PREDICTIONS, REFERENCES, LABELS)
    assert scores["macro_f1"] == macro_f1(PREDICTIONS, REFERENCES, LABELS)


@pytest.mark.parametrize("name", get_args(ClassificationMetric))
def test_each_name_selects_the_function_of_that_name(name):
    config = ClassificationMetricsConfig(names=(name,), positive="sad", samples=20, seed=3)
    options = {"positive": "sad"} if name == "f1" else {}
    [(key, score)] = scores_by(config, PREDICTIONS, REFERENCES, LABELS).items()
    assert key == score.name == name
    count = getattr(metrics, name)
    assert score == count(PREDICTIONS, REFERENCES, LABELS, samples=20, seed=3, **options)
    if name not in ONE_LABEL:
        predictions, references = [{a, "sad"} for a in PREDICTIONS], [{r} for r in REFERENCES]
        [(key, score)] = scores_by_sets(config, predictions, references, LABELS).items()
        assert key == score.name == name
        assert score == count(predictions, references, LABELS, samples=20, seed=3, **options)


def test_sets_of_one_label_score_like_single_labels():
    config = ClassificationMetricsConfig(names=("accuracy", "macro_f1", "micro_f1"), samples=0)
    as_sets = scores_by_sets(config, [{a} for a in PREDICTIONS], [{r} for r in REFERENCES], LABELS)
    for name, score in scores_by(config, PREDICTIONS, REFERENCES, LABELS).items():
        assert as_sets[name].value == score.value


def test_two_systems_can_be_compared():
    config = ClassificationMetricsConfig(names=("accuracy", "macro_f1", "matthews"))
    right, wrong = (
        config.tally(a, REFERENCES * 5, LABELS) for a in (REFERENCES * 5, PREDICTIONS * 5)
    )
    for name, tally in right.items():
        difference = paired_bootstrap(tally.counts, wrong[name].counts, tally.value, samples=100)
        assert difference.difference > 0
        assert difference.p_value < 0.05


@pytest.mark.parametrize("metric", SINGLE)
@pytest.mark.parametrize(
    ("predictions", "references", "labels", "message"),
    [
        (["a"], ["a", "b"], ["a", "b"], "got 1 predictions and 2 references"),
        ([], [], ["a", "b"], "got 0 predictions and 0 references"),
        (["a", "x"], ["a", "b"], ["a", "b"], "prediction of item 1 has the label 'x'.*'a', 'b'"),
        (["a", "b"], ["y", "b"], ["a", "b"], "reference of item 0 has the label 'y'"),
        (["a"], ["a"], ["a", "a"], "distinct, at least 1; got 'a', 'a'"),
    ],
)
def test_raises_on_invalid_items(metric, predictions, references, labels, message):
    with pytest.raises(MetricError, match=message):
        metric(predictions, references, labels)


def test_raises_without_labels():
    with pytest.raises(MetricError, match="got none"):
        accuracy(["a"], ["a"], [])
    with pytest.raises(MetricError, match=r"'0', .*'11' and 18 more"):
        accuracy(["a"], ["a"], [str(i) for i in range(30)])


def test_raises_if_f1_has_no_label():
    config = ClassificationMetricsConfig(names=("f1",), samples=0)
    with pytest.raises(MetricError, match=r"there are 3 \('calm', .*choose one with positive"):
        scores_by(config, PREDICTIONS, REFERENCES, LABELS)
    with pytest.raises(MetricError, match="choose one with positive, or use macro_f1"):
        config.check(LABELS)
    config.check(["no", "yes"])
    with pytest.raises(MetricError, match="no default; choose it with positive"):
        scores_by_sets(config, [{"no"}], [{"no"}], ["no", "yes"])
    unknown = ClassificationMetricsConfig(names=("f1",), positive="glad", samples=0)
    with pytest.raises(MetricError, match=r"one of the labels \('calm', .*got 'glad'"):
        scores_by(unknown, PREDICTIONS, REFERENCES, LABELS)


def test_raises_on_matthews_for_several_labels():
    config = ClassificationMetricsConfig(names=("accuracy", "matthews"), samples=0)
    with pytest.raises(MetricError, match=r"one label per item.*remove it from names"):
        scores_by_sets(config, [{"calm"}], [{"calm"}], LABELS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ()}, "at least 1; got none"),
        ({"names": ("f1", "f1")}, "got 'f1', 'f1'"),
        ({"samples": -1}, "got -1"),
        ({"seed": -2}, "and -2"),
    ],
)
def test_raises_on_invalid_options(options, message):
    with pytest.raises(MetricError, match=message):
        ClassificationMetricsConfig(**options)
