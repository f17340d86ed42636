"""Import from and export to Hugging Face folders, compared with transformers."""

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
from saccade.interop.huggingface import task_export
from saccade.interop.huggingface.task_import import read_task
from saccade.training import recipe as recipes
from saccade.training import session
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


def random_run(folder: Path, recipe: str, rows: list[tuple[str, ...]], *changes: str):
    """Create a run with random weights; the first of the rows names the columns."""
    small = READER if recipe in recipes.names() else ()
    tiny.made(folder, recipe, rows, *small, *changes, noise=0.2)
    return front.load(folder)


def translator(folder: Path, *changes: str):
    rows = [("source", "target"), *zip(SENTENCES, reversed(SENTENCES), strict=True)]
    return random_run(folder, TRANSLATOR, rows, *changes)


def import_folder(folder: Path, out: Path):
    read = read_task(folder)
    recipe = recipes.Recipe(read.task.name, read.options, recipes.FINE_TUNING)
    Run(out).create(recipe, read.task, {})
    return read.task


def classifier(folder: Path, labels: str = "up down up down", *changes: str):
    rows = [("text", "label"), *zip(SENTENCES, labels.split(" "), strict=True)]
    return random_run(folder, "bert-mini", rows, *changes)


def exported(saccade, run: Path) -> Path:
    out = run.parent / f"{run.name} out"
    result = saccade("export", run, "--to", "huggingface", out)
    assert "comparing its logits" in result.err
    assert result.code == 0
    assert str(out) in result.out
    return out


def load_transformers(kind: str, folder: Path):
    """Return the tokenizer and model as transformers loads them, without missing tensors."""
    model, info = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
    assert {key: value for key, value in info.items() if value} == {}
    return transformers.AutoTokenizer.from_pretrained(folder), model.eval()


def encoded(tokenizer, *texts):
    return tokenizer(*map(list, texts), padding=True, return_tensors="pt")


def imported(saccade, folder: Path, run: Path):
    """Return the task of an imported folder."""
    out = run.parent / f"{run.name} again"
    result = saccade("import", folder, "--out", out)
    assert result.err == ""
    assert result.code == 0
    return front.load(out)


# --- export, and import again


UNBIASED = ("model.encoder.bias=false", "model.decoder.bias=false")


@pytest.mark.parametrize(
    "changes", [(), SEPARATE, UNBIASED], ids=["one vocabulary", "two", "no biases"]
)
def test_translator_round_trip(saccade, tmp_path, changes):
    task = translator(tmp_path / "run", *changes)
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = load_transformers("AutoModelForSeq2SeqLM", folder)
    target = tokenizer
    if changes == SEPARATE:
        target = transformers.PreTrainedTokenizerFast.from_pretrained(folder / "target")
    inputs = encoded(tokenizer, TEXTS)
    batch = task.force(TEXTS, [*SENTENCES, "mat"])
    assert torch.equal(inputs.input_ids, batch.source)  # both pad with 0
    assert torch.equal(inputs.attention_mask.bool(), batch.source_mask)
    assert encoded(target, ["the mat"]).input_ids[0, :-1].tolist() == task.target.encode("the mat")
    logits = model(**inputs, decoder_input_ids=batch.target[:, :-1]).logits
    ours = task.model(batch.source, batch.target[:, :-1], batch.source_mask)
    torch.testing.assert_close(logits, ours, **CLOSE)
    written = target.batch_decode(model.generate(**inputs), skip_special_tokens=True)
    answers = [answer.text for answer in task.predict(TEXTS)]
    assert written == answers
    back = imported(saccade, folder, tmp_path / "run")
    assert [answer.text for answer in back.predict(TEXTS, beam=1, max_length=10)] == answers


def test_classifier_round_trip(saccade, tmp_path):
    task = classifier(tmp_path / "run")
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = load_transformers("AutoModelForSequenceClassification", folder)
    inputs = encoded(tokenizer, TEXTS)
    batch = task.force(TEXTS, ["up"] * len(TEXTS))
    assert torch.equal(inputs.input_ids, batch.tokens)
    torch.testing.assert_close(
        model(**inputs).logits, task.model(batch.tokens, batch.mask, batch.segments), **CLOSE
    )
    assert model.config.id2label == {0: "down", 1: "up"}
    assert tokenizer.decode(inputs.input_ids[1], skip_special_tokens=True) == TEXTS[1].lower()
    assert tokenizer(["cat " * 500], truncation=True).input_ids[0].__len__() == 128
    back = imported(saccade, folder, tmp_path / "run")
    assert back.predict(TEXTS) == task.predict(TEXTS)


@pytest.mark.parametrize("segments", [2, 0])
def test_classifier_of_pairs_round_trip(saccade, tmp_path, segments):
    rows = [("text", "text_pair", "label"), (*SENTENCES[:2], "same"), (*SENTENCES[2:], "other")]
    task = random_run(tmp_path / "run", "bert-mini", rows, f"model.num_segments={segments}")
    task.temperature = 1.75
    Run(tmp_path / "run").keep_parts(task)
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = load_transformers("AutoModelForSequenceClassification", folder)
    pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
    inputs = encoded(tokenizer, TEXTS, reversed(TEXTS))
    batch = task.force(pairs, ["same"] * len(pairs))
    assert torch.equal(inputs.input_ids, batch.tokens)
    if segments:
        assert torch.equal(inputs.token_type_ids, batch.segments)
    ours = task.model(batch.tokens, batch.mask, batch.segments) / 1.75
    torch.testing.assert_close(model(**inputs).logits, ours, **CLOSE)
    if not segments:
        message = error_of(saccade, "import", folder, "--out", tmp_path / "again")
        assert "it does not tell segments apart" in message
        return
    back = imported(saccade, folder, tmp_path / "run")
    assert back.pairs
    assert back.temperature == 1.0  # the head includes it
    require_equal_probabilities(back.predict(pairs), task.predict(pairs))


def test_the_family_of_an_export_can_be_chosen(saccade, tmp_path):
    task = classifier(tmp_path / "run", "up down up down", "model.num_segments=0")
    out = tmp_path / "out"
    command = ("export", tmp_path / "run", out, "--to", "huggingface", "--family")
    message = error_of(saccade, *command, "gpt2")
    assert "cannot be written as 'gpt2'; it fits bert, " in message
    family = message.partition("it fits bert, ")[2].partition(".")[0].split(", ")[0]
    assert saccade(*command, family).code == 0
    assert huggingface.read_config(out)["model_type"] == family != "bert"
    tokenizer, model = load_transformers("AutoModelForSequenceClassification", out)
    batch = task.force(TEXTS, ["up"] * len(TEXTS))
    expected = task.model(batch.tokens, batch.mask, batch.segments)
    torch.testing.assert_close(model(**encoded(tokenizer, TEXTS)).logits, expected, **CLOSE)


def require_equal_probabilities(answers, expected):
    for answer, ours in zip(answers, expected, strict=True):
        assert answer.label == ours.label
        assert answer.probabilities == pytest.approx(ours.probabilities, abs=1e-5)
        assert answer.confidence == pytest.approx(ours.confidence, abs=1e-5)


@pytest.mark.parametrize("recipe", ["bert-mini", "bert-small"])
def test_transformers_gives_the_calibrated_probabilities(saccade, tmp_path, recipe):
    rows = [("text", "label"), *zip(SENTENCES, ["up", "down", "same", "down"], strict=True)]
    task = random_run(tmp_path / "run", recipe, rows)
    task.temperature = 0.4
    Run(tmp_path / "run").keep_parts(task)
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = load_transformers("AutoModelForSequenceClassification", folder)
    probabilities = model(**encoded(tokenizer, TEXTS)).logits.softmax(-1)
    answers = task.predict(TEXTS)
    for probability, answer in zip(probabilities.tolist(), answers, strict=True):
        assert list(answer.probabilities.values()) == pytest.approx(probability, abs=1e-5)
    require_equal_probabilities(imported(saccade, folder, tmp_path / "run").predict(TEXTS), answers)


def test_transformers_gives_the_tags_at_first_tokens(saccade, tmp_path):
    tags = ["B-x O O O", "O B-x I-x O", "O O B-y I-y", "O O O O"]
    words = ["we can't sing .", "an odd word here", "one two three four", "a b c d"]
    rows = [("words", "tags"), *zip(words, tags, strict=True)]
    bert_like = (
        "model.num_segments=2",
        "model.scale_embedding=false",
        "model.encoder.norm_order=post",
        "model.encoder.stem_norm=true",
        "model.encoder.position={kind='learned',length=512}",
    )
    task = random_run(tmp_path / "run", "transformer-tagger", rows, *bert_like)
    task.temperature = 0.4
    Run(tmp_path / "run").keep_parts(task)
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = load_transformers("AutoModelForTokenClassification", folder)
    batch = task.force([tuple(words[1].split())], [tags[1]])
    read = {"input_ids": batch.tokens, "attention_mask": batch.mask.long()}
    logits = model(**read).logits.softmax(-1)
    ours = (task.model(batch.tokens, batch.mask, batch.segments) / 0.4).softmax(-1)
    torch.testing.assert_close(logits, ours, atol=1e-5, rtol=0)
    assert tuple(model.config.id2label.values()) == task.labels.names
    ids = tokenizer(words[1])["input_ids"]
    assert ids == batch.tokens[0].tolist()
    back = imported(saccade, folder, tmp_path / "run")
    assert back.labels.scheme == "BIO"
    assert back.labels.splitter == task.labels.splitter
    for text in words:
        [answer], [same] = task.predict([text]), back.predict([text])
        assert same.tags == answer.tags
        assert same.probabilities == pytest.approx(answer.probabilities, abs=1e-5)


def test_the_temperature_of_an_earlier_export_is_read(saccade, tmp_path):
    task = classifier(tmp_path / "run")
    folder = exported(saccade, tmp_path / "run")
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["saccade"]["temperature"] = 1.75
    path.write_text(json.dumps(config))
    task.temperature = 1.75
    back = imported(saccade, folder, tmp_path / "run")
    assert back.temperature == 1.75
    require_equal_probabilities(back.predict(TEXTS), task.predict(TEXTS))


def test_multi_label_classifier_round_trip(saccade, tmp_path):
    changes = ("labels.kind=several", "labels.separator=;", 'metrics.names=["micro_f1"]')
    task = classifier(tmp_path / "run", "a;b c,d a c,d;b", *changes)
    task.temperature = 1.75
    task.labels.thresholds["b"] = 0.125
    Run(tmp_path / "run").keep_parts(task)
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = load_transformers("AutoModelForSequenceClassification", folder)
    assert model.config.problem_type == "multi_label_classification"
    probabilities = model(**encoded(tokenizer, TEXTS)).logits.sigmoid()
    answers = task.predict(TEXTS)
    for probability, answer in zip(probabilities.tolist(), answers, strict=True):
        assert answer.probabilities == pytest.approx(
            dict(zip(["a", "b", "c,d"], probability, strict=True)), abs=1e-4
        )
    back = imported(saccade, folder, tmp_path / "run")
    assert back.labels.thresholds == {"a": 0.5, "b": 0.125, "c,d": 0.5}
    require_equal_probabilities(back.predict(TEXTS), answers)


def test_regression_is_exported_in_the_units_of_the_labels(saccade, tmp_path):
    task = classifier(tmp_path / "run", "10.5 20 40 60")
    assert task.labels.mean == pytest.approx(32.625)
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = load_transformers("AutoModelForSequenceClassification", folder)
    assert model.config.num_labels == 1
    logits = model(**encoded(tokenizer, TEXTS)).logits[:, 0].tolist()
    answers = [float(answer.text) for answer in task.predict(TEXTS)]
    assert logits == pytest.approx(answers, abs=1e-3)
    back = imported(saccade, folder, tmp_path / "run")
    assert [float(answer.text) for answer in back.predict(TEXTS)] == pytest.approx(answers, 1e-4)


@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
def test_masked_language_model_round_trip(saccade, tmp_path, kind):
    rows = [("text",), *((text,) for text in SENTENCES)]
    task = random_run(tmp_path / "run", "bert-mini-masked", rows, f"text.vocabulary.kind={kind}")
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = load_transformers("AutoModelForMaskedLM", folder)
    holes = ["the [MASK] sat on a [MASK].", "[MASK] cat", "a un[MASK]ed mat [MASK]", "a </s>[MASK]"]
    for text in holes:
        [example] = task.prepare([text])
        ids = [task.tokenizer.cls, *example.ids, task.tokenizer.sep]
        inputs = tokenizer(text.replace("[MASK]", tokenizer.mask_token), return_tensors="pt")
        assert inputs.input_ids.tolist() == [ids]
        torch.testing.assert_close(model(**inputs).logits, task.model(torch.tensor([ids])), **CLOSE)
    back = imported(saccade, folder, tmp_path / "run")
    assert back.predict(holes, num_best=3) == task.predict(holes, num_best=3)
    assert back.tokenizer.encode("  a cat") == task.tokenizer.encode("  a cat")


@pytest.mark.parametrize(
    "changes", [(), ("text.layout=packed",), ('text.opening="\\n"',)], ids=["", "packed", "opening"]
)
def test_language_model_round_trip(saccade, tmp_path, changes):
    rows = [("text",), *((text,) for text in SENTENCES)]
    task = random_run(tmp_path / "run", LANGUAGE_MODEL, rows, *changes)
    folder = exported(saccade, tmp_path / "run")
    tokenizer, model = load_transformers("AutoModelForCausalLM", folder)
    answers = task.predict(TEXTS)
    for text, answer, context in zip(TEXTS, answers, task.contexts(TEXTS), strict=True):
        inputs = tokenizer([text], return_tensors="pt")
        assert inputs.input_ids.tolist() == [context]
        torch.testing.assert_close(
            model(**inputs).logits, task.model(torch.tensor([context])), **CLOSE
        )
        [written] = model.generate(**inputs)
        assert task.continuation(context, written[len(context) :].tolist()) == answer.text
    back = imported(saccade, folder, tmp_path / "run")
    assert back.predict(TEXTS, sample=False, max_length=8) == answers


def test_sampling_options_are_exported(saccade, tmp_path):
    rows = [("text",), *((text,) for text in SENTENCES)]
    changes = ("generation.sample=true", "generation.temperature=0.7", "generation.top_p=0.9")
    random_run(tmp_path / "run", LANGUAGE_MODEL, rows, *changes)
    folder = exported(saccade, tmp_path / "run")
    generation = transformers.GenerationConfig.from_pretrained(folder)
    assert (generation.do_sample, generation.temperature, generation.top_k, generation.top_p) == (
        True,
        0.7,
        0,
        0.9,
    )
    assert (generation.eos_token_id, generation.max_new_tokens) == (2, 8)
    assert generation.suppress_tokens == [0, 1, 3, 4, 5, 6]


# --- import


def word_pieces(folder: Path) -> Backend:
    """Write a vocabulary like BERT's."""
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
            "vocab_size": 32,  # the vocabulary uses 19 of them
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
    """Write a vocabulary like Marian's: no start token, and padding at the end."""
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


def test_imported_marian_equals_transformers(saccade, tmp_path):
    """Although its start token is a separate token here."""
    model = marian(tmp_path / "opus")
    result = saccade("import", tmp_path / "opus", "--out", tmp_path / "run")
    assert result.code == 0
    assert "text_to_text, a Translator with" in result.out
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
    result = saccade("predict", tmp_path / "run", *LETTERS, "--beam", 1, "--max-length", 9)
    for text, answer in zip(LETTERS, result.lines, strict=True):
        source = torch.tensor([[*task.source.encode(text), 0]])
        [written] = model.generate(
            source, num_beams=1, max_length=10, suppress_tokens=[1, 20], forced_eos_token_id=None
        )
        assert task.target.decode(written[1:].tolist()) == answer


def test_imported_run_can_be_evaluated_and_trained_further(saccade, tmp_path):
    marian(tmp_path / "opus")
    import_folder(tmp_path / "opus", tmp_path / "run")
    rows = [f"{x} {y}\t{y} {x}\n" for x in "abcd" for y in "efgh"]
    (tmp_path / "pairs.tsv").write_text("source\ttarget\n" + "".join(rows))
    result = saccade("evaluate", tmp_path / "run", "--data", tmp_path / "pairs.tsv", "--json")
    assert json.loads(result.out)["items"] == 16
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
    task = import_folder(tmp_path / "opus", tmp_path / "run")
    assert (len(task.source), len(task.target)) == (21, 25)
    batch = task.force(LETTERS, LETTERS)
    target = batch.target[:, :-1].clone()
    ours = task.model(batch.source, target, batch.source_mask)
    target[:, 0] = 20
    logits = model(batch.source, attention_mask=batch.source_mask, decoder_input_ids=target).logits
    torch.testing.assert_close(  # rows without a token are removed
        ours.log_softmax(-1)[..., :21], logits[..., :21].log_softmax(-1), **CLOSE
    )


def test_imported_bert_classifier_equals_transformers(saccade, tmp_path):
    names = {0: "bad", 1: "so so", 2: "good"}
    model = bert(tmp_path / "hf", "BertForSequenceClassification", id2label=names)
    result = saccade("import", tmp_path / "hf", "--out", tmp_path / "run")
    assert result.code == 0
    result = saccade("predict", tmp_path / "run", "the cats sat.", "A dog [SEP]", "--json")
    read = [[2, 6, 7, 12, 9, 17, 3], [2, 5, 8, 1, 1, 1, 3]]  # a typed [SEP] is unknown
    for ids, line in zip(read, result.lines, strict=True):
        probabilities = model(torch.tensor([ids])).logits.softmax(-1)[0].tolist()
        expected = dict(zip(names.values(), probabilities, strict=True))
        assert json.loads(line)["probabilities"] == pytest.approx(expected, abs=1e-4)
    tokenizer, _ = load_transformers(
        "AutoModelForSequenceClassification", exported(saccade, tmp_path / "run")
    )
    assert tokenizer(["the cats sat.", "A dog [SEP]"]).input_ids == read
    (tmp_path / "test.tsv").write_text("text\tlabel\nthe cat\tso so\na dog\tgood\n")
    result = saccade("evaluate", tmp_path / "run", "--data", tmp_path / "test.tsv", "--json")
    assert json.loads(result.out)["items"] == 2


def test_import_with_pairs_reads_two_texts(saccade, tmp_path):
    model = bert(tmp_path / "hf", "BertForSequenceClassification")
    result = saccade("import", tmp_path / "hf", "--out", tmp_path / "run", "--pairs")
    assert result.code == 0
    [answer] = front.load(tmp_path / "run").predict([("the cat", "a dog sat")])
    ids, segments = torch.tensor([[2, 6, 7, 3, 5, 8, 9, 3]]), torch.tensor([[0] * 4 + [1] * 4])
    probabilities = model(ids, token_type_ids=segments).logits.softmax(-1)[0].tolist()
    assert list(answer.probabilities.values()) == pytest.approx(probabilities, abs=1e-4)
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
def test_kind_of_labels_is_recognised(tmp_path, options, kind):
    model = bert(tmp_path / "hf", "BertForSequenceClassification", **options)
    task = import_folder(tmp_path / "hf", tmp_path / "run")
    assert task.labels.kind == task.config.labels.kind == kind
    [answer] = front.load(tmp_path / "run").predict(["the cat"])
    logits = model(torch.tensor([[2, 6, 7, 3]])).logits[0].detach()
    if kind == "number":
        assert float(answer.text) == pytest.approx(float(logits), abs=1e-3)
    else:
        probabilities = logits.sigmoid() if kind == "several" else logits.softmax(-1)
        assert list(answer.probabilities.values()) == pytest.approx(
            probabilities.tolist(), abs=1e-4
        )


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "BertForPreTraining"])
def test_imported_masked_bert_equals_transformers(saccade, tmp_path, kind):
    model = bert(tmp_path / "hf", kind)
    result = saccade("import", tmp_path / "hf", "--out", tmp_path / "run")
    assert result.code == 0
    result = saccade("predict", tmp_path / "run", "the [MASK] sat on a mat.")
    assert result.code == 0
    ids = torch.tensor([[2, 6, 4, 9, 10, 5, 11, 17, 3]])
    [logits] = model(ids)[0][:, 2]
    best = 5 + int(logits[5:19].argmax())  # among the ordinary tokens
    assert result.out.strip() == front.load(tmp_path / "run").tokenizer.decode(
        [6, best, 9, 10, 5, 11, 17]
    )
    tokenizer, _ = load_transformers("AutoModelForMaskedLM", exported(saccade, tmp_path / "run"))
    assert tokenizer("the [MASK] sat on a mat.").input_ids == ids[0].tolist()


def test_imported_gpt2_equals_transformers(saccade, tmp_path):
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
    result = saccade("import", tmp_path / "hf", "--out", tmp_path / "run")
    assert result.code == 0
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
    tokenizer, _ = load_transformers("AutoModelForCausalLM", folder)
    assert tokenizer(text).input_ids == ids


# --- errors


def error_of(saccade, *arguments) -> str:
    result = saccade(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("error: ")
    return result.err


def test_raises_on_folders_without_a_task(saccade, tmp_path):
    bert(tmp_path / "body", "BertModel")
    message = error_of(saccade, "import", tmp_path / "body", "--out", tmp_path / "run")
    assert "holds a BertModel: it has no head" in message
    assert "saccade train RECIPE --data DATA --out RUN --init FOLDER" in message
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32}
    vit = transformers.ViTForImageClassification(transformers.ViTConfig(**sizes))
    vit.save_pretrained(tmp_path / "vit")
    message = error_of(saccade, "import", tmp_path / "vit", "--out", tmp_path / "run")
    assert "has no preprocessor_config.json, which says how images are prepared" in message
    message = error_of(saccade, "import", tmp_path / "nowhere", "--out", tmp_path / "run")
    assert "nowhere does not exist" in message
    assert not (tmp_path / "run").exists()


def test_raises_on_vocabularies_that_do_not_fit(saccade, tmp_path):
    folder = tmp_path / "hf"
    bert(folder, "BertForMaskedLM", vocab_size=18)
    message = error_of(saccade, "import", folder, "--out", tmp_path / "run")
    assert "has ids up to 18, but the model embeds 18 tokens" in message
    content = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(content.replace("[SEP]", "[END]"))
    bert(tmp_path / "wide", "BertForMaskedLM")
    (tmp_path / "wide" / "tokenizer.json").write_text(content.replace("[SEP]", "[END]"))
    message = error_of(saccade, "import", tmp_path / "wide", "--out", tmp_path / "run")
    assert "has no sep token under any of its usual names, such as [SEP]" in message
    (tmp_path / "wide" / "tokenizer.json").unlink()
    message = error_of(saccade, "import", tmp_path / "wide", "--out", tmp_path / "run")
    assert "has no tokenizer.json, which is needed to read text" in message
    marian(tmp_path / "opus", eos_token_id=3)
    message = error_of(saccade, "import", tmp_path / "opus", "--out", tmp_path / "run")
    assert "texts end with 3 (eos_token_id), but in tokenizer.json with 0" in message
    marian(tmp_path / "late", decoder_start_token_id=21)
    message = error_of(saccade, "import", tmp_path / "late", "--out", tmp_path / "run")
    assert (
        "texts begin with 21 (decoder_start_token_id), which is not one of its 21 tokens" in message
    )
    options = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 23}
    marian(tmp_path / "two", **options)
    message = error_of(saccade, "import", tmp_path / "two", "--out", tmp_path / "run")
    assert "it needs two vocabularies: tokenizer.json for the source and target/" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id2label": {0: "x", 1: " x"}}, "id2label must give each class a different name"),
        ({"problem_type": "regression", "num_labels": 2}, "predicts 2 numbers per text"),
    ],
)
def test_raises_on_labels_that_do_not_fit(saccade, tmp_path, options, message):
    bert(tmp_path / "hf", "BertForSequenceClassification", **options)
    assert message in error_of(saccade, "import", tmp_path / "hf", "--out", tmp_path / "run")


def test_raises_on_changed_saccade_options(saccade, tmp_path):
    bert(tmp_path / "hf", "BertForSequenceClassification", saccade={"temperature": "warm"})
    message = error_of(saccade, "import", tmp_path / "hf", "--out", tmp_path / "run")
    assert 'config.json: "saccade" has an invalid value of temperature: Input should be' in message


def test_pairs_need_segments(saccade, tmp_path):
    bert(tmp_path / "hf", "BertForSequenceClassification", type_vocab_size=1)
    arguments = ("import", tmp_path / "hf", "--out", tmp_path / "run", "--pairs")
    assert "it does not tell segments apart (type_vocab_size is 1," in error_of(saccade, *arguments)


def test_existing_folders_are_not_overwritten(saccade, tmp_path):
    bert(tmp_path / "hf", "BertForMaskedLM")
    import_folder(tmp_path / "hf", tmp_path / "run")
    message = error_of(saccade, "import", tmp_path / "hf", "--out", tmp_path / "run")
    assert "already holds a run; choose another folder with --out" in message
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    message = error_of(saccade, "import", tmp_path / "hf", "--out", tmp_path / "mine")
    assert "is not empty (letter.txt)" in message
    where = ("--to", "huggingface", tmp_path / "mine")
    message = error_of(saccade, "export", tmp_path / "run", *where)
    assert "mine is not empty; choose a new folder to export to" in message
    message = error_of(
        saccade, "export", tmp_path / "run", *where[:2], tmp_path / "mine/letter.txt"
    )
    assert "letter.txt is a file" in message
    assert [path.name for path in (tmp_path / "mine").iterdir() if path.name[0] != "."] == [
        "letter.txt"
    ]


def test_exports_to_an_empty_folder(saccade, tmp_path):
    classifier(tmp_path / "run")
    (tmp_path / "run out").mkdir()
    folder = exported(saccade, tmp_path / "run")
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert not list(tmp_path.glob(".partial*"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.encoder.norm_order=pre"], "order is 'pre', there 'post'"),
        (["model.encoder.stem_norm=false"], "encoder.stem_norm of this TextClassifier is Identity"),
        (["model.pooling=mean"], "pooling is 'mean', there 'first'"),
        (["model.encoder.norm=rms"], 'model.encoder.norm is "rms", and must be "layer"'),
        (["model.encoder.feed_forward=gated"], 'model.encoder.feed_forward is "gated"'),
        (["model.encoder.head=full"], 'model.encoder.head is "full", and must be "split"'),
        (["model.encoder.head_dim=5"], "model.encoder.head_dim is 5, and must be null"),
        (["model.encoder.qk_norm=true"], "model.encoder.qk_norm is true, and must be false"),
    ],
)
def test_raises_on_models_that_the_format_cannot_express(saccade, tmp_path, changes, message):
    classifier(tmp_path / "run", "up down up down", *changes)
    arguments = ("export", tmp_path / "run", "--to", "huggingface", tmp_path / "deep" / "out")
    assert message in error_of(saccade, *arguments)
    assert not (tmp_path / "deep" / "out").exists()
    assert not list((tmp_path / "deep").iterdir())


def test_raises_on_exporting_a_recurrent_run(saccade, run, tmp_path):
    message = error_of(saccade, "export", run, "--to", "huggingface", tmp_path / "out")
    assert "encoder of this Translator is RecurrentEncoder, and the format needs a" in message


def test_raises_on_unknown_formats(saccade, run, tmp_path):
    message = error_of(saccade, "export", run, "--to", "tensorflow", tmp_path / "out")
    assert "cannot be exported to 'tensorflow'; choose one of ctranslate2, huggingface" in message
    assert saccade("export", run, tmp_path / "out").code == 2
    message = error_of(saccade, "export", tmp_path, "--to", "huggingface", tmp_path / "out")
    assert "is not a run folder" in message
    assert not (tmp_path / "out").exists()


def test_export_raises_if_the_logits_differ(saccade, tmp_path, monkeypatch):
    """An error in export is noticed, and no file is left."""
    classifier(tmp_path / "run")

    def faulty(folder):
        model = huggingface.load(folder)
        with torch.no_grad():
            model.head.bias[0] += 0.01
        return model

    monkeypatch.setattr(task_export, "load", faulty)
    result = saccade("export", tmp_path / "run", "--to", "huggingface", tmp_path / "out")
    assert result.code == 2
    assert "the written model gives other logits, with a relative difference of 0.0" in result.err
    assert not (tmp_path / "out").exists()
