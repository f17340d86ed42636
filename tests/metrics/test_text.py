"""BLEU, chrF and TER equal those of sacreBLEU, with its signature and its interval."""

import math
import subprocess
import sys
from itertools import zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF, TER

from saccade.errors import MetricError
from saccade.metrics import bleu, chrf, ter
from tests.metrics.corpora import INVALID_ITEMS, ragged, sentences, worse

TRUTH = sentences(23)
PREDICTIONS = worse(TRUTH, 0.3)
VARIANTS = [
    (bleu, {}, BLEU, {}),
    (bleu, {"tokenize": "none"}, BLEU, {"tokenize": "none", "force": True}),
    (bleu, {"tokenize": "char"}, BLEU, {"tokenize": "char"}),
    (bleu, {"tokenize": "intl", "lowercase": True}, BLEU, {"tokenize": "intl", "lowercase": True}),
    (bleu, {"tokenize": "zh"}, BLEU, {"tokenize": "zh"}),
    (chrf, {}, CHRF, {}),
    (chrf, {"lowercase": True}, CHRF, {"lowercase": True}),
    (ter, {}, TER, {}),
    (ter, {"case_sensitive": True}, TER, {"case_sensitive": True}),
]


@pytest.mark.parametrize(("metric", "options", "sacrebleu_class", "their_options"), VARIANTS)
@pytest.mark.parametrize("references", [[[text] for text in TRUTH], ragged(TRUTH)], ids=len)
def test_scores_equal_sacrebleu(metric, options, sacrebleu_class, their_options, references):
    reference = sacrebleu_class(**their_options)
    expected = reference.corpus_score(PREDICTIONS, list(zip_longest(*references)), n_bootstrap=80)
    score = metric(PREDICTIONS, references, samples=80, **options)
    assert 0 < score.value == pytest.approx(expected.score, abs=1e-9)
    assert score.signature == str(reference.get_signature())
    assert "bs:80|seed:12345" in score.signature
    low, high = score.interval
    assert low < score.value < high
    assert (high - low) / 2 == pytest.approx(
        expected._ci, abs=1e-3
    )  # sacreBLEU computes in 32 bits
    assert score.higher_is_better == (metric is not ter)


def test_signature_shows_references_and_resampling():
    assert bleu(PREDICTIONS, ragged(TRUTH), samples=0).signature.startswith("nrefs:var|case:mixed")
    plain = bleu(PREDICTIONS, [[text, text] for text in TRUTH], samples=0)
    assert plain.signature.startswith("nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert plain.interval is None


def test_scores_equal_the_command_line_of_sacrebleu(tmp_path):
    for name, lines in (("ref", TRUTH), ("hyp", PREDICTIONS)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-m", "bleu", "chrf", "ter"]
    result = subprocess.run(
        [*command, "--score-only", "--width", "6"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    numbers = [float(part) for part in result.stdout.replace(",", " ").strip("[] \n").split()]
    references = [[text] for text in TRUTH]
    scores = [metric(PREDICTIONS, references, samples=0).value for metric in (bleu, chrf, ter)]
    assert scores == pytest.approx(numbers, abs=1e-6)


def test_bleu_by_hand():
    """Precisions 4/5, 3/4, 2/3 and 1/2 of one sentence, brevity penalty exp(1 - 6/5)."""
    score = bleu(["a b c d x"], [["a b c d e f"]], samples=0)
    precisions = (4 / 5) * (3 / 4) * (2 / 3) * (1 / 2)
    assert score.value == pytest.approx(100 * math.exp(1 - 6 / 5) * precisions**0.25)


def test_ter_by_hand():
    """One replacement among four words; with two references, over their mean length."""
    assert ter(["a b x d"], [["a b c d"]], samples=0).value == pytest.approx(25)
    two = ter(["a b x d"], [["a b c d", "q r s t u v"]], samples=0)
    assert two.value == pytest.approx(100 * 1 / 5)


def test_a_missing_reference_is_not_an_empty_one():
    """Streams of references are filled with None: an empty text would be a reference."""
    predictions, references = ["a", "a b c d"], [["a b c d e"], ["a b c d", "a b c d e"]]
    filled = [["a b c d e", ""], references[1]]
    bleu_score = bleu(predictions, references, samples=0)
    assert bleu_score.signature.startswith("nrefs:var")
    assert bleu_score.value != pytest.approx(bleu(predictions, filled, samples=0).value)


def test_an_empty_reference_counts_as_a_reference():
    assert ter([""], [[""]], samples=0).value == 0
    assert ter(["a"], [[""]], samples=0).value == 100
    assert ter(["a"], [["", "b c"]], samples=0).value == pytest.approx(100)


@pytest.mark.parametrize("metric", [bleu, chrf, ter])
@pytest.mark.parametrize(
    ("predictions", "references"),
    [
        ([""], [[""]]),
        ([""], [["a"]]),
        (["a"], [[""]]),
        (["", ""], [["", "a b"], [""]]),
        ([" "], [["\t"]]),
        (["…"], [["—"]]),
        (["e\u0301"], [["é"]]),
        (["\ud800"], [["\U0001f600"]]),
        (["a\nb"], [["a b"]]),
    ],
)
def test_scores_of_unusual_texts_are_finite(metric, predictions, references):
    score = metric(predictions * 2, references * 2, samples=3)
    assert all(math.isfinite(value) for value in (score.value, *score.interval))


texts = st.lists(st.sampled_from(["a", "b", "c", "", "é"]), max_size=4).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_scores_of_any_corpus_are_in_range(items):
    predictions, references = (list(part) for part in zip(*items, strict=True))
    for metric in (bleu, chrf):
        assert 0 <= metric(predictions, references, samples=0).value <= 100 + 1e-9
    assert ter(predictions, references, samples=0).value >= 0


@pytest.mark.parametrize("metric", [bleu, chrf, ter])
@pytest.mark.parametrize(("predictions", "references", "message"), INVALID_ITEMS)
def test_raises_on_invalid_items(metric, predictions, references, message):
    with pytest.raises(MetricError, match=message):
        metric(predictions, references)


def test_the_interval_depends_on_the_seed_alone():
    references = [[text] for text in TRUTH]
    once, again, other = (chrf(PREDICTIONS, references, seed=s, samples=50) for s in (1, 1, 2))
    assert once == again
    assert once.interval != other.interval
    assert once.value == other.value
    assert str(once).startswith("chrf|nrefs:1|bs:50|seed:1|")
