"""The places of a data set's splits: files of a folder, parallel texts, text and image folders."""

import glob
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from saccade.data.corpus import Table
from saccade.data.sources.archives import ZIP, open_zip
from saccade.data.sources.columns import Column, ColumnRequest, listed
from saccade.data.sources.formats import FORMATS, open_table
from saccade.data.sources.image_tables import ClassFolders, IdxTable, Tree, suffixes_of
from saccade.data.sources.languages import language_code
from saccade.data.sources.plain_text import Documents, ParallelText
from saccade.data.sources.shards import (
    ShardedTable,
    in_order,
    numbered_tables,
    only_tables,
    require_complete,
)
from saccade.data.sources.text_files import suffix_of, unpacked_name, unreadable
from saccade.errors import DataError

SPLITS: Mapping[str, tuple[str, ...]] = {
    "train": ("train", "training"),
    "valid": ("valid", "val", "dev", "validation"),
    "test": ("test", "testing"),
}
"""The names that files may have for each split."""
# suffixes as short as a language code that are not one
_SUFFIXES = """
bak bin bmp bpe cfg doc gif gz htm ini jpg js log md mp3 mp4 npy npz old pdf png pt py rst sh
svg tar tif tmp vec wav xls xml xz yml zip zst
"""
OTHER_SUFFIXES = frozenset(_SUFFIXES.split())
IDX_IMAGES = re.compile(r"(?:^|.*[-_.])([a-z0-9]+)[-_.]images[-.]idx3-ubyte", re.IGNORECASE)
IDX_SPLITS = {"t10k": "test"}  # MNIST's name for it


@dataclass(frozen=True)
class Place:
    """The files of one split, not opened yet.

    name   name for error messages, as in: train.en + train.de
    open   opens the files as a table
    """

    name: str
    open: Callable[[ColumnRequest], Table]


def find_places(path: Path, request: ColumnRequest) -> tuple[bool, dict[str, Place]]:
    """Find the files of each split.

    Args:
        path: A file, a folder, a pattern of files, or the common beginning of two parallel files.
        request: The columns to read, which decide the kinds of files to look for.

    Returns:
        Whether there is a single place for all splits, which is then `train`; and the places.

    Raises:
        DataError: The path does not exist, or two places claim the same split.
    """
    if path.is_dir():
        places = _split_files(path, request)
        if not places and request.running and (texts := _text_folder(path)):
            return True, {"train": texts}
        if not places and request.classes:
            single, places = _class_places(path, request)
            if places:
                return single, places
        if not places and (shards := _single_table(path)):
            return True, {"train": shards}
        return False, places
    if path.is_file():
        if request.classes and path.suffix.lower() == ZIP:
            return _class_places(path, request)
        return True, {"train": _file(path)}
    if place := _parallel_beginning(path, request):
        return True, {"train": place}
    if glob.has_magic(str(path)) and not path.exists():
        return _matching(path)
    if path.exists():
        raise DataError(f"{path} is neither a file nor a folder; give one of them")
    if path.parent.is_dir():
        raise DataError(
            f"{path} does not exist, nor does parallel text that begins with it; {path.parent} "
            f"holds {contents(path.parent)}"
        )
    raise DataError(f"{path} does not exist, nor does the folder {path.parent}; check the path")


def contents(path: Path) -> str:
    """Return the names in a folder or a zip, for error messages."""
    if not path.is_dir():
        return listed(open_zip(path).names)
    return listed(sorted(file.name + "/" * file.is_dir() for file in path.iterdir())) or "nothing"


def _split_files(folder: Path, request: ColumnRequest) -> dict[str, Place]:
    """Return the files named after splits; for running text also the sub-folders."""
    files = _files(folder)
    numbered = numbered_tables(files)
    candidates: list[tuple[str | None, Place]] = []
    for split in SPLITS:
        named = [path for path in files if _split_of(path.name.split(".")[0]) == split]
        shards = [paths for name, paths in numbered if _split_of(name) == split]
        for paths in shards:
            require_complete(paths)
        shards += filter(None, [only_tables(path) for path in named if path.is_dir()])
        taken = {path for paths in shards for path in (*paths, paths[0].parent)}
        named = [path for path in named if path not in taken]
        tables = [_file(path) for path in named if suffix_of(path) in FORMATS]
        tables += map(_shards, shards)
        places = tables + _parallel(named, request, folder)
        candidates += [(split, place) for place in places]
        if request.running:
            folders = [path for path in named if _split_of(path.name) and path.is_dir()]
            candidates += [(split, _required_texts(path)) for path in folders]
    return _one_per_split(candidates, folder)


def _single_table(folder: Path) -> Place | None:
    """Return the numbered files of a folder without splits, if they are one table."""
    tables = [paths for _, paths in numbered_tables(_files(folder))]
    if len(tables) != 1:
        return None
    require_complete(tables[0])
    return _shards(tables[0])


def _matching(pattern: Path) -> tuple[bool, dict[str, Place]]:
    """Return the tables that match a pattern: one table, or one per split if they are named so."""
    files = [Path(name) for name in glob.glob(str(pattern), recursive=True)]
    files = in_order(path for path in files if path.is_file())
    if not files:
        raise DataError(f"no file matches {pattern}; check the pattern")
    by_split: dict[str | None, list[Path]] = {}
    for path in files:
        by_split.setdefault(_split_of(re.split(r"[-_.\d]", path.name)[0]), []).append(path)
    if by_split.keys() - {None, "train"} and None in by_split:
        raise DataError(
            f"some of the files that match {pattern} are named after splits, such as "
            f"{next(paths[0].name for split, paths in by_split.items() if split)}, and some are "
            f"not, such as {by_split[None][0].name}; choose a pattern that matches one kind"
        )
    if by_split.keys() <= {None, "train"} or len(by_split) == 1:
        return True, {"train": _shards(files)}
    return False, {split: _shards(by_split[split]) for split in SPLITS if split in by_split}


def _shards(paths: Sequence[Path]) -> Place:
    """Return one or several files of a table."""
    if len(paths) == 1:
        return _file(paths[0])
    return Place(f"{paths[0].name} to {paths[-1].name}", partial(ShardedTable, paths))


def _text_folder(folder: Path) -> Place | None:
    """Return the plain text files of a folder, each a document, if it has some."""
    texts: dict[str, Path] = {}
    for path in _files(folder):
        if suffix_of(path) == ".txt" and path.is_file():
            name = unpacked_name(path)
            if name in texts:
                raise DataError(
                    f"{folder} holds {name} twice, as {texts[name].name} and {path.name}; remove "
                    "one of them"
                )
            texts[name] = path
    files = tuple(texts.values())
    return Place(f"{folder.name}/", partial(Documents, folder, files)) if files else None


def _required_texts(folder: Path) -> Place:
    texts = _text_folder(folder)
    if texts is None:
        raise DataError(
            f"{folder} holds no .txt files (also .txt.gz, .txt.xz) but {contents(folder)}; files "
            "in its sub-folders are not read"
        )
    return texts


def _parallel_beginning(beginning: Path, request: ColumnRequest) -> Place | None:
    """Return two parallel files with this beginning: `corpus/train` of train.en and train.de."""
    if not beginning.parent.is_dir():
        return None
    files = [
        path
        for path in _files(beginning.parent)
        if re.fullmatch(re.escape(beginning.name) + r"\.[^.]+", unpacked_name(path))
    ]
    places = _parallel(files, request, beginning.parent)
    return places[0] if len(places) == 1 else None


def _class_places(path: Path, request: ColumnRequest) -> tuple[bool, dict[str, Place]]:
    """Return the labelled files of each split, or of `train` alone where there are no splits.

    A folder or a zip holds one sub-folder per class, or one per split with such sub-folders. A
    folder may also hold one zip per split, or IDX files.
    """
    candidates: list[tuple[str | None, Place]] = []
    tree_of = partial(Tree.of, suffixes=suffixes_of(request.required[0]))
    if path.is_dir():
        files = [file for file in _files(path) if file.is_file()]
        candidates += _idx_places(files) if request.required[0].image else ()
        zips = [file for file in files if file.suffix.lower() == ZIP and _split_of(file.stem)]
        candidates += [(_split_of(file.stem), _classes(_unwrapped(tree_of(file)))) for file in zips]
    if not candidates:
        tree = tree_of(path) if path.is_dir() else _unwrapped(tree_of(path))
        candidates += [(_split_of(name), _classes(tree.below(name))) for name in tree.folders]
        if not any(split for split, _ in candidates):
            return (True, {"train": _classes(tree)}) if len(tree.classes) > 1 else (False, {})
    return False, _one_per_split(candidates, path)


def _classes(tree: Tree) -> Place:
    """Return the files of a tree, labelled with the names of its sub-folders."""
    name = tree.base.rpartition("/")[2]
    return Place(name, partial(ClassFolders, tree))


def _idx_places(files: Sequence[Path]) -> Iterator[tuple[str | None, Place]]:
    """Yield the IDX files of images with the files of their labels, and their splits."""
    for path in files:
        if name := IDX_IMAGES.fullmatch(unpacked_name(path)):
            stem = unpacked_name(path).replace("images", "labels").replace("idx3", "idx1")
            labels = next((file for file in files if unpacked_name(file) == stem), None)
            if labels is None:
                raise DataError(
                    f"{path} has no file of labels beside it: {stem}{path.suffix}; "
                    "add it, or put the images into one folder per class"
                )
            opens = partial(IdxTable, path, labels)
            yield _split_of(IDX_SPLITS.get(name[1].lower(), name[1])), Place(path.name, opens)


def _unwrapped(tree: Tree) -> Tree:
    """Return the tree without outer folders that hold everything, which many zips have."""
    while len(tree.classes) == 1 and tree.folders and not _split_of(tree.folders[0]):
        tree = tree.below(tree.folders[0])
    return tree


def _split_of(name: str) -> str | None:
    return next((split for split, names in SPLITS.items() if name.lower() in names), None)


def _one_per_split(
    candidates: Iterable[tuple[str | None, Place]], folder: Path
) -> dict[str, Place]:
    places: dict[str, Place] = {}
    for split, place in candidates:
        if split in places:
            raise DataError(
                f"{folder} has more than one file for {split}: {places[split].name}, "
                f"{place.name}; remove all but one, or give one file instead of the folder"
            )
        if split:
            places[split] = place
    return {split: places[split] for split in SPLITS if split in places}


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise unreadable(folder, error) from error


def _file(path: Path) -> Place:
    if path.is_dir():
        raise DataError(f"{path} is a folder; a file is expected")
    return Place(path.name, partial(open_table, path))


def _parallel(files: Iterable[Path], request: ColumnRequest, folder: Path) -> list[Place]:
    """Return the pairs of files that differ only in the suffix of their language."""
    if len(request.required) != 2 or request.file_column:
        return []
    texts: dict[str, dict[str, list[Path]]] = {}
    for path in files:
        name = Path(unpacked_name(path))
        language = name.suffix[1:]
        if (language in request.pair) if request.pair else _like_language(language):
            texts.setdefault(name.stem, {}).setdefault(language, []).append(path)
    places = []
    for stem, sides in texts.items():
        first, second = request.pair or _direction(sorted(sides), request.required[0], folder, stem)
        for language in (first, second):
            if len(sides.get(language, ())) != 1:
                names = ", ".join(path.name for side in sides.values() for path in side)
                raise DataError(
                    f"{folder}: parallel text needs one {stem}.{first} and one {stem}.{second}, "
                    f"found {names}; "
                    "add the missing file, or name the languages with --pair"
                )
        pair = sides[first][0], sides[second][0]
        both = " + ".join(path.name for path in pair)
        places.append(Place(both, partial(ParallelText, *pair)))
    return places


def _direction(languages: list[str], source: Column, folder: Path, stem: str) -> tuple[str, str]:
    """Order two languages without --pair: usual source first, otherwise by the alphabet."""
    if len(languages) != 2:
        raise DataError(
            f"{folder} has {stem} in {', '.join(languages)}; choose the source and the target "
            "language, for example with --pair en-de"
        )
    usual = [language for language in languages if language.lower() in source.aliases]
    first = usual[0] if len(usual) == 1 else languages[0]
    return first, next(language for language in languages if language != first)


def _like_language(name: str) -> bool:
    if f".{name}" in FORMATS:
        return False
    short = re.fullmatch("[a-z]{2,3}", name) is not None
    return bool(language_code(name)) or (short and name not in OTHER_SUFFIXES)
