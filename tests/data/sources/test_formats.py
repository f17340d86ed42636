"""Separators, JSON arrays, spreadsheets and mistakes in files: what is read, and the messages."""

import contextlib
import csv
import gzip
import json
import sys
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.sources import Column, open_corpus
from saccade.errors import DataError

TEXT = (Column("text", ("sentence",)),)
LABELLED = (Column("text", ("sentence",)), Column("label", ("class",), numbers=True, label=True))
PAIR = (Column("source"), Column("target"))
ROWS = [("a, b; c", "x"), ("two\nlines | one", "y"), ('say "hi"', "z")]


def read(path, task_columns=LABELLED, **options):
    split = open_corpus(path, task_columns, valid_fraction=0.0, **options).splits["train"]
    return [(row.line, row.values) for row in split]


def values(path, task_columns=LABELLED, **options):
    return [row for _, row in read(path, task_columns, **options)]


def raised(path, task_columns=LABELLED, **options):
    with pytest.raises(DataError) as caught:
        read(path, task_columns, **options)
    return str(caught.value)


def written(path, rows, separator=",", header=("text", "label"), **options):
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, delimiter=separator, **options).writerows([header, *rows])
    return path


# separators of .csv


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_recognised(tmp_path, separator, quoting):
    path = written(tmp_path / "t.csv", ROWS, separator, quoting=quoting)
    assert values(path) == ROWS
    names = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
    corpus = open_corpus(path, LABELLED, valid_fraction=0.0)
    assert f"t.csv ({names[separator]}-separated)" in corpus.summary


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.text("ab ,;|\t\n\"'", max_size=12), st.sampled_from("xyz")),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(",;\t|"),
)
def test_every_text_survives_every_separator(tmp_path_factory, rows, separator):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    assert values(written(path, rows, separator)) == rows


def test_one_column_is_never_divided_by_another_separator(tmp_path):
    rows = [("one; two",), ("three; four | five",)]
    path = written(tmp_path / "t.csv", rows, header=("text",))
    assert values(path, TEXT) == rows
    numbered = tmp_path / "n.csv"
    numbered.write_text("a;b\nc;d\n")
    assert values(numbered, TEXT, columns={"text": "1"}) == [("a;b",), ("c;d",)]


def test_columns_by_number_need_a_separator_with_as_many(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("Hello, world;x\nBye;y\n")
    assert values(path, columns={"text": "1", "label": "2"}) == [
        ("Hello, world", "x"),
        ("Bye", "y"),
    ]


def test_languages_and_renamed_columns_show_the_separator(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("en;fr\nHello, you;Salut, Anne\n")
    assert values(path, PAIR) == [("Hello, you", "Salut, Anne")]
    path.write_text("Frage, lang|Antwort\na|b\n")
    renamed = {"source": "Frage, lang", "target": "Antwort"}
    assert values(path, PAIR, columns=renamed) == [("a", "b")]


def test_errors_name_the_separator_and_the_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('text;label\n"two\nlines";x\nand; more; y\n')
    assert raised(path) == (
        f"{path}:4: expected 2 columns (text, label), found 3. If the text contains semicolons, "
        'put it in "…".'
    )
    path.write_text('text;label\na;x\n"open;y\n')
    assert f"{path}:3: expected semicolon-separated values" in raised(path)


def test_lines_of_quoted_newlines_are_counted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbftext,label\r\n"a\r\nb",x\r\n"c",y\r\n\r\n')
    assert read(path) == [(2, ("a\r\nb", "x")), (4, ("c", "y"))]
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read(packed) == read(path)


def test_a_tsv_file_with_other_separators_is_explained(tmp_path):
    path = tmp_path / "t.tsv"
    for separator, name in ((",", "comma"), (";", "semicolon")):
        path.write_text(f"text{separator}label\na{separator}x\n")
        assert f"The file is {name}-separated: rename it to .csv." in raised(path)
    path.write_text("text\tlabel\nHello, you; all\tx\n")
    assert values(path) == [("Hello, you; all", "x")]


def test_a_missing_header_is_explained(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("Good film;pos\nBad film;neg\n")
    message = raised(path)
    assert 'has no column "text"' in message
    assert 'The first line is "Good film;pos"' in message
    assert "--columns text=1,label=2" in message


# JSON arrays


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("wrapped", [False, True])
def test_json_arrays_are_read(tmp_path, indent, wrapped):
    records = [{"label": 1, "text": f"é {i} " + "x" * 40_000, "id": [i]} for i in range(9)]
    content = {"version": {"n": [1]}, "empty": [], "data": records} if wrapped else records
    path = tmp_path / "t.json"
    path.write_text(json.dumps(content, indent=indent, ensure_ascii=False), encoding="utf-8")
    assert values(path) == [(record["text"], "1") for record in records]
    lines = [line for line, _ in read(path)]
    assert lines == ([1] * 9 if indent is None else sorted(set(lines)))
    packed = tmp_path / "t.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert values(packed) == values(path)


def test_a_long_json_line_is_read_object_by_object(tmp_path, monkeypatch):
    monkeypatch.setattr("saccade.data.sources.text_files.LONGEST", 1000)
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"text": f"t{i}", "label": "x"} for i in range(500)]))
    assert len(values(path)) == 500


def test_json_lines_may_end_in_json(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n')
    assert values(path) == [("a", "x"), ("b", "y")]
    path.write_text('{"text": "a", "label": "x"}')
    assert values(path) == [("a", "x")]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('[{"text": "a", "label": "x"},\n {"text": "b"}]', ':2: expected the key "label"'),
        ('[{"text": "a", "label": "x"},\n {"text": "b", ]', ":2: not valid JSON"),
        ('[{"text": "a", "label": "x"}', ":1: not valid JSON (expected ','"),
        ('[{"text": "a", "label": "x"},\n 7]', ":2: expected an array of objects"),
        ("[1, 2]", ":1: expected an array of objects"),
        ('"text"', ":1: expected an array of objects"),
        ("", "is empty"),
        ("[]", "has no column"),
        ('{"text": {"0": "a"},\n "label": {"0": "x"}}', 'orient="records"'),
        ("\xff", "has no column"),
    ],
)
def test_wrong_json_is_explained(tmp_path, content, expected):
    path = tmp_path / "t.json"
    path.write_text(content, encoding="utf-8")
    if content == "\xff":
        path.write_bytes(b"[\xff]")
        expected = ":1: not UTF-8 at byte offset"
    assert expected in raised(path)


# spreadsheets


def workbook(path, sheets):
    """Write a workbook by hand: the rows of cells of each sheet, None for an empty cell."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    names = "".join(
        f'<sheet name="{name}" sheetId="{i}" r:id="rId{i}"/>' for i, name in enumerate(sheets, 1)
    )
    files = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override '
        f'PartName="/xl/workbook.xml" ContentType="{kinds}.sheet.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
        f'Type="{relations}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{relations}"><sheets>{names}'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        + "".join(
            f'<Relationship Id="rId{i}" Type="{relations}/worksheet" Target="worksheets/{i}.xml"/>'
            for i in range(1, len(sheets) + 1)
        )
        + "</Relationships>",
    }
    for i, rows in enumerate(sheets.values(), 1):
        files[f"xl/worksheets/{i}.xml"] = (
            f'<worksheet xmlns="{main}"><sheetData>{"".join(map(_row, rows, range(1, 99)))}'
            "</sheetData></worksheet>"
        )
    with zipfile.ZipFile(path, "w") as file:
        for name, content in files.items():
            file.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{content}')
    return path


def _row(cells, number):
    return f'<row r="{number}">{"".join(map(_cell, cells, "ABCDEF", [number] * 6))}</row>'


def _cell(value, column, row):
    if value is None:
        return ""
    if isinstance(value, bool):
        return f'<c r="{column}{row}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, int | float):
        return f'<c r="{column}{row}"><v>{value}</v></c>'
    return f'<c r="{column}{row}" t="inlineStr"><is><t>{value}</t></is></c>'


def test_the_first_sheet_with_cells_is_read(tmp_path):
    pytest.importorskip("python_calamine")
    rows = [("id", "text", "label"), (1, "Guten Tag", 3), (2, "x", 2.5), (3, "y", None)]
    sheets = {"Notes": [], "Reviews": [*rows, (None,) * 3, (4, "z", True)], "Old": rows}
    path = workbook(tmp_path / "t.xlsx", sheets)
    assert read(path) == [
        (2, ("Guten Tag", "3")),
        (3, ("x", "2.5")),
        (4, ("y", "")),
        (5, ("", "")),
        (6, ("z", "1")),
    ]
    corpus = open_corpus(path, LABELLED, valid_fraction=0.0)
    assert 't.xlsx (Excel, sheet "Reviews", the first of 2)' in corpus.summary


def test_a_table_may_begin_below_the_first_row(tmp_path):
    pytest.importorskip("python_calamine")
    rows = [(), (None, None, None), (None, "text", "label"), (None, "a", "x")]
    assert read(workbook(tmp_path / "t.xlsx", {"S": rows})) == [(4, ("a", "x"))]


def test_wrong_spreadsheets_are_explained(tmp_path, monkeypatch):
    pytest.importorskip("python_calamine")
    path = workbook(tmp_path / "t.xlsx", {"S": [("a", "b"), ("c", "d")]})
    assert 'The first line is "a | b"' in raised(path)
    assert "--columns text=1,label=2" in raised(path)
    assert values(path, columns={"text": "1", "label": "2"}) == [("a", "b"), ("c", "d")]
    assert "has no cells" in raised(workbook(tmp_path / "e.xlsx", {"S": []}))
    path.write_bytes(path.read_bytes()[:300])
    assert "t.xlsx is not a complete .xlsx file" in raised(path)
    path.write_text("text,label\n")
    assert "t.xlsx is not a complete .xlsx file" in raised(path)
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    assert 'pip install "saccade-attention[excel]", or save the sheet as .csv' in raised(path)


# encodings and line ends


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".json", ".jsonl"])
def test_utf_16_is_explained(tmp_path, encoding, suffix):
    path = tmp_path / f"t{suffix}"
    path.write_bytes('text,label\nä,"x"\n'.encode(encoding))
    assert "UTF-16" in raised(path)
    assert "save it as UTF-8" in raised(path)


def test_latin_1_is_explained(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("text;label\nschön;x\n".encode("latin-1"))
    assert f"{path}:2: not UTF-8" in raised(path)


def test_old_mac_line_ends_are_explained(tmp_path):
    for name in ("t.csv", "t.tsv", "t.jsonl"):
        path = tmp_path / name
        path.write_bytes(b"text,label\ra,x\rb,y\r")
        assert "ends its lines with carriage returns" in raised(path)


def test_blank_lines_of_csv_are_ignored(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"text,label\n\na,x\n\r\n\nb,y\n\n")
    assert read(path) == [(3, ("a", "x")), (6, ("b", "y"))]


@pytest.mark.parametrize("content", ["", "\n", "\n\n\n", "text,label\n"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_files_without_rows_are_explained(tmp_path, content, suffix):
    path = tmp_path / f"t{suffix}"
    path.write_text(content.replace(",", "\t" if suffix == ".tsv" else ","))
    with pytest.raises(DataError):
        open_corpus(path, LABELLED)


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([".csv", ".tsv", ".json", ".jsonl", ".xlsx"]))
def test_no_bytes_cause_another_exception(tmp_path_factory, content, suffix):
    path = tmp_path_factory.mktemp("any") / f"t{suffix}"
    path.write_bytes(content)
    with contextlib.suppress(DataError):
        read(path)


def test_a_packed_spreadsheet_is_read(tmp_path):
    pytest.importorskip("python_calamine")
    path = workbook(tmp_path / "t.xlsx", {"S": [("text", "label"), ("a", "x")]})
    packed = tmp_path / "p.xlsx.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert values(packed) == [("a", "x")]


# other formats, and JSON of other shapes


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("t.xls", "Save it as .xlsx or .csv"),
        ("t.zip", "Unpack it"),
        ("t.pkl", "pickled objects are never loaded"),
        ("t.md", "Rename the file"),
    ],
)
def test_other_formats_have_advice(tmp_path, name, advice):
    (tmp_path / name).write_bytes(b"x")
    assert advice in raised(tmp_path / name)


def test_one_of_two_parallel_files_is_completed(tmp_path):
    (tmp_path / "corpus.en").write_text("one\n")
    (tmp_path / "corpus.fr").write_text("un\n")
    message = raised(tmp_path / "corpus.en", PAIR)
    assert "give the common beginning of corpus.en and corpus.fr" in message
    assert message.endswith(str(tmp_path / "corpus"))


@pytest.mark.parametrize(
    "content",
    [
        {"text": {"0": "a", "1": "b"}, "label": {"0": "x", "1": "y"}},
        {"text": ["a", "b"], "label": ["x", "y"]},
    ],
)
def test_json_of_columns_has_advice(tmp_path, content):
    path = tmp_path / "t.json"
    path.write_text(json.dumps(content))
    assert 'to_json(path, orient="records")' in raised(path)


@pytest.mark.parametrize("separator", [",", ";"])
def test_lists_of_labels_are_several_labels(tmp_path, separator):
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "a", "label": ["x", "y"]}\n{"text": "b", "label": []}\n')
    several = (LABELLED[0], Column("label", numbers=True, label=True, separator=separator))
    assert values(path, several) == [("a", f"x{separator}y"), ("b", "")]
    assert "--set labels.kind=several" in raised(path)
    path.write_text('{"text": "a", "label": ["x,y", "z;"]}\n')
    assert f'contains "{separator}", which separates labels' in raised(path, several)
