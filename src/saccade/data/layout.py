"""Which files of a folder belong to which split, and which of them are two sides of one text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from saccade.data.columns import Asked, Column, is_language, some
from saccade.data.formats import FORMATS, ending
from saccade.data.lines import unpacked_name
from saccade.errors import DataError

SPLITS: Mapping[str, tuple[str, ...]] = {
    "train": ("train",),
    "valid": ("valid", "val", "dev"),
    "test": ("test",),
}
# endings as short as a language's code that are none
_ENDINGS = """
bak bin bmp bpe cfg csv doc gif gz htm ini jpg js log md mp3 mp4 npy npz old pdf png pt py rst sh
svg tar tmp tsv txt vec wav xls xml xz yml zip zst
"""
OTHER_ENDINGS = frozenset(_ENDINGS.split())


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


def find_splits(folder: Path, asked: Asked) -> dict[str, Place | Texts]:
    """The place of each split that the folder holds; two for one split are an error.

    Where running text is asked, a sub-folder named after a split is one.
    """
    files = _files(folder)
    found: dict[str, Place | Texts] = {}
    for split, beginnings in SPLITS.items():
        mine = [path for path in files if path.name.split(".")[0].lower() in beginnings]
        places: list[Place | Texts] = [*_places(mine, asked, folder)]
        if asked.running:
            called = [path for path in mine if path.name.lower() in beginnings]
            places += [_all_texts(path) for path in called if path.is_dir()]
        if len(places) > 1:
            shown = ", ".join(place.name for place in places)
            raise DataError(
                f"{folder} has more than one file for {split}: {shown}; leave one, or give one "
                "file instead of the folder"
            )
        if places:
            found[split] = places[0]
    return found


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


def listing(folder: Path) -> str:
    """What is in the folder, for a message."""
    names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    return some(names) or "nothing"


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
    if len(asked.required) != 2:
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
