"""Metrics of captions: by hand, against other programs, and against slow implementations."""

import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from saccade.errors import MetricError
from saccade.metrics import (
    bleu_1,
    bleu_2,
    bleu_3,
    bleu_4,
    cider,
    paired_bootstrap,
    pointing,
    rouge_l,
)
from saccade.metrics.captions import caption_words, cider_tally, pointing_tally
from tests.metrics.corpora import INVALID_ITEMS, ragged, sentences, worse

BLEUS = {1: bleu_1, 2: bleu_2, 3: bleu_3, 4: bleu_4}
ALL = [*BLEUS.values(), cider, rouge_l]
TRUTH = sentences(19)
PREDICTIONS, REFERENCES = worse(TRUTH, 0.3), ragged(TRUTH)

# an example from the documentation of aac-metrics, with the scores of the usual program
SPOKEN = ["a man is speaking", "rain falls"]
HEARD = [
    [
        "a man speaks.",
        "someone speaks.",
        "a man is speaking while a bird is chirping in the background",
    ],
    ["rain is falling hard on a surface"],
]


def test_scores_equal_the_documentation_of_aac_metrics():
    assert bleu_1(SPOKEN, HEARD, samples=0).value == pytest.approx(42.78, abs=0.005)
    assert cider(SPOKEN, HEARD, samples=0).value == pytest.approx(0.9614, abs=5e-5)
    assert cider_tally(SPOKEN, HEARD).counts[:, 0] == pytest.approx([1.3641, 0.5587], abs=5e-5)


# words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A man's T-shirt (red) isn't clean.", "a man 's t-shirt red is n't clean"),
        ("They’re here;we'd   GO!", "they 're here we 'd go"),
        ("can't I'll you've I'm", "ca n't i 'll you 've i 'm"),
        ("it is 10:30, 3.5 m of 1,000 ... a,b", "it is 10:30 3.5 m of 1,000 a b"),
        ("'quoted' -- dash - end- -begin o'clock", "quoted dash end begin o'clock"),
        ("U.S. and/or $5 & snake_case #1", "u s and or 5 snake case 1"),
        ("the 'd' key, dogs' tails", "the d key dogs tails"),
        ("« Été à Łódź »\u00a0¿no?", "été à łódź no"),
        ("नमस्ते दुनिया। 今日は、世界", "नमस्ते दुनिया 今日は 世界"),
        ("a\x00b\tc\nd", "a b c d"),
        ("… ?! — 😀", ""),
        ("", ""),
    ],
)
def test_caption_words_by_hand(text, words):
    assert caption_words(text) == words.split()
    assert caption_words(words) == words.split()  # separated words stay as they are


# BLEU


@pytest.mark.parametrize("order", BLEUS)
@pytest.mark.parametrize("references", [[[text] for text in TRUTH], REFERENCES], ids=len)
def test_caption_bleu_equals_sacrebleu(order, references):
    metric = BLEU(tokenize="none", smooth_method="none", max_ngram_order=order, force=True)
    words = [" ".join(caption_words(prediction)) for prediction in PREDICTIONS]
    most = max(map(len, references))
    streams = [
        [
            " ".join(caption_words(of_item[i])) if i < len(of_item) else None
            for of_item in references
        ]
        for i in range(most)
    ]
    expected = metric.corpus_score(words, streams, n_bootstrap=60)
    score = BLEUS[order](PREDICTIONS, references, samples=60)
    assert 0 < score.value == pytest.approx(expected.score, abs=1e-9)
    low, high = score.interval
    assert (high - low) / 2 == pytest.approx(
        expected._ci, abs=1e-3
    )  # sacreBLEU computes in 32 bits
    assert f"|case:lc|tok:captions|ngram:{order}|eff:no|smooth:none|sacrebleu:" in score.signature


def test_bleu_by_hand():
    """Precisions 4/5, 3/4, 2/3 and 1/2; 5 words, the closest reference has 6."""
    predictions, references = ["A b, c d x."], [["a b c d e f", "q r s t u v w x"]]
    penalty = math.exp(1 - 6 / 5)
    precisions = [5 / 5, 3 / 4, 2 / 3, 1 / 2]  # x is in the second reference
    for order, metric in BLEUS.items():
        expected = 100 * penalty * math.prod(precisions[:order]) ** (1 / order)
        assert metric(predictions, references, samples=0).value == pytest.approx(expected)


def test_bleu_is_not_smoothed():
    """One word is right, and no two words in a row."""
    assert bleu_1(["a x"], [["a b"]], samples=0).value == pytest.approx(50)
    assert bleu_2(["a x"], [["a b"]], samples=0).value == 0


# ROUGE-L


def common_by_table(one, other):
    """Return the length of the longest common subsequence from its table, row by row."""
    row = [0] * (len(other) + 1)
    for a in one:
        before, row = row, [0]
        for j, b in enumerate(other):
            row.append(before[j] + 1 if a == b else max(before[j + 1], row[j]))
    return row[-1]


def rouge_l_by_table(one, other):
    common = common_by_table(one, other)
    precision, recall = common / max(1, len(one)), common / max(1, len(other))
    return 2.44 * precision * recall / (recall + 1.44 * precision) if common else 0.0


def rouge_l_of_words(one, other):
    return rouge_l([" ".join(one)], [[" ".join(other)]], samples=0).value


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [
        ("", "", 0),
        ("", "ab", 0),
        ("abcd", "abcd", 4),
        ("abcde", "ace", 3),
        ("ab", "ba", 1),
        ("aaa", "aa", 2),
        (["police", "killed", "the", "gunman"], ["the", "gunman", "killed", "police"], 2),
    ],
)
def test_known_common_subsequences(one, other, length):
    assert common_by_table(one, other) == common_by_table(other, one) == length
    assert rouge_l_of_words(one, other) == pytest.approx(rouge_l_by_table(one, other))


few = st.lists(st.sampled_from(["a", "b", "cat"]), max_size=80)


@settings(max_examples=150, deadline=None)
@given(few, few)
def test_rouge_l_equals_dynamic_programming(one, other):
    assert rouge_l_of_words(one, other) == pytest.approx(rouge_l_by_table(one, other))


def test_rouge_l_by_hand():
    """3 of 4 words of the prediction and 3 of 6 words of the reference are common."""
    precision, recall = 3 / 4, 3 / 6
    expected = (1 + 1.44) * precision * recall / (recall + 1.44 * precision)
    assert rouge_l(["a b x d"], [["a q b r d s"]], samples=0).value == pytest.approx(expected)
    assert rouge_l(["a b", "x"], [["A b."], ["y"]], samples=0).value == pytest.approx(1 / 2)


def test_rouge_l_uses_a_single_best_reference():
    """The best precision is with the long reference, the best recall with the short one."""
    prediction, short, long = "a b c d", "a b", "a b c q r s t u v w"
    alone = [rouge_l([prediction], [[one]], samples=0).value for one in (short, long)]
    both = rouge_l([prediction], [[short, long]], samples=0).value
    assert both == max(alone) == pytest.approx(2.44 * 0.5 * 1 / (1 + 1.44 * 0.5))


# CIDEr


def test_cider_by_hand():
    """`a` is in every item and has no weight; the rest is right, in 2 of 4 orders."""
    predictions = ["a cat", "a dog"]
    assert cider(predictions, [["a cat"], ["a dog"]], samples=0).value == pytest.approx(5)
    # the second reference of the first item has only `a` in common with the prediction
    counts = cider_tally(predictions, [["a cat", "a bird"], ["a dog"]]).counts
    assert counts.tolist() == [[pytest.approx(2.5), 1], [pytest.approx(5), 1]]


def test_cider_clips_counts_and_penalises_lengths():
    """cat cat cat against cat: min(3, 1) · 1 / (3 · 1) of order 1, two words too long."""
    scores = cider_tally(["cat cat cat", "dog"], [["cat"], ["dog"]]).counts[:, 0]
    assert scores == pytest.approx([10 / 4 / 3 * math.exp(-(2**2) / (2 * 6**2)), 10 / 4])


def test_cider_weights_rare_words():
    """In 4 items `a` is in two of them and `cat` in one: weights log 2 and log 4 = 2 log 2."""
    references = [["a cat"], ["a dog"], ["bird"], ["fish"]]
    rare, frequent = (
        cider_tally([one, "", "", ""], references).counts[0, 0] for one in ("cat", "a")
    )
    short = math.exp(-1 / 72)
    assert rare == pytest.approx(10 / 4 * 2 * 2 / (2 * math.sqrt(1 + 4)) * short)
    assert frequent == pytest.approx(10 / 4 * 1 * 1 / (1 * math.sqrt(1 + 4)) * short)


def test_cider_of_a_single_item_is_zero():
    assert cider(["a cat"], [["a cat"]], samples=0).value == 0


def cider_by_equations(predictions, references):
    """Compute CIDEr-D with vectors over all n-grams, as in the paper, but with plain counts."""

    def counts(text, order):
        words = caption_words(text)
        return Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))

    def length(text):
        return len(caption_words(text))

    scores = np.zeros(len(predictions))
    texts = [*predictions, *(one for of_item in references for one in of_item)]
    for order in (1, 2, 3, 4):
        grams = sorted(set().union(*(counts(text, order) for text in texts)))
        having = [
            sum(any(gram in counts(one, order) for one in of_item) for of_item in references)
            for gram in grams
        ]
        rarity = np.log(len(predictions) / np.maximum(having, 1))

        def vector(text, order=order, grams=grams, rarity=rarity):
            held = counts(text, order)
            return np.array([held[gram] for gram in grams]) * rarity

        for i, (prediction, of_item) in enumerate(zip(predictions, references, strict=True)):
            g = vector(prediction)
            for one in of_item:
                s = vector(one)
                norms = np.linalg.norm(g) * np.linalg.norm(s)
                apart = length(prediction) - length(one)
                if norms > 0:
                    similar = np.minimum(g, s) @ s / norms
                    scores[i] += 10 / len(of_item) * math.exp(-(apart**2) / 72) * similar / 4
    return scores


@pytest.mark.parametrize("seed", range(4))
def test_cider_equals_the_equations_of_the_paper(seed):
    truth = sentences(11, seed=seed)
    predictions, references = worse(truth, 0.25, seed=seed), ragged(truth, seed=seed)
    tally = cider_tally(predictions, references)
    assert tally.counts[:, 0] == pytest.approx(
        cider_by_equations(predictions, references), abs=1e-12
    )
    assert tally.of() == pytest.approx(tally.counts[:, 0].mean())
    assert 0.5 < tally.of() < 10


def test_cider_of_some_items_uses_the_frequencies_of_all():
    tally = cider_tally(PREDICTIONS, REFERENCES)
    assert tally.of([2, 5]) == pytest.approx(tally.counts[[2, 5], 0].mean())
    assert tally.of([2, 5]) != pytest.approx(cider_tally(PREDICTIONS[:2], REFERENCES[:2]).of())
    assert "df:corpus" in cider(PREDICTIONS, REFERENCES, samples=0).signature


def test_cider_of_perfect_captions_is_ten():
    texts = ["one two three four", "five six seven eight nine"]
    assert cider(texts, [[text] for text in texts], samples=0).value == pytest.approx(10)


# all metrics


@pytest.mark.parametrize("metric", ALL)
def test_better_predictions_score_higher(metric):
    better, same = worse(TRUTH, 0.1, seed=3), [[text] for text in TRUTH]
    most = 10 if metric is cider else 1 if metric is rouge_l else 100
    scores = [metric(texts, same, samples=0).value for texts in (PREDICTIONS, better, TRUTH)]
    assert scores == sorted(scores)
    assert scores[-1] == pytest.approx(most, rel=0.1)  # very short texts have no 4-grams


@pytest.mark.parametrize("metric", ALL)
def test_scores_have_name_direction_signature_and_interval(metric):
    score = metric(PREDICTIONS, REFERENCES, samples=40)
    assert score.name == metric.__name__
    assert score.higher_is_better
    assert score.signature.startswith("nrefs:var|bs:40|seed:12345|case:lc|tok:captions|")
    assert score.interval[0] <= score.value <= score.interval[1]
    assert metric(["a"], [["a"]], samples=0).signature.startswith("nrefs:1|case:lc")


@pytest.mark.parametrize("metric", ALL)
def test_case_punctuation_and_order_of_references_do_not_matter(metric):
    loud = [f"({text.upper()})!" for text in PREDICTIONS]
    turned = [of_item[::-1] for of_item in REFERENCES]
    before = metric(PREDICTIONS, REFERENCES, samples=0).value
    assert metric(loud, turned, samples=0).value == pytest.approx(before)


texts = st.lists(st.sampled_from(["a", "b", "c", "", "é", ".", "n't"]), max_size=5).map(" ".join)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_scores_of_any_corpus_are_in_range(items):
    predictions, references = (list(part) for part in zip(*items, strict=True))
    for metric, most in ((bleu_1, 100), (bleu_4, 100), (cider, 10), (rouge_l, 1)):
        assert 0 <= metric(predictions, references, samples=0).value <= most + 1e-9


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize(("predictions", "references", "message"), INVALID_ITEMS)
def test_raises_on_invalid_items(metric, predictions, references, message):
    with pytest.raises(MetricError, match=message):
        metric(predictions, references)


# pointing


def test_pointing_is_a_fraction_of_words_resampled_by_caption():
    generator = random.Random(0)
    words = [generator.randint(1, 4) for _ in range(60)]
    counts = np.array([(generator.randint(0, of), of) for of in words], dtype=float)
    score = pointing(counts, samples=200)
    assert score.value == pytest.approx(counts[:, 0].sum() / counts[:, 1].sum())
    assert score.interval[0] < score.value < score.interval[1]
    assert pointing(np.array([[2.0, 2.0], [1.0, 1.0]]), samples=20).interval == (1, 1)
    better = np.stack((counts[:, 1], counts[:, 1]), 1)
    paired = paired_bootstrap(better, counts, pointing_tally(counts).value, samples=100)
    assert paired.difference == pytest.approx(1 - score.value)
    with pytest.raises(MetricError, match="0 captions"):
        pointing(np.zeros((0, 2)))
