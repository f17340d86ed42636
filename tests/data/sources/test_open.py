"""Data sets of every form: their rows, columns and splits, and errors about invalid files."""

import csv
import gzip
import json
import lzma
import subprocess
import sys
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data import corpus as corpus_module
from saccade.data.sources import Column, formats, items, open_corpus, text_files
from saccade.data.sources.formats import KeyedTable
from saccade.data.sources.text_files import read_lines
from saccade.errors import DataError
from tests.data.task_columns import LABELLED, PAIR

ROWS = [("one two", "eins zwei"), ('say "hi"', "sag „hallo“"), ("  a, b ", "\u2028x\x0by\x85z")]


def read_all(path, task_columns=PAIR, **options):
    """Return every row of one file."""
    corpus = open_corpus(path, task_columns, valid_fraction=0.0, required=("test",), **options)
    return list(corpus.splits["test"])


def values(path, task_columns=PAIR, **options):
    return [row.values for row in read_all(path, task_columns, **options)]


def write_tsv(path, rows=ROWS, header=("source", "target")):
    text = "".join("\t".join(row) + "\n" for row in [header, *rows] if row)
    path.write_bytes(text.encode())
    return path


def write_csv(path, rows=ROWS):
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("source", "target"), *rows])
    return path


def write_jsonl(path, rows=ROWS):
    records = [{"source": one, "target": other, "id": 7} for one, other in rows]
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8", newline="")
    return path


WRITERS = {".tsv": write_tsv, ".csv": write_csv, ".jsonl": write_jsonl}


@pytest.mark.parametrize("packing", ["", ".gz", ".xz"])
@pytest.mark.parametrize("ending", WRITERS)
def test_every_format_gives_the_same_rows(tmp_path, ending, packing):
    path = WRITERS[ending](tmp_path / f"pairs{ending}")
    if packing:
        packed = path.with_name(path.name + packing)
        packed.write_bytes({".gz": gzip, ".xz": lzma}[packing].compress(path.read_bytes()))
        path = packed
    rows = read_all(path)
    assert [row.values for row in rows] == ROWS
    first = 1 if ending == ".jsonl" else 2
    assert [row.line for row in rows] == [first, first + 1, first + 2]
    assert {row.file for row in rows} == {str(path)}


def test_parquet_gives_the_same_rows(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = arrow.table(
        {"n": [1, 2, 3], "target": [b for _, b in ROWS], "source": [a for a, _ in ROWS]}
    )
    parquet.write_table(table, tmp_path / "pairs.parquet")
    assert values(tmp_path / "pairs.parquet") == ROWS
    packed = tmp_path / "packed.parquet.gz"
    packed.write_bytes(gzip.compress((tmp_path / "pairs.parquet").read_bytes()))
    assert values(packed) == ROWS
    broken = tmp_path / "broken.parquet"
    broken.write_bytes((tmp_path / "pairs.parquet").read_bytes()[:-20])
    with pytest.raises(DataError, match="not a complete Parquet file"):
        open_corpus(broken, PAIR)
    parquet.write_table(arrow.table({"source": ["a", None], "target": ["b", "c"]}), broken)
    with pytest.raises(DataError, match=r':2: expected text in "source", found null'):
        values(broken)


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "pairs.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r'pip install "saccade-attention\[parquet\]"'):
        open_corpus(tmp_path / "pairs.parquet", PAIR)


def test_only_line_feeds_end_lines(tmp_path):
    path = tmp_path / "text.tsv"
    path.write_bytes("\ufeffsource\ttarget\r\na\u2028b\x0c\tc\x1ed\r\ne\x00f\t\rg\x85\n".encode())
    assert values(path) == [("a\u2028b\x0c", "c\x1ed"), ("e\x00f", "\rg\x85")]


def test_quotes_in_tsv_are_characters(tmp_path):
    assert values(write_tsv(tmp_path / "t.tsv", [('"a', 'b"c"'), ('""', '"')])) == [
        ('"a', 'b"c"'),
        ('""', '"'),
    ]


def test_csv_fields_may_contain_line_ends(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'source,target\r\n"a\nb","c,""d"\r\ne,f\r\n')
    rows = read_all(path)
    assert [row.values for row in rows] == [("a\nb", 'c,"d'), ("e", "f")]
    assert [row.line for row in rows] == [2, 4]


TEXT = st.text(
    st.characters(exclude_characters="\t\n\r\x00\ufeff", exclude_categories=("Cs",)), min_size=1
)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
def test_written_rows_are_read_back(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    for ending, write in WRITERS.items():
        assert values(write(folder / f"a{ending}", rows)) == rows
    for i, side in enumerate(("en", "de")):
        text = "".join(row[i] + "\n" for row in rows)
        (folder / f"text.{side}").write_bytes(text.encode())
    assert values(folder / "text", pair="en-de") == rows


def test_a_row_format_is_one_class(tmp_path):
    """A class with a suffix suffices for files, splits of folders and error messages."""
    before = dict(formats.FORMATS)

    class KeyValue(KeyedTable):
        kind = "key=value"
        suffixes = (".kv",)

        def _names(self):
            return tuple(next(self._objects())[1])

        def _objects(self):
            for number, line in enumerate(read_lines(self.path), 1):
                yield number, dict(part.split("=") for part in line.split(";"))

    try:
        for name in ("train", "valid"):
            (tmp_path / f"{name}.kv").write_text("source=a;target=b\nsource=c;target=d\n")
        corpus = open_corpus(tmp_path, PAIR)
        assert [row.values for row in corpus.splits["valid"]] == [("a", "b"), ("c", "d")]
        assert "train: train.kv (key=value)" in corpus.summary
        with pytest.raises(DataError, match=r"has no test\.\* .*\.kv"):
            open_corpus(tmp_path, PAIR, required=("test",))
    finally:
        formats.FORMATS.clear()
        formats.FORMATS.update(before)


# columns


def test_columns_are_found_in_any_order_and_case(tmp_path):
    path = write_tsv(tmp_path / "t.tsv", [("1", "b", "a")], header=("id", " French", "SRC"))
    corpus = open_corpus(path, PAIR, valid_fraction=0.0)
    assert [row.values for row in corpus.splits["train"]] == [("a", "b")]
    assert 'source = column "SRC", target = column " French"' in corpus.summary


def test_an_exact_name_takes_precedence_over_an_alias(tmp_path):
    path = write_tsv(tmp_path / "t.tsv", [("x", "a", "b")], header=("english", "source", "target"))
    assert values(path) == [("a", "b")]


def test_columns_can_be_renamed_and_numbered(tmp_path):
    path = write_tsv(tmp_path / "t.tsv", [("a", "b", "c")], header=("x", "y", "z"))
    assert values(path, columns={"source": "z", "target": "x"}) == [("c", "a")]
    named = {"source": "3", "target": "1"}
    assert values(path, columns=named) == [("z", "x"), ("c", "a")]
    assert "no header" in open_corpus(path, PAIR, columns=named).summary
    text = path.rename(tmp_path / "t.txt")
    assert values(text, columns={"source": "1", "target": "2"}) == [("x", "y"), ("a", "b")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"source": "1", "target": "z"}, "not both: source=1,target=z"),
        ({"source": "0", "target": "1"}, "counts from 1"),
        ({"source": "1"}, "no number for target"),
        (
            {"source": "1", "target": "9"},
            ":1: .* target to column 9, but the line has 2 columns",
        ),
        ({"origin": "1"}, "it reads source, target"),
        ({"source": "nope"}, 'no column "nope", which --columns assigns to source'),
        ({"source": "x", "target": "x"}, 'column "x" twice'),
        ({"source": ""}, "no name or number for source"),
    ],
)
def test_raises_on_invalid_column_assignments(tmp_path, columns, message):
    path = write_tsv(tmp_path / "t.tsv", [("a", "b")], header=("x", "target"))
    with pytest.raises(DataError, match=message):
        open_corpus(path, PAIR, columns=columns)


@pytest.mark.parametrize("header", [("Two men", "Zwei Männer"), ("left", "right"), ("cat", "xyz")])
def test_error_shows_an_unknown_header_and_how_to_assign_columns(tmp_path, header):
    path = write_tsv(tmp_path / "t.tsv", header=header)
    with pytest.raises(DataError) as caught:
        open_corpus(path, PAIR)
    assert f'"{header[0]}⇥{header[1]}"' in str(caught.value)
    assert "header, assign its names: --columns source=NAME,target=NAME" in str(caught.value)
    assert "Without a header, assign numbers: --columns source=1,target=2" in str(caught.value)


def test_columns_named_by_language_codes_are_recognised(tmp_path):
    path = write_tsv(tmp_path / "t.tsv", [("a", "b")], header=("de", "pt_BR"))
    assert values(path) == [("a", "b")]
    assert values(path, pair="pt_BR-de") == [("b", "a")]
    three = write_tsv(tmp_path / "u.tsv", [("a", "b", "c")], header=("de", "en", "qqq"))
    assert values(three, pair="qqq-de") == [("c", "a")]
    with pytest.raises(DataError, match='no column "source"'):
        open_corpus(three, PAIR)


@pytest.mark.parametrize("pair", ["en", "en-", "en-de-fr", "en-en", "en/x-de"])
def test_raises_on_an_invalid_language_pair(tmp_path, pair):
    with pytest.raises(DataError, match="--pair takes two"):
        open_corpus(tmp_path, PAIR, pair=pair)


def test_raises_on_a_repeated_column_in_a_header(tmp_path):
    path = write_tsv(tmp_path / "t.tsv", [("a", "b", "c")], header=("source", "target", "source"))
    with pytest.raises(DataError, match='two columns named "source"'):
        open_corpus(path, PAIR)


def test_optional_columns_and_numeric_labels_are_read(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"sentence": "a", "label": 3}\n{"sentence": "b", "label": 0.5}\n')
    corpus = open_corpus(path, LABELLED, valid_fraction=0.0)
    assert corpus.splits["train"].columns == ("text", "label")
    assert values(path, LABELLED) == [("a", "3"), ("b", "0.5")]
    path.write_text('{"sentence2": "c", "text": "a", "label": true}\n')
    assert values(path, LABELLED) == [("a", "c", "1")]


def test_plain_text_is_one_column(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("one\n\nthree\n")
    assert values(path, (Column("text"),)) == [("one",), ("",), ("three",)]
    with pytest.raises(DataError, match="one column, but source and target are needed"):
        open_corpus(path, PAIR)


# invalid files


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"source": "a"}', r':2: expected the key "target", found "source"'),
        (b'{"source": "a", "target": 5}', r':2: expected text in "target", found int "5"'),
        (b'{"source": ["a"], "target": "b"}', r':2: expected text in "source", found list'),
        (b'{"source": {"a": 1}, "target": "b"}', r'expected text in "source", found dict'),
        (b'{"source": null, "target": "b"}', r'expected text in "source", found null'),
        (b'{"source": NaN, "target": "b"}', r'expected text in "source", found float "nan"'),
        (rb'{"source": "\ud800", "target": "b"}', r"half a character \(\\ud800 alone\)"),
        (b'["a", "b"]', ":2: expected a JSON object such as"),
        (b'{"source": "a"', ":2: not valid JSON"),
        (b"[" * 100_000, ":2: not valid JSON"),
        (b"\n{}", ":2: expected a JSON object, found a blank line"),
    ],
)
def test_error_of_invalid_json_names_line_and_key(tmp_path, line, message):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"source": "a", "target": "b"}\n' + line + b"\n")
    with pytest.raises(DataError, match=message) as caught:
        values(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"a\tb\tc\n",
            r":2: expected 2 columns \(source, target\), found 3\. If .* CSV",
        ),
        (b"a\tb\nc\n", ":3: .*found 1. Complete the line"),
        (b"a\tb\n\nc\td\n", ":3: .*found a blank line"),
        (b"a\tb\nc\t\xffd\n", r":3: not UTF-8 at byte offset 2 of the line \(0xff\)"),
        (b"a\t\xc3", ":2: not UTF-8 at byte offset 2"),
        (b"", "has no rows"),
        (b"\n\n", "has no rows"),
    ],
)
def test_error_of_invalid_tsv_names_the_line(tmp_path, content, message):
    path = tmp_path / "t.tsv"
    path.write_bytes(b"source\ttarget\n" + content)
    with pytest.raises(DataError, match=message) as caught:
        values(path)
    assert str(path) in str(caught.value)


def test_blank_lines_at_the_end_are_ignored(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_bytes(b"source\ttarget\na\tb\n\n\r\n")
    assert values(path) == [("a", "b")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'a,"b\nc,d\n', ":2: expected comma-separated values"),
        (b'a,"b"c\n', ":2: expected comma-separated values"),
        (b"a,b\nc,d,e\n", ":3: expected 2 columns .*found 3"),
    ],
)
def test_error_of_invalid_csv_names_the_line(tmp_path, content, message):
    path = tmp_path / "t.csv"
    path.write_bytes(b"source,target\n" + content)
    with pytest.raises(DataError, match=message):
        values(path)


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "txt", "tsv.gz"])
def test_raises_on_an_empty_file(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    path.write_bytes(gzip.compress(b"") if ending.endswith("gz") else b"")
    with pytest.raises(DataError, match="is empty"):
        open_corpus(path, PAIR)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"source\ttarget\n", mtime=0), "its name must end in .gz"),
        (b"PK\x03\x04 and so on", "zip archive or a spreadsheet"),
        ("\ufeffsource\ttarget\n".encode("utf-16"), "UTF-16"),
        (b"\x89PNG\r\n\x1a\n", "an image"),
        (b"\x80\x04\x95\x00", "not UTF-8 at byte offset 0"),
    ],
)
def test_error_names_the_actual_kind_of_a_file(tmp_path, content, message):
    (tmp_path / "t.tsv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        open_corpus(tmp_path / "t.tsv", PAIR)


def test_raises_on_a_truncated_or_wrong_archive(tmp_path):
    whole_file = gzip.compress("".join(f"{i}\t{i * i}\n" for i in range(5000)).encode())
    path = tmp_path / "t.tsv.gz"
    path.write_bytes(whole_file[: len(whole_file) // 2])
    with pytest.raises(DataError, match=r"incomplete: it can be unpacked up to line \d+"):
        values(path, columns={"source": "1", "target": "2"})
    path.write_bytes(b"source\ttarget\n")
    with pytest.raises(DataError, match="up to line 0 only"):
        open_corpus(path, PAIR)
    (tmp_path / "t.tsv.xz").write_bytes(lzma.compress(b"source\ttarget\na\tb\n")[:-9])
    with pytest.raises(DataError, match="damaged"):
        values(tmp_path / "t.tsv.xz")


def test_raises_on_an_overlong_line(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LONGEST", 100)
    path = write_tsv(tmp_path / "t.tsv", [("a", "b" * 200)])
    with pytest.raises(DataError, match=":2: longer than 100 bytes"):
        values(path)


def test_a_long_csv_field_is_read(tmp_path):
    long = "x" * 300_000  # beyond the csv module's own limit
    assert values(write_csv(tmp_path / "t.csv", [("a", long)])) == [("a", long)]


def test_error_of_a_missing_file_lists_the_folder(tmp_path):
    write_tsv(tmp_path / "pairs.tsv")
    (tmp_path / "deeper").mkdir()
    with pytest.raises(DataError, match=r"nope.tsv does not exist.* holds deeper/, pairs.tsv"):
        open_corpus(tmp_path / "nope.tsv", PAIR)
    with pytest.raises(DataError, match="nor does the folder"):
        open_corpus(tmp_path / "a" / "b" / "c.tsv", PAIR)
    with pytest.raises(DataError, match=r"has no train\.\*.*it holds deeper/, pairs.tsv"):
        open_corpus(tmp_path, PAIR)
    with pytest.raises(DataError, match="it holds nothing"):
        open_corpus(tmp_path / "deeper", PAIR)
    (tmp_path / "pairs.doc").write_text("x")
    with pytest.raises(DataError, match=r"unknown suffix; expected one of \.tsv \.csv"):
        open_corpus(tmp_path / "pairs.doc", PAIR)


# folders


def test_files_of_a_folder_are_its_splits(tmp_path):
    write_tsv(tmp_path / "train.tsv")
    write_csv(tmp_path / "dev.csv", ROWS[:1])
    write_jsonl(tmp_path / "test.jsonl", ROWS[1:])
    (tmp_path / "train.log").write_text("not data")
    (tmp_path / ".train.tsv.swp").write_text("not data")
    (tmp_path / "README.md").write_text("not data")
    corpus = open_corpus(tmp_path, PAIR)
    assert list(corpus.splits) == ["train", "valid", "test"]
    assert {name: split.count() for name, split in corpus.splits.items()} == {
        "train": 3,
        "valid": 1,
        "test": 2,
    }
    assert "train: train.tsv (tab-separated); valid: dev.csv" in corpus.summary
    assert "held out" not in corpus.summary


@pytest.mark.parametrize("other", ["train.csv", "train.tsv.gz", "train.v2.tsv"])
def test_raises_on_two_files_for_one_split(tmp_path, other):
    write_tsv(tmp_path / "train.tsv")
    write_tsv(tmp_path / other)
    with pytest.raises(DataError, match=r"more than one file for train: train\.") as caught:
        open_corpus(tmp_path, PAIR)
    assert other in str(caught.value)


def test_raises_on_two_names_for_validation(tmp_path):
    for name in ("train", "val", "dev"):
        write_tsv(tmp_path / f"{name}.tsv")
    with pytest.raises(DataError, match=r"for valid: dev\.tsv, val\.tsv"):
        open_corpus(tmp_path, PAIR)


def test_raises_on_a_folder_named_like_a_table(tmp_path):
    (tmp_path / "train.tsv").mkdir()
    with pytest.raises(DataError, match=r"train\.tsv is a folder"):
        open_corpus(tmp_path, PAIR)


def test_an_evaluation_needs_no_train_split(tmp_path):
    write_tsv(tmp_path / "test.tsv")
    corpus = open_corpus(tmp_path, PAIR, valid_fraction=0.0, required=("test",))
    assert list(corpus.splits) == ["test"]
    with pytest.raises(DataError, match=r"no valid\.\* or val\.\* or dev\.\*"):
        open_corpus(tmp_path, PAIR, valid_fraction=0.0, required=("valid",))


def test_raises_on_splits_with_different_columns(tmp_path):
    write_tsv(tmp_path / "train.tsv", [("a", "b", "c")], header=("text", "text_pair", "label"))
    write_tsv(tmp_path / "valid.tsv", [("a", "c")], header=("text", "label"))
    with pytest.raises(DataError, match="train has text, text_pair, label; valid has text, label"):
        open_corpus(tmp_path, LABELLED)


# parallel text


def write_parallel(folder, stem="train", languages=("en", "de"), rows=ROWS):
    for i, language in enumerate(languages):
        text = "".join(row[i] + "\n" for row in rows)
        (folder / f"{stem}.{language}").write_bytes(text.encode())


def test_two_languages_are_recognised_without_a_pair(tmp_path):
    write_parallel(tmp_path)
    write_parallel(tmp_path, "valid.tok", rows=ROWS[:1])
    corpus = open_corpus(tmp_path, (Column("source", ("en",)), Column("target")))
    assert [row.values for row in corpus.splits["train"]] == ROWS
    assert corpus.splits["valid"].count() == 1
    assert "source = en, target = de (the other way: --pair de-en)" in corpus.summary
    alphabetical = open_corpus(tmp_path, PAIR)
    assert [row.values for row in alphabetical.splits["train"]] == [row[::-1] for row in ROWS]
    turned = open_corpus(tmp_path, PAIR, pair="de-en")
    assert turned.splits["train"].digest() == alphabetical.splits["train"].digest()


def test_the_pair_decides_among_three_languages(tmp_path):
    write_parallel(tmp_path)
    (tmp_path / "train.fr").write_text("un\ndeux\ntrois\n")
    with pytest.raises(DataError, match="train in de, en, fr; choose the source"):
        open_corpus(tmp_path, PAIR)
    corpus = open_corpus(tmp_path, PAIR, pair="fr-en", valid_fraction=0.0)
    assert [row.values[0] for row in corpus.splits["train"]] == ["un", "deux", "trois"]
    with pytest.raises(DataError, match=r"needs one train\.en and one train\.cs"):
        open_corpus(tmp_path, PAIR, pair="en-cs")


def test_compressed_parallel_text_is_found_by_its_beginning(tmp_path):
    write_parallel(tmp_path, "corpus.clean")
    for language in ("en", "de"):
        plain = tmp_path / f"corpus.clean.{language}"
        (tmp_path / f"{plain.name}.gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    assert values(tmp_path / "corpus.clean", pair="en-de") == ROWS


@pytest.mark.parametrize("shorter", ["en", "de"])
def test_raises_on_parallel_text_of_different_length(tmp_path, shorter):
    for language in ("en", "de"):
        lines = 28_999 if language == shorter else 29_000
        (tmp_path / f"train.{language}").write_text("x\n" * lines)
    counts = {"en": "29 000", "de": "29 000", shorter: "28 999"}
    message = f"train.en has {counts['en']} lines, train.de has {counts['de']} lines"
    with pytest.raises(DataError, match=message):
        open_corpus(tmp_path, PAIR, pair="en-de", valid_fraction=0.0).splits["train"].count()


# held out


def many(path, count=1000, distinct=1000):
    return write_tsv(path, [(f"s{i % distinct}", f"t{i}") for i in range(count)])


def test_a_fixed_fraction_is_held_out_for_validation(tmp_path):
    path = many(tmp_path / "t.tsv")
    corpus = open_corpus(path, PAIR)
    train, valid = ({row.values for row in corpus.splits[name]} for name in ("train", "valid"))
    assert len(valid) == corpus.splits["valid"].count() == 100
    assert len(train) == corpus.splits["train"].count() == 900
    assert not train & valid
    assert "Held out for validation: 100 of 1 000 rows." in corpus.summary
    again = open_corpus(path, PAIR)
    assert list(again.splits["valid"]) == list(corpus.splits["valid"])
    other = open_corpus(path, PAIR, seed=1)
    assert {row.values for row in other.splits["valid"]} != valid


def test_the_order_of_rows_does_not_change_the_split(tmp_path):
    rows = [(f"s{i}", f"t{i}") for i in range(300)]
    one = open_corpus(write_tsv(tmp_path / "a.tsv", rows), PAIR).splits["valid"]
    other = open_corpus(write_csv(tmp_path / "b.csv", rows[::-1]), PAIR).splits["valid"]
    assert {row.values for row in one} == {row.values for row in other}


def test_equal_sources_fall_on_the_same_side(tmp_path):
    corpus = open_corpus(many(tmp_path / "t.tsv", 1000, distinct=40), PAIR)
    train, valid = ({row.values[0] for row in corpus.splits[name]} for name in ("train", "valid"))
    assert len(train) + len(valid) == 40
    assert len(valid) == 4


def test_at_least_one_and_at_most_2000_rows_are_held_out(tmp_path):
    small = open_corpus(many(tmp_path / "a.tsv", 2), PAIR)
    assert [small.splits[name].count() for name in ("train", "valid")] == [1, 1]
    large = open_corpus(many(tmp_path / "b.tsv", 45_000, 45_000), PAIR)
    assert large.splits["valid"].count() == 2000
    greedy = open_corpus(many(tmp_path / "c.tsv", 3), PAIR, valid_fraction=0.99)
    assert greedy.splits["train"].count() == 1
    with pytest.raises(DataError, match="too few different examples"):
        open_corpus(many(tmp_path / "d.tsv", 10, distinct=1), PAIR)


def test_a_folder_without_valid_holds_out_part_of_train(tmp_path):
    many(tmp_path / "train.tsv")
    write_tsv(tmp_path / "test.tsv")
    corpus = open_corpus(tmp_path, PAIR, valid_fraction=0.1)
    assert {name: split.count() for name, split in corpus.splits.items()} == {
        "train": 900,
        "valid": 100,
        "test": 3,
    }
    assert list(open_corpus(tmp_path, PAIR, valid_fraction=0.0).splits) == ["train", "test"]


@pytest.mark.parametrize(
    "options", [{"valid_fraction": 1.0}, {"valid_fraction": -0.1}, {"seed": -1}, {"seed": 2**64}]
)
def test_raises_on_invalid_fractions_and_seeds(tmp_path, options):
    with pytest.raises(DataError, match="between 0 and"):
        open_corpus(many(tmp_path / "t.tsv"), PAIR, **options)


# digests, streaming, items


def test_digest_depends_on_content_and_options_not_on_the_path(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    one = many(tmp_path / "a.tsv")
    moved = many(tmp_path / "elsewhere" / "b.tsv")

    def digest(path, split="train", **options):
        return open_corpus(path, PAIR, **options).splits[split].digest()

    assert digest(one) == digest(moved)
    changed = many(tmp_path / "c.tsv", 999)
    turned = {"source": "target", "target": "source"}
    numbered = {"source": "1", "target": "2"}
    digests = [
        digest(one),
        digest(one, "valid"),
        digest(one, seed=1),
        digest(one, valid_fraction=0.2),
        digest(one, rule="hash"),
        digest(one, valid_fraction=0.0),
        digest(one, columns=turned),
        digest(one, columns=numbered),
        digest(changed),
    ]
    assert len(set(digests)) == len(digests)


def test_a_split_can_be_read_twice_and_in_part(tmp_path):
    split = open_corpus(many(tmp_path / "t.tsv"), PAIR, valid_fraction=0.0).splits["train"]
    assert next(iter(split)).values == ("s0", "t0")
    assert list(split) == list(split)


def test_progress_counts_the_rows_of_a_split(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "REPORTED", 400)
    train = open_corpus(many(tmp_path / "t.tsv"), PAIR).splits["train"]
    reported = []
    assert len(list(train.read(reported.append))) == 900
    assert reported == [400, 800, 900]
    assert list(train.read()) == list(train)


def test_reading_a_split_holds_no_rows(tmp_path):
    with open(tmp_path / "t.tsv", "w") as stream:
        stream.write("source\ttarget\n")
        for i in range(60_000):
            stream.write(f"{i} {'x' * 500}\t{'y' * 500}\n")
    code = """
import sys
from saccade.data.sources import Column, open_corpus
from tests.memory import peak_mib
before = peak_mib()
corpus = open_corpus(sys.argv[1], (Column("source"), Column("target")))
assert sum(split.count() for split in corpus.splits.values()) == 60_000
assert sum(1 for split in corpus.splits.values() for _ in split) == 60_000
assert peak_mib() - before < 20, peak_mib() - before
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "t.tsv")], check=True)


def test_items_collect_references_in_order(tmp_path):
    rows = [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("b", "2")]
    split = open_corpus(write_tsv(tmp_path / "t.tsv", rows), PAIR, valid_fraction=0.0).splits[
        "train"
    ]
    grouped = [(item.inputs, item.references, item.line) for item in items(split)]
    assert grouped == [(("a",), ("1", "3"), 2), (("b",), ("2", "2"), 3), (("c",), ("4",), 5)]


def test_items_may_have_two_inputs_or_ignore_columns(tmp_path):
    rows = [("a", "b", "1"), ("a", "c", "2"), ("a", "b", "3")]
    path = write_tsv(tmp_path / "t.tsv", rows, header=("text", "text_pair", "label"))
    split = open_corpus(path, LABELLED, valid_fraction=0.0).splits["train"]
    assert [item.references for item in items(split)] == [("1", "3"), ("2",)]
    assert [item.references for item in items(split, inputs=1)] == [("b", "c", "b")]
    with pytest.raises(DataError, match="an evaluation needs columns for the input"):
        list(items(split, inputs=3))


# Hugging Face


def stand_in(**functions):
    module = types.ModuleType("datasets")
    for name, function in functions.items():
        setattr(module, name, function)
    return module


def test_a_hugging_face_data_set_with_nested_pairs_is_read(monkeypatch):
    rows = [{"id": i, "translation": {"en": f"e{i}", "fr": f"f{i}"}} for i in range(3)]
    calls = []

    def load_dataset(name, config):
        calls.append((name, config))
        return {"train": rows, "validation": rows[:1], "other": []}

    monkeypatch.setitem(sys.modules, "datasets", stand_in(load_dataset=load_dataset))
    corpus = open_corpus("hf:some/books:en-fr", PAIR, pair="fr-en")
    assert calls == [("some/books", "en-fr")]
    assert list(corpus.splits) == ["train", "valid"]
    assert [row.values for row in corpus.splits["train"]] == [(f"f{i}", f"e{i}") for i in range(3)]


def test_a_folder_saved_by_datasets_is_recognised(tmp_path, monkeypatch):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}')
    rows = [{"source": "a", "target": "b"}, {"source": "c", "target": "d"}]
    loader = stand_in(load_from_disk=lambda name: {"train": rows})
    monkeypatch.setitem(sys.modules, "datasets", loader)
    corpus = open_corpus(tmp_path, PAIR)
    assert sorted(split.count() for split in corpus.splits.values()) == [1, 1]


def test_error_without_datasets_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r'pip install "saccade-attention\[hf\]"'):
        open_corpus("hf:anything", PAIR)


def test_errors_of_datasets_are_passed_on(monkeypatch):
    def load_dataset(name, config):
        raise ConnectionError("the hub is away")

    monkeypatch.setitem(sys.modules, "datasets", stand_in(load_dataset=load_dataset))
    with pytest.raises(DataError, match="cannot load anything: the hub is away"):
        open_corpus("hf:anything", PAIR)
