"""Cached rows: encoded once, read again, counted when skipped, and never incomplete."""

import errno
import json
import logging
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.sources import open_corpus
from saccade.data.store import cache, ragged
from saccade.data.store.cache import Skipped, encode_once
from saccade.data.store.ragged import Ragged, RaggedWriter
from saccade.errors import DataError, DiskFullError
from tests.data.task_columns import PAIR

ROWS = [("ab", "c"), ("", "d"), ("e", "fghi"), ("jk", " "), ("l", "mn")]


def split_of(folder, rows=ROWS, name="t.tsv"):
    text = "source\ttarget\n" + "".join(f"{one}\t{other}\n" for one, other in rows)
    (folder / name).write_bytes(text.encode())
    return open_corpus(folder / name, PAIR, valid_fraction=0.0).splits["train"]


class Letters:
    """Encode letters as their code points, and count the calls."""

    def __init__(self, more=0):
        self.calls, self.more = 0, more

    def __call__(self, rows):
        self.calls += 1
        return [tuple([ord(c) + self.more for c in text] for text in row.values) for row in rows]


def encoded(split, folder, encode=None, **options):
    options = {"key": "letters", "limits": (3, 3), **options}
    return encode_once(split, encode or Letters(), folder=folder, **options)


def texts(field, more=0):
    return ["".join(chr(x - more) for x in field[i]) for i in range(len(field))]


@pytest.mark.parametrize("chunk", [1, 2, 1024])
def test_rows_are_encoded_and_skipped_rows_are_counted_in_order(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(cache, "CHUNK", chunk)
    result = encoded(split_of(tmp_path), tmp_path / "cache")
    assert [texts(field) for field in result.fields] == [["ab", "l"], ["c", "mn"]]
    assert len(result) == 2
    file = tmp_path / "t.tsv"
    assert result.skipped == Skipped(
        empty=2,
        too_long=1,
        first=(
            f"{file}:3: source is empty",
            f"{file}:4: target has 4 tokens, the limit is 3",
            f"{file}:5: target is empty",
        ),
    )
    assert result.fields[0].lengths.tolist() == [2, 1]


def test_rows_are_encoded_in_their_order_beside_the_thread_that_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "CHUNK", 1)
    lines, threads = [], set()

    def encode(rows):
        lines.extend(row.line for row in rows)
        threads.add(threading.current_thread())
        return Letters()(rows)

    encoded(split_of(tmp_path, [("a", "b")] * 20), tmp_path / "cache", encode)
    assert lines == [*range(2, 22)]
    assert len(threads) == 1
    assert threading.current_thread() not in threads


def test_a_row_whose_encoding_is_empty_counts_as_empty(tmp_path):
    result = encoded(
        split_of(tmp_path),
        tmp_path,
        lambda rows: [([], [1]) if row.values[0] == "l" else ([1], [2]) for row in rows],
        limits=None,
    )
    assert result.skipped.empty == 3
    assert len(result) == 2


def test_only_the_first_skipped_rows_are_named(tmp_path):
    rows = [("", "x")] * 50 + [("a", "b")]
    result = encoded(split_of(tmp_path, rows), tmp_path)
    assert result.skipped.empty == 50
    assert len(result.skipped.first) == 5


def test_raises_if_no_row_can_be_used(tmp_path):
    with pytest.raises(DataError, match="no row of train can be used: 0 empty, 2 too long"):
        encoded(split_of(tmp_path, [("abcd", "e"), ("f", "ghij")]), tmp_path / "cache")
    assert not [p for p in (tmp_path / "cache").iterdir() if p.is_dir()]


def test_cached_rows_are_not_encoded_again(tmp_path):
    encode = Letters()
    first = encoded(split_of(tmp_path), tmp_path / "cache", encode)
    moved = split_of(tmp_path, name="elsewhere.tsv")
    again = encoded(moved, tmp_path / "cache", encode, limits=[3, 3])
    assert encode.calls == 1
    assert again.key == first.key
    assert again.skipped == first.skipped
    assert [texts(field) for field in again.fields] == [texts(field) for field in first.fields]


def test_key_limits_and_content_decide_the_cache_entry(tmp_path):
    split = split_of(tmp_path)
    keys = {
        encoded(split, tmp_path).key,
        encoded(split, tmp_path, key="other").key,
        encoded(split, tmp_path, limits=(4, 4)).key,
        encoded(split, tmp_path, limits=None).key,
        encoded(split_of(tmp_path, [*ROWS, ("z", "z")], "u.tsv"), tmp_path).key,
    }
    assert len(keys) == 5


def test_progress_counts_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "CHUNK", 2)
    reported = []
    encoded(split_of(tmp_path), tmp_path, progress=reported.append)
    assert reported == [2, 4, 5]


@pytest.mark.parametrize("harm", ["truncate", "flip", "remove", "json", "nonsense"])
def test_a_damaged_entry_is_written_again(tmp_path, caplog, harm):
    split, encode = split_of(tmp_path), Letters()
    entry = tmp_path / "cache" / encoded(split, tmp_path / "cache", encode).key
    tokens = entry / "field-0.tokens"
    if harm == "truncate":
        tokens.write_bytes(tokens.read_bytes()[:-1])
    elif harm == "flip":
        data = bytearray(tokens.read_bytes())
        data[0] ^= 1
        tokens.write_bytes(bytes(data))
    elif harm == "remove":
        (entry / "field-1.offsets").unlink()
    elif harm == "json":
        (entry / "entry.json").write_text('{"format": 1')
    else:
        (entry / "entry.json").write_text("[1, 2]")
    with caplog.at_level(logging.WARNING):
        result = encoded(split, tmp_path / "cache", encode)
    assert encode.calls == 2
    assert "is damaged" in caplog.text
    assert texts(result.fields[0]) == ["ab", "l"]
    caplog.clear()
    encoded(split, tmp_path / "cache", encode)
    assert encode.calls == 2
    assert not caplog.text


def entries(folder):
    return [path.name for path in folder.iterdir() if not path.name.endswith(".lock")]


def test_a_full_disk_leaves_no_incomplete_entry(tmp_path, monkeypatch):
    class Full:
        def __init__(self, stream):
            self.stream = stream

        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self):
            self.stream.close()

    real = RaggedWriter.__init__

    def init(self, folder, name):
        real(self, folder, name)
        self._stream = Full(self._stream)

    monkeypatch.setattr(RaggedWriter, "__init__", init)
    folder = tmp_path / "cache"
    with pytest.raises(DiskFullError, match="the disk is full") as caught:
        encoded(split_of(tmp_path), folder)
    assert str(folder) in str(caught.value)
    assert entries(folder) == []


def test_raises_on_a_full_device(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    writer = RaggedWriter(tmp_path, "x")
    writer._stream.close()
    writer._stream = open("/dev/full", "wb")  # noqa: SIM115
    writer.add([[1]])
    with pytest.raises(OSError, match="No space left"):
        writer.close()
    writer.abandon()


def test_an_interrupted_encoding_leaves_nothing(tmp_path):
    def fail(rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encoded(split_of(tmp_path), tmp_path / "cache", fail)
    assert entries(tmp_path / "cache") == []


def test_raises_if_the_cache_folder_is_a_file(tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(DataError, match="cannot be written into"):
        encoded(split_of(tmp_path), tmp_path / "cache")


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    split = split_of(tmp_path)
    name = encoded(split, tmp_path / "other").key
    left = tmp_path / "cache" / f".partial-1-{name}"
    left.mkdir(parents=True)
    (left / "field-0.tokens").write_bytes(b"half")
    encoded(split, tmp_path / "cache")
    assert entries(tmp_path / "cache") == [name]


def test_two_processes_encode_once(tmp_path):
    split_of(tmp_path)
    code = """
import sys, time
from pathlib import Path
from saccade.data.store.cache import encode_once
from saccade.data.sources import open_corpus, Column
folder = Path(sys.argv[1])
columns = (Column("source"), Column("target"))
split = open_corpus(folder / "t.tsv", columns, valid_fraction=0.0).splits["train"]
def encode(rows):
    with open(folder / "calls", "a") as stream:
        stream.write("x")
    time.sleep(1)
    return [tuple([ord(c) for c in text] for text in row.values) for row in rows]
encoded = encode_once(split, encode, key="k", folder=folder / "cache", limits=None)
print(len(encoded), encoded.fields[1][1].tolist())
"""
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    outputs = [child.communicate(timeout=60)[0].decode() for child in children]
    assert outputs == ["3 [102, 103, 104, 105]\n"] * 2
    assert (tmp_path / "calls").read_text() == "x"


def test_an_entry_is_json_and_plain_arrays(tmp_path):
    result = encoded(split_of(tmp_path), tmp_path / "cache")
    entry = tmp_path / "cache" / result.key
    facts = json.loads((entry / "entry.json").read_text())
    assert facts["dtypes"] == ["uint16", "uint16"]
    assert np.fromfile(entry / "field-1.tokens", np.uint16).tolist() == [99, 109, 110]
    assert np.fromfile(entry / "field-1.offsets", np.int64).tolist() == [0, 1, 3]


def test_memory_does_not_grow_with_the_rows(tmp_path):
    with open(tmp_path / "t.tsv", "w") as stream:
        stream.write("source\ttarget\n")
        for i in range(50_000):
            stream.write(f"source {i}\ttarget {i}\n")
    code = """
import sys
import threading
from pathlib import Path
from saccade.data.store.cache import encode_once
from saccade.data.sources import open_corpus, Column
from tests.memory import peak_mib
folder = Path(sys.argv[1])
before = peak_mib()
columns = (Column("source"), Column("target"))
split = open_corpus(folder / "t.tsv", columns, valid_fraction=0.0).splits["train"]
encode = lambda rows: [(list(range(30)), list(range(70000, 70040))) for _ in rows]
encoded = encode_once(split, encode, key="k", folder=folder, limits=None)
assert encoded.fields[0].tokens.nbytes + encoded.fields[1].tokens.nbytes == 11_000_000
assert len(encoded) == 50_000
assert peak_mib() - before < 25, peak_mib() - before
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


# ragged


def ragged_of(folder, sequences, block=1):
    writer = RaggedWriter(folder, "x")
    for i in range(0, len(sequences), block):
        writer.add(sequences[i : i + block])
    writer.close()
    return Ragged.open(folder, "x", writer.dtype)


SEQUENCES = st.lists(
    st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 2**16), max_size=5), max_size=8
)


@settings(max_examples=50, deadline=None)
@given(sequences=SEQUENCES, data=st.data())
def test_written_sequences_are_read_back(tmp_path_factory, sequences, data):
    result = ragged_of(tmp_path_factory.mktemp("ragged"), sequences, block=3)
    assert [result[i].tolist() for i in range(len(result))] == sequences
    assert result.lengths.tolist() == [len(sequence) for sequence in sequences]
    largest = max((x for sequence in sequences for x in sequence), default=0)
    assert result.tokens.dtype == (np.uint16 if largest < 2**16 else np.uint32)
    rows = data.draw(st.lists(st.integers(0, len(sequences) - 1))) if sequences else []
    flat, lengths = result.take(rows)
    assert flat.tolist() == [x for row in rows for x in sequences[row]]
    assert lengths.tolist() == [len(sequences[row]) for row in rows]


def test_a_large_number_widens_the_numbers_before_it(tmp_path, monkeypatch):
    monkeypatch.setattr(ragged, "BLOCK", 4)
    result = ragged_of(tmp_path, [[65535, 1, 2], [3, 4], [65536], [5]])
    assert result.tokens.dtype == np.uint32
    assert [result[i].tolist() for i in range(4)] == [[65535, 1, 2], [3, 4], [65536], [5]]
    assert result[-1].tolist() == [5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.offsets", "x.tokens"]


@pytest.mark.parametrize("number", [-1, 2**32])
def test_raises_on_token_ids_out_of_range(tmp_path, number):
    writer = RaggedWriter(tmp_path, "x")
    with pytest.raises(DataError, match=f"from 0 to 4294967295, got {number}"):
        writer.add([[1, number]])
    writer.abandon()


def test_raises_on_an_index_out_of_range(tmp_path):
    result = ragged_of(tmp_path, [[1], [2]])
    for index in (2, -3):
        with pytest.raises(IndexError, match="of 2"):
            result[index]
