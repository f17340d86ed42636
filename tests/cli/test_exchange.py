"""Runs from Hugging Face folders and folders from runs, against transformers."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

import saccade as front
from saccade.data.corpus import Item
from saccade.interop import huggingface
from saccade.interop.huggingface import writing
from saccade.training import exchange, session
from saccade.training import recipe as recipes
from saccade.training.console import Console
from saccade.training.run import Run
from tests.engines import tiny
from tests.interop import test_gpt2, test_marian
from tests.interop.conftest import (  # noqa: F401  (fixtures)
    _no_network,
    _one_thread,
    _quiet_reference,
)
from tests.interop.references import randomised

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
TEXTS = [
    "the cat sat on the mat",
    "a dog</s> ran [SEP] away",
    "⟨stop⟩⟨cls⟩ ⁇ is text",
    "Füße, 猫 and  two spaces",
    "cat",
]
SENTENCES = [
    "the cat sat on the mat",
    "a dog ran away from the cat",
    "the mat is on the floor",
    "a cat and a dog sat on the floor",
]
BLOCKS = """
kind = "transformer"
num_layers = 2
num_heads = 2
hidden_dim = 24
"""
TRANSLATOR = f"""
task = "text_to_text"
[text]
source = {{ kind = "bpe", size = 290 }}
max_length = 60
[model]
dim = 12
share_embeddings = true
[model.encoder]
norm_order = "post"
position = {{ kind = "sinusoidal", layout = "halves" }}
{BLOCKS}
[model.decoder]
norm_order = "post"
position = {{ kind = "sinusoidal", layout = "halves" }}
{BLOCKS}
[generation]
beam = 1
max_length = 10
[metrics]
names = ["exact_match"]
"""
SEPARATE = ("model.share_embeddings=false", 'text.target={ kind = "word", size = 40 }')
LANGUAGE_MODEL = f"""
task = "language_modeling"
[text]
vocabulary = {{ kind = "bpe", size = 290 }}
block = 60
[model]
dim = 12
[model.decoder]
activation = "gelu_tanh"
position = {{ kind = "learned", length = 64 }}
{BLOCKS}
[generation]
sample = false
max_length = 8
"""
READER = (
    "model.dim=12",
    "model.encoder.num_layers=2",
    "model.encoder.num_heads=2",
    "model.encoder.hidden_dim=24",
    "text.vocabulary.size=290",
)


def made(folder: Path, recipe: str, rows: list[tuple[str, ...]], *changes: str):
    """A run with random weights; the first of the rows names the columns."""
    small = READER if recipe in recipes.names() else ()
    tiny.made(folder, recipe, rows, *small, *changes, noise=0.2)
    return front.load(folder)


def translator(folder: Path, *changes: str):
    rows = [("source", "target"), *zip(SENTENCES, reversed(SENTENCES), strict=True)]
    return made(folder, TRANSLATOR, rows, *changes)


def classifier(folder: Path, labels: str = "up down up down", *changes: str):
    rows = [("text", "label"), *zip(SENTENCES, labels.split(" "), strict=True)]
    return made(folder, "bert-mini", rows, *changes)


def exported(saccade, run: Path) -> Path:
    out = run.parent / f"{run.name} out"
    said = saccade("export", run, "--to", "huggingface", out)
    assert said.err == ""
    assert said.code == 0
    assert str(out) in said.out
    return out


def theirs(kind: str, folder: Path):
    """The tokenizer and the model as transformers reads them, without a missing tensor."""
    model, info = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
    assert {key: value for key, value in info.items() if value} == {}
    return transformers.AutoTokenizer.from_pretrained(folder), model.eval()


def encoded(tokenizer, *texts):
    return tokenizer(*map(list, texts), padding=True, return_tensors="pt")


def again(saccade, folder: Path, run: Path):
    """The task of a folder that was exported from a run, imported."""
    out = run.parent / f"{run.name} again"
    said = saccade("import", folder, "--out", out)
    assert said.err == ""
    assert said.code == 0
    return front.load(out)


# --- out, and in again


UNBIASED = ("model.encoder.bias=false", "model.decoder.bias=false")


@pytest.mark.parametrize(
    "changes", [(), SEPARATE, UNBIASED], ids=["one vocabulary", "two", "no biases"]
)
def test_a_translator_goes_out_and_in(saccade, tmp_path, changes):
    task = translator(tmp_path / "run", *changes)
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = theirs("AutoModelForSeq2SeqLM", folder)
    target = tokenizer
    if changes == SEPARATE:
        target = transformers.PreTrainedTokenizerFast.from_pretrained(folder / "target")
    found = encoded(tokenizer, TEXTS)
    batch = task.force(TEXTS, [*SENTENCES, "mat"])
    assert torch.equal(found.input_ids, batch.source)  # both pad with 0
    assert torch.equal(found.attention_mask.bool(), batch.source_mask)
    assert encoded(target, ["the mat"]).input_ids[0, :-1].tolist() == task.target.encode("the mat")
    logits = model(**found, decoder_input_ids=batch.target[:, :-1]).logits
    ours = task.model(batch.source, batch.target[:, :-1], batch.source_mask)
    torch.testing.assert_close(logits, ours, **CLOSE)
    written = target.batch_decode(model.generate(**found), skip_special_tokens=True)
    answers = [answer.text for answer in task.predict(TEXTS)]
    assert written == answers
    back = again(saccade, folder, tmp_path / "run")
    assert [answer.text for answer in back.predict(TEXTS, beam=1, max_length=10)] == answers


def test_a_classifier_goes_out_and_in(saccade, tmp_path):
    task = classifier(tmp_path / "run")
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = theirs("AutoModelForSequenceClassification", folder)
    found = encoded(tokenizer, TEXTS)
    batch = task.force(TEXTS, ["up"] * len(TEXTS))
    assert torch.equal(found.input_ids, batch.tokens)
    torch.testing.assert_close(
        model(**found).logits, task.model(batch.tokens, batch.mask, batch.segments), **CLOSE
    )
    assert model.config.id2label == {0: "down", 1: "up"}
    assert tokenizer.decode(found.input_ids[1], skip_special_tokens=True) == TEXTS[1].lower()
    assert tokenizer(["cat " * 500], truncation=True).input_ids[0].__len__() == 128
    back = again(saccade, folder, tmp_path / "run")
    assert back.predict(TEXTS) == task.predict(TEXTS)


@pytest.mark.parametrize("segments", [2, 0])
def test_a_classifier_of_pairs(saccade, tmp_path, segments):
    rows = [("text", "text_pair", "label"), (*SENTENCES[:2], "same"), (*SENTENCES[2:], "other")]
    task = made(tmp_path / "run", "bert-mini", rows, f"model.num_segments={segments}")
    task.temperature = 1.75
    Run(tmp_path / "run").keep_parts(task)
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = theirs("AutoModelForSequenceClassification", folder)
    pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
    found = encoded(tokenizer, TEXTS, reversed(TEXTS))
    batch = task.force(pairs, ["same"] * len(pairs))
    assert torch.equal(found.input_ids, batch.tokens)
    if segments:
        assert torch.equal(found.token_type_ids, batch.segments)
    torch.testing.assert_close(
        model(**found).logits, task.model(batch.tokens, batch.mask, batch.segments), **CLOSE
    )
    if not segments:
        told = refused(saccade, "import", folder, "--out", tmp_path / "again")
        assert "it tells no segments apart" in told
        return
    back = again(saccade, folder, tmp_path / "run")
    assert back.pairs
    assert back.temperature == 1.75
    assert back.predict(pairs) == task.predict(pairs)


def test_several_labels(saccade, tmp_path):
    changes = ("labels.kind=several", "labels.separator=;", 'metrics.names=["micro_f1"]')
    task = classifier(tmp_path / "run", "a;b c,d a c,d;b", *changes)
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = theirs("AutoModelForSequenceClassification", folder)
    assert model.config.problem_type == "multi_label_classification"
    shares = model(**encoded(tokenizer, TEXTS)).logits.sigmoid()
    answers = task.predict(TEXTS)
    for share, answer in zip(shares.tolist(), answers, strict=True):
        assert answer.probabilities == pytest.approx(
            dict(zip(["a", "b", "c,d"], share, strict=True)), abs=1e-4
        )
    assert again(saccade, folder, tmp_path / "run").predict(TEXTS) == answers


def test_numbers_are_given_in_their_own_units(saccade, tmp_path):
    task = classifier(tmp_path / "run", "10.5 20 40 60")
    assert task.labels.mean == pytest.approx(32.625)
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = theirs("AutoModelForSequenceClassification", folder)
    assert model.config.num_labels == 1
    logits = model(**encoded(tokenizer, TEXTS)).logits[:, 0].tolist()
    answers = [float(answer.text) for answer in task.predict(TEXTS)]
    assert logits == pytest.approx(answers, abs=1e-3)
    back = again(saccade, folder, tmp_path / "run")
    assert [float(answer.text) for answer in back.predict(TEXTS)] == pytest.approx(answers, 1e-4)


@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
def test_a_masked_language_model_goes_out_and_in(saccade, tmp_path, kind):
    rows = [("text",), *((text,) for text in SENTENCES)]
    task = made(tmp_path / "run", "bert-mini-masked", rows, f"text.vocabulary.kind={kind}")
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = theirs("AutoModelForMaskedLM", folder)
    holes = ["the [MASK] sat on a [MASK].", "[MASK] cat", "a un[MASK]ed mat [MASK]", "a </s>[MASK]"]
    for text in holes:
        [asked] = task.prepare([text])
        ids = [task.tokenizer.cls, *asked.ids, task.tokenizer.sep]
        found = tokenizer(text.replace("[MASK]", tokenizer.mask_token), return_tensors="pt")
        assert found.input_ids.tolist() == [ids]
        torch.testing.assert_close(model(**found).logits, task.model(torch.tensor([ids])), **CLOSE)
    back = again(saccade, folder, tmp_path / "run")
    assert back.predict(holes, num_best=3) == task.predict(holes, num_best=3)
    assert back.tokenizer.encode("  a cat") == task.tokenizer.encode("  a cat")


@pytest.mark.parametrize(
    "changes", [(), ("text.layout=packed",), ('text.opening="\\n"',)], ids=["", "packed", "opening"]
)
def test_a_language_model_goes_out_and_in(saccade, tmp_path, changes):
    rows = [("text",), *((text,) for text in SENTENCES)]
    task = made(tmp_path / "run", LANGUAGE_MODEL, rows, *changes)
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = theirs("AutoModelForCausalLM", folder)
    answers = task.predict(TEXTS)
    for text, answer, context in zip(TEXTS, answers, task._contexts(TEXTS), strict=True):
        found = tokenizer([text], return_tensors="pt")
        assert found.input_ids.tolist() == [context]
        torch.testing.assert_close(
            model(**found).logits, task.model(torch.tensor([context])), **CLOSE
        )
        [written] = model.generate(**found)
        assert task._continuation(context, written[len(context) :].tolist()) == answer.text
    back = again(saccade, folder, tmp_path / "run")
    assert back.predict(TEXTS, sample=False, max_length=8) == answers


def test_how_a_language_model_draws(saccade, tmp_path):
    rows = [("text",), *((text,) for text in SENTENCES)]
    changes = ("generation.sample=true", "generation.temperature=0.7", "generation.top_p=0.9")
    made(tmp_path / "run", LANGUAGE_MODEL, rows, *changes)
    folder = exported(saccade, tmp_path / "run")
    drawn = transformers.GenerationConfig.from_pretrained(folder)
    assert (drawn.do_sample, drawn.temperature, drawn.top_k, drawn.top_p) == (True, 0.7, 0, 0.9)
    assert (drawn.eos_token_id, drawn.max_new_tokens) == (2, 8)
    assert drawn.suppress_tokens == [0, 1, 3, 4, 5, 6]


# --- in


def word_pieces(folder: Path) -> Backend:
    """A vocabulary as BERT has it."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "cat", "dog", "sat", "on"]
    words += ["mat", "##s", "##ly", "c", "##a", "##t", ".", "ran"]
    backend = Backend(models.WordPiece({x: i for i, x in enumerate(words)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.add_special_tokens([AddedToken(word, normalized=False) for word in words[:5]])
    backend.save(str(folder / "tokenizer.json"))
    return backend


def bert(folder: Path, kind: str, **options):
    config = transformers.BertConfig(
        **{
            "vocab_size": 32,  # of which the vocabulary uses 19
            "hidden_size": 12,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 20,
            "max_position_embeddings": 24,
            **options,
        }
    )
    model = randomised(getattr(transformers, kind)(config))
    model.save_pretrained(folder)
    word_pieces(folder)
    return model


def sentence_pieces(path: Path) -> Backend:
    """A vocabulary as Marian has it: no start, and pad at the end."""
    pieces = [("</s>", 0.0), ("<unk>", 0.0), *((f"▁{x}", -2.0) for x in "abcdefgh")]
    pieces += [*((x, -3.0) for x in "abcdefgh"), ("▁", -4.0), ("ab", -2.5), ("<pad>", 0.0)]
    backend = Backend(models.Unigram(pieces, unk_id=1))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    special = [AddedToken(x, normalized=False) for x in ("</s>", "<unk>", "<pad>")]
    backend.add_special_tokens(special)
    path.parent.mkdir(exist_ok=True)
    backend.save(str(path))
    return backend


def marian(folder: Path, rows: int = 21, **options):
    sizes = {"vocab_size": rows, "pad_token_id": 20, "decoder_start_token_id": 20, **options}
    model = test_marian.reference(**{**sizes, "max_position_embeddings": 50})
    model.save_pretrained(folder)
    sentence_pieces(folder / "tokenizer.json")
    return model


LETTERS = ["a b c", "ab abc g", "h", "d e f g h a b c"]


def test_marian_becomes_a_run(saccade, tmp_path):
    """Its answers are those of transformers, though its start is a token of its own here."""
    model = marian(tmp_path / "opus")
    said = saccade("import", tmp_path / "opus", "--out", tmp_path / "run")
    assert said.code == 0
    assert "text_to_text, a Translator of" in said.out
    assert json.loads((tmp_path / "run" / "run.json").read_text())["imported"] == "opus"
    task = front.load(tmp_path / "run")
    assert len(task.target) == 25
    assert task.config.text.max_length == 49
    batch = task.force(LETTERS, list(reversed(LETTERS)))
    target = batch.target[:, :-1].clone()
    ours = task.model(batch.source, target, batch.source_mask).log_softmax(-1)
    target[:, 0] = 20
    logits = model(batch.source, attention_mask=batch.source_mask, decoder_input_ids=target).logits
    torch.testing.assert_close(ours[..., :21], logits.log_softmax(-1), **CLOSE)
    said = saccade("predict", tmp_path / "run", *LETTERS, "--beam", 1, "--max-length", 9)
    for text, answer in zip(LETTERS, said.lines, strict=True):
        source = torch.tensor([[*task.source.encode(text), 0]])
        [written] = model.generate(
            source, num_beams=1, max_length=10, suppress_tokens=[1, 20], forced_eos_token_id=None
        )
        assert task.target.decode(written[1:].tolist()) == answer


def test_an_imported_run_is_measured_and_trained_further(saccade, tmp_path):
    marian(tmp_path / "opus")
    exchange.import_folder(tmp_path / "opus", tmp_path / "run")
    rows = [f"{x} {y}\t{y} {x}\n" for x in "abcd" for y in "efgh"]
    (tmp_path / "pairs.tsv").write_text("source\ttarget\n" + "".join(rows))
    said = saccade("evaluate", tmp_path / "run", "--data", tmp_path / "pairs.tsv", "--json")
    assert json.loads(said.out)["items"] == 16
    task = session.train(
        tmp_path / "run" / "recipe.toml",
        data=tmp_path / "pairs.tsv",
        out=tmp_path / "more",
        init=tmp_path / "run",
        max_steps=1,
        device="cpu",
        cache=tmp_path / "cache",
        console=Console(quiet=True),
    )
    before = front.load(tmp_path / "run").model.state_dict()
    after = task.model.state_dict()
    assert before.keys() == after.keys()
    for name, value in before.items():
        torch.testing.assert_close(after[name], value, rtol=1e-3, atol=1e-3)


def test_marian_with_two_vocabularies(tmp_path):
    options = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 23}
    model = marian(tmp_path / "opus", 24, **options)
    sentence_pieces(tmp_path / "opus" / "target" / "tokenizer.json")
    task = exchange.import_folder(tmp_path / "opus", tmp_path / "run")
    assert (len(task.source), len(task.target)) == (21, 25)
    batch = task.force(LETTERS, LETTERS)
    target = batch.target[:, :-1].clone()
    ours = task.model(batch.source, target, batch.source_mask)
    target[:, 0] = 20
    logits = model(batch.source, attention_mask=batch.source_mask, decoder_input_ids=target).logits
    torch.testing.assert_close(  # of rows that stand for no token, none is left
        ours.log_softmax(-1)[..., :21], logits[..., :21].log_softmax(-1), **CLOSE
    )


def test_a_bert_classifier_becomes_a_run(saccade, tmp_path):
    names = {0: "bad", 1: "so so", 2: "good"}
    model = bert(tmp_path / "hf", "BertForSequenceClassification", id2label=names)
    said = saccade("import", tmp_path / "hf", "--out", tmp_path / "run")
    assert said.code == 0
    said = saccade("predict", tmp_path / "run", "the cats sat.", "A dog [SEP]", "--json")
    read = [[2, 6, 7, 12, 9, 17, 3], [2, 5, 8, 1, 1, 1, 3]]  # of a typed [SEP] nothing is known
    for ids, line in zip(read, said.lines, strict=True):
        shares = model(torch.tensor([ids])).logits.softmax(-1)[0].tolist()
        wanted = dict(zip(names.values(), shares, strict=True))
        assert json.loads(line)["probabilities"] == pytest.approx(wanted, abs=1e-4)
    tokenizer, _ = theirs("AutoModelForSequenceClassification", exported(saccade, tmp_path / "run"))
    assert tokenizer(["the cats sat.", "A dog [SEP]"]).input_ids == read
    (tmp_path / "test.tsv").write_text("text\tlabel\nthe cat\tso so\na dog\tgood\n")
    said = saccade("evaluate", tmp_path / "run", "--data", tmp_path / "test.tsv", "--json")
    assert json.loads(said.out)["items"] == 2


def test_a_bert_classifier_of_pairs_must_be_called_so(saccade, tmp_path):
    model = bert(tmp_path / "hf", "BertForSequenceClassification")
    said = saccade("import", tmp_path / "hf", "--out", tmp_path / "run", "--pairs")
    assert said.code == 0
    [answer] = front.load(tmp_path / "run").predict([("the cat", "a dog sat")])
    ids, segments = torch.tensor([[2, 6, 7, 3, 5, 8, 9, 3]]), torch.tensor([[0] * 4 + [1] * 4])
    shares = model(ids, token_type_ids=segments).logits.softmax(-1)[0].tolist()
    assert list(answer.probabilities.values()) == pytest.approx(shares, abs=1e-4)
    assert list(answer.probabilities) == ["LABEL_0", "LABEL_1"]


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"problem_type": "multi_label_classification", "num_labels": 3}, "several"),
        ({"problem_type": "regression", "num_labels": 1}, "number"),
        ({"num_labels": 1}, "number"),
        ({"problem_type": "single_label_classification", "num_labels": 2}, "one"),
    ],
)
def test_what_the_labels_are(tmp_path, options, kind):
    model = bert(tmp_path / "hf", "BertForSequenceClassification", **options)
    task = exchange.import_folder(tmp_path / "hf", tmp_path / "run")
    assert task.labels.kind == task.config.labels.kind == kind
    [answer] = front.load(tmp_path / "run").predict(["the cat"])
    logits = model(torch.tensor([[2, 6, 7, 3]])).logits[0].detach()
    if kind == "number":
        assert float(answer.text) == pytest.approx(float(logits), abs=1e-3)
    else:
        shares = logits.sigmoid() if kind == "several" else logits.softmax(-1)
        assert list(answer.probabilities.values()) == pytest.approx(shares.tolist(), abs=1e-4)


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "BertForPreTraining"])
def test_a_masked_bert_becomes_a_run(saccade, tmp_path, kind):
    model = bert(tmp_path / "hf", kind)
    said = saccade("import", tmp_path / "hf", "--out", tmp_path / "run")
    assert said.code == 0
    said = saccade("predict", tmp_path / "run", "the [MASK] sat on a mat.")
    assert said.code == 0
    ids = torch.tensor([[2, 6, 4, 9, 10, 5, 11, 17, 3]])
    [logits] = model(ids)[0][:, 2]
    best = 5 + int(logits[5:19].argmax())  # of what is text
    assert said.out.strip() == front.load(tmp_path / "run").tokenizer.decode(
        [6, best, 9, 10, 5, 11, 17]
    )
    tokenizer, _ = theirs("AutoModelForMaskedLM", exported(saccade, tmp_path / "run"))
    assert tokenizer("the [MASK] sat on a mat.").input_ids == ids[0].tolist()


def test_gpt2_becomes_a_run(saccade, tmp_path):
    entries = ["<|endoftext|>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "th", "Ġc", "at"]
    merges = [("t", "h"), ("Ġ", "c"), ("a", "t")]
    backend = Backend(models.BPE({x: i for i, x in enumerate(entries)}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken("<|endoftext|>", normalized=False)])
    sizes = {"vocab_size": len(entries) + 4, "n_positions": 40}
    model = test_gpt2.reference(**sizes, bos_token_id=0, eos_token_id=0)
    model.save_pretrained(tmp_path / "hf")
    backend.save(str(tmp_path / "hf" / "tokenizer.json"))
    said = saccade("import", tmp_path / "hf", "--out", tmp_path / "run")
    assert said.code == 0
    task = front.load(tmp_path / "run")
    assert len(task.tokenizer) == len(entries)
    text = "that cat"
    ids = backend.encode(text).ids
    [answer] = task.predict([text], beam=1, max_length=6)
    [written] = model.generate(
        torch.tensor([ids]),
        do_sample=False,
        max_new_tokens=6,
        suppress_tokens=[len(entries) + i for i in range(4)],
        pad_token_id=0,
    )
    assert backend.decode(written.tolist()) == text + answer.text
    scores = task.evaluate([Item((text,), (), 1)]).values()
    logits = model(torch.tensor([[0, *ids[:-1]]])).logits[0, :, : len(entries)]
    nats = torch.nn.functional.cross_entropy(logits.detach(), torch.tensor(ids))
    assert scores["loss"] == pytest.approx(float(nats), abs=1e-4)
    folder = exported(saccade, tmp_path / "run")
    tokenizer, _ = theirs("AutoModelForCausalLM", folder)
    assert tokenizer(text).input_ids == ids


# --- what cannot be done, and why


def refused(saccade, *arguments) -> str:
    said = saccade(*arguments)
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("error: ")
    return said.err


def test_folders_that_are_no_task(saccade, tmp_path):
    bert(tmp_path / "body", "BertModel")
    told = refused(saccade, "import", tmp_path / "body", "--out", tmp_path / "run")
    assert "holds a BertModel: it has no head" in told
    assert "saccade train RECIPE --data DATA --out RUN --init FOLDER" in told
    bert(tmp_path / "tags", "BertForTokenClassification")
    told = refused(saccade, "import", tmp_path / "tags", "--out", tmp_path / "run")
    assert "there is no task for it; what can be imported is BertForSequenceClassification" in told
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32}
    vit = transformers.ViTForImageClassification(transformers.ViTConfig(**sizes))
    vit.save_pretrained(tmp_path / "vit")
    told = refused(saccade, "import", tmp_path / "vit", "--out", tmp_path / "run")
    assert "tasks on images cannot be imported yet" in told
    told = refused(saccade, "import", tmp_path / "nowhere", "--out", tmp_path / "run")
    assert "there is no folder" in told
    assert not (tmp_path / "run").exists()


def test_vocabularies_that_do_not_fit(saccade, tmp_path):
    folder = tmp_path / "hf"
    bert(folder, "BertForMaskedLM", vocab_size=18)
    told = refused(saccade, "import", folder, "--out", tmp_path / "run")
    assert "has ids up to 18, and the model embeds 18 tokens" in told
    content = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(content.replace("[SEP]", "[END]"))
    bert(tmp_path / "wide", "BertForMaskedLM")
    (tmp_path / "wide" / "tokenizer.json").write_text(content.replace("[SEP]", "[END]"))
    told = refused(saccade, "import", tmp_path / "wide", "--out", tmp_path / "run")
    assert "has no sep token by any of its usual names, such as [SEP]" in told
    (tmp_path / "wide" / "tokenizer.json").unlink()
    told = refused(saccade, "import", tmp_path / "wide", "--out", tmp_path / "run")
    assert "has no tokenizer.json, without which no text can be read" in told
    marian(tmp_path / "opus", eos_token_id=3)
    told = refused(saccade, "import", tmp_path / "opus", "--out", tmp_path / "run")
    assert "ends texts with 3 (eos_token_id), tokenizer.json with 0" in told
    marian(tmp_path / "late", decoder_start_token_id=21)
    told = refused(saccade, "import", tmp_path / "late", "--out", tmp_path / "run")
    assert "begins texts with 21 (decoder_start_token_id), which is none of its 21 tokens" in told
    options = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 23}
    marian(tmp_path / "two", **options)
    told = refused(saccade, "import", tmp_path / "two", "--out", tmp_path / "run")
    assert "it needs two vocabularies: tokenizer.json for the source and target/" in told
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"id2label": {0: "x", 1: " x"}}, "id2label must give each class a name of its own"),
        ({"problem_type": "regression", "num_labels": 2}, "gives 2 numbers for a text"),
    ],
)
def test_labels_that_do_not_fit(saccade, tmp_path, options, told):
    bert(tmp_path / "hf", "BertForSequenceClassification", **options)
    assert told in refused(saccade, "import", tmp_path / "hf", "--out", tmp_path / "run")


def test_what_was_written_here_and_changed(saccade, tmp_path):
    bert(tmp_path / "hf", "BertForSequenceClassification", saccade={"temperature": "warm"})
    told = refused(saccade, "import", tmp_path / "hf", "--out", tmp_path / "run")
    assert 'config.json: "saccade" cannot be used as it is: could not convert' in told


def test_pairs_need_segments(saccade, tmp_path):
    bert(tmp_path / "hf", "BertForSequenceClassification", type_vocab_size=1)
    arguments = ("import", tmp_path / "hf", "--out", tmp_path / "run", "--pairs")
    assert "it tells no segments apart (type_vocab_size is 1)" in refused(saccade, *arguments)


def test_nothing_is_overwritten(saccade, tmp_path):
    bert(tmp_path / "hf", "BertForMaskedLM")
    exchange.import_folder(tmp_path / "hf", tmp_path / "run")
    told = refused(saccade, "import", tmp_path / "hf", "--out", tmp_path / "run")
    assert "holds a run already; choose another folder with --out" in told
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    told = refused(saccade, "import", tmp_path / "hf", "--out", tmp_path / "mine")
    assert "is not empty (letter.txt)" in told
    where = ("--to", "huggingface", tmp_path / "mine")
    told = refused(saccade, "export", tmp_path / "run", *where)
    assert "mine is not empty; choose a new folder to export to" in told
    told = refused(saccade, "export", tmp_path / "run", *where[:2], tmp_path / "mine/letter.txt")
    assert "letter.txt is a file" in told
    assert [path.name for path in (tmp_path / "mine").iterdir() if path.name[0] != "."] == [
        "letter.txt"
    ]


def test_an_empty_folder_may_be_exported_to(saccade, tmp_path):
    classifier(tmp_path / "run")
    (tmp_path / "run out").mkdir()
    folder = exported(saccade, tmp_path / "run")
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert not list(tmp_path.glob(".partial*"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["model.encoder.norm_order=pre"], "order is 'pre', there 'post'"),
        (["model.encoder.stem_norm=false"], "encoder.stem_norm of this TextClassifier is Identity"),
        (["model.pooling=mean"], "pooling is 'mean', there 'first'"),
        (["model.encoder.norm=rms"], 'model.encoder.norm is "rms", and it has "layer"'),
        (["model.encoder.feed_forward=gated"], 'model.encoder.feed_forward is "gated"'),
        (["model.encoder.head=full"], 'model.encoder.head is "full", and it has "split"'),
        (["model.encoder.head_dim=5"], "model.encoder.head_dim is 5, and it has null"),
        (["model.encoder.qk_norm=true"], "model.encoder.qk_norm is true, and it has false"),
    ],
)
def test_a_model_without_a_counterpart_says_why(saccade, tmp_path, changes, told):
    classifier(tmp_path / "run", "up down up down", *changes)
    arguments = ("export", tmp_path / "run", "--to", "huggingface", tmp_path / "deep" / "out")
    assert told in refused(saccade, *arguments)
    assert not (tmp_path / "deep" / "out").exists()
    assert not list((tmp_path / "deep").iterdir())


def test_a_recurrent_run_has_no_counterpart(saccade, run, tmp_path):
    told = refused(saccade, "export", run, "--to", "huggingface", tmp_path / "out")
    assert "encoder of this Translator is RecurrentEncoder, and the format needs a" in told


def test_formats(saccade, run, tmp_path):
    told = refused(saccade, "export", run, "--to", "tensorflow", tmp_path / "out")
    assert "cannot be exported to 'tensorflow'; it can be to: ctranslate2, huggingface" in told
    assert saccade("export", run, tmp_path / "out").code == 2
    told = refused(saccade, "export", tmp_path, "--to", "huggingface", tmp_path / "out")
    assert "is not a run folder" in told
    assert not (tmp_path / "out").exists()


def test_what_is_written_is_compared(saccade, tmp_path, monkeypatch):
    """A fault in writing is noticed, and nothing is left of it."""
    classifier(tmp_path / "run")

    def faulty(folder):
        model = huggingface.load(folder)
        with torch.no_grad():
            model.head.bias[0] += 0.01
        return model

    monkeypatch.setattr(writing, "load", faulty)
    told = refused(saccade, "export", tmp_path / "run", "--to", "huggingface", tmp_path / "out")
    assert "what was written does not give the same logits: 0.0" in told
    assert not (tmp_path / "out").exists()
