"""Stacked arrays: written, mapped, prepared once, read again, and never incomplete."""

import errno
import json
import logging
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.store import cache, stacked
from saccade.data.store.cache import arrays_once
from saccade.data.store.stacked import StackedArrays, StackedWriter, sampled_digest
from saccade.data.threads import in_threads
from saccade.errors import BrokenImagesError, DataError, DiskFullError

NAMES = [f"{i}.png" for i in range(37)]


class Squares:
    """Prepare a small array of a name, and record the calls."""

    def __init__(self, broken=(), dtype=np.uint8):
        self.calls, self.broken, self.dtype = [], broken, dtype

    def __call__(self, name):
        self.calls.append(name)
        if name in self.broken:
            raise DataError(f"{name} is broken")
        return np.full((2, 3, 1), int(name.split(".")[0]), self.dtype)


def prepared(folder, make=None, names=NAMES, key="k", **options):
    return arrays_once(names, make or Squares(), key=key, folder=folder, **options)


def entries(folder):
    return [path for path in folder.iterdir() if not path.name.endswith(".lock")]


# the file


def stack_of(folder, rows):
    writer = StackedWriter(folder, "x")
    for row in rows:
        writer.add(row, "a row")
    writer.close()
    return StackedArrays.open(folder, "x", writer.dtype, writer.shape)


@settings(max_examples=25, deadline=None)
@given(
    shape=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    dtype=st.sampled_from(stacked.TYPES),
    count=st.integers(1, 5),
    data=st.data(),
)
def test_written_arrays_are_read_back(tmp_path_factory, shape, dtype, count, data):
    rows = np.random.default_rng(0).integers(0, 200, (count, *shape)).astype(dtype)
    arrays = stack_of(tmp_path_factory.mktemp("stack"), list(rows))
    assert (len(arrays), arrays.shape, arrays.dtype) == (count, tuple(shape), dtype)
    chosen = data.draw(st.lists(st.integers(0, count - 1)))
    taken = arrays.take(chosen)
    assert type(taken) is np.ndarray
    assert taken.flags.owndata
    assert taken.shape == (len(chosen), *shape)
    assert (taken == rows[np.array(chosen, int)]).all()


def test_rows_are_mapped_and_cannot_be_changed(tmp_path):
    arrays = stack_of(tmp_path, [np.zeros(4, np.uint8)])
    with pytest.raises(ValueError, match="read-only"):
        arrays.rows[0] = 1
    arrays.take([0])[0] = 1
    assert arrays.take([0]).sum() == 0


def test_raises_on_arrays_that_cannot_be_stacked(tmp_path):
    for wrong in (np.zeros(3), np.zeros(3, np.int64), np.zeros((0, 3), np.uint8)):
        writer = StackedWriter(tmp_path, "x")
        with pytest.raises(DataError, match=r"values of uint8, float16, float32.*cat\.png"):
            writer.add(wrong, "cat.png")
        writer.abandon()
    writer = StackedWriter(tmp_path, "x")
    writer.add(np.zeros((2, 3), np.uint8), "cat.png")
    for wrong in (np.zeros((3, 2), np.uint8), np.zeros((2, 3), np.float32)):
        with pytest.raises(DataError, match=r"the shape \(2, 3\) and the type uint8.*dog\.png"):
            writer.add(wrong, "dog.png")
    writer.abandon()


def test_raises_on_an_index_out_of_range(tmp_path):
    arrays = stack_of(tmp_path, [np.zeros(4, np.uint8)] * 2)
    with pytest.raises(IndexError):
        arrays.take([2])


def test_raises_on_a_file_of_incomplete_rows(tmp_path):
    for size in (0, 5):
        (tmp_path / "x.stack").write_bytes(bytes(size))
        with pytest.raises(DataError, match="complete rows of"):
            StackedArrays.open(tmp_path, "x", "uint8", (4,))


def test_sampled_digest_reads_a_part_of_large_files_and_all_of_small_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(stacked, "BLOCK", 10)
    monkeypatch.setattr(stacked, "SAMPLES", 4)
    path = tmp_path / "x"
    noticed = []
    for size in (1, 9, 10, 11, 40, 95):
        path.write_bytes(bytes(size))
        intact = sampled_digest(path)
        seen = 0
        for i in range(size):
            path.write_bytes(bytes(i) + b"x" + bytes(size - i - 1))
            seen += sampled_digest(path) != intact
        noticed.append(seen)
        path.write_bytes(bytes(size + 1))
        assert sampled_digest(path) != intact
    assert noticed == [1, 9, 10, 11, 40, 35]  # blocks 0, 3, 6 and 9, which has 5 bytes
    path.write_bytes(b"")
    assert sampled_digest(path)


# the cache


def test_arrays_are_in_the_order_of_the_names(tmp_path):
    reported = []
    arrays = prepared(tmp_path, progress=reported.append)
    assert arrays.rows[:, 0, 0, 0].tolist() == list(range(37))
    assert (arrays.shape, arrays.dtype) == ((2, 3, 1), "uint8")
    assert reported == [16, 32, 37]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_float_features_can_be_stacked(tmp_path, dtype):
    arrays = prepared(tmp_path, Squares(dtype=dtype))
    assert arrays.take([3]).dtype == dtype


def test_cached_arrays_are_not_prepared_again(tmp_path):
    make = Squares()
    first = prepared(tmp_path, make)
    again = prepared(tmp_path, make, [f"elsewhere/{name}" for name in NAMES])
    assert len(make.calls) == 37
    assert (again.rows == first.rows).all()
    prepared(tmp_path, make, key="other")
    prepared(tmp_path, make, NAMES[:-1])
    assert len(make.calls) == 37 + 37 + 36
    assert len(entries(tmp_path)) == 3


def test_raises_on_no_names(tmp_path):
    with pytest.raises(DataError, match="no rows"):
        prepared(tmp_path, names=[])


def test_error_lists_all_broken_images_and_names_ten(tmp_path):
    with pytest.raises(BrokenImagesError) as caught:
        prepared(tmp_path, Squares(["35.png", "5.png"]))
    assert str(caught.value) == (
        "2 of 37 images cannot be used:\n  5.png is broken\n  35.png is broken\n"
        "Replace or remove them, or leave them out with --skip-broken."
    )
    make = Squares(NAMES)
    with pytest.raises(BrokenImagesError, match=r"^37 of 37 images cannot be used:") as caught:
        prepared(tmp_path, make)
    assert len(caught.value.problems) == len(make.calls) == 37
    assert str(caught.value).splitlines()[10:12] == ["  9.png is broken", "  and 27 more"]
    assert entries(tmp_path) == []


def test_a_read_error_is_not_reported_as_a_write_error(tmp_path):
    def fail(name):
        raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.raises(DataError, match=r"0\.png cannot be read: Permission denied"):
        prepared(tmp_path, fail, ["0.png"])


def test_error_names_the_array_of_another_shape(tmp_path):
    with pytest.raises(DataError, match=r"that of 20\.png is \(1,\)"):
        prepared(
            tmp_path,
            lambda name: np.zeros(1 if name == "20.png" else 2, np.uint8),
        )
    assert entries(tmp_path) == []


@pytest.mark.parametrize("harm", ["truncate", "flip", "remove", "json", "shape"])
def test_a_damaged_entry_is_written_again(tmp_path, caplog, harm):
    make = Squares()
    prepared(tmp_path, make)
    (entry,) = entries(tmp_path)
    rows = entry / "rows.stack"
    if harm == "truncate":
        rows.write_bytes(rows.read_bytes()[:-6])
    elif harm == "flip":
        data = bytearray(rows.read_bytes())
        data[100] ^= 1
        rows.write_bytes(bytes(data))
    elif harm == "remove":
        rows.unlink()
    elif harm == "shape":
        facts = json.loads((entry / "entry.json").read_text())
        (entry / "entry.json").write_text(json.dumps({**facts, "shape": [5, 5]}))
    else:
        (entry / "entry.json").write_text("[]")
    with caplog.at_level(logging.WARNING):
        arrays = prepared(tmp_path, make)
    assert len(make.calls) == 2 * 37
    assert "is damaged" in caplog.text
    assert arrays.rows[:, 0, 0, 0].tolist() == list(range(37))
    prepared(tmp_path, make)
    assert len(make.calls) == 2 * 37


def test_an_entry_is_json_and_plain_arrays(tmp_path):
    prepared(tmp_path)
    (entry,) = entries(tmp_path)
    facts = json.loads((entry / "entry.json").read_text())
    assert (facts["shape"], facts["dtype"], list(facts["files"])) == (
        [2, 3, 1],
        "uint8",
        ["rows.stack"],
    )
    assert len((entry / "rows.stack").read_bytes()) == 37 * 6


def test_a_full_disk_leaves_no_incomplete_entry(tmp_path, monkeypatch):
    def full(self, array, name):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(StackedWriter, "add", full)
    with pytest.raises(DiskFullError, match="the disk is full: the prepared arrays") as caught:
        prepared(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert entries(tmp_path) == []


def test_an_interruption_leaves_no_files_and_no_threads(tmp_path):
    def interrupted(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepared(tmp_path, progress=interrupted)
    assert entries(tmp_path) == []
    assert not [thread for thread in threading.enumerate() if "ThreadPool" in thread.name]


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    prepared(tmp_path / "other")
    (entry,) = entries(tmp_path / "other")
    left = tmp_path / "cache" / f".partial-1-{entry.name}"
    left.mkdir(parents=True)
    (left / "rows.stack").write_bytes(b"half")
    assert len(prepared(tmp_path / "cache")) == 37
    assert [path.name for path in entries(tmp_path / "cache")] == [entry.name]


def test_two_processes_prepare_arrays_once(tmp_path):
    code = """
import sys, time
from pathlib import Path
import numpy as np
from saccade.data.store.cache import arrays_once
folder = Path(sys.argv[1])
def make(name):
    with open(folder / "calls", "a") as stream:
        stream.write(name)
    time.sleep(0.3)
    return np.full(2, int(name), np.uint8)
arrays = arrays_once(["1", "2", "3"], make, key="k", folder=folder / "cache", workers=1)
print(arrays.rows.tolist())
"""
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    outputs = [child.communicate(timeout=120)[0].decode() for child in children]
    assert outputs == ["[[1, 1], [2, 2], [3, 3]]\n"] * 2
    assert (tmp_path / "calls").read_text() == "123"


def test_memory_does_not_grow_with_the_rows(tmp_path):
    code = """
import sys
from pathlib import Path
import numpy as np
from saccade.data.store.cache import arrays_once
from tests.memory import peak_mib
make = lambda name: np.full((100, 1000), int(name) % 256, np.uint8)
arrays_once(["1"] * 64, make, key="first", folder=Path(sys.argv[1]))
before = peak_mib()
arrays = arrays_once([str(i) for i in range(1000)], make, key="k", folder=Path(sys.argv[1]))
print(peak_mib() - before)
assert arrays.rows[::100, 5, 5].tolist() == [i % 256 for i in range(0, 1000, 100)]
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert float(output) < 30, output  # of 95 MiB


# threads


def test_results_are_in_order_and_few_wait():
    started = []

    def work(i):
        started.append(i)
        time.sleep(0.002 * (i % 3))
        return i * i

    results = in_threads(work, range(50), 3)
    assert next(results) == 0
    time.sleep(0.05)
    assert len(started) <= 8
    assert list(results) == [i * i for i in range(1, 50)]
    assert list(in_threads(work, [], 2)) == []


def test_an_error_in_a_thread_ends_the_work():
    def work(i):
        if i == 3:
            raise RuntimeError("three")
        return i

    with pytest.raises(RuntimeError, match="three"):
        list(in_threads(work, range(1000), 2))
    assert cache.AT_ONCE == 16
