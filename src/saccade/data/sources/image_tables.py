"""Tables of images: one sub-folder per class, IDX files, and names of images in a column."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from saccade.data.corpus import Row, Table
from saccade.data.sources.archives import (
    SUFFIXES,
    ZIP,
    digest_of_files,
    exists,
    open_zip,
    read_idx,
)
from saccade.data.sources.columns import ColumnRequest, counted, listed, quoted
from saccade.data.sources.text_files import file_digest, unreadable
from saccade.data.threads import in_threads
from saccade.errors import BrokenImagesError, DataError

WORKERS = 2  # threads that check images
ADDED = "__MACOSX"  # a folder that macOS puts into zip files


@dataclass(frozen=True)
class Tree:
    """The files below a folder or in a zip: sorted names with /, without hidden ones."""

    base: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, path: Path) -> "Tree":
        """Return the tree of a folder or a zip."""
        if path.is_dir():
            names: Iterator[str] = (
                os.path.relpath(os.path.join(folder, file), path).replace(os.sep, "/")
                for folder, _, files in os.walk(path)
                for file in files
            )
        else:
            names = iter(open_zip(path).names)
        shown = (name.split("/") for name in names)
        visible = sorted(parts for parts in shown if not any(map(_is_hidden, parts)))
        return cls(str(path), tuple(map("/".join, visible)))

    @cached_property
    def images(self) -> tuple[tuple[str, ...], ...]:
        """The names with the suffix of an image, split at /."""
        named = (name for name in self.names if name.lower().endswith(SUFFIXES))
        return tuple(tuple(name.split("/")) for name in named)

    @property
    def classes(self) -> dict[str, int]:
        """The number of images in each sub-folder."""
        return Counter(parts[0] for parts in self.images if len(parts) > 1)

    @property
    def folders(self) -> tuple[str, ...]:
        """The sub-folders whose images are all in folders of their own."""
        loose = {parts[0] for parts in self.images if len(parts) <= 2}
        return tuple(name for name in self.classes if name not in loose)

    def below(self, folder: str) -> "Tree":
        """Return the tree of a sub-folder."""
        inside = f"{folder}/"
        names = (name.removeprefix(inside) for name in self.names if name.startswith(inside))
        return Tree(f"{self.base}/{folder}", tuple(names))


class ClassFolders(Table):
    """Images labelled with the name of the sub-folder they are in, at any depth."""

    def __init__(self, tree: Tree, request: ColumnRequest) -> None:
        self.tree, self.columns, self.base = tree, request.required_pair, f"{tree.base}/"
        self._images = ["/".join(parts) for parts in tree.images if len(parts) > 1]
        if not self._images:
            raise DataError(
                f"{tree.base} has no sub-folders with images; put the images of each class into a "
                "sub-folder of its own"
            )

    def rows(self) -> Iterator[Row]:
        """Yield every image and its class, sorted."""
        for number, name in enumerate(self._images, 1):
            values = (self.base + name, name.partition("/")[0])
            yield Row(values, number, self.tree.base)

    def digest(self) -> str:
        """Return a text that depends on the names below the folder and on the contents."""
        return f"classes {self._content} {' '.join(map(quoted, self._images))}"

    def describe(self) -> str:
        """Return a text such as: photos (1 200 images in 3 folders, 2 other files left out)."""
        other = len(self.tree.names) - len(self._images)
        left_out = f", {counted(other, 'other file')} left out" if other else ""
        classes = counted(len(self.tree.classes), "folder")
        return f"{self.tree.base} ({counted(len(self._images), 'image')} in {classes}{left_out})"

    def meaning(self) -> str:
        """Return a text such as: image = the files, label = their folder: cats, dogs."""
        image, label = self.columns
        return f"{image} = the files, {label} = their folder: {listed(sorted(self.tree.classes))}"

    @cached_property
    def _content(self) -> str:
        return digest_of_files(self.base + name for name in self._images)


class IdxTable(Table):
    """The images and labels of two IDX files, the format of MNIST."""

    def __init__(self, images: Path, labels: Path, request: ColumnRequest) -> None:
        self.paths, self.columns = (images, labels), request.required_pair
        self.base = f"{images.parent}/"
        counts = len(read_idx(images, 3)), len(read_idx(labels, 1))
        if counts[0] != counts[1]:
            raise DataError(
                f"{images} has {counted(counts[0], 'image')}, {labels} has "
                f"{counted(counts[1], 'label')}; every image needs one label"
            )
        if not counts[0]:
            raise DataError(f"{images} has no images; at least one is expected")
        self._labels = read_idx(labels, 1)

    def rows(self) -> Iterator[Row]:
        """Yield every image and its label, a number."""
        file = str(self.paths[0])
        for number, label in enumerate(self._labels.tolist()):
            yield Row((f"{file}/{number}", str(label)), number + 1, file)

    def digest(self) -> str:
        """Return a text that depends on the bytes of both files."""
        return "IDX " + " ".join(map(file_digest, self.paths))

    def describe(self) -> str:
        """Return a text such as: train-images-idx3-ubyte.gz (IDX, 60 000 images)."""
        return f"{self.paths[0].name} (IDX, {counted(len(self._labels), 'image')})"

    def meaning(self) -> str:
        """Return a text such as: image = the images of the IDX files, label = their labels."""
        image, label = self.columns
        return f"{image} = the images of the IDX files, {label} = their labels, numbers"


class IntactImages(Table):
    """The rows of a table whose images can be decoded; every image is decoded once.

    Attributes:
        problems: One sentence per image that is missing or damaged.

    Raises:
        BrokenImagesError: No image can be used.
    """

    def __init__(self, table: Table, place: int) -> None:
        self._table, self._place = table, place
        self.columns, self.base = table.columns, table.base
        names = list(dict.fromkeys(row.values[place] for row in table.rows()))
        reasons = zip(names, in_threads(damage, names, WORKERS), strict=True)
        self._broken = {name: reason for name, reason in reasons if reason}
        self.problems = (*table.missing, *self._broken.values())
        self.total = len(names) + len(table.missing)
        if len(self._broken) == len(names):
            raise BrokenImagesError(self.problems, self.total)

    def rows(self) -> Iterator[Row]:
        """Yield the rows with intact images."""
        return (row for row in self._table.rows() if row.values[self._place] not in self._broken)

    def digest(self) -> str:
        """Return a text that depends on the table and on the images that are left out."""
        names = sorted(name.removeprefix(self.base) for name in self._broken)
        return f"intact {' '.join(map(quoted, names))} {self._table.digest()}"

    def describe(self) -> str:
        """Return the description of the table, with the number of images that are left out."""
        return f"{self._table.describe()}, {self.left_out}"

    @property
    def left_out(self) -> str:
        """The number of images that are left out, as in: 4 of 600 images left out as broken."""
        return f"{len(self.problems)} of {counted(self.total, 'image')} left out as broken"

    def meaning(self) -> str:
        """Return the meaning of the table."""
        return self._table.meaning()


def damage(name: str) -> str:
    """Return why an image cannot be decoded; "" if it can."""
    from saccade.data.sources.images import read_image

    try:
        read_image(name)
    except DataError as error:
        return str(error)
    return ""


class ImageFinder:
    """Find the images that a table names.

    A name is that of a file (`cat.jpg`, `pets/cat.jpg`) or of one in a zip (`photos.zip/cat.jpg`),
    relative to the folder of the table, to its sub-folder `images`, or to the only zip in it.
    """

    def __init__(self, folder: Path) -> None:
        self.base = f"{folder}/"
        try:
            zips = sorted(path for path in folder.iterdir() if path.suffix.lower() == ZIP)
        except OSError as error:
            raise unreadable(folder, error) from error
        self._zips = [str(path) for path in zips if path.is_file()]
        self._bases = [self.base]
        if (folder / "images").is_dir():
            self._bases.append(f"{self.base}images/")
        if len(self._zips) == 1:
            self._bases.append(f"{self._zips[0]}/")

    def find(self, name: str, where: str) -> str:
        """Return the path of an image as `read_image` takes it; `where` names its row."""
        if not name or name.isspace():
            raise DataError(f"{where}: expected the name of an image, found nothing. Add it.")
        bases = [""] if os.path.isabs(name) else self._bases
        for base in bases:
            if exists(base + name):
                return base + name
        raise DataError(f"{where}: {self._missing(name)}")

    def _missing(self, name: str) -> str:
        if os.path.isabs(name):
            return f"the image {name} does not exist. Correct the path."
        places = " or ".join(base.rstrip("/") for base in self._bases)
        advice = "Correct the path or add the file."
        if len(self._zips) > 1:
            advice = "There are several zip files: write photos.zip/name.jpg."
        return f"the image {quoted(name, 200)} is not in {places}. {advice}"


def _is_hidden(part: str) -> bool:
    return part.startswith(".") or part == ADDED
