"""Which files of a folder belong to which split, and which of them are two sides of one text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from saccade.data.sources.archives import ZIP
from saccade.data.sources.columns import Asked, Column, is_language, some
from saccade.data.sources.formats import FORMATS, ending
from saccade.data.sources.image_tables import IdxFiles, Tree, tree_of
from saccade.data.sources.text_files import unpacked_name
from saccade.errors import DataError

SPLITS: Mapping[str, tuple[str, ...]] = {
    "train": ("train",),
    "valid": ("valid", "val", "dev"),
    "test": ("test",),
}
# endings as short as a language's code that are none
_ENDINGS = """
bak bin bmp bpe cfg csv doc gif gz htm ini jpg js log md mp3 mp4 npy npz old pdf png pt py rst sh
svg tar tif tmp tsv txt vec wav xls xml xz yml zip zst
"""
OTHER_ENDINGS = frozenset(_ENDINGS.split())
IDX_IMAGES = re.compile(r"(?:^|.*[-_.])([a-z0-9]+)[-_.]images[-.]idx3-ubyte", re.IGNORECASE)
IDX_SPLITS = {"t10k": "test"}  # MNIST's name for it


@dataclass(frozen=True)
class Place:
    """Where the rows of a split lie: one file, or two parallel ones."""

    files: tuple[Path, ...]

    @property
    def name(self) -> str:
        """As in: train.en + train.de."""
        return " + ".join(path.name for path in self.files)


@dataclass(frozen=True)
class Texts:
    """A folder whose plain text files are documents."""

    folder: Path
    files: tuple[Path, ...]

    @property
    def name(self) -> str:
        """As in: train/."""
        return f"{self.folder.name}/"


Somewhere = TypeVar("Somewhere", Place | Texts, Tree | IdxFiles)


def find_splits(folder: Path, asked: Asked) -> dict[str, Place | Texts]:
    """The place of each split that the folder holds; two for one split are an error.

    Where running text is asked, a sub-folder named after a split is one.
    """
    files = _files(folder)
    found: list[tuple[str | None, Place | Texts]] = []
    for split in SPLITS:
        mine = [path for path in files if _split_of(path.name.split(".")[0]) == split]
        found += [(split, place) for place in _places(mine, asked, folder)]
        if asked.running:
            called = [path for path in mine if _split_of(path.name) and path.is_dir()]
            found += [(split, _all_texts(path)) for path in called]
    return _one_each(found, folder)


def find_texts(folder: Path) -> Texts | None:
    """The plain text files of a folder, by their names, if it has some."""
    texts: dict[str, Path] = {}
    for path in _files(folder):
        if ending(path) == ".txt" and path.is_file():
            name = unpacked_name(path)
            if name in texts:
                raise DataError(
                    f"{folder} holds {name} twice, as {texts[name].name} and {path.name}; leave one"
                )
            texts[name] = path
    return Texts(folder, tuple(texts.values())) if texts else None


def find_beginning(beginning: Path, asked: Asked) -> Place | None:
    """Two parallel files that begin like this: `corpus/train` for train.en and train.de."""
    if not beginning.parent.is_dir():
        return None
    files = [
        path
        for path in _files(beginning.parent)
        if re.fullmatch(re.escape(beginning.name) + r"\.[^.]+", unpacked_name(path))
    ]
    places = [p for p in _places(files, asked, beginning.parent) if len(p.files) == 2]
    return places[0] if len(places) == 1 else None


def find_images(path: Path) -> dict[str, Tree | IdxFiles] | Tree:
    """Images with labels: those of each split, or all of them where there are no splits.

    A folder or a zip holds a sub-folder for each class, or one for each split with such in it; a
    folder may also hold a zip for each split, or IDX files.
    """
    found: list[tuple[str | None, Tree | IdxFiles]] = []
    if path.is_dir():
        files = [file for file in _files(path) if file.is_file()]
        found += _idx_files(files)
        zips = [file for file in files if file.suffix.lower() == ZIP and _split_of(file.stem)]
        found += [(_split_of(file.stem), _unwrapped(tree_of(file))) for file in zips]
    if not found:
        tree = tree_of(path) if path.is_dir() else _unwrapped(tree_of(path))
        found += [(_split_of(name), tree.below(name)) for name in tree.folders]
        if not any(split for split, _ in found):
            return tree if len(tree.classes) > 1 else {}
    return _one_each(found, path)


def listing(folder: Path) -> str:
    """What is in the folder, for a message."""
    names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    return some(names) or "nothing"


def _split_of(name: str) -> str | None:
    """The split that a name is a name of."""
    for split, names in SPLITS.items():
        if name.lower() in names:
            return split
    return None


def _one_each(found: Iterable[tuple[str | None, Somewhere]], folder: Path) -> dict[str, Somewhere]:
    """The place of each split; those of no split are left out."""
    places: dict[str, Somewhere] = {}
    for split, place in found:
        if split in places:
            raise DataError(
                f"{folder} has more than one file for {split}: {places[split].name}, "
                f"{place.name}; leave one, or give one file instead of the folder"
            )
        if split:
            places[split] = place
    return {split: places[split] for split in SPLITS if split in places}


def _idx_files(files: Sequence[Path]) -> list[tuple[str | None, IdxFiles]]:
    """Files of images in IDX form, with the file of their labels."""
    found: list[tuple[str | None, IdxFiles]] = []
    for path in files:
        if name := IDX_IMAGES.fullmatch(unpacked_name(path)):
            stem = unpacked_name(path).replace("images", "labels").replace("idx3", "idx1")
            labels = [each for each in files if unpacked_name(each) == stem]
            if not labels:
                raise DataError(f"{path} has no file of labels beside it: {stem}{path.suffix}")
            split = _split_of(IDX_SPLITS.get(name[1].lower(), name[1]))
            found.append((split, IdxFiles(path, labels[0])))
    return found


def _unwrapped(tree: Tree) -> Tree:
    """Without the folders that hold all the rest, as many zips have one."""
    while len(tree.classes) == 1 and tree.folders and not _split_of(tree.folders[0]):
        tree = tree.below(tree.folders[0])
    return tree


def _all_texts(folder: Path) -> Texts:
    texts = find_texts(folder)
    if texts is None:
        raise DataError(
            f"{folder} holds no .txt files (also .gz or .xz after it), it holds {listing(folder)}; "
            "what lies in sub-folders of it is not read"
        )
    return texts


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror}") from error


def _places(files: Sequence[Path], asked: Asked, folder: Path) -> list[Place]:
    tables = [Place((path,)) for path in files if ending(path) in FORMATS]
    return tables + _parallel(files, asked, folder)


def _parallel(files: Iterable[Path], asked: Asked, folder: Path) -> list[Place]:
    """The two sides of each text: files alike but for a language's ending."""
    if len(asked.required) != 2 or asked.images:
        return []
    texts: dict[str, dict[str, list[Path]]] = {}
    for path in files:
        name = Path(unpacked_name(path))
        language = name.suffix[1:]
        if (language in asked.pair) if asked.pair else _like_language(language):
            texts.setdefault(name.stem, {}).setdefault(language, []).append(path)
    places = []
    for stem, sides in texts.items():
        first, second = asked.pair or _direction(sorted(sides), asked.required[0], folder, stem)
        for language in (first, second):
            if len(sides.get(language, ())) != 1:
                names = ", ".join(path.name for side in sides.values() for path in side)
                raise DataError(
                    f"{folder}: parallel text needs one {stem}.{first} and one {stem}.{second}, "
                    f"found {names}"
                )
        places.append(Place((sides[first][0], sides[second][0])))
    return places


def _direction(languages: list[str], source: Column, folder: Path, stem: str) -> tuple[str, str]:
    """Without --pair: of two, the one the task usually reads first, else the alphabet's first."""
    if len(languages) != 2:
        raise DataError(
            f"{folder} has {stem} in {', '.join(languages)}; say from which to which language, as "
            "in --pair en-de"
        )
    usual = [language for language in languages if language.lower() in source.others]
    first = usual[0] if len(usual) == 1 else languages[0]
    return first, next(language for language in languages if language != first)


def _like_language(name: str) -> bool:
    return is_language(name) or (
        re.fullmatch("[a-z]{2,3}", name) is not None and name not in OTHER_ENDINGS
    )
