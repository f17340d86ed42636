"""Vector files and arrays in tables: every input of checklist item I9 is read or gets one line."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from saccade.data.sources import open_corpus
from saccade.data.sources.columns import Column
from saccade.data.sources.vectors import inline, open_vectors, read_vectors, shown_name
from saccade.data.store.cache import sequences_once
from saccade.errors import BrokenImagesError, DataError

COLUMNS = (Column("vectors", vectors=True), Column("label", numbers=True, label=True))
ARRAY = np.arange(6, dtype=np.float32).reshape(3, 2)


def npy(array: np.ndarray, **options: bool) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        ARRAY,
        ARRAY.astype(np.float64),
        ARRAY.astype(np.float16),
        ARRAY.astype(np.int8),
        ARRAY > 2,
        np.asfortranarray(ARRAY),
        ARRAY.astype(">f8"),
    ],
)
def test_npy_files_of_all_numbers_are_read_as_float32(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    vectors = read_vectors(tmp_path / "a.npy")
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, array)


def test_vectors_inside_npz_and_zip_are_read(tmp_path):
    np.savez(tmp_path / "one.npz", ARRAY)
    np.savez_compressed(tmp_path / "two.npz", first=ARRAY, second=2 * ARRAY)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("deep/a.npy", npy(3 * ARRAY))
    assert np.array_equal(read_vectors(tmp_path / "one.npz"), ARRAY)
    assert np.array_equal(read_vectors(f"{tmp_path}/two.npz/second"), 2 * ARRAY)
    assert np.array_equal(read_vectors(f"{tmp_path}/all.zip/deep/a.npy"), 3 * ARRAY)
    with pytest.raises(DataError, match=r"2 arrays \(first, second\).*two.npz/first"):
        read_vectors(tmp_path / "two.npz")


def test_a_recording_of_100_000_steps_is_mapped_not_loaded(tmp_path):
    np.save(tmp_path / "long.npy", np.zeros((100_000, 3), np.float32))
    assert isinstance(open_vectors(tmp_path / "long.npy"), np.memmap)
    assert read_vectors(tmp_path / "long.npy", 7).shape == (7, 3)


class Evil:
    def __reduce__(self):
        return (eval, ("1 / 0",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(np.array([Evil()], object), allow_pickle=True), "pickled Python objects.*never"),
        (pickle.dumps(Evil()), "is not a .npy file"),
        (b"", "is not a .npy file"),
        (npy(ARRAY)[:-4], "incomplete: it announces 24 bytes of numbers and holds 20"),
        (npy(np.zeros(5)), r"shape \(5,\).*array\[:, None\]"),
        (npy(np.zeros((2, 3, 4))), r"shape \(2, 3, 4\)"),
        (npy(np.zeros((0, 4))), "is empty"),
        (npy(np.array([["a"]])), "holds <U1"),
        (npy(np.ones((2, 2), complex)), "holds complex128"),
        (npy(np.zeros((1, 70_000), np.int8)), "transpose"),
        (npy(np.array([[0.0, 1.0], [2.0, np.nan]])), "step 1, number 1 is nan"),
        (npy(np.array([[0.0, -np.inf]])), "step 0, number 1 is -inf"),
        (npy(np.array([[1e300]])), "is inf"),
    ],
)
def test_raises_one_clear_line_on_bad_files(tmp_path, content, message):
    path = tmp_path / "bad.npy"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as raised:
        read_vectors(path)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(str(path))


def table(folder, *names):
    rows = [f"{name}\t{number % 2}" for number, name in enumerate(names)]
    (folder / "train.tsv").write_text("\n".join(["vectors\tlabel", *rows, ""]))
    return folder


def test_a_table_names_files_beside_it(tmp_path):
    (tmp_path / "vectors").mkdir()
    np.save(tmp_path / "a.npy", ARRAY)
    np.save(tmp_path / "vectors" / "b.npy", ARRAY)
    np.savez(tmp_path / "all.npz", c=ARRAY)
    corpus = open_corpus(
        table(tmp_path, "a.npy", "b.npy", "all.npz/c"), COLUMNS, valid_fraction=0.0
    )
    assert [row.values[0].removeprefix(f"{tmp_path}/") for row in corpus.splits["train"]] == [
        "a.npy",
        "vectors/b.npy",
        "all.npz/c",
    ]
    before = corpus.splits["train"].digest()
    np.save(tmp_path / "a.npy", 2 * ARRAY)
    again = open_corpus(tmp_path, COLUMNS, valid_fraction=0.0)
    assert again.splits["train"].digest() != before


def test_missing_files_are_listed_at_once_and_can_be_left_out(tmp_path):
    np.save(tmp_path / "a.npy", ARRAY)
    np.save(tmp_path / "narrow.npy", ARRAY[:, :1])
    np.save(tmp_path / "b.npy", ARRAY)
    folder = table(tmp_path, "a.npy", "x.npy", "b.npy", "y.npy", "narrow.npy")
    with pytest.raises(BrokenImagesError, match="2 of 5 vector files cannot be used") as raised:
        list(open_corpus(folder, COLUMNS, valid_fraction=0.0).splits["train"])
    assert '"x.npy" is not in' in str(raised.value)
    assert '"y.npy" is not in' in str(raised.value)
    corpus = open_corpus(folder, COLUMNS, valid_fraction=0.0, skip_broken=True)
    assert corpus.splits["train"].count() == 2
    assert "3 of 5 vector files left out as broken" in corpus.remarks[0]


def test_sub_folders_are_classes(tmp_path):
    for name in ("up/1.npy", "up/2.npy", "down/3.npy"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        np.save(tmp_path / name, ARRAY)
    corpus = open_corpus(tmp_path, COLUMNS, valid_fraction=0.0)
    assert [row.values[1] for row in corpus.splits["train"]] == ["down", "up", "up"]
    assert "3 vector files in 2 folders" in corpus.summary


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_tables_may_hold_the_vectors_themselves(tmp_path, suffix):
    rows = [{"vectors": (n * ARRAY).tolist(), "label": n} for n in range(3)]
    path = tmp_path / f"train.{suffix}"
    if suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        import pyarrow

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    values = [
        row.values[0] for row in open_corpus(path, COLUMNS, valid_fraction=0.0).splits["train"]
    ]
    assert [shown_name(value) for value in values] == ["3 × 2 vectors"] * 3
    assert np.array_equal(read_vectors(values[2]), 2 * ARRAY)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1, 2], [3]], "ragged: step 1 has 1 numbers, step 0 has 2"),
        ([[1, None]], "step 0 must hold numbers only"),
        ([1, 2], "expected a list of vectors"),
        ([[1, float("nan")]], "step 0, number 1 is nan"),
        ([[]], "is empty"),
        ([[10**400]], "a number is too large"),
    ],
)
def test_raises_on_broken_vectors_in_a_table_unless_they_are_skipped(tmp_path, value, message):
    rows = [{"vectors": ARRAY.tolist(), "label": 0}, {"vectors": value, "label": 1}]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=f"train.jsonl:2.*{message}"):
        list(open_corpus(path, COLUMNS, valid_fraction=0.0).splits["train"])
    corpus = open_corpus(path, COLUMNS, valid_fraction=0.0, skip_broken=True)
    assert corpus.splits["train"].count() == 1


def test_inline_vectors_are_equal_if_their_numbers_are():
    assert inline(ARRAY.tolist(), "a:1") == inline(ARRAY.tolist(), "b:2")


def test_sequences_are_stored_once_and_mapped(tmp_path):
    arrays = {"a": ARRAY, "b": ARRAY[:1]}
    calls = []

    def make(name):
        calls.append(name)
        return arrays[name]

    for _ in range(2):
        stored = sequences_once(["a", "b"], make, key="k", folder=tmp_path)
        assert stored.lengths.tolist() == [3, 1]
        assert np.array_equal(stored[0], ARRAY)
        assert np.array_equal(stored[1], ARRAY[:1])
    assert sorted(calls) == ["a", "b"]
