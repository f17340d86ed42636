"""Scores of given outputs, against the loss of the task and the model's own predictions."""

import math

import numpy as np
import pytest
import torch

from saccade.attention import Attend, Dot
from saccade.errors import DecodingError, WatchError
from saccade.lens.record import AttentionRecord, Side
from saccade.tasks import ScoredAnswer, TokenScore, likelihood
from saccade.tasks._shared.labels import Number, Several
from saccade.tasks._shared.scoring import attention_toward, scored_answer
from tests.tiny_recipes import tiny

WRITERS = ["transformer-tiny", "rnn-attention", "caption-attention", "vector-captioner"]
LABELLERS = ["bert-mini", "vit-tiny", "vector-classifier", "cnn-attention"]
EVIL = "<img src=x onerror=alert(1)>"


def reference(item):
    return item.references[0]


@pytest.mark.parametrize("name", [*WRITERS, *LABELLERS, "transformer-tagger"])
def test_the_confidence_is_the_likelihood_of_the_output(name):
    small = tiny(name)
    outputs = list(map(reference, small.items))
    scored = small.task.score(small.questions(), outputs)
    for given, output, answer in zip(small.questions(), outputs, scored, strict=True):
        expected = likelihood(small.task, given, output)
        assert answer.text == output
        assert answer.confidence == pytest.approx(expected, rel=1e-4)
        assert answer.score == pytest.approx(math.log(expected), rel=1e-4, abs=1e-5)
        mean = np.mean([math.log(token.probability) for token in answer.token_scores])
        assert mean == pytest.approx(answer.score, rel=1e-4)
        for token in answer.token_scores:
            assert 0 < token.probability <= 1
            assert token.probability <= token.best_probability or "⁇" in token.text
            assert token.text != token.best or token.probability == token.best_probability


@pytest.mark.parametrize("name", WRITERS)
def test_greedy_predictions_have_the_most_probable_tokens(name):
    small = tiny(name)
    answers = small.task.predict(small.questions(), beam=1, max_length=6)
    scored = small.task.score(small.questions(), [answer.text for answer in answers])
    for answer, one in zip(answers, scored, strict=True):
        ids = small.task.target.encode(answer.text)
        if list(answer.tokens) != ids:  # an untrained model may write control tokens
            continue
        *written, stop = one.token_scores
        assert all(token.text == token.best for token in written)
        assert stop.text == "</s>"


def test_a_continuation_is_scored_without_its_prompt():
    small = tiny("gpt-char")
    [answer] = small.task.score(["ash b"], ["ay"])
    assert "".join(token.text for token in answer.token_scores) == "ay"
    assert answer.confidence == pytest.approx(likelihood(small.task, "ash b", "ay"), rel=1e-4)
    [nothing] = small.task.score(["ash b"], [""])
    assert (nothing.token_scores, nothing.confidence) == ((), None)


def test_the_filling_of_a_hole_is_scored():
    small = tiny("bert-mini-masked", "text.vocabulary.kind=word")
    [answer] = small.task.score(["ash [MASK] cot"], ["ash bay cot"])
    [token] = answer.token_scores
    assert token.text.strip("▁") == "bay"
    assert answer.confidence == pytest.approx(token.probability)


@pytest.mark.parametrize("name", ["transformer-tiny", "caption-attention", "gpt-char"])
def test_attention_moves_with_the_output(name):
    small = tiny(name)
    given = small.questions()[0]
    outputs = ["red ash", "bay page"]
    one, other = small.task.score([given, given], outputs, attention=True)
    assert one.attention.wrote.words != other.attention.wrote.words
    again = small.task.records([given], outputs[:1])[0]
    for layer, weights in one.attention.weights.items():
        np.testing.assert_allclose(weights, again.weights[layer], atol=1e-5)


@pytest.mark.parametrize("name", ["bert-mini", "vit-tiny", "cnn-attention", "vector-classifier"])
def test_attention_speaks_for_the_label(name):
    small = tiny(name)
    given = small.questions()[0]
    labels = small.task.labels.names[:2]
    records = [answer.attention for answer in small.task.score([given] * 2, labels, attention=True)]
    looked = small.task.predict([given], attention=True)[0].attention
    assert all(p.grad is None for p in small.task.parameters())
    for record in records:
        assert record.layers == looked.layers
        for layer, weights in record.weights.items():
            assert weights.shape == looked.weights[layer].shape
            assert weights.min() >= 0
            assert weights.sum(-1).max() == pytest.approx(1, abs=1e-5) or weights.max() == 0
    assert any((records[0].weights[x] != records[1].weights[x]).any() for x in looked.layers)


def test_attention_toward_an_output_is_the_weight_times_its_slope():
    """With one query, the loss falls by a key's value, so the effect of its weight is known."""

    class Reader(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attend = Attend(Dot())

        def forward(self, values):
            return self.attend(torch.zeros(1, 1, 2), torch.zeros(1, 3, 2), values)

    values = torch.tensor([[[1.0], [3.0], [-2.0]]], requires_grad=True)
    reader = Reader()
    side = Side.of_words(["a", "b", "c"])
    record = AttentionRecord(side, Side.of_words(["q"]), {"": np.full((1, 1, 3), 1 / 3, "f")})
    toward = attention_toward(record, reader, lambda: -reader(values).sum())
    np.testing.assert_allclose(toward.weights[""][0, 0], [0.25, 0.75, 0.0], atol=1e-6)


def test_several_labels_are_scored_by_what_holds_and_what_does_not():
    scores = Several(["x", "y"], ",").label_scores({"x": 0.9, "y": 0.2}, "y")
    assert [tuple(score) for score in scores] == [
        ("not x", pytest.approx(0.1), "x", 0.9),
        ("y", 0.2, "not y", 0.8),
    ]


def test_wrong_inputs_are_errors():
    translator, classifier = tiny("transformer-tiny"), tiny("bert-mini")
    with pytest.raises(DecodingError, match="got 1 inputs and 2 outputs"):
        translator.task.score(["ash"], ["ash", "bay"])
    with pytest.raises(DecodingError, match="put it into a list"):
        translator.task.score(["ash"], "ash")
    with pytest.raises(DecodingError, match="must be a label of this model"):
        classifier.task.score(["ash"], ["nothing of that kind"])
    with pytest.raises(WatchError):
        tiny("rnn").task.score(["ash"], ["bay"], attention=True)


def test_a_blank_input_has_no_scores():
    [answer] = tiny("transformer-tiny").task.score([" "], ["bay"], attention=True)
    assert isinstance(answer, ScoredAnswer)
    assert (answer.text, answer.token_scores, answer.attention) == ("bay", (), None)


def test_numbers_cannot_be_scored():
    with pytest.raises(DecodingError, match="number"):
        Number(0.0, 1.0).label_scores({}, "1.5")


def test_a_notebook_shows_tokens_and_what_would_be_more_probable():
    tokens = [TokenScore(EVIL, 0.25, EVIL + "b", 0.5), TokenScore("</s>", 0.5, "</s>", 0.5)]
    html = scored_answer(EVIL, tokens)._repr_html_()
    assert "<img" not in html
    assert "25.0 %" in html
    assert html.count("instead of") == 1
    assert scored_answer("", ()).to_dict()["tokens"] == []
