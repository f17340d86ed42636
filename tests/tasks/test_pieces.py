"""Long texts: split into pieces, answered one by one and joined."""

import json
import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.corpus import Item
from saccade.data.sources import open_corpus
from saccade.decoding import Hypothesis
from saccade.errors import DecodingError
from saccade.lens.alignment.extraction import word_spans
from saccade.lens.alignment.markup import read_markup
from saccade.tasks import Answer, AnswerPiece, links_in_text
from saccade.tasks._shared import pieces
from saccade.tasks._shared.pieces import join_answers, split_text
from saccade.training import recipe as recipes
from tests.tasks.test_text_to_text import RECURRENT, build

LONG = "the cat sees a dog. The dog sleeps. A cat and the dog sees the green house and a cat."
TEXTS = st.text(st.sampled_from("ab AB.!?。\n\t ,é\u0301"), min_size=1, max_size=80).filter(
    str.strip
)


def letters(texts):
    return [[ord(letter) for letter in text] for text in texts]


def echoes(text, split):
    return [Answer(text[piece.start : piece.end], 0.0, tokens=(1,)) for piece in split]


@given(text=TEXTS, most=st.integers(1, 20))
def test_pieces_fit_and_joining_their_echoes_gives_the_text(text, most):
    split = split_text(text, letters, most)
    assert all(len(piece.ids) <= most for piece in split)
    spans = [(piece.start, piece.end) for piece in split]
    answer = join_answers(text, spans, echoes(text, split))
    assert answer.text == text
    assert answer.pieces == tuple(AnswerPiece(span, span) for span in spans)
    covered = [place for start, end in spans for place in range(start, end)]
    assert len(covered) == len(set(covered))
    assert not "".join(text[at] for at in set(range(len(text))) - set(covered)).strip()


def test_the_script_of_the_answer_decides_about_spaces():
    chinese = "你好。再见。"
    spans = [(0, 3), (3, 6)]
    english = [Answer("Hello.", -1.0), Answer("Goodbye.", -1.0)]
    assert join_answers(chinese, spans, english).text == "Hello. Goodbye."
    back = [Answer("你好。", -1.0), Answer("再见。", -1.0)]
    assert join_answers("Hello. Goodbye.", [(0, 6), (7, 15)], back).text == chinese
    lines = join_answers("Hello.\n\nGoodbye.", [(0, 6), (8, 16)], back)
    assert lines.text == "你好。\n\n再见。"


def test_scores_are_weighted_by_tokens_and_alternatives_lose_least():
    one = Answer("a", -1.0, tokens=(1,), alternatives=(Answer("b", -1.5, tokens=(1,)),))
    two = Answer(
        "c",
        -2.0,
        tokens=(1, 2, 3),
        finished=False,
        truncated=True,
        alternatives=(Answer("d", -2.1, tokens=(1, 2)), Answer("e", -9.0, tokens=(1,))),
    )
    answer = join_answers("x\ny", [(0, 1), (2, 3)], [one, two])
    assert answer.score == pytest.approx((2 * -1.0 + 4 * -2.0) / 6)
    assert [answer.text, *(other.text for other in answer.alternatives)] == ["a\nc", "a\nd", "b\nc"]
    assert (answer.finished, answer.truncated) == (False, True)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    changes = ("text.source.kind=token", "text.max_length=5", "generation.max_length=6")
    return build(tmp_path_factory.mktemp("pieces"), "luong", *changes)


def test_a_long_text_is_answered_sentence_by_sentence(task, caplog):
    with caplog.at_level(logging.WARNING):
        [answer] = task.predict([LONG], beam=1)
    assert not caplog.text
    starts = [LONG[slice(*piece.input)] for piece in answer.pieces]
    assert starts[:2] == ["the cat sees a dog.", "The dog sleeps."]
    assert len(starts) > 3  # the last sentence in windows
    assert not answer.truncated
    single = task.predict(starts, beam=1)
    assert [answer.text[slice(*piece.text)] for piece in answer.pieces] == [a.text for a in single]
    [cut] = task.predict([LONG], beam=1, split="none")
    assert (cut.truncated, cut.pieces) == (True, ())


def test_short_texts_of_one_line_are_answered_as_before(task):
    inputs = ["the cat. A dog.", " the cat \n", "", "the\tcat"]
    assert task.predict(inputs) == task.predict(inputs, split="none")


def test_paragraphs_come_back_as_paragraphs(task):
    text = "\nthe cat\n\n  a dog \r\nthe green house\n"
    [answer] = task.predict([text], beam=1)
    parts = [one.text for one in task.predict(["the cat", "a dog", "the green house"], beam=1)]
    assert answer.text == "\n{}\n\n  {} \r\n{}\n".format(*parts)


@pytest.mark.parametrize(
    "options", [{"beam": 1}, {"beam": 3, "num_best": 2}, {"sample": True, "seed": 7}]
)
def test_split_texts_do_not_change_other_answers(task, options):
    inputs = ["a cat", LONG, "the dog", LONG]
    answers = task.predict(inputs, **options)
    assert len(answers) == 4
    alone = [task.predict([text], first=i, **options)[0] for i, text in enumerate(inputs)]
    assert [a.text for a in answers] == [a.text for a in alone]
    assert all(len(a.alternatives) == options.get("num_best", 1) - 1 for a in answers)


def test_pieces_of_one_input_are_sampled_with_different_seeds(task):
    [answer] = task.predict(["the cat\n" * 8], sample=True)
    assert len(set(answer.text.split("\n"))) > 3


def test_progress_counts_inputs_and_evaluation_answers_items(task):
    counts = []
    task.predict([LONG, "a cat", "a\nb"], beam=1, on_batch=counts.append)
    assert sum(counts) == 3
    item = Item((LONG,), ("le chat",), 2)
    assert task.evaluate([item], beam=1).answers == [task.predict([LONG], beam=1)[0].text]


def test_the_joined_record_has_the_words_and_links_of_the_text(task):
    [answer] = task.predict([LONG], beam=1, attention=True)
    record, parts = answer.attention, [LONG[slice(*piece.input)] for piece in answer.pieces]
    assert list(record.read.words) == LONG.split()
    assert list(record.wrote.words) == answer.text.split()
    records = [one.attention for one in task.predict(parts, beam=1, attention=True)]
    alignments = [one.alignment() for one in records]
    links = links_in_text(LONG, answer.text, answer.pieces, alignments)
    assert record.alignment() == links
    sources, targets = word_spans(LONG), word_spans(answer.text)
    for source, target in links:  # both words are in the same piece
        [place] = [i for i, p in enumerate(answer.pieces) if inside(sources[source], p.input)]
        assert inside(targets[target], answer.pieces[place].text)
    [name] = record.layers
    blocks = np.concatenate([one.weights[name].ravel() for one in records])
    whole = record.weights[name]
    assert whole[whole > 0].sum() == pytest.approx(blocks.sum(), rel=1e-5)


def inside(span, outer):
    return outer[0] <= span[0] and span[1] <= outer[1]


def test_a_word_that_is_cut_is_one_word_of_the_record(tmp_path):
    task = build(tmp_path, "luong", "text.max_length=8", "text.source.size=263")
    text = "thecatseesthedogandthecat sleeps"
    [answer] = task.predict([text], beam=1, attention=True)
    assert len(answer.pieces) > 2
    assert answer.attention.read.words == tuple(text.split())


def test_tags_of_a_long_text_are_carried_over(task):
    marked = read_markup(f"<p>{LONG}</p>\n<p>the <b>cat</b></p>")
    [answer] = task.predict([marked.text], beam=1, attention=True)
    back = marked.put_back(answer.text, answer.attention.alignment())
    assert back.count("<p>") == back.count("</p>") == 2
    assert back.index("<b>") > back.index("\n")
    assert read_markup(back).text.split() == answer.text.split()


def test_attention_size_bounds_the_joined_record(task):
    options = {"beam": 1}
    [answer] = task.predict([LONG], attention=True, **options)
    size = sum(layer.size for layer in answer.attention.weights.values())
    assert size <= task.attention_size([LONG], options)


def test_raises_on_a_joined_record_that_is_too_large(task, monkeypatch):
    monkeypatch.setattr(pieces, "MOST_WEIGHTS", 10)
    with pytest.raises(DecodingError, match="more than the 10 allowed; send its paragraphs"):
        task.predict([LONG], beam=1, attention=True)


def test_another_engine_answers_the_pieces(task):
    class Fake:
        name = "fake"

        def length_group(self, length):
            return 0

        def generate(self, inputs, request):
            return [[Hypothesis(tuple(ids[:2]), -3.0, -1.0, True)] for ids in inputs]

    engine, task.engine = task.engine, Fake()
    try:
        [answer] = task.predict([LONG])
    finally:
        task.engine = engine
    assert len(answer.pieces) > 3
    assert answer.score == -1.0


def test_answers_are_plain_json_values_and_rows_of_a_table(task):
    pandas = pytest.importorskip("pandas")
    answers = task.predict([LONG, "a cat"], num_best=2, attention=True)
    tables = [answer.to_dict() for answer in answers]
    assert json.loads(json.dumps(tables)) == tables
    assert [set(table) for table in tables] == [
        {"text", "score", "confidence", "truncated", "pieces", "alternatives"},
        {"text", "score", "confidence", "truncated", "alternatives"},
    ]
    frame = pandas.DataFrame(task.predict([LONG, "a cat"]))
    assert list(frame["truncated"]) == [False, False]
    assert list(frame["text"]) == [answer.text for answer in task.predict([LONG, "a cat"])]


def test_lines_are_kept_together_if_training_data_has_them(tmp_path):
    rows = [{"source": "the cat\nsees", "target": "le chat"}, {"source": "a", "target": "b"}]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = recipes.load("luong", [*RECURRENT, "text.source.size=290"]).options
    split = open_corpus(path, options.columns, valid_fraction=0.0).splits["train"]
    task = options.create(split)
    for name, content in task.files().items():
        (tmp_path / name).write_text(content)
    for one in (task, options.restore(tmp_path)):
        assert len(one.prepare(["the cat\nsees"])) == 1
        assert len(one.prepare(["the cat\nsees " * 60])) > 60
