"""Text to text: training, predictions and attention."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from saccade.attention.watch import watch
from saccade.data import sources
from saccade.data.batches.collate import pad
from saccade.decoding import GenerationLimits, greedy
from saccade.errors import DecodingError, RunError, TextError, WatchError
from saccade.lens.alignment.align_by import AlignBy
from saccade.tasks.text_to_text import ALIGNMENT, TextToText
from saccade.training import recipe as recipes
from saccade.training import session
from saccade.training.console import Console

PAIRS = [
    ("the cat sees a dog", "le chat voit un chien"),
    ("a dog sees the cat", "un chien voit le chat"),
    ("the green house", "la maison verte"),
    ("a cat", "un chat"),
    ("the dog sleeps in the green house", "le chien dort dans la maison verte"),
    ("cats and dogs", "chats et chiens"),
    ("the cat sleeps", "le chat dort"),
]
SOURCES = [source for source, _ in PAIRS]
TARGETS = [target for _, target in PAIRS]
NO_DROPOUT = ("model.encoder.dropout=0.0", "model.decoder.dropout=0.0")
TRANSFORMER = (
    "model.dim=24",
    "model.encoder.num_layers=1",
    "model.encoder.hidden_dim=32",
    "model.decoder.num_layers=2",
    "model.decoder.hidden_dim=32",
)
RECURRENT = ("model.dim=24", "model.encoder.dim=24", "model.decoder.dim=24")
MODELS = {
    "transformer-tiny": TRANSFORMER,
    "rnn-attention": RECURRENT,
    "luong": RECURRENT,
    "rnn": RECURRENT,
}
WITH_ATTENTION = ["transformer-tiny", "rnn-attention", "luong"]


def corpus(folder: Path, pairs=PAIRS):
    path = folder / "pairs.tsv"
    path.write_text("source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in pairs))
    expected = recipes.load("rnn").options.columns
    return sources.open_corpus(path, expected, valid_fraction=0.0).splits["train"]


def build(folder: Path, name: str, *changes: str) -> TextToText:
    """An untrained task; louder weights than at the start of training tell tokens apart."""
    small = ("text.source.size=290", "generation.max_length=9", *NO_DROPOUT, *MODELS[name])
    torch.manual_seed(3)
    task = recipes.load(name, [*small, *changes]).options.create(corpus(folder)).eval()
    with torch.no_grad():
        for parameter in task.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2.5)
    return task


@pytest.fixture(params=list(MODELS))
def task(request, tmp_path):
    return build(tmp_path, request.param)


@pytest.fixture(params=WITH_ATTENTION)
def looking(request, tmp_path):
    return build(tmp_path, request.param)


def test_greedy_answers_equal_the_argmax_of_the_model(task):
    for text, answer in zip(SOURCES, task.predict(SOURCES, beam=1), strict=True):
        ids = [*task.source.encode(text), task.source.stop]
        control = {task.target.pad, task.target.start, task.target.unknown}
        control |= {task.target.cls, task.target.sep, task.target.mask}
        limits = GenerationLimits(stop=task.target.stop, max_length=9, forbidden=tuple(control))
        with torch.no_grad():
            state = task.model.start(torch.tensor([ids]))
            [[best]] = greedy(task.model, state, torch.tensor([task.target.start]), limits)
        assert answer.text == task.target.decode(list(best.tokens))
        assert answer.score == pytest.approx(best.score, abs=1e-4)


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 4}, {"sample": True, "seed": 7}])
def test_an_answer_does_not_depend_on_its_batch(task, options):
    inputs = [*SOURCES, SOURCES[0]]
    together = task.predict(inputs, batch_size=64, **options)
    assert len({answer.text for answer in together}) > 2
    for size in (1, 3):
        answers = task.predict(inputs, batch_size=size, **options)
        assert [answer.text for answer in answers] == [answer.text for answer in together]
        scores = [answer.score for answer in together]
        assert [answer.score for answer in answers] == pytest.approx(scores, abs=1e-4)
    part = task.predict(inputs[5:], first=5, **options)
    assert [answer.text for answer in part] == [answer.text for answer in together[5:]]


def test_samples_depend_on_seed_and_number(task):
    same = task.predict(["the cat"] * 6, sample=True)
    assert len({answer.text for answer in same}) > 3
    later = task.predict(["the cat"] * 5, sample=True, seed=1)
    assert [answer.text for answer in later] == [answer.text for answer in same[1:]]
    cold = task.predict(SOURCES, sample=True, temperature=0.0)
    assert cold == task.predict(SOURCES, beam=1)


def test_alternatives_are_ranked(task):
    for answer in task.predict(SOURCES, beam=4, num_best=3):
        texts = [answer.text, *(other.text for other in answer.alternatives)]
        scores = [answer.score, *(other.score for other in answer.alternatives)]
        assert len(texts) == 3
        assert scores == sorted(scores, reverse=True)


def test_the_record_has_the_weights_of_decoding(looking):
    """One pass over the finished answer sees what each step of writing it saw."""
    answers = looking.predict(SOURCES, beam=1, attention=True)
    for text, answer in zip(SOURCES, answers, strict=True):
        model, record = looking.model, answer.attention
        ids = torch.tensor([[*looking.source.encode(text), looking.source.stop]])
        token = torch.tensor([looking.target.start])
        written = len(record.wrote.tokens)
        with torch.no_grad(), watch(model, layers=model.cross_attentions()) as seen:
            state = model.start(ids)
            for _ in range(written):
                logits, state = model.step(token, state)
                logits[:, [looking.target.pad, *range(3, 7), looking.target.start]] = -torch.inf
                token = logits.argmax(-1)
        assert record.layers == tuple(model.cross_attentions())
        for name in record.layers:
            steps = torch.cat(list(seen[name].calls), dim=2)[0]
            assert steps.shape == record.weights[name].shape
            np.testing.assert_allclose(record.weights[name], steps, atol=1e-5)
            np.testing.assert_allclose(record.weights[name].sum(-1), 1.0, atol=1e-5)


def test_a_record_does_not_depend_on_its_batch(looking):
    alone = [looking.predict([text], attention=True)[0] for text in SOURCES]
    together = looking.predict(SOURCES, attention=True)
    for one, other in zip(alone, together, strict=True):
        assert one.attention.read == other.attention.read
        assert one.attention.wrote == other.attention.wrote
        for name, weights in one.attention.weights.items():
            np.testing.assert_allclose(weights, other.attention.weights[name], atol=1e-5)


def test_raises_on_attention_of_a_model_without_attention(tmp_path):
    task = build(tmp_path, "rnn")
    assert task.predict(["a cat"])[0].attention is None
    with pytest.raises(WatchError, match="this model has no attention"):
        task.predict(["a cat"], attention=True)


@pytest.mark.parametrize("kind", ["bpe", "character", "token", "word", "unigram"])
def test_the_sides_of_a_record(tmp_path, kind):
    task = build(tmp_path, "luong", f"text.source.kind={kind}")
    text = "the dog sees a green cat"
    [answer] = task.predict([text], beam=1, attention=True)
    for side, message in ((answer.attention.read, text), (answer.attention.wrote, answer.text)):
        assert side.words == tuple(message.split())
        assert side.tokens[-1] == "</s>"
        assert side.word_of[-1] is None
    read = answer.attention.read
    assert len(read.tokens) == len(task.source.encode(text)) + 1
    for number, word in enumerate(read.words):
        pieces = [t for t, of in zip(read.tokens, read.word_of, strict=True) if of == number]
        assert "".join(pieces).replace("▁", "").strip() == word
    if kind == "token":
        assert [token.strip("▁") for token in read.tokens] == [*text.split(), "</s>"]
        assert read.word_of == (0, 1, 2, 3, 4, 5, None)
    if kind == "character":
        letters = [token for token, of in zip(read.tokens, read.word_of, strict=True) if of == 1]
        assert letters == ["d", "o", "g"]


def test_two_vocabularies_are_kept_apart(tmp_path):
    changes = ("model.share_embeddings=false", "text.target.kind=token", "text.target.size=100")
    task = build(tmp_path, "luong", *changes)
    assert task.source is not task.target
    batch = task.force(["a cat"], ["un chat"])
    words = [task.target.encode("un")[0], task.target.encode("chat")[0]]
    assert batch.target.tolist() == [[task.target.start, *words, task.target.stop]]
    for name, text in task.files().items():
        (tmp_path / name).write_text(text)
    restored = task.config.restore(tmp_path)
    assert restored.source.digest == task.source.digest != restored.target.digest


def test_the_record_of_a_given_answer_equals_that_of_a_generated_one(looking):
    answers = looking.predict(SOURCES, attention=True, beam=1)
    forced = looking.records(SOURCES, [answer.text for answer in answers])
    for answer, record in zip(answers, forced, strict=True):
        if record.wrote.tokens == answer.attention.wrote.tokens:
            assert record.wrote.words == answer.attention.wrote.words
            for name in record.layers:
                np.testing.assert_allclose(
                    record.weights[name], answer.attention.weights[name], atol=1e-5
                )


def test_the_words_of_a_record_are_those_of_the_input(looking):
    text = "the  zebra\tsees Ünknöwn"
    [answer] = looking.predict([text], attention=True)
    assert answer.attention.read.words == ("the", "zebra", "sees", "Ünknöwn")


def test_the_attention_for_alignment_is_chosen_once_and_kept(looking, tmp_path):
    assert looking.align_by == AlignBy()
    assert ALIGNMENT not in looking.files()
    message = looking.finish(looking.encode(corpus(tmp_path), tmp_path / "cache"))
    assert f"words are aligned by {looking.align_by}" in message
    assert looking.align_by.join == "grow-diag-final"
    for name, text in looking.files().items():
        (tmp_path / name).write_text(text)
    restored = looking.config.restore(tmp_path)
    assert restored.align_by == looking.align_by
    [record] = looking.records(SOURCES[:1], TARGETS[:1])
    assert record.align_by == looking.align_by
    (tmp_path / ALIGNMENT).write_text('{"layer": 3}')
    with pytest.raises(RunError, match=r"alignment\.json cannot be read"):
        looking.config.restore(tmp_path)


def test_no_attention_for_alignment_without_attention(tmp_path):
    task = build(tmp_path, "rnn")
    assert task.finish(task.encode(corpus(tmp_path), tmp_path / "cache")) == ""
    assert ALIGNMENT not in task.files()


def test_encode_counts_the_rows_it_leaves_out(tmp_path):
    task = build(tmp_path, "luong", "text.source.kind=token", "text.max_length=4")
    rows = [("a b", "c"), ("", "c"), ("a", " \t".strip() or " "), ("a b c d e", "c"), ("a", "b")]
    encoded = task.encode(corpus(tmp_path, rows), tmp_path / "cache")
    assert len(encoded) == 2
    assert (encoded.skipped.empty, encoded.skipped.too_long) == (2, 1)
    assert "pairs.tsv:3: source is empty" in encoded.skipped.first[0]
    assert any("source has 5 tokens, the limit is 4" in reason for reason in encoded.skipped.first)
    assert task.sizes(encoded).tolist() == [[3, 2], [2, 2]]


def test_a_batch_from_the_cache_is_the_forced_one(task, tmp_path):
    encoded = task.encode(corpus(tmp_path), tmp_path / "cache")
    batch = task.collate(encoded, range(len(PAIRS)))
    forced = task.force(SOURCES, TARGETS)
    for name in ("source", "source_mask", "target", "places"):
        assert torch.equal(getattr(batch, name), getattr(forced, name))
    assert task.sizes(encoded).sum() == batch.source_mask.sum() + len(batch.places)


@pytest.mark.parametrize(("training", "smoothing"), [(False, 0.0), (True, 0.1)])
def test_the_loss_is_torchs_cross_entropy(task, training, smoothing):
    """The stop token is counted, and nothing after it (B6)."""
    task.train(training)
    batch = task.force(SOURCES, TARGETS)
    loss = task(batch)
    logits = task.model(batch.source, batch.target[:, :-1], batch.source_mask).flatten(0, 1)
    labels = batch.target[:, 1:].flatten()
    ignored = {"ignore_index": task.target.pad, "reduction": "sum"}
    expected = F.cross_entropy(logits, labels, label_smoothing=smoothing, **ignored)
    nll = F.cross_entropy(logits, labels, **ignored)
    assert loss.count == int((labels != task.target.pad).sum())
    assert loss.count == sum(len(task.target.encode(text)) + 1 for text in TARGETS)
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-5)
    assert loss.metrics["nll"].item() == pytest.approx(nll.item(), rel=1e-5)


def test_padding_changes_nothing(task):
    together = task(task.force(SOURCES, TARGETS))
    alone = [task(task.force([a], [b])) for a, b in PAIRS]
    assert together.count == sum(loss.count for loss in alone)
    total = sum(loss.total.item() for loss in alone)
    assert together.total.item() == pytest.approx(total, rel=1e-5)


def test_text_never_becomes_a_control_token(task):
    """A literal </s> is text: there is one stop, at the end."""
    odd = "the </s> cat <s> <pad> [CLS] [MASK]"
    batch = task.force([odd], [odd])
    ids = task.source.encode(odd)
    assert not set(ids) & {task.source.stop, task.source.start, task.source.pad}
    assert batch.source.tolist() == [[*ids, task.source.stop]]
    assert (batch.target == task.target.stop).sum() == 1
    assert batch.source_mask.all()
    assert len(batch.places) == len(ids) + 1
    assert len(task.predict([odd, "a cat"], beam=1)) == 2


def test_blank_inputs_get_empty_answers(task):
    answers = task.predict(["", "a cat", "  \t ", "\u3000"], beam=2)
    assert [bool(answer.text) for answer in answers] == [False, True, False, False]
    assert answers[0].score == 0.0
    assert task.predict([]) == []


def test_warns_about_a_long_input_that_is_cut(tmp_path, caplog):
    task = build(tmp_path, "luong", "text.source.kind=token", "text.max_length=3")
    with caplog.at_level(logging.WARNING):
        long, short = task.predict(
            ["a cat sees the dog", "a cat sees"], beam=1, first=40, split="none"
        )
    assert (long.text, long.score) == (short.text, short.score)
    assert (long.truncated, short.truncated) == (True, False)
    assert "input 41: of its 5 tokens, only the first 3 are read" in caplog.text
    assert "input 42" not in caplog.text


def test_on_batch_counts_the_answered_inputs(task):
    counts = []
    task.predict([*SOURCES, " "], beam=1, batch_size=2, on_batch=counts.append)
    assert len(counts) >= 4
    assert sum(counts) == len(SOURCES)


def test_raises_on_invalid_calls(task):
    for inputs, options, error, message in (
        ("a cat", {}, DecodingError, "put it into a list"),
        (["a"], {"beams": 3}, DecodingError, "'beams' is not an option of generation"),
        (["a"], {"beam": 0}, DecodingError, "beam"),
        (["a"], {"max_length": 0}, DecodingError, "max_length must be at least 1"),
        (["a"], {"sample": True, "beam": 3}, DecodingError, "sampling has no beams"),
        (["a"], {"batch_size": 0}, DecodingError, "batch_size must be at least 1"),
        (["\ud800"], {}, TextError, "lone surrogate"),
    ):
        with pytest.raises(error, match=message):
            task.predict(inputs, **options)


def test_evaluation_takes_every_reference(task):
    [answer] = task.predict(["a cat"], beam=1)
    items = [
        sources.Item(("a cat",), ("wrong", answer.text), 2),
        sources.Item(("the cat",), ("nothing like it",), 3),
    ]
    evaluation = task.evaluate(items, beam=1)
    assert evaluation.answers[0] == answer.text
    assert evaluation.as_json()["items"] == 2
    quick = task.evaluate(items, quick=True)
    assert quick.values() == evaluation.values()
    assert quick.scores["bleu"].interval is None


def test_padding_masks_are_true_at_tokens():
    tokens, real = pad([[5, 6], [7]], end=2)
    assert tokens.tolist() == [[5, 6, 2], [7, 2, 0]]
    assert real.tolist() == [[True, True, True], [True, True, False]]


def test_translation_is_learned_I1(tmp_path):
    pairs = corpus(tmp_path)
    assert pairs.count() == len(PAIRS)
    for split in ("train", "valid", "test"):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / f"{split}.tsv").write_text((tmp_path / "pairs.tsv").read_text())
    task = session.train(
        "transformer-tiny",
        data=tmp_path / "data",
        out=tmp_path / "run",
        changes=[
            *("text.source.size=290", "generation.beam=1", *NO_DROPOUT, *TRANSFORMER),
            *("training.optim.kind=adamw", "training.learning_rate=0.01"),
            *("training.optim.warmup=10", "loss.label_smoothing=0"),
            *("training.validate_every=80", "training.adapt=false"),
        ],
        max_steps=80,
        cache=tmp_path / "cache",
        console=Console(quiet=True),
    )
    assert [answer.text for answer in task.predict(SOURCES)] == TARGETS
