"""Masked language modeling: masking, training, filled holes and metrics."""

import json
import logging
import os
import re
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers

from saccade.attention.watch import watch
from saccade.data import sources
from saccade.data.corpus import Item
from saccade.errors import DataError, DecodingError, RecipeError, TextError, WatchError
from saccade.tasks.masked_language_modeling import HOLE, MaskedLanguageModeling
from saccade.training import recipe as recipes
from saccade.training import session
from saccade.training.console import Console
from tests.training.runs import outcome

TEXTS = [
    "the cat sees a dog",
    "a dog sees the cat.",
    "the green house, the well-known one",
    "a cat",
    "the dog sleeps in the green house and the cat sleeps on the green mat",
    "cats and dogs",
    "the cat sleeps",
]
TINY = (
    "model.dim=24",
    "model.encoder.num_layers=2",
    "model.encoder.num_heads=2",
    "model.encoder.hidden_dim=32",
    "model.encoder.dropout=0.0",
    "text.vocabulary.size=300",
)
RECURRENT = (
    "model.encoder.kind=recurrent",
    "model.encoder.dim=24",
    "model.encoder.dropout=0.0",
    "model.dim=24",
    "model.tie_output=false",
    "text.vocabulary.size=300",
)


def corpus(folder, texts=TEXTS):
    path = folder / "texts.tsv"
    path.write_text("label\ttext\n" + "".join(f"x\t{text}\n" for text in texts))
    expected = recipes.load("bert-mini-masked").options.columns
    return sources.open_corpus(path, expected, valid_fraction=0.0).splits["train"]


def louder(task):
    """Weights that tell tokens apart, as those at the start of training do not."""
    with torch.no_grad():
        for name, parameter in task.model.named_parameters():
            if parameter.dim() > 1:
                parameter.mul_(3.0)
            if name == "output.bias":
                parameter.normal_()
    return task.eval()


def build(folder, *changes, shape=TINY):
    torch.manual_seed(3)
    options = recipes.load("bert-mini-masked", [*shape, *changes]).options
    return louder(options.create(corpus(folder)))


@pytest.fixture(params=["transformer", "recurrent"])
def task(request, tmp_path):
    return build(tmp_path, shape=TINY if request.param == "transformer" else RECURRENT)


@pytest.fixture
def looking(tmp_path):
    return build(tmp_path)


def likeliest(task, text, *, spaces=None):
    """The log-probabilities in the holes of a text, one pass over it alone.

    `spaces` tells of each hole whether its piece begins with a space.
    """
    *before, last = text.split(HOLE)
    ids = []
    for number, part in enumerate(before):
        encode = task.tokenizer.encode_part if number else task.tokenizer.encode
        ids += [*encode(part.removesuffix(" ")), task.tokenizer.mask]
    ids += task.tokenizer.encode_part(last)
    tokens = torch.tensor([[task.tokenizer.cls, *ids, task.tokenizer.sep]])
    with torch.no_grad():
        log_p = task.model(tokens)[0].log_softmax(-1)[tokens[0] == task.tokenizer.mask]
    for id, piece in enumerate(task.tokenizer.pieces(range(len(task.tokenizer)))):
        if id not in task.tokenizer.ordinary:
            log_p[:, id] = -torch.inf
        for hole, space in enumerate(spaces or ()):
            if piece.startswith("▁") != space:
                log_p[hole, id] = -torch.inf
    return log_p


def test_pieces_cover_every_row_and_have_similar_lengths(tmp_path):
    task = build(tmp_path, "text.max_length=7", "text.vocabulary.kind=token")
    texts = ["a b c", "a b c d e", "a b c d e f", " ".join("abcdefghijk"), "a"]
    encoded = task.encode(corpus(tmp_path, texts), tmp_path / "cache")
    assert len(encoded) == 5
    assert task.sizes(encoded).tolist() == [[5], [7], [5], [5], [5], [6], [6], [3]]
    tokens = []
    for number, [size] in enumerate(task.sizes(encoded)):
        batch = task.collate(encoded, [number])
        assert batch.tokens.shape == (1, size)
        row = batch.tokens.flatten()
        row[batch.places] = batch.targets
        assert (row[0], row[-1]) == (task.tokenizer.cls, task.tokenizer.sep)
        tokens += row[1:-1].tolist()
    assert tokens == [id for text in texts for id in task.tokenizer.encode(text)]


@pytest.mark.parametrize("whole", ["tokens", "words", "spans"])
def test_masks_change_in_training_and_not_in_validation(tmp_path, whole):
    task = build(tmp_path, f"masking.whole={whole}", "masking.share=0.3")
    encoded = task.encode(corpus(tmp_path), tmp_path / "cache")
    rows = np.arange(len(TEXTS))

    def drawn():
        return task.collate(encoded, rows).places.tolist()

    state = torch.get_rng_state()
    assert drawn() == drawn()
    assert torch.equal(torch.get_rng_state(), state)
    task.train()
    torch.manual_seed(5)
    first, second = drawn(), drawn()
    assert first != second
    torch.manual_seed(5)
    assert drawn() == first


def test_a_batch_holds_the_masked_tokens(task, tmp_path):
    encoded = task.encode(corpus(tmp_path), tmp_path / "cache")
    batch = task.collate(encoded, [4, 0, 3])
    truth = batch.tokens.clone()
    truth.view(-1)[batch.places] = batch.targets
    for row, number in zip(range(3), (4, 0, 3), strict=True):
        ids = [task.tokenizer.cls, *task.tokenizer.encode(TEXTS[number]), task.tokenizer.sep]
        assert truth[row, : len(ids)].tolist() == ids
        assert batch.mask[row].sum() == len(ids)
    rows = batch.places // batch.tokens.shape[1]
    assert set(rows.tolist()) == {0, 1, 2}
    assert task.sizes(encoded)[[4, 0, 3], 0].tolist() == batch.mask.sum(1).tolist()


def test_the_loss_is_torchs_cross_entropy_at_the_masked_places(task, tmp_path):
    encoded = task.encode(corpus(tmp_path), tmp_path / "cache")
    batch = task.collate(encoded, range(len(TEXTS)))
    loss = task(batch)
    logits = task.model(batch.tokens, batch.mask).flatten(0, 1)[batch.places]
    expected = F.cross_entropy(logits, batch.targets, reduction="sum")
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-5)
    assert loss.count == len(batch.places) == len(batch.targets) > len(TEXTS)
    loss.total.backward()
    given = [p.grad for p in task.parameters()]
    expected = torch.autograd.grad(expected, list(task.parameters()), allow_unused=True)
    for mine, theirs in zip(given, expected, strict=True):
        expected = torch.zeros_like(mine) if theirs is None else theirs
        torch.testing.assert_close(mine, expected, rtol=1e-3, atol=1e-4)


def test_padding_changes_no_loss(task):
    inputs = [text.replace("cat", HOLE, 1) for text in TEXTS if "cat" in text.split()]
    outputs = [text for text in TEXTS if "cat" in text.split()]
    together = task(task.force(inputs, outputs))
    alone = [task(task.force([a], [b])) for a, b in zip(inputs, outputs, strict=True)]
    assert together.count == sum(loss.count for loss in alone) == len(inputs)
    total = sum(loss.total.item() for loss in alone)
    assert together.total.item() == pytest.approx(total, rel=1e-4)


def test_a_text_without_maskable_tokens_has_no_loss(tmp_path):
    """Words that were never seen are not guessed."""
    task = build(tmp_path, "text.vocabulary.kind=word")
    encoded = task.encode(corpus(tmp_path, ["zebra", "the cat"]), tmp_path / "cache")
    batch = task.collate(encoded, [0])
    assert batch.tokens.tolist() == [
        [task.tokenizer.cls, task.tokenizer.unknown, task.tokenizer.sep]
    ]
    loss = task(batch)
    assert (loss.total.item(), loss.count) == (0.0, 0)
    evaluation = task.evaluate([Item(("zebra",), (), 1), Item(("the cat",), (), 2)], quick=True)
    assert evaluation.answers[0] == ""
    assert evaluation.answers[1]


def test_one_hole_is_filled_with_the_most_likely_token(task):
    [answer] = task.predict([f"the {HOLE} sees a dog"], num_best=4)
    best = likeliest(task, f"the {HOLE} sees a dog", spaces=[True])[0].topk(4)
    given = [answer, *answer.alternatives]
    for filling, score, id in zip(given, best.values, best.indices, strict=True):
        assert filling.score == pytest.approx(score.item(), abs=1e-4)
        [piece] = task.tokenizer.pieces([id.item()])
        assert filling.text == f"the {piece.removeprefix('▁')} sees a dog"
    assert task.predict([f"the {HOLE} sees a dog"])[0].alternatives == ()


def test_several_holes_are_filled_best_first(task):
    text = f"{HOLE} dog sees the{HOLE} {HOLE}"
    [answer] = task.predict([text], num_best=9)
    given = [answer, *answer.alternatives]
    log_p = likeliest(task, text, spaces=[True, False, True])
    tops = log_p.sort(descending=True).values[:, :9]
    sums = (tops[0][:, None, None] + tops[1][:, None] + tops[2]).flatten()
    expected = (sums.sort(descending=True).values[:9] / 3).tolist()
    assert [filling.score for filling in given] == pytest.approx(expected, abs=1e-4)
    assert [filling.score for filling in given] == sorted((e.score for e in given), reverse=True)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("bpe", f"the {HOLE} sees"),
        ("bpe", f"{HOLE} cat"),
        ("bpe", f"the cat{HOLE} sees"),
        ("bpe", f"cat{HOLE}"),
        ("bpe", f"a {HOLE}{HOLE}."),
        ("bpe", f"a\n{HOLE} b"),
        ("unigram", f"the {HOLE} sees {HOLE}."),
        ("word", f"the {HOLE} sees"),
        ("character", f"the {HOLE}at s{HOLE}es"),
        ("token", f"the {HOLE} sees {HOLE}"),
    ],
)
def test_the_text_around_holes_is_unchanged(tmp_path, kind, text):
    task = build(tmp_path, f"text.vocabulary.kind={kind}")
    for answer in [top := task.predict([text], num_best=5)[0], *top.alternatives]:
        parts = map(re.escape, text.split(HOLE))
        assert re.fullmatch("(.+)".join(parts), answer.text, re.DOTALL)
    assert len(top.alternatives) == 4


def test_an_answer_does_not_depend_on_its_batch(task):
    inputs = [f"{text} {HOLE}" for text in TEXTS] + [f"{HOLE}", f"the {HOLE} {HOLE} mat"]
    together = task.predict(inputs, num_best=3)
    assert len({answer.text.split()[-1] for answer in together}) > 2
    for size in (1, 4):
        answers = task.predict(inputs, num_best=3, batch_size=size)
        assert [answer.text for answer in answers] == [answer.text for answer in together]
        scores = [answer.score for answer in together]
        assert [answer.score for answer in answers] == pytest.approx(scores, abs=1e-4)


def test_control_tokens_are_never_predicted(looking):
    with torch.no_grad():
        looking.model.output.bias[:7] = 50.0
    [answer] = looking.predict([f"the {HOLE} sees"], num_best=10)
    assert answer.score < -20
    texts = [filling.text for filling in (answer, *answer.alternatives)]
    assert len(texts) == 10
    assert not any(name in text for text in texts for name in "⟨⁇")


def test_literal_control_names_are_text(looking):
    odd = "the </s> [CLS] ⟨mask⟩ [PAD]"
    batch = looking.force([f"{odd} {HOLE}"], [f"{odd} cat"])
    tokens = batch.tokens[0].tolist()
    controls = [i for i, id in enumerate(tokens) if id in looking.tokenizer.controls.ids]
    assert controls == [0, len(tokens) - 2, len(tokens) - 1]
    assert tokens[-2] == looking.tokenizer.mask
    assert looking.predict([f"{odd} {HOLE}"])[0].text.startswith(odd.lower())


def test_attention_records_equal_the_weights_of_the_prediction(looking):
    inputs = [f"the {HOLE} sees a dog", f"a well-known {HOLE}"]
    answers = looking.predict(inputs, attention=True)
    plain = looking.predict(inputs)
    for text, answer, other in zip(inputs, answers, plain, strict=True):
        assert (answer.text, other.attention) == (other.text, None)
        assert answer.score == pytest.approx(other.score, abs=1e-4)
        record = answer.attention
        assert record.read == record.wrote
        assert (record.read.tokens[0], record.read.tokens[-1]) == ("[CLS]", "[SEP]")
        assert record.read.tokens.count(HOLE) == 1
        assert record.read.words == tuple(answer.text.split())
        hole = record.read.tokens.index(HOLE)
        assert record.read.word_of[hole] == text.split().index(HOLE)
        assert record.read.word_of[0] is record.read.word_of[-1] is None
        batch = looking.force([text], [answer.text])
        with torch.no_grad(), watch(looking.model) as seen:
            looking(batch)
        assert record.layers == tuple(seen)
        assert len(record.layers) == 2
        for name in record.layers:
            np.testing.assert_allclose(record.weights[name], seen[name].weights[0], atol=1e-5)
            np.testing.assert_allclose(record.weights[name].sum(-1), 1.0, atol=1e-5)


def test_raises_on_attention_of_a_model_without_attention(tmp_path):
    task = build(tmp_path, shape=RECURRENT)
    with pytest.raises(WatchError, match="no attention"):
        task.predict([f"a {HOLE}"], attention=True)


def test_a_long_input_is_read_around_its_holes(tmp_path, caplog):
    task = build(tmp_path, "text.vocabulary.kind=token", "text.max_length=7")
    words = ["the", "cat", "sees", "a", "dog", "and", "the", "green", "house"]
    for at in range(len(words)):
        holed = [HOLE if i == at else word for i, word in enumerate(words)]
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            [answer] = task.predict([" ".join(holed)], first=40, attention=True)
        assert "input 41: of its 9 tokens, only the 5 around its masks are read" in caplog.text
        start = min(max(0, at - 2), 4)
        seen = [HOLE if i == at else f"▁{words[i]}" for i in range(start, start + 5)]
        assert list(answer.attention.read.tokens) == ["[CLS]", *seen, "[SEP]"]
        message = answer.text.split()
        assert message[:at] + message[at + 1 :] == words[:at] + words[at + 1 :]
        alone = task.predict([" ".join(holed[start : start + 5])])[0]
        assert alone.text.split()[at - start] == message[at]
        assert alone.score == pytest.approx(answer.score, abs=1e-4)
    caplog.clear()
    two = [HOLE if i in (3, 7) else word for i, word in enumerate(words)]
    read = task.predict([" ".join(two)], attention=True)[0].attention.read
    assert read.tokens.count(HOLE) == 2
    with pytest.raises(DecodingError, match="holes of input 1 are 5 tokens apart, and at most 5"):
        task.predict([" ".join(HOLE if i in (2, 7) else word for i, word in enumerate(words))])


def test_raises_on_invalid_calls(looking):
    for inputs, options, error, message in (
        (f"a {HOLE}", {}, DecodingError, "put it into a list"),
        ([f"a {HOLE}", "the cat"], {"first": 6}, DecodingError, r"input 8 has no hole.*\[MASK\]"),
        (["a [mask]"], {}, DecodingError, "input 1 has no hole"),
        (
            [f"{HOLE}"],
            {"beam": 3},
            DecodingError,
            "'beam' is not an option of this task; use one of: num_best,",
        ),
        ([f"{HOLE}"], {"num_best": 0}, DecodingError, "num_best must be at least 1, got 0"),
        ([f"{HOLE}"], {"batch_size": 0}, DecodingError, "batch_size must be at least 1"),
        ([f"\ud800 {HOLE}"], {}, TextError, "input 1 contains the lone surrogate"),
    ):
        with pytest.raises(error, match=message):
            looking.predict(inputs, **options)
    with pytest.raises(DecodingError, match=r"'sample' is not an option .*: attention, batch_size"):
        looking.evaluate([Item(("a cat",), (), 1)], sample=True)
    with pytest.raises(DecodingError, match="batch_size must be at least 1, got 0"):
        looking.evaluate([Item(("a cat",), (), 1)], batch_size=0)
    for output in ("the dog sees a cat", "the cat", "the green-ish house sees a dog"):
        with pytest.raises(DecodingError, match="output 1 must be input 1 with one token"):
            looking.force([f"the {HOLE} sees a dog"], [output])
    with torch.no_grad():
        looking.model.output.bias[9] = torch.nan
    with pytest.raises(DecodingError, match="NaN"):
        looking.predict([f"a {HOLE}"])


def test_blank_inputs_get_empty_answers(looking):
    answers = looking.predict(["", f"a {HOLE}", " \t", "\u3000"])
    assert [bool(answer.text) for answer in answers] == [False, True, False, False]
    assert looking.predict([]) == []


def test_on_batch_counts_the_answered_inputs(looking):
    counts = []
    looking.predict(["", *[f"a {HOLE}"] * 5], batch_size=2, on_batch=counts.append)
    assert counts == [2, 2, 1]
    items = [Item((text,), (), 1) for text in TEXTS]
    looking.evaluate(items, quick=True, batch_size=2, on_batch=counts.append)
    assert len(counts) == 7


def test_an_evaluation_equals_the_loss_at_the_same_masks(task, tmp_path):
    items = list(task.items(corpus(tmp_path)))
    assert [item.inputs for item in items] == [(text,) for text in TEXTS]
    assert items[2] == Item((TEXTS[2],), (), 4)
    evaluation = task.evaluate(items)
    for size in (1, 3):  # what is masked does not depend on the batch
        again = task.evaluate(items, quick=True, batch_size=size)
        assert again.values() == pytest.approx(evaluation.values(), rel=1e-4)
        assert again.answers == evaluation.answers
    assert evaluation.scores["perplexity"].value == pytest.approx(
        np.exp(evaluation.scores["loss"].value), rel=1e-6
    )
    low, high = evaluation.scores["loss"].interval
    assert low < evaluation.scores["loss"].value < high
    assert again.scores["loss"].interval is None
    assert not evaluation.scores["loss"].higher_is_better
    assert evaluation.scores["accuracy"].higher_is_better
    assert "per:masked_token|share:0.15|whole:tokens" in evaluation.scores["loss"].signature
    assert evaluation.by_length[0]["count"] == len(TEXTS)
    assert task.selection_metric in evaluation.scores
    # seven texts are one draw of 64, as one batch would be
    pieces, _ = task._pieces_of(TEXTS)
    gapped = list(task._mask_all(pieces))
    total = count = right = 0
    for piece in gapped:
        with torch.no_grad():
            logits = task.model(torch.tensor([piece.ids]))[0, piece.places]
        truth = torch.tensor(piece.targets)
        total += F.cross_entropy(logits, truth, reduction="sum").item()
        count += len(truth)
        right += int((logits.argmax(-1) == truth).sum())
    assert evaluation.scores["loss"].value == pytest.approx(total / count, rel=1e-4)
    assert evaluation.scores["accuracy"].value == pytest.approx(right / count)


def test_an_answer_shows_the_first_guesses(looking):
    assert looking._shown([8, 9], [8, 10]) == "{}, {} ({})".format(
        *looking.tokenizer.pieces([8, 9, 10])
    )
    assert looking._shown([8] * 20, [8] * 20).endswith("…")
    answers = looking.evaluate([Item((text,), (), 1) for text in TEXTS], quick=True).answers
    assert all(answers)
    assert not any("\n" in answer for answer in answers)


def test_all_pieces_of_long_items_are_measured(tmp_path):
    task = build(tmp_path, "text.max_length=8", "text.vocabulary.kind=token", "masking.share=0.5")
    long, short = " ".join(TEXTS), "the cat"
    evaluation = task.evaluate([Item((long,), (), 1), Item((short,), (), 2)], quick=True)
    pieces, of_item = task._pieces_of([long, short])
    assert of_item.tolist() == [0] * (len(pieces) - 1) + [1]
    assert len(pieces) == -(-len(task.tokenizer.encode(long)) // 6) + 1
    places = [len(piece.places) for piece in task._mask_all(pieces)]
    assert sum(places[:-1]) > len(long.split()) // 3
    assert evaluation.values()["loss"] > 0


def test_learning_fills_the_hole(tmp_path):
    """After a few steps on sentences of one form, the middle is known."""
    texts = ["a b c d", "b c d e", "c d e f", "d e f g", "e f g h", "f g h a"] * 3
    torch.manual_seed(0)
    changes = ("text.vocabulary.kind=token", "model.encoder.num_layers=1", "masking.share=0.3")
    options = recipes.load("bert-mini-masked", [*TINY, *changes]).options
    split = corpus(tmp_path, texts)
    task = options.create(split)
    encoded = task.encode(split, tmp_path / "cache")
    optimizer = torch.optim.Adam(task.parameters(), lr=1e-2)
    items = list(task.items(split))
    before = task.evaluate(items, quick=True).values()
    task.train()
    for _ in range(80):
        loss = task(task.collate(encoded, np.arange(len(texts))))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    after = task.evaluate(items, quick=True).values()
    assert after["loss"] < 0.5 * before["loss"]
    assert after["accuracy"] > 0.75
    [answer] = task.predict([f"c {HOLE} e f"], num_best=2)
    assert answer.text == "c d e f"
    assert answer.score > -0.7


def bert(folder):
    """A tokenizer.json as BERT's: WordPiece, and names of its own for the control tokens."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters)]
    names += ["the", "cat", "sees", "dog", "##ing", ".", "green", "house"]
    backend = Backend(models.WordPiece({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    backend.add_special_tokens(names[:5])
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    folder.mkdir(exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    return folder


def test_reads_with_the_vocabulary_of_bert(tmp_path):
    """Holes, masks and words go by its own control tokens, as the library itself has them."""
    folder = bert(tmp_path / "bert")
    options = recipes.load("bert-mini-masked", [*TINY, "masking.whole=words"]).options
    task = louder(options.create(corpus(tmp_path), vocabulary=folder))
    text = f"The {HOLE} sees walk{HOLE} {HOLE}."
    theirs = Backend.from_file(str(folder / "tokenizer.json"))
    assert task.prepare([text])[0].ids == theirs.encode(text, add_special_tokens=False).ids
    batch = task.force([f"the {HOLE} sees"], ["the dog sees"])
    assert task.tokenizer.pieces(batch.tokens[0].tolist()) == [
        "[CLS]",
        "the",
        "[MASK]",
        "sees",
        "[SEP]",
    ]
    [answer] = task.predict([f"the {HOLE} sees"], num_best=3)
    best = likeliest(task, f"the {HOLE} sees")[0].topk(3)
    assert answer.score == pytest.approx(best.values[0].item(), abs=1e-4)
    filled = [task.tokenizer.encode("the")[0], best.indices[0].item()]
    assert answer.text == task.tokenizer.decode([*filled, *task.tokenizer.encode("sees")])
    encoded = task.encode(corpus(tmp_path, ["the greens house"]), tmp_path / "cache")
    task.train()
    for _ in range(30):  # "green ##s" is masked as a whole or not at all
        chosen = {int(place) for place in task.collate(encoded, [0]).places}
        assert (2 in chosen) == (3 in chosen)


def test_raises_on_a_vocabulary_without_a_mask_token(tmp_path):
    backend = Backend(models.WordLevel({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3}, "[UNK]"))
    backend.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(TextError, match="this vocabulary has no mask token"):
        recipes.load("bert-mini-masked", TINY).options.restore(tmp_path)


def test_raises_on_invalid_recipes():
    for change, message in (
        ("text.max_length=2", "text: max_length must be above 2"),
        (
            "text.max_length=600",
            "text.max_length = 600 needs as many learned positions, but .* is 512",
        ),
        ("masking.replaced=0.95", "masking: replaced and random are fractions"),
        ("masking.whole=lines", "masking.whole cannot be 'lines'"),
    ):
        with pytest.raises(RecipeError, match=message):
            recipes.load("bert-mini-masked", [change])
    fine = ("text.max_length=600", "model.encoder.position.kind=rotary")
    assert recipes.load("bert-small-masked", fine).options.text.max_length == 600


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Running text in a folder, divided into train, valid and test."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # tests need no durability
    lines = [f"{text} and {other}" for text in TEXTS for other in TEXTS]
    folder = tmp_path / "data"
    folder.mkdir()
    for name, some in (("train", lines[:40]), ("valid", lines[40:45]), ("test", lines[45:])):
        (folder / f"{name}.txt").write_text("\n".join(some) + "\n")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path
    torch.set_num_threads(before)


TRAINING = (
    *TINY[:-2],
    "model.encoder.dropout=0.1",
    "text.vocabulary.size=320",
    "text.max_length=24",
    "training.max_steps=6",
    "training.batch_tokens=200",
    "training.validate_every=3",
    "training.checkpoint_every=2",
    "training.validate_items=4",
    "training.log_every=1",
    "training.optim.warmup=2",
)


def train(place, out, *changes, **options):
    return session.train(
        "bert-mini-masked",
        data=options.pop("data", place / "data"),
        out=place / out,
        changes=[*TRAINING, *changes],
        cache=place / "cache",
        device="cpu",
        console=Console(quiet=True),
        **options,
    )


def test_trains_evaluates_and_predicts(place):
    task = train(place, "run", "masking.whole=words")
    assert isinstance(task, MaskedLanguageModeling)
    run = place / "run"
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    validations = [record for record in records if "valid_loss" in record]
    assert len(validations) == 2
    assert all({"loss", "perplexity", "accuracy"} <= record.keys() for record in validations)
    assert "▁" in (run / "report.html").read_text()
    loaded = session.load(run)
    assert loaded.config == task.config
    text = f"the cat {HOLE} a dog"
    assert loaded.predict([text]) == task.predict([text])
    values = session.evaluate(run, data=place / "data")
    assert values == session.evaluate(task, data=place / "data")
    assert set(values) == {"loss", "perplexity", "accuracy"}
    assert values["loss"] < 1.2 * np.log(320)
    again = train(place, "again", "training.max_steps=1", init=run)
    assert again.tokenizer.digest == task.tokenizer.digest


def test_a_resumed_training_is_the_same(place):
    constant = "training.optim.schedule=constant"
    for steps in (3, 6):
        train(place, "parts", constant, f"training.max_steps={steps}", resume=True)
    train(place, "whole", constant)
    assert outcome(place / "parts")["files"] == outcome(place / "whole")["files"]


def test_raises_on_invalid_data(place):
    (place / "empty.txt").write_text("")
    with pytest.raises(DataError, match="empty"):
        train(place, "run", data=place / "empty.txt")
    (place / "pairs.tsv").write_text("source\ttarget\na\tb\n")
    with pytest.raises(DataError, match='no column "text"'):
        train(place, "run", data=place / "pairs.tsv")


def test_trains_on_unusual_text(place):
    odd = "a\x00b \U0001f600 né\u0301 \u202ereversed 漢字漢字 " + "x" * 300
    (place / "odd.jsonl").write_text(
        "".join(json.dumps({"text": f"{odd} {i}", "label": i}) + "\n" for i in range(30))
    )
    task = train(place, "run", "training.max_steps=2", data=place / "odd.jsonl")
    assert task.predict([f"{odd[:8]}{HOLE}"])[0].text.startswith("a\x00b \U0001f600")


def test_sizes_fit_the_batches_of_the_loop(tmp_path):
    """The sizes that the loop plans with are those of its batches."""
    task = build(tmp_path, "text.max_length=9")
    encoded = task.encode(corpus(tmp_path), tmp_path / "cache")
    sizes = task.sizes(encoded)
    for start, end in pairwise([0, 3, 5, len(sizes)]):
        batch = task.collate(encoded, np.arange(start, end))
        assert batch.tokens.shape == (end - start, sizes[start:end].max())
