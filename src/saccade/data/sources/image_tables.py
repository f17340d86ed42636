"""Tables of images: a sub-folder for each class, IDX files, and names of images in a column."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from saccade.data.corpus import Row
from saccade.data.sources.archives import (
    ENDINGS,
    ZIP,
    digest_of_files,
    is_there,
    open_zip,
    read_idx,
)
from saccade.data.sources.columns import counted, quoted, some
from saccade.data.sources.text_files import file_digest
from saccade.data.validation_split import Side
from saccade.errors import DataError

ADDED = "__MACOSX"  # what macOS puts into a zip


@dataclass(frozen=True)
class Tree:
    """What lies below a folder or in a zip: names with /, sorted; hidden ones are left out."""

    base: str
    names: tuple[str, ...]

    @cached_property
    def images(self) -> tuple[tuple[str, ...], ...]:
        """The names that end like images, in their parts."""
        return tuple(tuple(name.split("/")) for name in self.names if _is_image(name))

    @property
    def name(self) -> str:
        """As in: train."""
        return os.path.basename(self.base)

    @property
    def classes(self) -> dict[str, int]:
        """The sub-folders and how many images each holds."""
        return Counter(parts[0] for parts in self.images if len(parts) > 1)

    @property
    def folders(self) -> tuple[str, ...]:
        """The sub-folders that hold images only in folders of their own."""
        loose = {parts[0] for parts in self.images if len(parts) <= 2}
        return tuple(name for name in self.classes if name not in loose)

    def below(self, folder: str) -> "Tree":
        """What lies in a sub-folder."""
        inside = f"{folder}/"
        names = (name.removeprefix(inside) for name in self.names if name.startswith(inside))
        return Tree(f"{self.base}/{folder}", tuple(names))


def tree_of(path: Path) -> Tree:
    """All files below a folder, or in a zip."""
    if path.is_dir():
        names: Iterator[str] = (
            os.path.relpath(os.path.join(folder, file), path).replace(os.sep, "/")
            for folder, _, files in os.walk(path)
            for file in files
        )
    else:
        names = iter(open_zip(path).names)
    shown = (name.split("/") for name in names)
    kept = sorted(parts for parts in shown if not any(map(_is_hidden, parts)))
    return Tree(str(path), tuple(map("/".join, kept)))


class ClassFolders:
    """Images whose class is the name of the sub-folder they lie in, however deep."""

    running = False

    def __init__(self, tree: Tree, columns: tuple[str, str]) -> None:
        self.tree, self.columns, self.base = tree, columns, f"{tree.base}/"
        self._images = ["/".join(parts) for parts in tree.images if len(parts) > 1]
        if not self._images:
            raise DataError(f"{tree.base} holds no sub-folders with images in them")

    def rows(self) -> Iterator[Row]:
        """The image and its class, sorted."""
        for number, name in enumerate(self._images, 1):
            values = (self.base + name, name.partition("/")[0])
            yield Row(values, number, self.tree.base)

    def digest(self) -> str:
        """Of the names below the folder and of the contents."""
        return f"classes {self._content} {' '.join(map(quoted, self._images))}"

    def describe(self) -> str:
        """As in: photos/train (1 200 images in 3 folders, 2 other files left out)."""
        left = len(self.tree.names) - len(self._images)
        said = f", {counted(left, 'other file')} left out" if left else ""
        classes = counted(len(self.tree.classes), "folder")
        return f"{self.tree.base} ({counted(len(self._images), 'image')} in {classes}{said})"

    def meaning(self) -> str:
        """As in: image = the files, label = their folder: cats, dogs."""
        image, label = self.columns
        return f"{image} = the files, {label} = their folder: {some(sorted(self.tree.classes))}"

    @cached_property
    def _content(self) -> str:
        return digest_of_files(self.base + name for name in self._images)


@dataclass(frozen=True)
class IdxFiles:
    """The two files of a split of MNIST and its kin: images, and their labels."""

    images: Path
    labels: Path

    @property
    def name(self) -> str:
        """As in: train-images-idx3-ubyte.gz."""
        return self.images.name


class Idx:
    """Images and labels of two IDX files."""

    running = False

    def __init__(self, files: IdxFiles, columns: tuple[str, str]) -> None:
        self.files, self.columns, self.base = files, columns, f"{files.images.parent}/"
        images, labels = read_idx(files.images, 3), read_idx(files.labels, 1)
        if len(images) != len(labels):
            raise DataError(
                f"{files.images} has {counted(len(images), 'image')}, {files.labels} has "
                f"{counted(len(labels), 'label')}; they belong together one by one"
            )
        if not len(images):
            raise DataError(f"{files.images} has no images")
        self._labels = labels

    def rows(self) -> Iterator[Row]:
        """The image and its label, a number."""
        file = str(self.files.images)
        for number, label in enumerate(self._labels.tolist()):
            yield Row((f"{file}/{number}", str(label)), number + 1, file)

    def digest(self) -> str:
        """Of the bytes of both files."""
        return f"IDX {file_digest(self.files.images)} {file_digest(self.files.labels)}"

    def describe(self) -> str:
        """As in: train-images-idx3-ubyte.gz (IDX, 60 000 images)."""
        return f"{self.files.name} (IDX, {counted(len(self._labels), 'image')})"

    def meaning(self) -> str:
        """As in: image = the images of an IDX file, label = those of the other."""
        image, label = self.columns
        return f"{image} = the images of the IDX files, {label} = their labels, numbers"


class Finder:
    """Finds the images that a table in this folder names.

    A name is that of a file (`cat.jpg`, `pets/cat.jpg`) or of one in a zip (`photos.zip/cat.jpg`),
    as seen from the folder, from its sub-folder `images`, or from the only zip in it.
    """

    def __init__(self, folder: Path) -> None:
        self.base = f"{folder}/"
        try:
            zips = sorted(path for path in folder.iterdir() if path.suffix.lower() == ZIP)
        except OSError as error:
            raise DataError(f"{folder} cannot be read: {error.strerror}") from error
        self._zips = [str(path) for path in zips if path.is_file()]
        self._bases = [self.base]
        if (folder / "images").is_dir():
            self._bases.append(f"{self.base}images/")
        if len(self._zips) == 1:
            self._bases.append(f"{self._zips[0]}/")

    def find(self, name: str, where: str) -> str:
        """Where the image lies, in the words of `read_image`; `where` names it, for a message."""
        if not name or name.isspace():
            raise DataError(f"{where}: the name of an image is expected, there is none")
        bases = [""] if os.path.isabs(name) else self._bases
        for base in bases:
            if is_there(base + name):
                return base + name
        raise DataError(f"{where}: there is no image {self._lacking(name)}")

    def _lacking(self, name: str) -> str:
        if os.path.isabs(name):
            return name
        places = ", nor in ".join(base.rstrip("/") for base in self._bases)
        several = "; say in which .zip it is: photos.zip/name.jpg" if len(self._zips) > 1 else ""
        return f"{quoted(name, 200)} in {places}{several}"


@dataclass(frozen=True)
class SideBelow(Side):
    """A side of images: their names below `base` decide, so it is the same wherever that lies."""

    base: str

    def holds(self, value: str) -> bool:
        """Whether a row with this image is on this side."""
        return super().holds(value.removeprefix(self.base))

    @classmethod
    def of(cls, side: Side, base: str) -> "SideBelow":
        """The same side, for names that begin with `base`."""
        return cls(side.seed, side.until, side.kept, side.count, base)


def _is_image(name: str) -> bool:
    return name.lower().endswith(ENDINGS)


def _is_hidden(part: str) -> bool:
    return part.startswith(".") or part == ADDED
