"""Labels: one, several or a number, from a column of texts to a loss and to predictions."""

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.utils.class_weight import compute_class_weight

from saccade.data import sources
from saccade.data.corpus import Item
from saccade.errors import DataError, MetricError, RecipeError, RunError
from saccade.metrics import ClassificationMetricsConfig, fit_temperature_of_sigmoids
from saccade.tasks._shared.labels import (
    Classes,
    LabelCounts,
    LabelsConfig,
    Number,
    Several,
    calibration_sentence,
    count_labels,
    learn_labels,
    read_labels,
)
from saccade.tasks.text_classification import LABEL, PAIR, TEXT

METRICS = ClassificationMetricsConfig(samples=0)


def split(folder, labels):
    path = folder / "train.tsv"
    path.write_text("text\tlabel\n" + "".join(f"text {i}\t{x}\n" for i, x in enumerate(labels)))
    return sources.open_corpus(path, (TEXT, PAIR, LABEL), valid_fraction=0.0).splits["train"]


def learned(folder, labels, **options):
    return learn_labels(split(folder, labels), LabelsConfig(**options))


@pytest.mark.parametrize(
    ("labels", "kind", "facts"),
    [
        (["b", "a ", "b"], "one", {"names": ["a", "b"]}),
        (["10", "9", "2", "2"], "one", {"names": ["2", "9", "10"]}),
        (["1.0", "2.0"], "one", {"names": ["1.0", "2.0"]}),
        (["1.5", "3", "4.5"], "number", {"mean": 3.0, "scale": math.sqrt(1.5)}),
        (["1e-1", "0.3"], "number", {"mean": 0.2, "scale": 0.1}),
        (["1.5", "x"], "one", {"names": ["1.5", "x"]}),
        (["yes", "", "no"], "one", {"names": ["no", "yes"]}),
    ],
)
def test_the_kind_of_labels_is_inferred_from_data(tmp_path, labels, kind, facts):
    result = learned(tmp_path, labels)
    assert result.kind == kind
    for name, value in facts.items():
        assert result.facts()[name] == (pytest.approx(value) if kind == "number" else value)


def test_the_kind_of_labels_can_be_configured(tmp_path):
    assert learned(tmp_path, ["1", "2"], kind="number").kind == "number"
    assert learned(tmp_path, ["1.5", "2"], kind="one").facts()["names"] == ["1.5", "2"]
    several = learned(tmp_path, ["b;a", "", " c ; a"], kind="several", separator=";")
    assert several.facts()["names"] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["a", "a"], {}, "at least two different labels; train has 'a'"),
        (["1.5", "nan"], {}, ":3: the label must be a finite number, got nan"),
        (["1.5", "inf"], {}, ":3: the label must be a finite number, got inf"),
        (["1", "x"], {"kind": "number"}, ":3: the label must be a number, got 'x'"),
        (["", ""], {"kind": "several"}, "no row has a label"),
    ],
)
def test_raises_on_invalid_labels(tmp_path, labels, options, message):
    with pytest.raises(DataError, match=message):
        learned(tmp_path, labels, **options)


def test_raises_on_too_many_classes(tmp_path):
    with pytest.raises(DataError, match="10,001 different labels"):
        learned(tmp_path, [f"label {i}" for i in range(10_001)])


def encoded(labels, texts):
    return labels.decode([np.array(labels.encode(text, "here")) for text in texts])


def test_classes_round_trip():
    labels = Classes(["no", "yes"])
    truth = encoded(labels, ["yes", " no", "yes"])
    assert truth.tolist() == [1, 0, 1]
    logits = torch.tensor([[0.0, 2.0], [1.0, 0.0], [3.0, 0.0]])
    expected = F.cross_entropy(logits, truth, reduction="sum", label_smoothing=0.1)
    assert torch.equal(labels.loss(logits, truth, 0.1), expected)
    answer = labels.answer(logits[:1], 2.0)
    share = math.exp(1) / (1 + math.exp(1))
    assert (answer.label, answer.text) == ("yes", "yes")
    assert answer.probabilities == pytest.approx({"no": 1 - share, "yes": share})
    assert answer.score == pytest.approx(math.log(share))
    assert json.loads(json.dumps(answer.as_json()))["label"] == "yes"


def test_distances_are_symmetric_divergences():
    one, other = torch.randn(3, 4), torch.randn(3, 4)
    p, q = one.log_softmax(-1), other.log_softmax(-1)
    both = [F.kl_div(a, b, log_target=True, reduction="sum") for a, b in ((p, q), (q, p))]
    assert Classes("abcd").distance(one, other).item() == pytest.approx(float(sum(both)) / 2)
    yes = [torch.stack((x, torch.zeros(3, 4)), -1).log_softmax(-1) for x in (one, other)]
    both = [F.kl_div(a, b, log_target=True, reduction="sum") for a, b in (yes, yes[::-1])]
    assert Several("abcd", ",").distance(one, other).item() == pytest.approx(float(sum(both)) / 8)
    numbers = Number(mean=3.0, scale=2.0)
    assert numbers.distance(one[:, :1], one[:, :1] + 2).item() == pytest.approx(12)
    for labels in (Classes("abcd"), Several("abcd", ","), numbers):
        assert labels.distance(one, one) == 0


def test_probabilities_of_windows_are_averaged():
    labels = Classes(["a", "b"])
    sure, unsure = torch.tensor([9.0, 0.0]), torch.tensor([0.0, 0.5])
    answer = labels.answer(torch.stack((sure, unsure)), 1.0)
    expected = (sure.softmax(0) + unsure.softmax(0)) / 2
    assert answer.probabilities["a"] == pytest.approx(float(expected[0]), abs=1e-6)


def test_several_labels_round_trip():
    labels = Several(["a", "b", "c"], ",")
    truth = encoded(labels, ["c, a", "", "b"])
    assert truth.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    logits = torch.randn(3, 3)
    expected = F.binary_cross_entropy_with_logits(logits, truth, reduction="sum") / 3
    torch.testing.assert_close(labels.loss(logits, truth, 0.0), expected)
    answer = labels.answer(torch.tensor([[4.0, -4.0, 1.0]]), 1.0)
    assert answer.text == "a,c"
    assert answer.probabilities["b"] == pytest.approx(1 / (1 + math.exp(4)))
    assert labels.answer(torch.full((1, 3), -1.0), 1.0).text == ""
    scores = labels.tally(["a,c", ""], ["a,c", "b"], ClassificationMetricsConfig())
    assert scores["accuracy"].of() == 0.5


def test_numbers_round_trip():
    labels = Number(3.0, 2.0)
    truth = encoded(labels, ["3.25", "-1e3", "0"])
    assert truth.tolist() == [3.25, -1000.0, 0.0]
    logits = torch.tensor([[0.125], [0.0], [0.0]])
    assert labels.loss(logits[:1], truth[:1], 0.0) == 0
    answer = labels.answer(torch.tensor([[0.5]]), 1.0)
    assert (answer.text, answer.as_json()) == ("4.0000", {"label": 4.0})
    tallies = labels.tally(["1.0", "2.0"], ["1", "4"], METRICS)
    assert tallies["mean_squared_error"].of() == 2.0
    assert labels.selection_metric(METRICS) in tallies


def test_raises_on_an_unknown_label_and_lists_the_known_ones():
    with pytest.raises(DataError, match=r"t.tsv:7: the label 'may be' .* data: no, yes"):
        Classes(["no", "yes"]).encode("may be", "t.tsv:7")
    with pytest.raises(DataError, match="'d' was not in the training data"):
        Several(["a", "b"], ",").encode("a,d", "here")


def test_raises_on_metrics_that_do_not_fit_the_labels():
    f1 = ClassificationMetricsConfig(names=("f1",))
    Classes(["a", "b"]).check(f1)
    with pytest.raises(MetricError, match="f1"):
        Classes(["a", "b", "c"]).check(f1)
    with pytest.raises(MetricError, match="matthews"):
        Several(["a", "b"], ",").check(ClassificationMetricsConfig(names=("matthews",)))


def test_calibration_finds_the_temperature():
    torch.manual_seed(0)
    honest = torch.randn(4000, 3) * 2
    truth = torch.multinomial(honest.softmax(-1), 1).squeeze(1)
    calibration = Classes(["a", "b", "c"]).calibrate(honest * 3, truth)
    assert calibration.temperature == pytest.approx(3, rel=0.1)
    assert calibration.error_after < 0.03 < calibration.error_before
    sentence = calibration_sentence(calibration)
    assert "divided by a temperature of " in sentence
    assert "4,000 validation labels" in sentence


def test_sigmoids_are_calibrated_too():
    torch.manual_seed(0)
    honest = torch.randn(3000, 2) * 2
    truth = (torch.rand(3000, 2) < honest.sigmoid()).float()
    calibration = Several(["a", "b"], ",").calibrate(honest * 0.5, truth)
    assert calibration.temperature == pytest.approx(0.5, rel=0.1)
    exact = fit_temperature_of_sigmoids(honest.double().numpy() * 0.5, truth.bool().numpy())
    assert calibration.fitted == pytest.approx(exact, rel=1e-6)
    assert calibration.labels == 6000


def test_a_temperature_that_makes_the_error_worse_is_not_applied():
    torch.manual_seed(2)
    honest = torch.randn(120, 3) * 2
    truth = torch.multinomial(honest.softmax(-1), 1).squeeze(1)
    calibration = Classes(["a", "b", "c"]).calibrate(honest, truth)
    assert calibration.fitted != 1.0
    assert calibration.error_after > calibration.error_before
    assert not calibration.applied
    assert calibration.temperature == 1.0
    assert "no temperature is applied" in calibration_sentence(calibration)


COUNTS = LabelCounts(100, {"a": 90, "b": 8, "c": 2})


def test_balanced_weights_equal_those_of_scikit_learn():
    y = [name for name, count in COUNTS.of.items() for _ in range(count)]
    expected = compute_class_weight("balanced", classes=np.array(["a", "b", "c"]), y=y)
    weights = Classes("abc").weights("balanced", COUNTS)
    np.testing.assert_allclose(weights, expected, rtol=1e-6)
    several = Several("abc", ",").weights("balanced", COUNTS)
    for column, name in zip(several.T, "abc", strict=True):
        expected = compute_class_weight(
            "balanced", classes=np.array([False, True]), y=np.array(y) == name
        )
        np.testing.assert_allclose(column, expected, rtol=1e-6)


def test_weights_of_a_table_have_a_mean_of_1():
    weights = Classes("abc").weights({"c": 5.0}, COUNTS)
    np.testing.assert_allclose(weights, np.array([1, 1, 5]) / (90 + 8 + 10) * 100, rtol=1e-6)
    several = Several("abc", ",").weights({"c": 5.0}, COUNTS)
    np.testing.assert_allclose(several[:, 2], np.array([1, 5]) / (98 + 10) * 100, rtol=1e-6)
    np.testing.assert_allclose(several[:, :2], 1)
    assert Classes("abc").weights("none", COUNTS) is None
    with pytest.raises(RecipeError, match=r"'d', which is not a label .* \(a, b, c\); correct"):
        Classes("abc").weights({"d": 2.0}, COUNTS)
    with pytest.raises(RecipeError, match="class_weights needs classes"):
        Number(0.0, 1.0).weights("balanced", LabelCounts(0, {}))


def test_a_label_without_rows_has_finite_weights():
    counts = LabelCounts(4, {"a": 4})
    assert torch.isfinite(Classes("ab").weights("balanced", counts)).all()
    assert torch.isfinite(Several("ab", ",").weights("balanced", counts)).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_loss_and_weights_equal_their_formula(gamma, smoothing):
    torch.manual_seed(0)
    logits, weights = torch.randn(6, 3).double(), torch.tensor([0.5, 1.0, 3.0]).double()
    truth = torch.tensor([0, 1, 2, 2, 1, 0])
    expected = 0.0
    for row, right in zip(logits.softmax(-1).tolist(), truth.tolist(), strict=True):
        for i, p in enumerate(row):
            target = (1 - smoothing) * (i == right) + smoothing / 3
            expected -= float(weights[right]) * target * (1 - p) ** gamma * math.log(p)
    loss = Classes("abc").loss(logits, truth, smoothing, gamma=gamma, weights=weights)
    assert loss.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_loss_of_several_labels_equals_its_formula(gamma):
    torch.manual_seed(0)
    logits, weights = torch.randn(5, 2).double(), torch.tensor([[0.5, 1.0], [3.0, 2.0]]).double()
    truth = torch.randint(2, (5, 2)).double()
    p = torch.where(truth > 0, logits.sigmoid(), 1 - logits.sigmoid())
    alpha = torch.where(truth > 0, weights[1], weights[0])
    expected = -(alpha * (1 - p) ** gamma * p.log()).sum() / 2  # Lin et al. 2017, equation 5
    loss = Several("ab", ",").loss(logits, truth, gamma=gamma, weights=weights)
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("labels", [Classes("ab"), Several("ab", ",")])
def test_focal_loss_has_a_finite_gradient_where_the_model_is_sure(labels):
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    truth = torch.tensor([0]) if labels.kind == "one" else torch.tensor([[1.0, 0.0]])
    for gamma in (0.5, 1.0, 2.0):
        labels.loss(logits, truth, gamma=gamma).backward()
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("labels", [Classes("abc"), Several("abc", ",")])
def test_weighted_losses_of_parts_add_up(labels):
    torch.manual_seed(0)
    logits, weights = torch.randn(8, 3), labels.weights("balanced", COUNTS)
    truth = encoded(labels, "abcaabca")
    whole = labels.loss(logits, truth, gamma=1.0, weights=weights)
    parts = [
        labels.loss(logits[i : i + 3], truth[i : i + 3], gamma=1.0, weights=weights)
        for i in (0, 3, 6)
    ]
    torch.testing.assert_close(sum(parts), whole)


def test_thresholds_are_those_of_the_best_f1():
    torch.manual_seed(0)
    labels = Several(["often", "never"], ",")
    truth = torch.stack((torch.rand(400) < 0.3, torch.rand(400) < 0.01), -1).float()
    logits = torch.randn(400, 2) + 2 * truth - 3  # too careful: most are below one half
    sentence = labels.choose_thresholds(logits, truth)
    assert 0 < labels.thresholds["often"] < 0.3
    assert labels.thresholds["never"] == 0.5
    assert "thresholds of 1 of 2 labels" in sentence
    assert "too few validation examples for 1 of them" in sentence
    p = float(torch.tensor(-0.5).sigmoid())
    assert labels.thresholds["often"] < p < 0.5
    answer = labels.answer(torch.tensor([[-0.5, -4.0]]), 1.0)
    assert answer.labels == ("often",)
    assert str(answer) == "often  38 %"
    assert answer.confidence == pytest.approx(p * (1 - 1 / (1 + math.exp(4))))


def test_confidence_is_shown_in_per_cent():
    labels = Classes(["no", "yes"])
    answer = labels.answer(torch.tensor([[0.0, 1.0]]), 1.0)
    assert str(answer) == "yes  73 %"
    assert answer.as_json()["confidence"] == pytest.approx(math.exp(answer.score))
    assert str(labels.answer(torch.tensor([[0.0, 9.0]]), 1.0)) == "yes  > 99 %"
    several = Several(["a", "b", "c"], ",")
    assert str(several.answer(torch.tensor([[1.0, -2.0, 2.0]]), 1.0)) == "a  73 %, c  88 %"
    assert str(several.answer(torch.full((1, 3), -1.0), 1.0)) == "(no label)"
    number = Number(3.0, 2.0).answer(torch.tensor([[0.5]]), 1.0)
    assert (str(number), number.confidence) == ("4.0000", None)


def test_remark_if_one_class_makes_accuracy_meaningless():
    labels = Classes(["ok", "rare"])
    truths = ["ok"] * 19 + ["rare"]
    [remark] = labels.remarks(["ok"] * 20, truths)
    assert "95.0 % of the labels are 'ok'" in remark
    assert "balanced accuracy (50.0 %)" in remark
    assert labels.remarks(["ok"] * 5, ["ok"] * 4 + ["rare"]) == []


def test_tables_show_confusions_and_mistakes():
    labels = Classes(["no", "yes"])
    items = [Item((f"text {i}",), (truth,), i) for i, truth in enumerate(["yes", "no", "yes"])]
    logits = torch.tensor([[0.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
    answers = [labels.answer(row[None], 1.0) for row in logits]
    tables = labels.tables(items, answers)
    assert tables["Confusions"] == [
        {"right": "no", "answered no": 0, "answered yes": 1},
        {"right": "yes", "answered no": 1, "answered yes": 1},
    ]
    mistakes = tables["The most confident mistakes"]
    assert [row["input"] for row in mistakes] == ["text 1", "text 2"]


def test_labels_round_trip_through_their_file(tmp_path):
    kinds = (
        Classes(["ä", "b"]),
        Several(["x"], "|"),
        Several(["x", "y"], "|", {"y": 0.25}),
        Number(1.5, 2.0),
    )
    for labels in kinds:
        (tmp_path / "labels.json").write_text(json.dumps(labels.facts()))
        assert read_labels(tmp_path).facts() == labels.facts()
        assert read_labels(tmp_path).digest == labels.digest
    (tmp_path / "labels.json").write_text("{")
    with pytest.raises(RunError, match=r"labels.json cannot be read"):
        read_labels(tmp_path)
    assert Several(["x"], "|", {"x": 0.25}).digest == Several(["x"], "|").digest


def test_rows_of_each_label_are_counted(tmp_path):
    one = split(tmp_path, ["b", "a ", "b", ""])
    assert count_labels(one, Classes("ab")) == LabelCounts(3, {"a": 1, "b": 2})
    several = split(tmp_path, ["b,a", "", "a,a"])
    assert count_labels(several, Several("ab", ",")) == LabelCounts(3, {"a": 2, "b": 1})
    assert count_labels(one, Number(0.0, 1.0)) == LabelCounts(0, {})
