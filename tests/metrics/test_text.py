"""BLEU, chrF and TER are sacreBLEU's own numbers, with its signature and its interval."""

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
from tests.metrics.corpora import ragged, sentences, worse

TRUTH = sentences(23)
ANSWERS = worse(TRUTH, 0.3)
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


@pytest.mark.parametrize(("ours", "options", "theirs", "their_options"), VARIANTS)
@pytest.mark.parametrize("references", [[[text] for text in TRUTH], ragged(TRUTH)], ids=len)
def test_parity_with_sacrebleu(ours, options, theirs, their_options, references):
    metric = theirs(**their_options)
    expected = metric.corpus_score(ANSWERS, list(zip_longest(*references)), n_bootstrap=80)
    found = ours(ANSWERS, references, samples=80, **options)
    assert 0 < found.value == pytest.approx(expected.score, abs=1e-9)
    assert found.signature == str(metric.get_signature())
    assert "bs:80|seed:12345" in found.signature
    low, high = found.interval
    assert low < found.value < high
    assert (high - low) / 2 == pytest.approx(expected._ci, abs=1e-3)  # theirs in 32 bits
    assert found.higher_is_better == (ours is not ter)


def test_the_signature_tells_of_ragged_references_and_of_no_resampling():
    assert bleu(ANSWERS, ragged(TRUTH), samples=0).signature.startswith("nrefs:var|case:mixed")
    plain = bleu(ANSWERS, [[text, text] for text in TRUTH], samples=0)
    assert plain.signature.startswith("nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert plain.interval is None


def test_the_same_as_the_command_line(tmp_path):
    for name, lines in (("ref", TRUTH), ("hyp", ANSWERS)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-m", "bleu", "chrf", "ter"]
    said = subprocess.run(
        [*command, "--score-only", "--width", "6"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    numbers = [float(part) for part in said.stdout.replace(",", " ").strip("[] \n").split()]
    references = [[text] for text in TRUTH]
    found = [metric(ANSWERS, references, samples=0).value for metric in (bleu, chrf, ter)]
    assert found == pytest.approx(numbers, abs=1e-6)


def test_bleu_by_hand():
    """Precisions 4/5, 3/4, 2/3 and 1/2 of one sentence, brevity penalty exp(1 - 6/5)."""
    score = bleu(["a b c d x"], [["a b c d e f"]], samples=0)
    precisions = (4 / 5) * (3 / 4) * (2 / 3) * (1 / 2)
    assert score.value == pytest.approx(100 * math.exp(1 - 6 / 5) * precisions**0.25)


def test_ter_by_hand():
    """One replacement among four words; of two references the closer, by the mean length."""
    assert ter(["a b x d"], [["a b c d"]], samples=0).value == pytest.approx(25)
    two = ter(["a b x d"], [["a b c d", "q r s t u v"]], samples=0)
    assert two.value == pytest.approx(100 * 1 / 5)


def test_a_missing_reference_is_not_an_empty_one():
    """sacreBLEU's streams are filled with None: an empty text would be a reference of length 0."""
    answers, references = ["a", "a b c d"], [["a b c d e"], ["a b c d", "a b c d e"]]
    filled = [["a b c d e", ""], references[1]]
    ours = bleu(answers, references, samples=0)
    assert ours.signature.startswith("nrefs:var")
    assert ours.value != pytest.approx(bleu(answers, filled, samples=0).value)


def test_an_empty_reference_stays_one():
    assert ter([""], [[""]], samples=0).value == 0
    assert ter(["a"], [[""]], samples=0).value == 100
    assert ter(["a"], [["", "b c"]], samples=0).value == pytest.approx(100)


@pytest.mark.parametrize("metric", [bleu, chrf, ter])
@pytest.mark.parametrize(
    ("answers", "references"),
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
def test_odd_texts_give_numbers(metric, answers, references):
    score = metric(answers * 2, references * 2, samples=3)
    assert all(math.isfinite(value) for value in (score.value, *score.interval))


texts = st.lists(st.sampled_from(["a", "b", "c", "", "é"]), max_size=4).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_any_corpus_has_numbers_in_range(items):
    answers, references = (list(part) for part in zip(*items, strict=True))
    for metric in (bleu, chrf):
        assert 0 <= metric(answers, references, samples=0).value <= 100 + 1e-9
    assert ter(answers, references, samples=0).value >= 0


@pytest.mark.parametrize("metric", [bleu, chrf, ter])
@pytest.mark.parametrize(
    ("answers", "references", "said"),
    [
        (["a"], [], "1 predictions but references for 0 items"),
        ([], [], "0 predictions"),
        (["a", "b"], [["a"], []], "item 1 has no reference"),
        (["a"], ["a b"], "item 0 are the text 'a b'"),
    ],
)
def test_what_cannot_be_measured_is_refused(metric, answers, references, said):
    with pytest.raises(MetricError, match=said):
        metric(answers, references)


def test_the_interval_depends_on_the_seed_alone():
    references = [[text] for text in TRUTH]
    once, again, other = (chrf(ANSWERS, references, seed=s, samples=50) for s in (1, 1, 2))
    assert once == again
    assert once.interval != other.interval
    assert once.value == other.value
    assert str(once).startswith("chrf|nrefs:1|bs:50|seed:1|")
