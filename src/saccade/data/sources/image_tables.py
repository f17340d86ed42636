"""Tables of images and of vector files: one sub-folder per class, IDX files, names in a column."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from saccade.data.corpus import Row, Table
from saccade.data.sources.archives import (
    ZIP,
    digest_of_files,
    exists,
    open_zip,
    read_idx,
)
from saccade.data.sources.columns import Column, ColumnRequest, counted, listed, quoted
from saccade.data.sources.text_files import file_digest, unreadable
from saccade.data.sources.vectors import BROKEN, is_inline, read_vectors, wrong_width
from saccade.data.suffixes import SUFFIXES, VECTOR_SUFFIXES
from saccade.data.threads import in_threads
from saccade.errors import BrokenImagesError, DataError

WORKERS = 2  # threads that check images and vector files
ADDED = "__MACOSX"  # a folder that macOS puts into zip files


@dataclass(frozen=True)
class Tree:
    """The files below a folder or in a zip: sorted names with /, without hidden ones.

    `suffixes` are those of the files that are examples.
    """

    base: str
    names: tuple[str, ...]
    suffixes: tuple[str, ...] = SUFFIXES

    @classmethod
    def of(cls, path: Path, suffixes: tuple[str, ...] = SUFFIXES) -> "Tree":
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
        return cls(str(path), tuple(map("/".join, visible)), suffixes)

    @cached_property
    def examples(self) -> tuple[tuple[str, ...], ...]:
        """The names with one of the suffixes, split at /."""
        named = (name for name in self.names if name.lower().endswith(self.suffixes))
        return tuple(tuple(name.split("/")) for name in named)

    @property
    def classes(self) -> dict[str, int]:
        """The number of examples in each sub-folder."""
        return Counter(parts[0] for parts in self.examples if len(parts) > 1)

    @property
    def folders(self) -> tuple[str, ...]:
        """The sub-folders whose examples are all in folders of their own."""
        loose = {parts[0] for parts in self.examples if len(parts) <= 2}
        return tuple(name for name in self.classes if name not in loose)

    def below(self, folder: str) -> "Tree":
        """Return the tree of a sub-folder."""
        inside = f"{folder}/"
        names = (name.removeprefix(inside) for name in self.names if name.startswith(inside))
        return Tree(f"{self.base}/{folder}", tuple(names), self.suffixes)


def suffixes_of(column: Column) -> tuple[str, ...]:
    """Return the suffixes of the files that a column names."""
    return VECTOR_SUFFIXES if column.vectors else SUFFIXES


class ClassFolders(Table):
    """Files labelled with the name of the sub-folder they are in, at any depth."""

    def __init__(self, tree: Tree, request: ColumnRequest) -> None:
        self.tree, self.columns, self.base = tree, request.required_pair, f"{tree.base}/"
        self.noun = request.required[0].noun
        self._files = ["/".join(parts) for parts in tree.examples if len(parts) > 1]
        if not self._files:
            raise DataError(
                f"{tree.base} has no sub-folders with {self.noun}s; put the {self.noun}s of each "
                "class into a sub-folder of its own"
            )

    def rows(self) -> Iterator[Row]:
        """Yield every file and its class, sorted."""
        for number, name in enumerate(self._files, 1):
            values = (self.base + name, name.partition("/")[0])
            yield Row(values, number, self.tree.base)

    def digest(self) -> str:
        """Return a text that depends on the names below the folder and on the contents."""
        return f"classes {self._content} {' '.join(map(quoted, self._files))}"

    def describe(self) -> str:
        """Return a text such as: photos (1 200 images in 3 folders, 2 other files left out)."""
        other = len(self.tree.names) - len(self._files)
        left_out = f", {counted(other, 'other file')} left out" if other else ""
        classes = counted(len(self.tree.classes), "folder")
        files = counted(len(self._files), self.noun)
        return f"{self.tree.base} ({files} in {classes}{left_out})"

    def meaning(self) -> str:
        """Return a text such as: image = the files, label = their folder: cats, dogs."""
        image, label = self.columns
        return f"{image} = the files, {label} = their folder: {listed(sorted(self.tree.classes))}"

    @cached_property
    def _content(self) -> str:
        return digest_of_files(self.base + name for name in self._files)


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


class IntactFiles(Table):
    """The rows of a table whose images or vector files can be read; every file is read once.

    Attributes:
        problems: One sentence per file that is missing or damaged, or whose vectors are not as wide
            as most.

    Raises:
        BrokenImagesError: No file can be used.
    """

    def __init__(self, table: Table, column: Column) -> None:
        self._table, self._place = table, table.columns.index(column.name)
        self.columns, self.base, self.noun = table.columns, table.base, column.noun
        places = {row.values[self._place]: row for row in table.rows()}
        names = list(places)
        read = _vector_width if column.vectors else _intact_image
        results = dict(zip(names, in_threads(_tried(read), names, WORKERS), strict=True))
        widths = Counter(result for result in results.values() if not isinstance(result, str))
        if widths:
            [(usual, _)] = widths.most_common(1)
            results |= {
                name: wrong_width(name, width, usual)
                for name, width in results.items()
                if not isinstance(width, str) and width != usual
            }
        self._broken = {
            name: places[name].located(text)
            for name, text in results.items()
            if isinstance(text, str)
        }
        self.problems = (*table.missing, *self._broken.values())
        self.total = len(names) + len(table.missing)
        if len(self._broken) == len(names):
            raise BrokenImagesError(self.problems, self.total, self.noun)

    def rows(self) -> Iterator[Row]:
        """Yield the rows with intact files."""
        return (row for row in self._table.rows() if row.values[self._place] not in self._broken)

    def digest(self) -> str:
        """Return a text that depends on the table and on the files that are left out."""
        names = sorted(name.removeprefix(self.base) for name in self._broken)
        return f"intact {' '.join(map(quoted, names))} {self._table.digest()}"

    def describe(self) -> str:
        """Return the description of the table, with the number of files that are left out."""
        return f"{self._table.describe()}, {self.left_out}"

    @property
    def left_out(self) -> str:
        """The number of files that are left out, as in: 4 of 600 images left out as broken."""
        return f"{len(self.problems)} of {counted(self.total, self.noun)} left out as broken"

    def meaning(self) -> str:
        """Return the meaning of the table."""
        return self._table.meaning()


def damage(name: str, *, width: int | None = None) -> str:
    """Return why an image, or a file of vectors of this width, cannot be used; "" if it can."""
    result = _tried(_intact_image if width is None else _vector_width)(name)
    if isinstance(result, str):
        return result
    return "" if width in (None, result) else wrong_width(name, result, width or 0)


def _tried(read: Callable[[str], int]) -> Callable[[str], int | str]:
    """Return a function that returns the result of `read`, or why it raised."""

    def tried(name: str) -> int | str:
        try:
            return read(name)
        except DataError as error:
            return str(error)

    return tried


def _intact_image(name: str) -> int:
    from saccade.data.sources.images import read_image

    read_image(name)
    return 0


def _vector_width(name: str) -> int:
    return read_vectors(name).shape[1]


class FileFinder:
    """Find the images or vector files that a table names.

    A name is that of a file (`cat.jpg`, `pets/cat.jpg`) or of one in a zip (`photos.zip/cat.jpg`),
    relative to the folder of the table, to its sub-folder `images` or `vectors`, or to the only zip
    in it.
    """

    def __init__(self, folder: Path, column: Column) -> None:
        self.base, self.noun = f"{folder}/", column.noun
        try:
            zips = sorted(path for path in folder.iterdir() if path.suffix.lower() == ZIP)
        except OSError as error:
            raise unreadable(folder, error) from error
        self._zips = [str(path) for path in zips if path.is_file()]
        self._bases = [self.base]
        inside = "vectors" if column.vectors else "images"
        if (folder / inside).is_dir():
            self._bases.append(f"{self.base}{inside}/")
        if len(self._zips) == 1:
            self._bases.append(f"{self._zips[0]}/")

    def find(self, name: str, where: str) -> str:
        """Return the path of a file as it can be read; `where` names its row."""
        if is_inline(name):
            return name
        if name.endswith(BROKEN):
            raise DataError(name.removesuffix(BROKEN))
        if not name or name.isspace():
            kind = "an image" if self.noun == "image" else f"a {self.noun}"
            raise DataError(f"{where}: expected the name of {kind}, found nothing. Add it.")
        bases = [""] if os.path.isabs(name) else self._bases
        for path in dict.fromkeys((name, name.replace("\\", "/"))):  # as Windows writes paths
            for base in bases:
                if exists(base + path):
                    return base + path
        raise DataError(f"{where}: {self._missing(name)}")

    def _missing(self, name: str) -> str:
        if "://" in name:
            return (
                f"{quoted(name, 200)} is an address on the web, and nothing is downloaded. Save "
                f"the {self.noun}s beside the table and write the names of the files."
            )
        if os.path.isabs(name):
            return f"the {self.noun} {name} does not exist. Correct the path."
        places = " or ".join(quoted(base.rstrip("/"), 200) for base in self._bases)
        advice = "Correct the path or add the file."
        if len(self._zips) > 1:
            advice = "There are several zip files: write photos.zip/name.jpg."
        return f"the {self.noun} {quoted(name, 200)} is not in {places}. {advice}"


def _is_hidden(part: str) -> bool:
    return part.startswith(".") or part == ADDED
