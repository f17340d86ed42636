"""Tagging: reading, training and predictions; many to many, checklist B8."""

import json
import logging
from string import ascii_lowercase

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from saccade.data import sources
from saccade.errors import DataError, DecodingError, RunError, WatchError
from saccade.interop.huggingface.task_export import require_exportable
from saccade.metrics.tagging import may_follow
from saccade.tasks import Calibrates, HasBaselines, Measurable, TagOutput, measure_baselines
from saccade.tasks._shared.tags import Tags, read_tags
from saccade.tasks.tagging import NOT_FIRST, WordTagging
from saccade.training import recipe as recipes
from saccade.training import session
from saccade.training.console import Console

SENTENCES = [
    ("Ann Lee sings .", "B-PER I-PER O O"),
    ("we like Paris .", "O O B-LOC O"),
    ("Bob met Ann in Rome .", "B-PER O B-PER O B-LOC O"),
    ("Rome is old .", "B-LOC O O O"),
]
SMALL = (
    "model.dim=32",
    "model.dropout=0.0",
    "model.encoder.num_layers=2",
    "model.encoder.num_heads=2",
    "model.encoder.hidden_dim=64",
    "model.encoder.dropout=0.0",
    "text.vocabulary.size=290",
    "text.max_length=40",
)
RECURRENT = (
    "model.dim=16",
    "model.encoder.dim=8",
    "model.encoder.dropout=0.0",
    "model.dropout=0.0",
    "text.vocabulary.size=290",
)


def write(path, sentences):
    rows = ({"words": words.split(), "tags": tags.split()} for words, tags in sentences)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def split_of(path, columns):
    return sources.open_corpus(path, columns, valid_fraction=0.0).splits["train"]


def build(folder, sentences=SENTENCES, *changes, recipe="transformer-tagger") -> WordTagging:
    small = SMALL if recipe == "transformer-tagger" else RECURRENT
    options = recipes.load(recipe, [*small, *changes]).options
    split = split_of(write(folder / "train.jsonl", sentences), options.columns)
    torch.manual_seed(1)
    return options.create(split).eval()


def rows_of(task, folder, sentences):
    return split_of(write(folder / "more.jsonl", sentences), task.columns)


def test_the_tag_of_a_word_is_at_its_first_token(tmp_path):
    task = build(tmp_path)
    batch = task.force([("Ann", "unbelievably", "sings")], ["B-PER O I-LOC"])
    pieces = [task.tokenizer.encode(word) for word in ("Ann", "unbelievably", "sings")]
    assert len(pieces[1]) > 1
    ids = [id for piece in pieces for id in piece]
    assert batch.tokens[0].tolist() == [task.tokenizer.cls, *ids, task.tokenizer.sep]
    places = [1, 1 + len(pieces[0]), 1 + len(pieces[0]) + len(pieces[1])]
    tags = batch.tags[0].tolist()
    numbers = {name: number for number, name in enumerate(task.labels.names)}
    assert [tags[place] for place in places] == [numbers[x] for x in ("B-PER", "O", "I-LOC")]
    assert sum(tag != NOT_FIRST for tag in tags) == 3


def test_the_loss_is_the_mean_over_words(tmp_path):
    task = build(tmp_path)
    batch = task.force(["Ann sings", "we like Rome now"], ["B-PER O", "O O B-LOC O"])
    loss = task(batch)
    assert loss.count == 6
    logits = task.model(batch.tokens, batch.mask, batch.segments)
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch.tags.flatten(), ignore_index=NOT_FIRST, reduction="sum"
    )
    torch.testing.assert_close(loss.total, expected)


def test_training_batches_equal_forced_ones(tmp_path):
    task = build(tmp_path)
    split = rows_of(task, tmp_path, SENTENCES)
    examples = task.encode(split, tmp_path / "cache")
    batch = task.collate(examples, range(4))
    forced = task.force([tuple(x.split()) for x, _ in SENTENCES], [tags for _, tags in SENTENCES])
    assert batch.tokens.tolist() == forced.tokens.tolist()
    assert batch.tags.tolist() == forced.tags.tolist()
    assert task.sizes(examples)[:, 0].tolist() == batch.mask.sum(1).tolist()


@pytest.mark.parametrize("recipe", ["transformer-tagger", "rnn-tagger"])
def test_it_learns_its_training_data_and_finds_spans_in_plain_text(tmp_path, recipe):
    task = build(tmp_path, SENTENCES, recipe=recipe)
    batch = task.force([tuple(x.split()) for x, _ in SENTENCES], [tags for _, tags in SENTENCES])
    optimizer = torch.optim.Adam(task.parameters(), lr=1e-2)
    task.train()
    for _ in range(60):
        optimizer.zero_grad()
        loss = task(batch)
        (loss.total / loss.count).backward()
        optimizer.step()
    text = "Ann Lee  sings."
    [answer] = task.predict([text])
    assert [(span.text, span.label) for span in answer.spans] == [("Ann Lee", "PER")]
    for span in answer.spans:
        assert text[span.start : span.end] == span.text
        assert 0 < span.probability <= 1
    items = list(task.items(rows_of(task, tmp_path, SENTENCES)))
    evaluation = task.evaluate(items)
    assert evaluation.values() == {
        "span_f1": 1.0,
        "span_precision": 1.0,
        "span_recall": 1.0,
        "accuracy": 1.0,
    }
    assert evaluation.answers == [tags for _, tags in SENTENCES]
    assert {row["label"]: row["support"] for row in evaluation.per_class} == {"LOC": 3, "PER": 3}


def test_an_answer_has_characters_probabilities_and_an_inline_form(tmp_path):
    task = build(tmp_path)
    [answer] = task.predict(["Ann  sings."])
    assert answer.words == ("Ann", "sings", ".")
    assert len(answer.tags) == len(answer.probabilities) == 3
    table = answer.to_dict()
    assert json.loads(json.dumps(table)) == table
    assert set(table) == {"spans", "words", "tags", "score", "confidence", "truncated"}
    assert np.log(answer.probabilities).mean() == pytest.approx(answer.score)
    task.labels.decide = lambda log_p: [task.labels.names.index(x) for x in ("B-PER", "O", "O")]
    [marked] = task.predict(["Ann  sings."])
    assert marked.text == "[Ann](PER)  sings."
    assert str(marked).startswith("[Ann](PER ")
    assert "%)  sings." in str(marked)


def test_predictions_are_the_same_alone_in_a_batch_and_for_words_or_text(tmp_path):
    task = build(tmp_path)
    texts = ["Ann sings .", "we like Rome in Paris and old Rome", "Bob"]
    together = task.predict(texts)
    for text, answer in zip(texts, together, strict=True):
        [alone], [words] = task.predict([text]), task.predict([text.split()])
        assert alone.tags == words.tags == answer.tags
        assert alone.probabilities == pytest.approx(answer.probabilities)
        assert [x.text for x in words.spans] == [x.text for x in alone.spans]


@pytest.mark.parametrize("text", ["", "   ", []])
def test_a_blank_input_has_no_spans(tmp_path, text):
    [answer] = build(tmp_path).predict([text])
    assert (answer.spans, answer.tags, answer.confidence) == ((), (), None)
    assert not answer.truncated


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
def test_decided_tags_follow_the_scheme_and_are_the_most_likely(scheme):
    marks = "BI" if scheme == "BIO" else "BIES"
    tags = Tags(["O", *(f"{mark}-{label}" for label in "XY" for mark in marks)], scheme)
    generator = np.random.default_rng(0)
    for _ in range(8):
        log_p = np.log(generator.dirichlet(np.full(len(tags.names), 0.3), 3) + 1e-12)
        decided = tags.decide(log_p)
        ends = ["", *(tags.names[tag] for tag in decided), ""]
        assert all(map(lambda a, b: may_follow(a, b, scheme), ends, ends[1:]))
        best = max(
            sum(log_p[i, tag] for i, tag in enumerate(path))
            for path in np.ndindex(*[len(tags.names)] * 3)
            if allowed(tags, path, scheme)
        )
        assert sum(log_p[i, tag] for i, tag in enumerate(decided)) == pytest.approx(best)


def allowed(tags, path, scheme):
    ends = ["", *(tags.names[tag] for tag in path), ""]
    return all(map(lambda a, b: may_follow(a, b, scheme), ends, ends[1:]))


def test_parts_of_speech_have_accuracy_and_a_span_per_word(tmp_path):
    task = build(tmp_path, [("a dog runs", "DET NOUN VERB"), ("the cat", "DET NOUN")])
    assert task.labels.scheme == "none"
    assert task.selection_metric == task.comparison_metric == "accuracy"
    [answer] = task.predict(["a dog"])
    assert [(span.start, span.end) for span in answer.spans] == [(0, 1), (2, 5)]
    items = list(task.items(rows_of(task, tmp_path, [("the dog", "DET NOUN")])))
    evaluation = task.evaluate(items)
    assert list(evaluation.values()) == ["accuracy"]
    assert {row["label"] for row in evaluation.per_class} >= {"DET", "NOUN"}


def test_cut_words_are_reported_and_count_as_outside(tmp_path):
    task = build(tmp_path, SENTENCES, "text.max_length=6")
    long = [("Ann Lee sings in Rome", "B-PER I-PER O O B-LOC")]
    split = rows_of(task, tmp_path, long)
    remarks = list(task.remarks(task.encode(split, tmp_path / "cache")))
    [item] = task.items(split)
    evaluation = task.evaluate([item])
    [answer] = task.predict([task.input_of(item)])
    cut = 5 - len(answer.tags)
    assert cut > 0
    assert answer.truncated
    assert f"{cut} of 5 words are cut off" in remarks[0]
    assert f"{cut} of 5 words are cut" in evaluation.remarks[0]
    assert evaluation.answers[0].split()[-cut:] == ["O"] * cut


def test_tags_that_break_the_scheme_are_repaired_and_reported(tmp_path, caplog):
    broken = [*SENTENCES, ("in Rome Ann", "O I-LOC I-PER")]
    task = build(tmp_path, broken)
    split = rows_of(task, tmp_path, broken)
    examples = task.encode(split, tmp_path / "cache")
    [remark] = task.remarks(examples)
    assert remark.startswith("2 tags break the scheme and were repaired")
    assert 'train.jsonl:5: word 2 of the sentence, "Rome", has the tag I-LOC after O' in remark
    assert list(task.remarks(examples)) == []
    with caplog.at_level(logging.WARNING):
        items = list(task.items(split))
    assert items[-1].references == ("O B-LOC B-PER",)
    assert "2 tags break the scheme" in caplog.text
    assert task.counts.of["B-LOC"] == 4


@pytest.mark.parametrize(
    ("rows", "changes", "message"),
    [
        ([("a b", "O I-X"), ("c", "B-X")], ["tags.broken=error"], r"jsonl:1: word 2.*needs B-X"),
        ([("a b", "O B-X"), ("c", "LOC")], [], r'jsonl:2: word 1.*tag "LOC".*not a tag of.*BIO'),
        ([("a b", "O S-X")], ["tags.scheme=BIO"], "scheme BIO: O, B-TYPE, I-TYPE"),
        ([("a b", "O B-X"), ("c d", "O")], [], r"jsonl:2: 2 words but 1 tag,"),
        ([("a b", "X X")], [], "at least two different tags; train has only 'X'"),
    ],
)
def test_broken_training_data_raises_with_its_line(tmp_path, rows, changes, message):
    with pytest.raises(DataError, match=message):
        build(tmp_path, rows, *changes)


def test_an_unknown_tag_at_evaluation_raises_with_its_line(tmp_path):
    task = build(tmp_path)
    split = rows_of(task, tmp_path, [("Ann", "B-PER"), ("a Lyra", "O B-STAR")])
    with pytest.raises(DataError, match=r'jsonl:2: word 2.*"Lyra".*"B-STAR".*not in the training'):
        list(task.items(split))


def test_bioes_is_recognised(tmp_path):
    task = build(tmp_path, [("Ann Lee sings", "B-P E-P O"), ("Bob", "S-P")])
    assert task.labels.scheme == "BIOES"
    assert task.labels.names == ("O", "B-P", "I-P", "E-P", "S-P")


def test_the_baseline_is_the_most_frequent_tag_of_each_word(tmp_path):
    task = build(tmp_path)
    split = split_of(tmp_path / "train.jsonl", task.columns)
    items = list(task.items(rows_of(task, tmp_path, [("Ann met Zoe .", "B-PER O B-PER O")])))
    assert isinstance(task, HasBaselines)
    trivial, simple = measure_baselines(task, split, items, split="test")
    assert (trivial.name, simple.name) == ("most frequent tag", "most frequent tag of each word")
    assert trivial.values()["span_f1"] == 0
    assert simple.values() == pytest.approx(
        {"span_f1": 2 / 3, "span_precision": 1.0, "span_recall": 0.5, "accuracy": 0.75}
    )


def test_attention_is_recorded_by_token_with_its_words(tmp_path):
    [answer] = build(tmp_path).predict(["Ann unbelievably sings."], attention=True)
    record = answer.attention
    assert record.read.words == ("Ann", "unbelievably", "sings", ".")
    assert record.read.word_of[0] is None
    assert len(record.weights) == 2
    for weights in record.weights.values():
        assert weights.shape[1:] == (len(record.read.tokens),) * 2
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_a_recurrent_tagger_has_no_attention(tmp_path):
    task = build(tmp_path, recipe="rnn-tagger")
    with pytest.raises(WatchError, match=r"no attention.*transformer-tagger"):
        task.predict(["Ann sings"], attention=True)


def test_the_most_confident_mistakes_and_confusions_are_tables(tmp_path):
    task = build(tmp_path)
    items = list(task.items(rows_of(task, tmp_path, SENTENCES)))
    tables = task.evaluate(items).tables
    confusion = tables["Confusions of words"]
    assert sum(value for row in confusion for key, value in row.items() if key != "right") == 18
    mistakes = tables["The most confident mistakes"]
    assert mistakes
    assert set(mistakes[0]) == {"input", "span", "answer", "confidence", "right"}


def test_inputs_that_are_not_words_raise(tmp_path):
    task = build(tmp_path)
    assert task.from_json(["Ann", "sings"]) == ("Ann", "sings")
    with pytest.raises(DataError, match="each word must be a text"):
        task.from_json(["Ann", 3])
    with pytest.raises(DecodingError, match="none of them empty"):
        task.predict([["Ann", ""]])
    with pytest.raises(DecodingError, match="is not an option"):
        task.predict(["Ann"], beam=2)
    with pytest.raises(DecodingError, match="one tag per word"):
        task.force(["Ann sings"], ["O"])


def test_capabilities_and_description(tmp_path):
    task = build(tmp_path)
    assert isinstance(task, Calibrates)
    assert not isinstance(task, Measurable)
    about = task.describe()
    assert isinstance(about.writes, TagOutput)
    assert about.reads.kind == "text"


def test_a_damaged_file_of_tags_raises(tmp_path):
    (tmp_path / "labels.json").write_text('{"kind": "tags", "names": ["O"], "scheme": "IOB"}')
    with pytest.raises(RunError, match=r"labels\.json cannot be read"):
        read_tags(tmp_path)


def test_a_run_is_trained_loaded_and_evaluated(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    write(data / "train.jsonl", SENTENCES * 10)
    write(data / "valid.jsonl", SENTENCES * 10)
    changes = [*SMALL, "training.validate_every=5", "training.checkpoint_every=5"]
    out = tmp_path / "run"
    trained = session.train(
        "transformer-tagger",
        data=data,
        out=out,
        changes=changes,
        max_steps=10,
        cache=tmp_path,
        console=Console(quiet=True),
    )
    assert trained.calibration  # on 180 validation words
    task = session.load(out)
    assert task.labels.splitter == trained.labels.splitter
    assert task.temperature == trained.temperature
    text = ["Ann likes Rome."]
    assert task.predict(text)[0].tags == trained.predict(text)[0].tags
    about = json.loads((out / "classifier.json").read_text())
    assert about["label_counts"]["of"]["B-PER"] == 30
    baselines = json.loads((out / "baseline.json").read_text())
    assert "most frequent tag of each word" in json.dumps(baselines)
    assert "The most confident mistakes" in (out / "report.html").read_text()


def test_training_starts_from_a_bert_folder_and_exports_to_one(tmp_path):
    folder, data = tmp_path / "bert", tmp_path / "train.jsonl"
    controls = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    entries = [*controls, *"abcdefghijklmnopqrstuvwxyz.", *(f"##{x}" for x in ascii_lowercase)]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    backend = Backend(WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    backend.add_special_tokens(controls)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(
        vocab_size=len(vocabulary), intermediate_size=32, max_position_embeddings=64, **sizes
    )
    theirs = transformers.BertModel(config, add_pooling_layer=False)
    theirs.save_pretrained(folder)
    backend.save(str(folder / "tokenizer.json"))
    write(data, SENTENCES * 10)
    task = session.train(
        "transformer-tagger",
        data=data,
        out=tmp_path / "run",
        init=folder,
        changes=["text.max_length=64", "training.learning_rate=1e-9"],
        max_steps=1,
        cache=tmp_path,
        console=Console(quiet=True),
    )
    taken = task.model.get_submodule("encoder.stem.embedding").weight
    torch.testing.assert_close(taken, theirs.embeddings.word_embeddings.weight)
    assert len(task.tokenizer) == len(vocabulary)
    assert task.predict(["Ann sings."])[0].words == ("Ann", "sings", ".")
    assert require_exportable(task).facts["id2label"] == dict(enumerate(task.labels.names))
