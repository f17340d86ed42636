"""Columns with unknown names: two columns of text are a pair, in the order of the file."""

import pytest

from saccade.data.sources import open_corpus
from saccade.data.sources.columns import Column
from saccade.errors import DataError
from saccade.training.choice import choose_recipe, fitting_tasks

PAIR = Column("source", ("src", "question"), in_order=True), Column("target", in_order=True)
SENTENCES = [(f"the bird number {i} sings", f"der Vogel Nummer {i} singt") for i in range(30)]


def write(path, header, rows):
    path.write_text("\n".join(",".join(fields) for fields in [header, *rows]) + "\n")
    return path


def test_two_columns_of_text_are_a_pair(tmp_path):
    path = write(tmp_path / "x.csv", ("ask", "the reply"), SENTENCES)
    corpus = open_corpus(path, PAIR, valid_fraction=0.0)
    assert next(iter(corpus.splits["train"])).values == SENTENCES[0]
    assert (
        'source = column "ask", target = column "the reply", by their order (the other way: '
        '--columns "source=the reply,target=ask")'
    ) in corpus.summary
    assert choose_recipe(path).task == "text_to_text"
    assert choose_recipe(path, columns="source=the reply,target=ask").task == "text_to_text"


def test_a_known_name_keeps_its_meaning(tmp_path):
    rows = [(target, source) for source, target in SENTENCES]
    corpus = open_corpus(write(tmp_path / "x.csv", ("reply", "question"), rows), PAIR)
    assert next(iter(corpus.splits["train"])).values in SENTENCES


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        pytest.param(("Go.", "Va !"), SENTENCES, id="a text"),
        pytest.param(("run", "ran"), [("sing", "sang"), ("go", "went")], id="words"),
        pytest.param(("a", "b", "c"), [(*row, "x") for row in SENTENCES], id="three"),
        pytest.param(("1", "2"), SENTENCES, id="numbers"),
    ],
)
def test_a_first_line_that_may_be_data_is_not_a_header(tmp_path, header, rows):
    with pytest.raises(DataError, match=r"--columns source=1,target=2"):
        open_corpus(write(tmp_path / "x.csv", header, rows), PAIR)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(lambda i: "abc"[i % 3], id="labels"),
        pytest.param(lambda i: f"{i / 7:.3f}", id="numbers"),
        pytest.param(lambda i: f"https://example.org/page/{'abcdefgh'[i % 8]}{i}", id="addresses"),
        pytest.param(lambda i: f"2024-03-{i + 1:02}", id="dates"),
    ],
)
def test_no_recipe_is_chosen_if_a_column_is_not_text(tmp_path, value):
    rows = [(source, value(i)) for i, (source, _) in enumerate(SENTENCES)]
    path = write(tmp_path / "x.csv", ("remark", "kind"), rows)
    with pytest.raises(DataError, match="--columns text=remark,label=kind; for pairs, --columns"):
        choose_recipe(path)


def test_a_known_text_beside_an_unknown_column_is_not_a_pair(tmp_path):
    path = write(tmp_path / "x.csv", ("sentence", "other"), SENTENCES)
    with pytest.raises(DataError, match="If other is the label"):
        choose_recipe(path)


@pytest.mark.parametrize(
    ("header", "languages"),
    [
        (("English", "French"), ("en", "fr")),
        (("de", "pt_BR"), ("de", "pt")),
        (("source", "target"), None),
    ],
)
def test_languages_are_recognised(tmp_path, header, languages):
    corpus = open_corpus(write(tmp_path / "x.csv", header, SENTENCES[:2]), PAIR)
    assert corpus.languages == languages


@pytest.mark.parametrize("header", [("English", "French"), ("en", "de")])
def test_languages_are_a_pair_for_translators_only(tmp_path, header):
    path = write(tmp_path / "x.csv", header, SENTENCES)
    assert [task.name for task in fitting_tasks(path)] == ["text_to_text"]


def test_languages_among_other_columns(tmp_path):
    rows = [(str(i), *row, "x") for i, row in enumerate(SENTENCES)]
    path = write(tmp_path / "x.csv", ("id", "english", "german", "note"), rows)
    corpus = open_corpus(path, PAIR)
    assert next(iter(corpus.splits["train"])).values in SENTENCES
    assert corpus.languages == ("en", "de")


def test_parallel_files_name_their_languages(tmp_path):
    (tmp_path / "train.en").write_text("one\ntwo\n")
    (tmp_path / "train.fr").write_text("un\ndeux\n")
    assert open_corpus(tmp_path, PAIR).languages == ("en", "fr")
    assert open_corpus(tmp_path, PAIR, pair="fr-en").languages == ("fr", "en")


@pytest.mark.parametrize(
    ("name", "lines", "broken"),
    [
        ("x.csv", ["source,target", "a,b", "a,b,c", "", '"a"b,c', "d,e"], [3, 5]),
        ("x.tsv", ["source\ttarget", "a\tb", "c", "d\te"], [3]),
        ("x.jsonl", ['{"source":"a","target":"b"}', "{", '{"source":1,"target":""}', "",
                     '{"source":"d","target":"e"}'], [2, 3, 4]),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_read_are_left_out_and_listed(tmp_path, name, lines, broken):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    train = open_corpus(path, PAIR, valid_fraction=0.0, tolerant=True).splits["train"]
    for _ in range(2):
        assert [row.values for row in train] == [("a", "b"), ("d", "e")]
        places = sorted(int(text.removeprefix(f"{path}:").split(":")[0]) for text in train.broken)
        assert places == broken
    with pytest.raises(DataError, match=f"{name}:{broken[0]}: "):
        list(open_corpus(path, PAIR, valid_fraction=0.0).splits["train"])
