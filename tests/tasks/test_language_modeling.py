"""Language modeling: training, continuations and perplexity."""

import json
import logging
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from saccade.attention.watch import watch
from saccade.data import sources
from saccade.data.corpus import Item
from saccade.errors import DataError, DecodingError, RecipeError, TextError
from saccade.tasks import language_modeling
from saccade.tasks.language_modeling import HALF, LanguageModeling
from saccade.text import Tokenizer
from saccade.training import recipe as recipes
from saccade.training import session
from saccade.training.console import Console
from tests.training.runs import outcome

UNICODE = "Über naïve Städte:\n\n  zwei  Zeilen — “so”\tТы 中文 😀👩‍👩‍👧 é\n\n\nthe end of it\n"
RUNNING = UNICODE * 20 + "the last line has no end"
DOCUMENTS = [
    "the cat sees a dog",
    "a dog",
    "cats and dogs and a house, which is green; the cat sleeps in the green house all day long",
    "  ",
    "the green house",
    "naïve 😀",
]
SMALL = (
    "model.dim=16",
    "model.decoder.num_layers=1",
    "model.decoder.num_heads=2",
    "model.decoder.hidden_dim=24",
    "model.decoder.dropout=0.0",
    "text.vocabulary.size=290",
    "text.block=8",
    "generation.max_length=10",
)
PACKED = ("text.layout=packed", "text.opening=")
ROTARY = 'model.decoder.position={kind="rotary"}'


def split_of(path: Path):
    expected = recipes.load("gpt-char").options.columns
    return sources.open_corpus(path, expected, valid_fraction=0.0).splits["train"]


def running(folder: Path, text: str = RUNNING):
    (folder / "text.txt").write_text(text, encoding="utf-8")
    return split_of(folder / "text.txt")


def documents(folder: Path, texts=DOCUMENTS):
    lines = [json.dumps({"text": text}) for text in texts]
    (folder / "texts.jsonl").write_text("\n".join(lines))
    return split_of(folder / "texts.jsonl")


def build(split, *changes: str, name: str = "gpt-mini") -> LanguageModeling:
    """An untrained task; louder weights than at the start of training tell tokens apart."""
    torch.manual_seed(3)
    task = recipes.load(name, [*SMALL, *changes]).options.create(split).eval()
    with torch.no_grad():
        for parameter in task.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2.5)
    return task


@pytest.fixture(scope="module", params=["gpt-char", "gpt-mini", "packed"])
def task(request, tmp_path_factory):
    """Letters after a line end; parts of words with learned positions; with a start token."""
    folder = tmp_path_factory.mktemp("task")
    if request.param == "packed":
        return build(documents(folder), *PACKED, ROTARY)
    return build(running(folder), name=request.param)


def ids_of(task, split, folder):
    return task.encode(split, folder / "cache").fields[0].tokens.tolist()


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character"])
def test_the_encoded_parts_of_running_text_decode_to_the_text(tmp_path, kind):
    split = running(tmp_path)
    assert len(list(split)) > 3
    task = build(split, f"text.vocabulary.kind={kind}")
    ids = ids_of(task, split, tmp_path)
    assert task.tokenizer.decode(ids) == RUNNING
    assert not task.tokenizer.controls.ids & {*ids}
    if kind == "character":
        assert ids == task.tokenizer.encode(RUNNING)


def test_a_blank_part_of_running_text_is_encoded(tmp_path):
    text = "word\n" * 60 + "\n" * 900 + "word\n" * 60
    split = running(tmp_path, text)
    assert any(row.values[0].isspace() for row in split)
    task = build(split)
    encoded = task.encode(split, tmp_path / "cache")
    assert task.tokenizer.decode(encoded.fields[0].tokens.tolist()) == text
    assert encoded.skipped.empty == 0


def test_a_stop_token_separates_two_files(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    texts = {"a.txt": "one\n" * 200, "b.txt": "two\n" * 200}
    for name, text in texts.items():
        (folder / name).write_text(text)
    split = split_of(folder)
    task = build(split)
    ids = ids_of(task, split, tmp_path)
    assert ids.count(task.tokenizer.stop) == 1
    at = ids.index(task.tokenizer.stop)
    assert task.tokenizer.decode(ids[:at]) == texts["a.txt"]
    assert task.tokenizer.decode(ids[at:]) == texts["b.txt"]


def test_documents_end_with_a_stop_token_and_blank_ones_are_left_out(tmp_path):
    split = documents(tmp_path)
    task = build(split)
    encoded = task.encode(split, tmp_path / "cache")
    assert encoded.skipped.empty == 1
    kept = [text for text in DOCUMENTS if text.strip()]
    rows = [encoded.fields[0][i].tolist() for i in range(len(encoded))]
    assert rows == [[*task.tokenizer.encode(text), task.tokenizer.stop] for text in kept]
    assert [item.inputs for item in task.items(split)] == [(text,) for text in kept]
    assert [item.line for item in task.items(split)] == [1, 2, 3, 5, 6]


def test_an_evaluation_reads_every_token_of_a_stream_but_the_first(tmp_path):
    split = running(tmp_path)
    task = build(split)
    encoded = task.encode(split, tmp_path / "cache")
    ids = torch.tensor(encoded.fields[0].tokens.tolist())
    sizes = task.sizes(encoded)
    assert sizes.shape == (math.ceil((len(ids) - 1) / 8), 1)
    assert sizes[:, 0].tolist() == [8] * (len(sizes) - 1) + [(len(ids) - 2) % 8 + 1]
    batch = task.collate(encoded, range(len(sizes)))
    assert batch.documents is None
    assert torch.equal(batch.tokens.flatten()[batch.places], ids[:-1])
    assert torch.equal(batch.following.flatten()[batch.places], ids[1:])


def test_training_shifts_the_blocks_of_a_stream(tmp_path):
    split = running(tmp_path)
    task = build(split).train()
    encoded = task.encode(split, tmp_path / "cache")
    ids = encoded.fields[0].tokens.tolist()
    rows, seen = [5] * 200 + [len(task.sizes(encoded)) - 1], []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        seen.append(task.collate(encoded, rows))
    assert torch.equal(seen[0].tokens, seen[1].tokens)
    assert not torch.equal(seen[0].tokens, seen[2].tokens)
    windows = {tuple(row) for row in seen[0].tokens[:200].tolist()}
    assert windows == {tuple(ids[40 + shift : 48 + shift]) for shift in range(8)}
    last = seen[0].places[seen[0].places >= 200 * 8]
    assert seen[0].following.flatten()[last].tolist() == ids[-len(last) :]


def test_the_loss_is_the_cross_entropy_of_each_token(task, tmp_path):
    split = documents(tmp_path)
    encoded = task.encode(split, tmp_path / "cache")
    batch = task.collate(encoded, range(len(task.sizes(encoded))))
    loss = task(batch)
    assert loss.count == len(batch.places) > 40
    logits = task.model(batch.tokens, batch.documents).flatten(0, 1)[batch.places]
    labels = batch.following.flatten()[batch.places]
    expected = F.cross_entropy(logits, labels, reduction="sum")
    torch.testing.assert_close(loss.total, expected, rtol=1e-5, atol=1e-4)
    loss.total.backward()
    assert all(p.grad is not None for p in task.parameters())


@pytest.mark.parametrize("position", ["rotary", "relative"])
def test_packed_documents_do_not_see_each_other(tmp_path, position):
    split = documents(tmp_path, ["a dog", "the cat", "cats", "a house and dogs"])
    kind = f'model.decoder.position={{kind="{position}"}}'
    task = build(split, *PACKED, kind, "text.block=64")
    start, stop = task.tokenizer.start, task.tokenizer.stop
    encoded = task.encode(split, tmp_path / "cache")
    batch = task.collate(encoded, [0])
    assert batch.documents.unique().tolist() == [0, 1, 2, 3]
    logits = task.model(batch.tokens, batch.documents)
    for document in range(4):
        changed = torch.where(batch.documents == document, 9, batch.tokens)
        differs = (task.model(changed, batch.documents) != logits).any(-1)
        assert differs.any()
        assert (batch.documents[differs] == document).all()
    alone = 0.0
    for text in ("a dog", "the cat", "cats", "a house and dogs"):
        ids = torch.tensor([[start, *task.tokenizer.encode(text), stop]])
        alone += F.cross_entropy(task.model(ids[:, :-1])[0], ids[0, 1:], reduction="sum")
    torch.testing.assert_close(task(batch).total, alone, rtol=1e-5, atol=1e-5)


def test_padding_of_packed_blocks_has_no_document(tmp_path):
    split = documents(tmp_path)
    task = build(split, *PACKED, ROTARY, "text.block=40")
    encoded = task.encode(split, tmp_path / "cache")
    sizes = task.sizes(encoded)[:, 0]
    assert len({*sizes.tolist()}) > 1
    batch = task.collate(encoded, range(len(sizes)))
    real = batch.documents >= 0
    assert real.sum(1).tolist() == sizes.tolist()
    assert batch.places.tolist() == real.flatten().nonzero().squeeze(1).tolist()
    assert (batch.documents[~real] == -1).all()
    assert sizes.sum() == len(encoded.fields[0].tokens)


def slow_greedy(task, context, count):
    """Compute every token from the complete window, without a cache."""
    tokenizer, size = task.tokenizer, task.config.text.block
    never = [*(tokenizer.controls.ids - {tokenizer.stop}), tokenizer.unknown]
    window, written = context[-size:], []
    while len(written) < count:
        with torch.no_grad():
            logits = task.model(torch.tensor([window]))[0, -1]
        logits[never] = -torch.inf
        token = int(logits.argmax())
        if token == tokenizer.stop:
            break
        written.append(token)
        if len(window) == size:
            window = window[size - size // 2 :]
        window = [*window, token]
    return written


PROMPTS = ["", "the end", "the end of it, and so on\n", "\0😀"]


def context_of(task, prompt):
    """Return the tokens that a continuation follows, by the options of the recipe."""
    tokenizer = task.tokenizer
    if task.config.text.layout == "packed":
        return [tokenizer.start, *tokenizer.encode(prompt)]
    if task.config.text.opening:
        return tokenizer.encode_part("\n") + tokenizer.encode_part(prompt)
    return tokenizer.encode(prompt) or [tokenizer.stop]


def test_greedy_answers_equal_the_argmax_of_the_model(task):
    for prompt, answer in zip(PROMPTS, task.predict(PROMPTS, beam=1), strict=True):
        context = context_of(task, prompt)
        written = slow_greedy(task, context, 10)
        decode = task.tokenizer.decode
        assert decode(context) + answer.text == decode([*context, *written])


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 2, "num_best": 2}, {"seed": 7}], ids=str)
def test_an_answer_does_not_depend_on_its_batch(task, options):
    inputs = [*PROMPTS, "b", "a"]
    together = task.predict(inputs, **options)
    assert len({answer.text for answer in together}) > 2
    answers = task.predict(inputs, batch_size=1, **options)
    assert [answer.text for answer in answers] == [answer.text for answer in together]
    scores = [answer.score for answer in together]
    assert [answer.score for answer in answers] == pytest.approx(scores, abs=1e-4)
    part = task.predict(inputs[4:], first=4, **options)
    assert [answer.text for answer in part] == [answer.text for answer in together[4:]]
    others = [answer.alternatives for answer in together]
    assert all(len(rest) == options.get("num_best", 1) - 1 for rest in others)


def test_samples_unless_a_beam_is_requested(task):
    drawn = [answer.text for answer in task.predict(["the"] * 6)]
    assert len({*drawn}) > 3
    assert [answer.text for answer in task.predict(["the"] * 5, seed=1)] == drawn[1:]
    greedy = task.predict(["the"], beam=1)
    assert task.predict(["the"], temperature=0.0) == greedy


def test_a_short_answer_is_the_beginning_of_a_long_one(task):
    short, long = (task.predict(["the"], max_length=n, seed=5)[0] for n in (3, 40))
    assert long.text.startswith(short.text.rstrip(HALF))
    assert len(long.text) > len(short.text)


def heard(spoken):
    """Return the values that a generator yields, and its return value."""
    pieces = []
    while True:
        try:
            pieces.append(next(spoken))
        except StopIteration as end:
            return pieces, end.value


def finished_stream(ids):
    """Yield tokens, as a finished stream."""
    yield from ids
    return True


@pytest.mark.parametrize("options", [{"seed": 9}, {"beam": 1}, {"beam": 2}], ids=str)
def test_a_stream_is_the_answer_in_pieces(task, options):
    count = 0
    for prompt in PROMPTS:
        pieces, finished = heard(task.stream(prompt, **options))
        [answer] = task.predict([prompt], **options)
        assert ("".join(pieces), finished) == (answer.text, answer.finished)
        assert all(pieces)
        assert not any(piece.endswith(HALF) for piece in pieces[:-1])
        count += len(pieces)
    assert count == 4 if options.get("beam") == 2 else count > 7


def test_a_stream_waits_for_complete_characters(tmp_path):
    task = build(running(tmp_path))
    part = task.tokenizer.encode_part
    spoken = task._pieces(
        part("the"), finished_stream([*part(" 😀"), *part("\n中"), *part("a")[:1]])
    )
    assert list(spoken)[-1] == "a"
    bytes_of = [task.tokenizer.encode_part("😀"), task.tokenizer.encode_part("é")]
    assert max(map(len, bytes_of)) > 1
    for ids in bytes_of:
        text = task.tokenizer.decode(ids)
        assert list(task._pieces([], finished_stream(ids))) == [text]
        halves = list(task._pieces([], finished_stream(ids[:-1])))
        assert all(set(half) == {HALF} for half in halves)


def test_only_the_end_of_a_long_prompt_is_read(task, caplog):
    long = "the cat sleeps in the green house " * 3
    with caplog.at_level(logging.WARNING):
        [answers] = task.predict([long], first=4, beam=1)
    count = len(context_of(task, long))
    read = f"of its {count} tokens, only the last 8 are read (text.block)"
    assert caplog.messages == [f"1 of 1 inputs are too long, the first is input 5: {read}"]
    with caplog.at_level(logging.ERROR):
        assert answers == task.predict(["so " + long], beam=1)[0]


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        ("text", {}, "put it into a list"),
        (["a"], {"heat": 1}, "'heat' is not an option of generation; use one of: beam"),
        (["a"], {"batch_size": 0}, "batch_size must be at least 1, got 0"),
        (["a"], {"max_length": 0}, "max_length must be at least 1, got 0"),
        (["a"], {"beam": 2, "sample": True}, "sampling has no beams"),
        (["a"], {"top_p": 2.0}, "top_p must be above 0"),
    ],
)
def test_raises_on_invalid_prompts(task, inputs, options, message):
    with pytest.raises(DecodingError, match=message):
        task.predict(inputs, **options)
    if options and "batch_size" not in options:
        with pytest.raises(DecodingError, match=message):
            task.stream("a", **options)


def test_raises_on_a_lone_surrogate(task):
    with pytest.raises(TextError, match="lone surrogate"):
        task.predict(["\ud83d"])


def test_attention_records_cover_the_tokens(task):
    [answer] = task.predict(["a b"], attention=True, max_length=4, seed=3)
    record = answer.attention
    context = context_of(task, "a b")
    assert record.read == record.wrote
    assert record.layers == tuple(f"decoder.layers.{i}.self_attention" for i in (0,))
    assert record.wrote.tokens[: len(context)] == tuple(task.tokenizer.pieces(context))
    assert "".join(record.wrote.words) == "".join(("a b" + answer.text).split())
    for weights in record.weights.values():
        assert weights.sum(-1) == pytest.approx(1.0, abs=1e-5)
        assert (weights[:, 0, 1:] == 0).all()
    ids = [*context, *task.tokenizer.encode_part(answer.text)]
    if len(ids) == len(record.wrote.tokens):  # a model may cut its text otherwise
        with torch.no_grad(), watch(task.model) as seen:
            task.model(torch.tensor([ids]))
        expected = seen["decoder.layers.0.self_attention"].weights[0].numpy()
        assert record.weights["decoder.layers.0.self_attention"] == pytest.approx(
            expected, abs=1e-6
        )
    [long] = task.predict(["the cat sleeps in the green house"], attention=True)
    assert len(long.attention.wrote.tokens) == 8


def test_the_forced_batch_predicts_the_output(task):
    inputs, outputs = ["the", "", "a b c d e f g h i j k l m"], [" cat", "house", "n o"]
    batch = task.force(inputs, outputs)
    loss, expected, count = task(batch), 0.0, 0
    for given, message in zip(inputs, outputs, strict=True):
        context, ids = context_of(task, given), task.tokenizer.encode_part(message)
        whole = torch.tensor([[*context, *ids][-9:]])
        log_p = task.model(whole[:, :-1]).log_softmax(-1)[0, -len(ids) :]
        expected -= log_p.gather(1, whole[0, -len(ids) :, None]).sum()
        count += len(ids)
    assert loss.count == count
    torch.testing.assert_close(loss.total, expected, rtol=1e-5, atol=1e-4)
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        task.force(inputs, outputs[:2])


def nll(task, text):
    """-Σ ln p of a text, every token from the last 4 to 8 before it."""
    begin, packed = task._begin, task.config.text.layout == "packed"
    ids = task.encoded(text)
    assert begin == ([task.tokenizer.start] if packed else context_of(task, ""))
    whole, total = [*begin, *ids], 0.0
    for place in range(len(begin), len(whole)):
        start = 0 if place <= 8 else 4 * math.ceil((place - 8) / 4)
        with torch.no_grad():
            logits = task.model(torch.tensor([whole[start:place]]))[0, -1]
        total -= float(logits.log_softmax(-1)[whole[place]])
    return total, len(ids)


def test_an_evaluation_equals_a_manual_computation(task):
    texts = ["the cat", "a dog sees a green house and sleeps in it all day", "é"]
    items = [Item((text,), (), 1) for text in texts]
    evaluation = task.evaluate(items)
    nats, tokens = (sum(values) for values in zip(*(nll(task, t) for t in texts), strict=True))
    values = evaluation.values()
    assert values["loss"] == pytest.approx(nats / tokens, rel=1e-5)
    assert values["perplexity"] == pytest.approx(math.exp(nats / tokens), rel=1e-4)
    characters = sum(map(len, texts))
    assert values["bits_per_character"] == pytest.approx(nats / characters / math.log(2), rel=1e-5)
    assert task.selection_metric in values
    assert all(
        score.interval and not score.higher_is_better for score in evaluation.scores.values()
    )
    assert len(evaluation.answers) == 3
    assert all(evaluation.answers)
    quick = task.evaluate(items, quick=True)
    assert quick.values() == values
    assert all(score.interval is None for score in quick.scores.values())
    assert quick.answers == ["", "", ""]
    assert task.evaluate(items * 7).answers == [""] * 21


def test_a_quick_evaluation_measures_the_beginnings_of_long_texts(task, monkeypatch):
    monkeypatch.setattr(language_modeling, "QUICK", 20)
    monkeypatch.setattr(language_modeling, "SHORTEST", 5)
    texts = ["a dog sees a green house", "the cat"]
    long, short = (
        [Item((text,), (), 1) for text in some] for some in (texts, ["a dog sees", "the cat"])
    )
    assert task.evaluate(long, quick=True).values() == task.evaluate(short, quick=True).values()
    assert task.evaluate(long).values() != task.evaluate(short).values()


def test_an_evaluation_can_be_cancelled_and_raises_on_invalid_options(task, monkeypatch):
    calls = []
    monkeypatch.setattr(language_modeling, "READ_AT_ONCE", 8)
    task.evaluate([Item(("a b c " * 9,), (), 1)], quick=True, on_batch=calls.append)
    assert len(calls) > 1
    with pytest.raises(DecodingError, match="'heat' is not an option"):
        task.evaluate([Item(("a",), (), 1)], quick=True, heat=3)


def test_running_text_is_measured_in_long_items(tmp_path, monkeypatch):
    monkeypatch.setattr(language_modeling, "LONGEST_ITEM", 400)
    split = running(tmp_path)
    items = list(build(split).items(split))
    assert "".join(item.inputs[0] for item in items) == RUNNING
    assert 2 < len(items) < len(list(split))
    assert all(len(item.inputs[0]) <= 400 for item in items)
    assert [item.references for item in items] == [()] * len(items)
    lines = [1 + "".join(i.inputs[0] for i in items[:n]).count("\n") for n in range(len(items))]
    assert [item.line for item in items] == lines


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["text.block=129"], "text.block = 129 needs as many learned positions, but .* is 128"),
        (["text.layout=packed", "text.opening=x"], "text.opening is for layout"),
        (["text.layout=rows"], "text.layout cannot be 'rows'; it can be: stream, packed"),
        (["text.block=0"], "text.block cannot be 0"),
    ],
)
def test_raises_on_invalid_recipes(changes, message):
    with pytest.raises(RecipeError, match=message):
        recipes.load("gpt-mini", changes)


def test_raises_on_a_text_of_one_token(tmp_path):
    split = running(tmp_path, "a")
    task = build(split, "text.vocabulary.kind=character")
    with pytest.raises(DataError, match="the training text has 1 token, and at least 2 are needed"):
        task.sizes(task.encode(split, tmp_path / "cache"))


def foreign(*special):
    """A tokenizer.json as GPT-2 has it: bytes without merges, and its own special tokens."""
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Backend

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(name, special=True) for name in special])
    return backend.to_str()


def gpt2(tmp_path, *changes):
    (tmp_path / "tokenizer.json").write_text(foreign("<|endoftext|>"))
    options = recipes.load("gpt-mini", [*SMALL, "model.decoder.position.length=128", *changes])
    return options.options.create(running(tmp_path), vocabulary=tmp_path).eval()


def test_a_vocabulary_with_one_control_token(tmp_path):
    for changes in ((), PACKED):
        task = gpt2(tmp_path, *changes)
        assert len(task.tokenizer) == 257
        assert task.tokenizer.start == task.tokenizer.stop == 256
        split = documents(tmp_path)
        encoded = task.encode(split, tmp_path / "cache")
        batch = task.collate(encoded, range(len(task.sizes(encoded))))
        assert math.isfinite(task(batch).total.item())
        assert [a.text for a in task.predict(["", "The <|endoftext|>"], beam=1, max_length=5)]
        assert len(list(task.stream("x"))) > 1


@pytest.mark.parametrize(
    ("special", "layout", "missing"),
    [("<s>", "stream", "stop"), ("<s>", "packed", "stop"), ("</s>", "packed", "start")],
)
def test_raises_on_a_vocabulary_without_a_control_token(tmp_path, special, layout, missing):
    (tmp_path / "tokenizer.json").write_text(foreign(special))
    options = recipes.load("gpt-mini", [*SMALL, f"text.layout={layout}"]).options
    with pytest.raises(TextError, match=f"this vocabulary has no {missing} token"):
        options.restore(tmp_path)


def test_generation_and_perplexity_equal_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    from saccade.interop import huggingface

    torch.manual_seed(0)
    settings = transformers.GPT2Config(
        vocab_size=257, n_positions=64, n_embd=16, n_layer=2, n_head=2, initializer_range=0.5
    )
    theirs = transformers.GPT2LMHeadModel(settings).eval()
    theirs.save_pretrained(tmp_path / "gpt2")
    task = gpt2(tmp_path, "text.block=64")
    task.model = huggingface.load(tmp_path / "gpt2").eval()
    prompt = "The cat"
    ids = torch.tensor([task.tokenizer.encode(prompt)])
    with torch.no_grad():
        written = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False
        )
        text = torch.tensor([[256, *task.tokenizer.encode("a dog sleeps")]])
        loss = theirs(text, labels=text).loss
    [answer] = task.predict([prompt], beam=1, max_length=20)
    assert prompt + answer.text == task.tokenizer.decode(written[0].tolist())
    evaluation = task.evaluate([Item(("a dog sleeps",), (), 1)], quick=True)
    assert evaluation.values()["loss"] == pytest.approx(float(loss), rel=1e-4)


TRAINING = (
    "training.max_steps=8",
    "training.batch_tokens=64",
    "training.accumulate=2",
    "training.validate_every=4",
    "training.checkpoint_every=3",
    "training.validate_items=2",
    "training.optim.warmup=3",
    "training.log_every=1",
    "model.decoder.dropout=0.2",
)


def train(folder, data, out, *changes, name="gpt-char", **options):
    return session.train(
        name,
        data=data,
        out=folder / out,
        changes=[*SMALL, *TRAINING, *changes],
        cache=folder / "cache",
        device="cpu",
        console=Console(quiet=True),
        **options,
    )


@pytest.mark.parametrize("layout", ["stream", "packed"])
def test_a_resumed_training_is_identical(tmp_path, layout, monkeypatch):
    from saccade.training.loop import Trainer

    changes = ("text.layout=packed", "text.opening=") if layout == "packed" else ()
    (tmp_path / "text.txt").write_text(RUNNING, encoding="utf-8")
    data = tmp_path / "text.txt"
    task = train(tmp_path, data, "whole", *changes)
    update, left = Trainer.update, [6]

    def dying(self, progress):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return update(self, progress)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", dying)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, data, "parts", *changes)
    train(tmp_path, data, "parts", *changes, resume=True)
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")

    assert (tmp_path / "whole" / "report.html").exists()
    loaded = session.load(tmp_path / "whole")
    prompt = "the end of"
    assert loaded.predict([prompt], seed=3) == task.predict([prompt], seed=3)
    assert "".join(loaded.stream(prompt, seed=3)) == task.predict([prompt], seed=3)[0].text
    values = session.evaluate(loaded, data=data)
    assert set(values) == {"loss", "perplexity", "bits_per_character"}
    assert values == session.evaluate(tmp_path / "whole", data=data)


def test_training_learns(tmp_path):
    """A language model learns and generates (I2)."""
    (tmp_path / "text.txt").write_text("abcdefgh\n" * 400)
    changes = ("training.max_steps=60", "training.learning_rate=0.02", "training.batch_tokens=256")
    task = train(tmp_path, tmp_path / "text.txt", "run", *changes, "training.validate_every=60")
    assert task.predict(["abc"], beam=1, max_length=8)[0].text == "defgh\nab"


@pytest.mark.parametrize(("text", "message"), [("", "text.txt is empty"), ("one line", "too few")])
def test_raises_on_too_little_text(tmp_path, text, message):
    (tmp_path / "text.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        train(tmp_path, tmp_path / "text.txt", "run")


def test_starts_from_another_runs_vocabulary_and_weights(tmp_path):
    (tmp_path / "text.txt").write_text(RUNNING, encoding="utf-8")
    other = "".join(f"zwei naïve Städte {number}\n" for number in range(60))
    (tmp_path / "other.txt").write_text(other, encoding="utf-8")
    first = train(tmp_path, tmp_path / "text.txt", "first")
    task = train(tmp_path, tmp_path / "other.txt", "second", init=tmp_path / "first")
    assert task.tokenizer.digest == first.tokenizer.digest
    assert Tokenizer.load(tmp_path / "second" / "tokenizer.json").digest == first.tokenizer.digest
