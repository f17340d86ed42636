"""Labelled and captioned images: folders, zips, IDX files, and names of images in tables."""

import gzip
import io
import json
import shutil
import struct
import zipfile

import numpy as np
import pytest
from PIL import Image

from saccade.data.sources import Column, items, open_corpus
from saccade.data.sources.images import read_image, resized
from saccade.data.store.cache import arrays_once, encode_once
from saccade.errors import DataError

IMAGE = Column("image", ("file", "path"), image=True)
LABELLED = (IMAGE, Column("label", ("class",), numbers=True))
CAPTIONED = (IMAGE, Column("text", ("caption",)))
CLASSES = ("cats", "dogs")


def pixels(shade):
    stream = io.BytesIO()
    Image.new("RGB", (2, 2), (shade, shade, shade)).save(stream, "PNG")
    return stream.getvalue()


def write(path, data=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pixels(0) if data is None else data)
    return path


def folders(root, classes=CLASSES, count=3):
    for number, name in enumerate(classes):
        for i in range(count):
            write(root / name / f"{i}.png", pixels(10 * number + i))
    return root


def zipped(folder, path, top=""):
    with zipfile.ZipFile(path, "w") as stream:
        for file in sorted(folder.rglob("*")):
            stream.write(file, f"{top}{file.relative_to(folder)}")
    return path


def open_all(where, task_columns=LABELLED, **options):
    corpus = open_corpus(where, task_columns, valid_fraction=0.0, required=("test",), **options)
    return corpus.splits["test"]


def values(where, task_columns=LABELLED, **options):
    return [row.values for row in open_all(where, task_columns, **options)]


def table(path, rows, header="image\tlabel"):
    text = "\n".join([header, *("\t".join(row) for row in rows)]) + "\n"
    return write(path, text.encode())


# one sub-folder per class


def test_sub_folders_are_classes(tmp_path):
    root = folders(tmp_path / "photos")
    split = open_all(root)
    assert split.columns == ("image", "label")
    assert [row.values for row in split] == [
        (f"{root}/{name}/{i}.png", name) for name in CLASSES for i in range(3)
    ]
    assert [row.line for row in split] == [1, 2, 3, 4, 5, 6]
    assert read_image(next(iter(split)).values[0]).size == (2, 2)


def test_images_may_be_nested_and_have_upper_case_suffixes(tmp_path):
    root = folders(tmp_path / "photos", count=1)
    write(root / "dogs" / "deep" / "er" / "x.JPG")
    assert values(root)[1:] == [
        (f"{root}/dogs/0.png", "dogs"),
        (f"{root}/dogs/deep/er/x.JPG", "dogs"),
    ]


def test_summary_reports_classes_and_ignored_files(tmp_path):
    root = folders(tmp_path / "photos")
    write(root / "README.md")
    write(root / "cats" / "notes.txt")
    write(root / "loose.png")
    write(root / ".hidden" / "x.png")
    write(root / "cats" / ".x.png")
    (root / "empty").mkdir()
    corpus = open_corpus(root, LABELLED, valid_fraction=0.0)
    assert corpus.summary == (
        f"train: {root} (6 images in 2 folders, 3 other files left out). "
        "image = the files, label = their folder: cats, dogs."
    )


@pytest.mark.parametrize("valid", ["valid", "val", "Dev"])
def test_sub_folders_named_after_splits_are_splits_of_images(tmp_path, valid):
    for split in ("train", valid, "test"):
        folders(tmp_path / split)
    write(tmp_path / "other" / "x.png")
    corpus = open_corpus(tmp_path, LABELLED)
    assert list(corpus.splits) == ["train", "valid", "test"]
    first = next(iter(corpus.splits["valid"])).values
    assert first == (f"{tmp_path}/{valid}/cats/0.png", "cats")
    assert corpus.splits["test"].count() == 6


def test_a_class_may_be_named_train(tmp_path):
    folders(tmp_path, ("car", "train"), count=1)
    assert values(tmp_path) == [
        (f"{tmp_path}/car/0.png", "car"),
        (f"{tmp_path}/train/0.png", "train"),
    ]


def test_one_split_folder_suffices(tmp_path):
    folders(tmp_path / "train", count=20)
    corpus = open_corpus(tmp_path, LABELLED)
    assert list(corpus.splits) == ["train", "valid"]
    with pytest.raises(DataError, match=r"has no test\.\* .*one sub-folder per class"):
        open_corpus(tmp_path, LABELLED, required=("test",))


def test_raises_on_two_image_folders_for_one_split(tmp_path):
    folders(tmp_path / "valid")
    folders(tmp_path / "dev")
    with pytest.raises(DataError, match="more than one file for valid: dev, valid"):
        open_corpus(tmp_path, LABELLED)


@pytest.mark.parametrize("names", [["a.png"], ["images/a.png", "images/b.png"], []])
def test_raises_on_a_folder_without_classes(tmp_path, names):
    for name in names:
        write(tmp_path / name)
    message = r"has no train\.\* .*, or one sub-folder per class, perhaps inside a folder train"
    with pytest.raises(DataError, match=message):
        open_corpus(tmp_path, LABELLED)


def test_class_folders_are_not_captions(tmp_path):
    folders(tmp_path)
    with pytest.raises(DataError, match=r"has no train\.\* .*it holds cats/, dogs/"):
        open_corpus(tmp_path, CAPTIONED)


def test_a_table_takes_precedence_over_class_folders(tmp_path):
    folders(tmp_path / "train")
    table(tmp_path / "train.tsv", [("train/cats/0.png", "tiger")])
    corpus = open_corpus(tmp_path, LABELLED, valid_fraction=0.0)
    assert [row.values for row in corpus.splits["train"]] == [
        (f"{tmp_path}/train/cats/0.png", "tiger")
    ]


# zips


@pytest.mark.parametrize("top", ["", "photos/", "very/deep/"])
def test_a_zip_of_classes_equals_a_folder_of_classes(tmp_path, top):
    root = folders(tmp_path / "photos")
    path = zipped(root, tmp_path / "p.zip", top)
    with zipfile.ZipFile(path, "a") as stream:
        stream.writestr("__MACOSX/photos/cats/._0.png", b"x")
        stream.writestr(f"{top}cats/.DS_Store", b"x")
    assert values(path) == [
        (f"{path}/{top}{name}/{i}.png", name) for name in CLASSES for i in range(3)
    ]
    assert read_image(values(path)[4][0]).getpixel((0, 0)) == (11, 11, 11)
    assert [path.name for path in tmp_path.iterdir()].count("p.zip") == 1


def test_folders_in_a_zip_may_be_splits(tmp_path):
    for split in ("train", "test"):
        folders(tmp_path / "photos" / split, count=20)
    corpus = open_corpus(zipped(tmp_path / "photos", tmp_path / "p.zip", "photos/"), LABELLED)
    assert list(corpus.splits) == ["train", "valid", "test"]
    assert corpus.splits["test"].count() == 40


def test_zip_files_named_after_splits_are_splits(tmp_path):
    root = folders(tmp_path / "photos")
    (tmp_path / "data").mkdir()
    for name in ("train", "test"):
        zipped(root, tmp_path / "data" / f"{name}.zip", f"{name}/")
    corpus = open_corpus(tmp_path / "data", LABELLED)
    assert corpus.splits["test"].count() == 6


def test_raises_on_a_zip_without_classes(tmp_path):
    path = tmp_path / "p.zip"
    with zipfile.ZipFile(path, "w") as stream:
        stream.writestr("a.png", pixels(0))
        stream.writestr("../cats/b.png", pixels(0))
        stream.writestr("/dogs/c.png", pixels(0))
    with pytest.raises(DataError, match=r"p\.zip has no train\.\* .*it holds a\.png"):
        open_corpus(path, LABELLED)
    path.write_bytes(b"no zip")
    with pytest.raises(DataError, match=r"p\.zip is not a complete zip file"):
        open_corpus(path, LABELLED)


# digests and held-out rows


def test_digest_of_class_folders_depends_on_names_and_contents_not_on_the_folder(tmp_path):
    first = open_all(folders(tmp_path / "one")).digest()
    assert open_all(folders(tmp_path / "two")).digest() == first
    others = [folders(tmp_path / f"other{i}") for i in range(3)]
    write(others[0] / "cats" / "0.png", pixels(99))
    (others[1] / "cats" / "0.png").rename(others[1] / "cats" / "9.png")
    (others[2] / "cats").rename(others[2] / "lions")
    assert len({first, *(open_all(other).digest() for other in others)}) == 4


def test_held_out_images_do_not_depend_on_the_folder(tmp_path):
    def split_names(where):
        corpus = open_corpus(where, LABELLED, valid_fraction=0.2)
        names = {
            split: [tuple(row.values[0].split("/")[-2:]) for row in corpus.splits[split]]
            for split in ("train", "valid")
        }
        assert corpus.splits["valid"].count() == len(names["valid"])
        return names

    root = folders(tmp_path / "one", count=30)
    first = split_names(root)
    assert len(first["valid"]) == 12
    assert len(first["train"]) == 48
    assert not set(first["train"]) & set(first["valid"])
    shutil.copytree(root, tmp_path / "deeper" / "two")
    assert split_names(tmp_path / "deeper" / "two") == first
    assert split_names(zipped(root, tmp_path / "p.zip")) == first
    rows = [(f"cats/{i}.png", "cat") for i in range(30)]
    table(root / "t.tsv", rows)
    table(tmp_path / "deeper" / "two" / "t.tsv", rows)
    assert split_names(root / "t.tsv") == split_names(tmp_path / "deeper" / "two" / "t.tsv")


# names in tables


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "parquet"])
def test_image_names_are_relative_to_the_table(tmp_path, form):
    write(tmp_path / "pets" / "a.png")
    write(tmp_path / "b.png")
    rows = [("pets/a.png", "one"), ("b.png", "two"), (str(tmp_path / "b.png"), "three")]
    path = tmp_path / f"t.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps({"image": a, "text": b}) + "\n" for a, b in rows))
    elif form == "parquet":
        arrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        columns = {"image": [a for a, _ in rows], "text": [b for _, b in rows]}
        parquet.write_table(arrow.table(columns), path)
    else:
        sign = "\t" if form == "tsv" else ","
        path.write_text("".join(sign.join(row) + "\n" for row in [("image", "text"), *rows]))
    assert values(path, CAPTIONED) == [
        (f"{tmp_path}/pets/a.png", "one"),
        (f"{tmp_path}/b.png", "two"),
        (f"{tmp_path}/b.png", "three"),
    ]


def test_images_are_looked_up_in_sub_folder_and_only_zip(tmp_path):
    write(tmp_path / "images" / "a.png")
    write(tmp_path / "b.png")
    write(tmp_path / "images" / "b.png")
    root = folders(tmp_path / "elsewhere", count=1)
    zipped(root, tmp_path / "photos.zip")
    names = ["a.png", "b.png", "cats/0.png", "photos.zip/dogs/0.png", "images/b.png"]
    entries = values(table(tmp_path / "t.tsv", [(name, "x") for name in names]))
    assert [name for name, _ in entries] == [
        f"{tmp_path}/images/a.png",
        f"{tmp_path}/b.png",
        f"{tmp_path}/photos.zip/cats/0.png",
        f"{tmp_path}/photos.zip/dogs/0.png",
        f"{tmp_path}/images/b.png",
    ]
    assert all(read_image(name).size == (2, 2) for name, _ in entries)
    zipped(root, tmp_path / "more.zip")
    with pytest.raises(
        DataError, match=r":4: the image .* is not in .*There are several zip files"
    ):
        values(tmp_path / "t.tsv")


def test_raises_on_a_missing_image_when_its_row_is_read(tmp_path):
    write(tmp_path / "images" / "a.png")
    path = table(tmp_path / "t.tsv", [("a.png", "x"), ("gone.png", "x")])
    rows = iter(open_all(path))
    assert next(rows).values[0] == f"{tmp_path}/images/a.png"
    message = (
        rf't\.tsv:3: the image "gone\.png" is not in "{tmp_path}" or "{tmp_path}/images". Correct'
    )
    with pytest.raises(DataError, match=message):
        next(rows)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", ":2: expected the name of an image"),
        (" ", ":2: expected the name of an image"),
        ("/nowhere/a.png", ":2: the image /nowhere/a.png does not exist"),
        ("images", ':2: the image "images" is not in'),
        ("p.zip/gone.png", ':2: the image "p.zip/gone.png" is not in'),
        ("p.zip/../a.png", ':2: the image "p.zip/../a.png" is not in'),
        ("p.zip", "p.zip"),
    ],
)
def test_raises_on_names_of_missing_images(tmp_path, name, message):
    write(tmp_path / "images" / "a.png")
    zipped(folders(tmp_path / "elsewhere"), tmp_path / "p.zip")
    path = table(tmp_path / "t.tsv", [(name, "x")])
    if name == "p.zip":  # it is a file, but not an image
        with pytest.raises(DataError, match="but a zip"):
            read_image(values(path)[0][0])
        return
    with pytest.raises(DataError) as caught:
        values(path)
    assert message in str(caught.value)


def test_several_captions_of_one_image_are_one_item(tmp_path):
    write(tmp_path / "a.png")
    write(tmp_path / "b.png")
    rows = [("a.png", "one"), ("b.png", "two"), ("a.png", "three")]
    split = open_all(table(tmp_path / "t.tsv", rows, "file\tcaption"), CAPTIONED)
    entries = list(items(split))
    assert [(item.inputs, item.references) for item in entries] == [
        ((f"{tmp_path}/a.png",), ("one", "three")),
        ((f"{tmp_path}/b.png",), ("two",)),
    ]


def test_digest_of_a_table_depends_on_its_images(tmp_path):
    def digest():
        return open_all(tmp_path / "t.tsv").digest()

    write(tmp_path / "a.png", pixels(1))
    write(tmp_path / "b.png", pixels(2))
    table(tmp_path / "t.tsv", [("a.png", "x"), ("b.png", "x"), ("a.png", "y")])
    first = digest()
    write(tmp_path / "unnamed.png")
    assert digest() == first
    shutil.copytree(tmp_path, tmp_path / "copy")
    assert open_all(tmp_path / "copy" / "t.tsv").digest() == first
    write(tmp_path / "b.png", pixels(3))
    assert digest() != first


def test_image_columns_can_be_numbered(tmp_path):
    write(tmp_path / "a.png")
    path = write(tmp_path / "t.tsv", b"x\ta.png\n")
    entries = values(path, columns={"image": "2", "label": "1"})
    assert entries == [(f"{tmp_path}/a.png", "x")]


def test_parallel_text_is_not_a_table_of_images(tmp_path):
    write(tmp_path / "train.en", b"a\n")
    write(tmp_path / "train.de", b"b\n")
    with pytest.raises(DataError, match=r"has no train\.\* \([^,]*, also followed by .gz or .xz\)"):
        open_corpus(tmp_path, CAPTIONED)


def test_images_may_be_the_second_column(tmp_path):
    write(tmp_path / "a.png")
    task_columns = (Column("text"), IMAGE)
    path = table(tmp_path / "t.tsv", [("one", "a.png"), ("two", "a.png")], "text\timage")
    assert values(path, task_columns)[1] == ("two", f"{tmp_path}/a.png")


# IDX


def idx(array):
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return head + array.astype(np.uint8).tobytes()


def mnist(folder, names, count=40, ending=".gz"):
    pack = gzip.compress if ending else bytes
    for name in names:
        images = np.arange(count * 6).reshape(count, 2, 3) % 256
        write(folder / f"{name}-images-idx3-ubyte{ending}", pack(idx(images)))
        write(folder / f"{name}-labels-idx1-ubyte{ending}", pack(idx(np.arange(count) % 10)))
    return folder


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_idx_files_named_as_in_mnist_are_read(tmp_path, ending):
    corpus = open_corpus(mnist(tmp_path, ("train", "t10k"), ending=ending), LABELLED)
    assert list(corpus.splits) == ["train", "valid", "test"]
    row = list(corpus.splits["test"])[13]
    path = tmp_path / f"t10k-images-idx3-ubyte{ending}"
    assert row.values == (f"{path}/13", "3")
    assert (row.line, row.file) == (14, str(path))
    assert np.asarray(read_image(row.values[0]))[0, :, 0].tolist() == [78, 79, 80]
    assert f"{path.name} (IDX, 40 images)" in corpus.summary
    counts = [corpus.splits[name].count() for name in ("train", "valid")]
    assert sum(counts) == 40
    assert counts[1] == 8


def test_idx_files_of_other_names_are_read(tmp_path):
    for name in ("train-images.idx3-ubyte", "train-labels.idx1-ubyte"):
        array = np.zeros((4, 2, 2)) if "images" in name else np.zeros(4)
        write(tmp_path / name, idx(array))
    assert open_corpus(tmp_path, LABELLED, valid_fraction=0.0).splits["train"].count() == 4
    mnist(tmp_path / "e", ("emnist-letters-train",))
    assert open_corpus(tmp_path / "e", LABELLED, valid_fraction=0.0).splits["train"].count() == 40


def test_raises_on_idx_files_that_do_not_match(tmp_path):
    mnist(tmp_path, ("train",))
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx(np.arange(39))))
    with pytest.raises(DataError, match=r"has 40 images, .*train-labels-idx1-ubyte\.gz has 39"):
        open_corpus(tmp_path, LABELLED)
    labels.unlink()
    with pytest.raises(DataError, match=r"no file of labels beside it: train-labels-idx1-ubyte"):
        open_corpus(tmp_path, LABELLED)
    mnist(tmp_path / "none", ("train",), count=0)
    with pytest.raises(DataError, match="has no images"):
        open_corpus(tmp_path / "none", LABELLED)
    mnist(tmp_path / "two", ("a-train", "b-train"))
    with pytest.raises(DataError, match="more than one file for train"):
        open_corpus(tmp_path / "two", LABELLED)


def test_digest_of_idx_files_depends_on_their_bytes(tmp_path):
    def digest(folder):
        return open_corpus(folder, LABELLED, valid_fraction=0.0).splits["train"].digest()

    first = digest(mnist(tmp_path / "one", ("train",), ending=""))
    assert digest(mnist(tmp_path / "two", ("train",), ending="")) == first
    (tmp_path / "two" / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(40)))
    assert digest(tmp_path / "two") != first


# up to the store


def test_class_folders_become_pixels_and_encoded_labels(tmp_path):
    root = folders(tmp_path / "photos")
    split = open_all(root)
    classes = {name: number for number, name in enumerate(CLASSES)}
    names = [row.values[0] for row in split]
    cached = tmp_path / "cache"
    images = arrays_once(
        names,
        lambda name: resized(read_image(name), (4, 4), grey=True),
        key=f"{split.digest()} 4 4 grey",
        folder=cached,
    )
    labels = encode_once(
        split,
        lambda rows: [([classes[row.values[1]]],) for row in rows],
        key="labels",
        folder=cached,
        limits=None,
    )
    assert images.shape == (4, 4, 1)
    assert images.take([0, 4])[:, 0, 0, 0].tolist() == [0, 11]
    assert [labels.fields[0][i].tolist() for i in range(6)] == [[0]] * 3 + [[1]] * 3


def test_rows_of_built_in_images_can_be_read():
    corpus = open_corpus("builtin:shapes", CAPTIONED)
    row = next(iter(corpus.splits["test"]))
    assert read_image(row.values[0]).size == (64, 64)


def test_paths_with_backslashes_are_found(tmp_path):
    write(tmp_path / "cats" / "1.png")
    path = table(tmp_path / "t.tsv", [("cats\\1.png", "cat")])
    assert values(path) == [(f"{tmp_path}/cats/1.png", "cat")]


def test_addresses_on_the_web_are_not_downloaded(tmp_path):
    path = table(tmp_path / "t.tsv", [("https://example.org/1.png", "cat")])
    with pytest.raises(DataError, match="address on the web, and nothing is downloaded"):
        values(path)


def test_folders_that_are_not_classes_have_advice(tmp_path):
    write(tmp_path / "flat" / "1.png")
    with pytest.raises(DataError, match="images are not in sub-folders: a classifier needs one"):
        values(tmp_path / "flat")
    write(tmp_path / "one" / "cats" / "1.png")
    with pytest.raises(DataError, match="Only cats/ holds images: a classifier needs one"):
        values(tmp_path / "one")
    write(tmp_path / "tables" / "pictures" / "1.png")
    for name in ("a.csv", "my_test.csv"):
        (tmp_path / "tables" / name).write_text("image,label\npictures/1.png,cat\n")
    with pytest.raises(DataError, match=r"Rename one of them, such as my_test.csv to test.csv, or"):
        values(tmp_path / "tables")
