"""Labels: one, several or a number, from a column of texts to a loss and to predictions."""

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from saccade.data import sources
from saccade.data.corpus import Item
from saccade.errors import DataError, MetricError, RunError
from saccade.metrics import ClassificationMetricsConfig
from saccade.tasks._shared.labels import (
    Classes,
    LabelsConfig,
    Number,
    Several,
    learn_labels,
    read_labels,
)
from saccade.tasks.text_classification import LABEL, PAIR, TEXT

METRICS = ClassificationMetricsConfig(samples=0)


def split(folder, labels):
    path = folder / "train.tsv"
    path.write_text("text\tlabel\n" + "".join(f"text {i}\t{x}\n" for i, x in enumerate(labels)))
    return sources.open_corpus(path, (TEXT, PAIR, LABEL), held_out=0.0).splits["train"]


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
    assert json.loads(json.dumps(answer.to_dict()))["label"] == "yes"


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
    assert (answer.text, answer.to_dict()["label"]) == ("4.0000", 4.0)
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
    temperature, message = Classes(["a", "b", "c"]).calibrate(honest * 3, truth)
    assert temperature == pytest.approx(3, rel=0.1)
    before, after = (
        float(part.strip("(% "))
        for part in (message.split("was ")[1][:4], message.split(" is ")[1][:3])
    )
    assert after < 3 < before


def test_sigmoids_are_calibrated_too():
    torch.manual_seed(0)
    honest = torch.randn(3000, 2) * 2
    truth = (torch.rand(3000, 2) < honest.sigmoid()).float()
    temperature, message = Several(["a", "b"], ",").calibrate(honest * 0.5, truth)
    assert temperature == pytest.approx(0.5, rel=0.1)
    assert "6,000 validation labels" in message


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
    for labels in (Classes(["ä", "b"]), Several(["x"], "|"), Number(1.5, 2.0)):
        (tmp_path / "labels.json").write_text(json.dumps(labels.facts()))
        assert read_labels(tmp_path).facts() == labels.facts()
        assert read_labels(tmp_path).digest == labels.digest
    (tmp_path / "labels.json").write_text("{")
    with pytest.raises(RunError, match=r"labels.json cannot be read"):
        read_labels(tmp_path)
