"""Running text: files and folders, their parts, and the files that are left out."""

import gzip
import lzma
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.sources import Column, open_corpus
from saccade.errors import DataError
from tests.data.task_columns import PAIR

RUNNING = (Column("text", running=True),)
LINES = (Column("text"),)
POEM = "Tiger Tiger, burning bright,\nIn the forests of the night;\n"


def read_all(where, task_columns=RUNNING, **options):
    """Return every part of the text."""
    corpus = open_corpus(where, task_columns, valid_fraction=0.0, required=("test",), **options)
    return list(corpus.splits["test"])


def texts(where, task_columns=RUNNING, **options):
    return [row.values[0] for row in read_all(where, task_columns, **options)]


def write(path, text=POEM):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(data))
    return path


def numbered(count, width=100):
    """Return distinct lines of this many bytes."""
    return "".join(f"{i:0{width - 1}d}\n" for i in range(count))


# one file


def test_parts_end_at_line_ends(tmp_path):
    """Parts of 256 bytes hold two lines of 100; a line of 900 is a part of its own."""
    text = numbered(5) + "x" * 899 + "\n" + numbered(3)
    path = write(tmp_path / "t.txt", text)
    rows = read_all(path)
    assert [row.line for row in rows] == [1, 3, 5, 6, 7, 9]
    assert [len(row.values[0]) for row in rows] == [200, 200, 100, 900, 200, 100]
    assert "".join(row.values[0] for row in rows) == text
    assert {row.file for row in rows} == {str(path)}


@pytest.mark.parametrize("packing", ["", ".gz", ".xz"])
def test_byte_order_marks_and_line_ends_are_normalised(tmp_path, packing):
    text = "\ufeff\r\n  a\tb\r\n\n\nc\rd\u2028e\x0c\r\r\n f"
    path = write(tmp_path / f"t.txt{packing}", text)
    assert texts(path) == ["\n  a\tb\n\n\nc\rd\u2028e\x0c\r\n f"]


PIECES = st.lists(st.sampled_from(["a", "é", "𝄞 ", "\r", "\n", "\r\n", "word " * 30]), min_size=1)


@settings(max_examples=60, deadline=None)
@given(pieces=PIECES)
def test_the_parts_joined_are_the_text(tmp_path_factory, pieces):
    text = "".join(pieces)
    rows = read_all(write(tmp_path_factory.mktemp("text") / "t.txt", text))
    joined = ""
    for row in rows:
        part = row.values[0]
        assert row.line == 1 + joined.count("\n")
        assert len(part.encode()) <= 256 or "\n" not in part[:-1]
        joined += part
    assert joined == text.replace("\r\n", "\n")
    assert all(row.values[0].endswith("\n") for row in rows[:-1])


@pytest.mark.parametrize(
    ("lines", "size"), [(20, 256), (100, 256), (1000, 2000), (2048, 4096), (9000, 4096)]
)
def test_little_text_has_small_parts(tmp_path, lines, size):
    """A part has a fiftieth of the bytes, between 256 and 4096, in complete lines of 100."""
    text = numbered(lines)
    filled = size // 100 * 100
    sizes = [len(part) for part in texts(write(tmp_path / "t.txt", text))]
    assert set(sizes[:-1]) == {filled}
    packed = [len(part) for part in texts(write(tmp_path / "t.txt.gz", text))]
    assert set(packed[:-1]) <= {4000}


def test_files_are_documents_only_for_running_text(tmp_path):
    path = write(tmp_path / "t.txt")
    assert texts(path, LINES) == POEM.splitlines()
    assert texts(path) == [POEM]
    assert texts(path, columns={"text": "1"}) == POEM.splitlines()  # with columns: tab-separated
    label = Column("label", required=False)
    assert texts(path, (*RUNNING, label)) == [POEM]
    with pytest.raises(DataError, match="one column, but text and label are needed"):
        open_corpus(path, (*RUNNING, Column("label")))


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl"])
def test_every_row_of_a_table_is_a_document(tmp_path, ending):
    row = '{"text": "one two"}\n' if ending == "jsonl" else "text\none two\n"
    path = write(tmp_path / f"t.{ending}", row)
    split = open_corpus(path, RUNNING, valid_fraction=0.0).splits["train"]
    assert [row.values for row in split] == [("one two",)]
    assert not split.running


def test_split_knows_whether_it_is_running_text(tmp_path):
    path = write(tmp_path / "t.txt")
    assert open_corpus(path, RUNNING, valid_fraction=0.0).splits["train"].running
    assert not open_corpus(path, LINES, valid_fraction=0.0).splits["train"].running
    write(tmp_path / "train.de")
    write(tmp_path / "train.en")
    assert not open_corpus(tmp_path / "train", PAIR, valid_fraction=0.0).splits["train"].running
    assert not open_corpus("builtin:copy", PAIR).splits["train"].running


# validation


def test_parts_of_a_text_are_held_out_for_validation(tmp_path):
    text = numbered(1000)
    corpus = open_corpus(write(tmp_path / "t.txt", text), RUNNING)
    valid, train = corpus.splits["valid"], corpus.splits["train"]
    assert valid.running
    assert train.running
    rows = sorted([*valid, *train], key=lambda row: row.line)
    assert "".join(row.values[0] for row in rows) == text
    assert (train.count(), valid.count()) == (45, 5)
    assert corpus.summary == (
        "train: t.txt (plain text, one document). text = running text. "
        "Held out for validation: 5 of 50 parts."
    )


def test_a_small_text_can_be_split_and_a_single_line_cannot(tmp_path):
    path = write(tmp_path / "t.txt", numbered(12))
    corpus = open_corpus(path, RUNNING)
    assert (corpus.splits["train"].count(), corpus.splits["valid"].count()) == (5, 1)
    write(path, "One short line.\n")
    with pytest.raises(DataError, match=r"too few different examples .*\(rows: 1\)"):
        open_corpus(path, RUNNING)


# folders


def test_sub_folders_are_splits(tmp_path):
    for name in ("b", "a", "c"):
        write(tmp_path / "train" / f"{name}.txt", f"{name}1\n{name}2\n")
    write(tmp_path / "train" / "d.txt.gz", "d1\n")
    write(tmp_path / "Dev" / "x.txt", "x\n")
    write(tmp_path / "test.txt", "t\n")
    for other in ("train/notes.md", "train/.hidden.txt", "train/deeper/e.txt", "loose.txt"):
        write(tmp_path / other, "not to be read\n")
    corpus = open_corpus(tmp_path, RUNNING)
    parts = {name: [row.values[0] for row in split] for name, split in corpus.splits.items()}
    assert parts == {
        "train": ["a1\na2\n", "b1\nb2\n", "c1\nc2\n", "d1\n"],
        "valid": ["x\n"],
        "test": ["t\n"],
    }
    files = [row.file for row in corpus.splits["train"]]
    assert files[0] == str(tmp_path / "train" / "a.txt")
    assert f"train: 4 files of text in {tmp_path / 'train'};" in corpus.summary
    assert f"valid: 1 file of text in {tmp_path / 'Dev'};" in corpus.summary
    assert "text = running text, one document per file" in corpus.summary
    assert all(split.running for split in corpus.splits.values())


def test_text_files_named_after_splits_are_splits(tmp_path):
    for name in ("train", "val", "test"):
        write(tmp_path / f"{name}.txt", f"{name}\n")
    write(tmp_path / "other.txt", "not to be read\n")
    corpus = open_corpus(tmp_path, RUNNING)
    parts = {name: [row.values[0] for row in split] for name, split in corpus.splits.items()}
    assert parts == {"train": ["train\n"], "valid": ["val\n"], "test": ["test\n"]}


def test_text_files_without_splits_are_one_split(tmp_path):
    for i in range(10):
        write(tmp_path / f"{9 - i}.txt", f"text {9 - i}\n")
    write(tmp_path / "deeper" / "x.txt", "not to be read\n")
    write(tmp_path / "notes.md", "not to be read\n")
    corpus = open_corpus(tmp_path, RUNNING, valid_fraction=0.2)
    assert (corpus.splits["train"].count(), corpus.splits["valid"].count()) == (8, 2)
    assert texts(tmp_path) == [f"text {i}\n" for i in range(10)]
    with pytest.raises(DataError, match=r"has no train\.\*"):
        open_corpus(tmp_path, LINES)


def test_part_size_depends_on_all_files_together(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / f"{name}.txt", numbered(500))
    assert {len(part) for part in texts(tmp_path)} == {2000}
    write(tmp_path / "c.txt.xz", "how much is in it?\n")
    assert {len(part) for part in texts(tmp_path)} == {4000, 2000, 19}


def test_empty_files_are_left_out_with_a_warning(tmp_path, caplog):
    write(tmp_path / "a.txt", "a\n")
    write(tmp_path / "b.txt", "")
    write(tmp_path / "c.txt.gz", "")
    write(tmp_path / "d.txt", "\ufeff")
    write(tmp_path / "e.txt", "e\n")
    assert texts(tmp_path) == ["a\n", "e\n"]
    assert caplog.messages == [f"left out of {tmp_path}: b.txt, c.txt.gz, d.txt are empty"]
    for name in ("a", "e"):
        write(tmp_path / f"{name}.txt", "")
    message = r"holds no text: a\.txt, b\.txt, c\.txt\.gz, d\.txt, e\.txt are empty"
    with pytest.raises(DataError, match=message):
        open_corpus(tmp_path, RUNNING)


@pytest.mark.parametrize(("name", "text"), [("t.txt", ""), ("t.txt", "\ufeff"), ("t.txt.xz", "")])
def test_raises_on_a_single_empty_document(tmp_path, name, text):
    with pytest.raises(DataError, match=r"t\.txt\S* is empty; text is expected"):
        open_corpus(write(tmp_path / name, text), RUNNING)


def test_digest_of_documents_depends_on_names_and_bytes_not_on_the_folder(tmp_path):
    def digest(folder, names=("a", "b"), last="b\n"):
        for name, text in zip(names, ("a\n", last), strict=True):
            write(tmp_path / folder / f"{name}.txt", text)
        return open_corpus(tmp_path / folder, RUNNING, valid_fraction=0.0).splits["train"].digest()

    first = digest("one")
    assert digest("two") == first
    others = {digest("three", ("a", "c")), digest("four", last="b\n\n"), digest("five", ("b", "a"))}
    assert len({first, *others}) == 4
    alone = [write(tmp_path / "alone" / name, "a\n") for name in ("x.txt", "y.txt")]
    same, as_well = (
        open_corpus(path, RUNNING, valid_fraction=0.0).splits["train"] for path in alone
    )
    assert same.digest() == as_well.digest()
    lines = open_corpus(alone[0], LINES, valid_fraction=0.0).splits["train"]
    assert lines.digest() != same.digest()


# errors


def test_raises_on_a_file_and_a_folder_for_one_split(tmp_path):
    write(tmp_path / "train.txt")
    write(tmp_path / "train" / "a.txt")
    with pytest.raises(DataError, match=r"more than one file for train: train\.txt, train/"):
        open_corpus(tmp_path, RUNNING)
    assert texts(tmp_path / "train.txt") == texts(tmp_path / "train")


def test_raises_on_a_text_beside_its_compressed_copy(tmp_path):
    write(tmp_path / "a.txt")
    write(tmp_path / "a.txt.gz")
    with pytest.raises(DataError, match=r"holds a\.txt twice, as a\.txt and a\.txt\.gz; remove"):
        open_corpus(tmp_path, RUNNING)


def test_raises_on_a_sub_folder_without_text(tmp_path):
    write(tmp_path / "train" / "a.md")
    write(tmp_path / "train" / "deeper" / "a.txt")
    with pytest.raises(DataError, match=r"train holds no \.txt files .*but a\.md, deeper/;"):
        open_corpus(tmp_path, RUNNING)


def test_error_without_text_names_files_and_sub_folders(tmp_path):
    with pytest.raises(DataError, match=r"train\.\* .*or a sub-folder train of \.txt files\)"):
        open_corpus(tmp_path, RUNNING)
    write(tmp_path / "test" / "a.txt")
    with pytest.raises(DataError, match=r"has no train\.\* .*it holds test/"):
        open_corpus(tmp_path, RUNNING)


def test_error_names_the_damaged_file_among_many(tmp_path):
    write(tmp_path / "a.txt")
    (tmp_path / "b.txt").write_bytes(b"fine\nnot \xff\n")
    with pytest.raises(DataError, match=r"b\.txt:2: not UTF-8 at byte offset 4"):
        read_all(tmp_path)
    (tmp_path / "b.txt").write_bytes(b"\x89PNG")
    with pytest.raises(DataError, match=r"b\.txt is not plain text but an image"):
        open_corpus(tmp_path, RUNNING)


def test_a_large_text_is_never_in_memory(tmp_path):
    with open(tmp_path / "t.txt", "w") as stream:
        for i in range(40_000):
            stream.write(f"{i} {'x' * 1000}\n")
    code = """
import sys
from saccade.data.sources import Column, open_corpus
from tests.memory import peak_mib
before = peak_mib()
corpus = open_corpus(sys.argv[1], (Column("text", running=True),))
sizes = [len(row.values[0]) for split in corpus.splits.values() for row in split]
assert 40_000_000 < sum(sizes) and max(sizes) <= 4096
assert peak_mib() - before < 15, peak_mib() - before
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "t.txt")], check=True)
