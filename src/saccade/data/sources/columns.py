"""Find the columns a task reads in a file: by name, by alias, or by number."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from saccade.data.sources.languages import NAMES, language_code
from saccade.errors import DataError

_MEANINGS = """
caption category class file id image img intent label labels path rating score sentiment split star
stars tag tags text text_pair topic url vectors words
"""
NO_BREAK = "\u00a0"
OTHER_MEANINGS = frozenset(_MEANINGS.split())
"""Names of columns that are not one side of a text pair."""
ColumnNames = Mapping[str, str] | str
"""Names or numbers of columns in the data by the names that a task knows them by: a mapping, or
assignments such as "source=english,target=french"."""


def parse_columns(columns: ColumnNames | None) -> dict[str, str]:
    """Return the columns of the data by the names that a task knows them by.

    Raises:
        DataError: An assignment lacks its name or its column.

    Example:
        >>> parse_columns("source=english,target=french")
        {'source': 'english', 'target': 'french'}
    """
    if not isinstance(columns, str):
        return dict(columns or {})
    table = {}
    for part in columns.split(","):
        name, equals, column = part.partition("=")
        if not equals or not name.strip() or not column.strip():
            raise DataError(
                f"columns {columns!r}: {part!r} is not a valid assignment. Expected "
                "name=column,name=column, such as source=english,target=french"
            )
        table[name.strip()] = column.strip()
    return table


@dataclass(frozen=True)
class Column:
    """A column that a task reads.

    Args:
        name: The name of the column.
        aliases: Other names under which files may have it.
        required: Whether the task needs it.
        numbers: Whether JSON and Parquet may hold numbers in it, such as labels; otherwise only
            text is accepted.
        running: Whether a plain text file is one document; otherwise each line is an example.
        image: Whether the values name images. Images that a table names are looked up when its
            rows are read.
        vectors: Whether the values name files of vectors, which are looked up in the same way;
            JSON and Parquet may also hold the vectors themselves.
        label: Whether rows that are held out for validation are stratified by the values; all other
            columns are then inputs. Without such a column only the first one is an input.
        separator: The text between several labels of a row; "" if a value is one label.
        sequence: Whether a value is a list, such as the words of a sentence. A row has it as one
            text with a space between the elements; see `join_elements`.
        in_order: Whether the column may have any name, in a file that has nothing but the required
            columns in their order.
    """

    name: str
    aliases: tuple[str, ...] = ()
    required: bool = True
    numbers: bool = False
    running: bool = False
    image: bool = False
    label: bool = False
    separator: str = ""
    sequence: bool = False
    vectors: bool = False
    in_order: bool = False

    @property
    def is_text(self) -> bool:
        """Whether the values are texts, not labels, numbers, lists or names of files."""
        return not (self.names_files or self.label or self.numbers or self.sequence)

    @property
    def names_files(self) -> bool:
        """Whether the values name files."""
        return self.image or self.vectors

    @property
    def noun(self) -> str:
        """The kind of the files that the values name."""
        return "vector file" if self.vectors else "image"


@dataclass(frozen=True, kw_only=True)
class ColumnRequest:
    """The columns to read from every file, and the user's choices about them.

    columns       the columns of the task
    pair          source and target language (`--pair`)
    renamed       names or numbers of columns in the files (`--columns`), by the name of the column
    skip_broken   whether rows are left out whose image or vector file is missing or damaged
    tolerant      whether rows that cannot be read are left out; the table lists them in any case
    """

    columns: tuple[Column, ...]
    pair: tuple[str, str] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    skip_broken: bool = False
    tolerant: bool = False

    def __post_init__(self) -> None:
        known = [column.name for column in self.columns]
        for name, other in self.renamed.items():
            if name not in known:
                raise DataError(
                    f"--columns assigns {name!r}, which the task does not read; it reads "
                    f"{', '.join(known)}"
                )
            if not other:
                raise DataError(
                    f"--columns gives no name or number for {name}; write {name}=NAME or {name}=1"
                )
        numbered = [other.isdecimal() for other in self.renamed.values()]
        if any(numbered) and not all(numbered):
            raise DataError(
                "--columns takes names (for a file with a header) or numbers (for a file without "
                f"one), not both: {_assignments(self.renamed)}"
            )
        if any(numbered) and min(map(int, self.renamed.values())) < 1:
            raise DataError(
                f"--columns counts from 1, got {_assignments(self.renamed)}; the first column is 1"
            )
        texts = [column for column in self.required if not (column.image or column.numbers)]
        if self.pair and len(texts) < 2:
            raise DataError(f"--pair is for text pairs; this task reads {', '.join(known)}")

    @property
    def numbered(self) -> bool:
        """Whether columns are given by number, for files without a header."""
        return any(other.isdecimal() for other in self.renamed.values())

    @property
    def running(self) -> bool:
        """Whether plain text files are documents: the only required column is running text."""
        return len(self.required) == 1 and self.required[0].running and not self.renamed

    @property
    def file_column(self) -> Column | None:
        """The first required column whose values name files; None if there is none."""
        return next((column for column in self.required if column.names_files), None)

    @property
    def classes(self) -> bool:
        """Whether sub-folders may be classes: the required columns are a file and a label."""
        return (
            len(self.required) == 2
            and self.required[0].names_files
            and self.required[1].numbers
            and not self.renamed
        )

    @property
    def sequences(self) -> bool:
        """Whether all required columns hold lists, such as words and their tags."""
        return all(column.sequence for column in self.required)

    @property
    def required(self) -> tuple[Column, ...]:
        """The columns that every file must have."""
        return tuple(column for column in self.columns if column.required)

    @property
    def required_pair(self) -> tuple[str, str]:
        """The names of the first two required columns."""
        return self.required[0].name, self.required[1].name

    def advice(self) -> str:
        """Return how to assign the columns of a file without known names, for error messages."""
        names = [column.name for column in self.required]
        optional = (column.name for column in self.columns if not column.required)
        by_name = ",".join(f"{name}=NAME" for name in names)
        by_name += "".join(f"[,{name}=NAME]" for name in optional)
        return (
            f"If it is a header, assign its names: --columns {by_name}. Without a "
            f"header, assign numbers: {self.by_numbers()}"
        )

    def by_numbers(self) -> str:
        """Return the option that assigns the first columns of a file without a header."""
        numbers = (f"{column.name}={n}" for n, column in enumerate(self.required, 1))
        return f"--columns {','.join(numbers)}"


@dataclass(frozen=True)
class ColumnMatch:
    """The requested columns that a file has.

    columns    the columns
    places     their places in a record, from 0
    found_as   their names in the file
    width      number of columns of every record
    unread     names of the file's other columns
    assumed    whether the order of the columns decided, not their names
    """

    columns: tuple[Column, ...]
    places: tuple[int, ...]
    found_as: tuple[str, ...]
    width: int
    unread: tuple[str, ...] = ()
    assumed: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The requested names."""
        return tuple(column.name for column in self.columns)

    def describe(self) -> str:
        """Return a text such as: source = column "en", target = column "de"; not read: "id"."""
        shown = [name if name.isdecimal() else quoted(name) for name in self.found_as]
        pairs = zip(self.names, shown, strict=True)
        meaning = ", ".join(f"{name} = column {column}" for name, column in pairs)
        if not self.assumed:
            unread = f"; not read: {listed([*map(quoted, self.unread)])}" if self.unread else ""
            return meaning + unread
        swapped = zip(self.names, reversed(self.found_as), strict=True)
        other = ",".join(f"{name}={column}" for name, column in swapped)
        return f'{meaning}, by their order (the other way: --columns "{other}")'

    @property
    def languages(self) -> tuple[str, str] | None:
        """The codes of the languages that the first two columns are named after, if they are."""
        codes = tuple(map(language_code, self.found_as[:2]))
        return (codes[0], codes[1]) if len(codes) == 2 and all(codes) else None


def parse_pair(pair: str) -> tuple[str, str]:
    """Return the two languages of an option such as `en-de`."""
    languages = pair.split("-")
    if len(languages) != 2 or not all(re.fullmatch(r"\w+", language) for language in languages):
        raise DataError(
            f"--pair takes two languages such as en-de, got {pair!r}; write the source first"
        )
    if languages[0] == languages[1]:
        raise DataError(
            f"--pair takes two different languages, got {pair!r}; "
            "write the source first, then the target"
        )
    return languages[0], languages[1]


def match_numbers(width: int, request: ColumnRequest, where: str) -> ColumnMatch:
    """Match columns by number, in a file without a header whose first line has `width` columns."""
    missing = [column.name for column in request.required if column.name not in request.renamed]
    if missing:
        raise DataError(
            f"--columns {_assignments(request.renamed)} gives no number for {', '.join(missing)}; "
            f"assign all required columns: {request.by_numbers()}"
        )
    columns = tuple(column for column in request.columns if column.name in request.renamed)
    numbers = tuple(request.renamed[column.name] for column in columns)
    for column, number in zip(columns, numbers, strict=True):
        if int(number) > width:
            raise DataError(
                f"{where}:1: --columns assigns {column.name} to column {number}, but the line has "
                f"{counted(width, 'column')}; "
                "choose a column of the line, or check the separator"
            )
    return ColumnMatch(columns, tuple(int(number) - 1 for number in numbers), numbers, width)


def match_names(
    names: Sequence[str], request: ColumnRequest, where: str, advice: str
) -> ColumnMatch:
    """Match columns by the names in a header or by the keys of a record.

    Args:
        names: The names in the file.
        request: The columns to look for.
        where: The file, for error messages.
        advice: What to do if a required column is missing.
    """
    found_as_by_name = _found_as(names, request)
    for column in request.required:
        if column.name not in found_as_by_name:
            raise DataError(f"{where} has no column {_expected(column, request)}. {advice}")
    columns = tuple(column for column in request.columns if column.name in found_as_by_name)
    found_as = tuple(found_as_by_name[column.name] for column in columns)
    for name in found_as:
        if list(names).count(name) > 1:
            raise DataError(f"{where} has two columns named {quoted(name)}; rename one of them")
        if found_as.count(name) > 1:
            raise DataError(
                f"--columns assigns the column {quoted(name)} twice; assign each column once"
            )
    unread = tuple(name for name in names if name not in found_as)
    places = tuple(map(list(names).index, found_as))
    return ColumnMatch(columns, places, found_as, len(names), unread)


def match_order(names: Sequence[str], request: ColumnRequest) -> ColumnMatch | None:
    """Match two columns with unknown names by their order; None if the task needs known names.

    A column whose name is known keeps its meaning, and the other one gets the other.
    """
    required = request.required
    fixed = request.renamed or request.pair or not all(column.in_order for column in required)
    meanings = {name.strip().lower() for name in names} & OTHER_MEANINGS
    if fixed or meanings or not len(names) == len(required) == 2 or not all(map(_is_name, names)):
        return None
    assigned = _found_as(names, request)
    unused = [name for name in names if name not in assigned.values()]
    if len(unused) + len(assigned) != 2 or names[0] == names[1]:
        return None
    found_as = tuple(assigned.get(column.name) or unused.pop(0) for column in required)
    places = tuple(map(list(names).index, found_as))
    return ColumnMatch(required, places, found_as, 2, assumed=True)


def _is_name(field: str) -> bool:
    """Return whether the field of a first line may be the name of a column, not a text."""
    return bool(re.fullmatch(r"[^\W\d][\w-]*( [\w-]+)?", field.strip())) and len(field) <= 40


def _found_as(names: Sequence[str], request: ColumnRequest) -> dict[str, str]:
    """Return the names in the file of the requested columns; the best matches come first."""
    assigned = {name: other for name, other in request.renamed.items() if other in names}
    unmatched = [column for column in request.required if column.name not in request.renamed]
    if request.pair and len(unmatched) >= 2 and set(request.pair) <= set(names):
        assigned |= dict(zip((column.name for column in unmatched), request.pair, strict=False))
    simple = {name.strip().lower(): name for name in reversed(names)}
    for column in request.columns:
        if column.name not in request.renamed and column.name in simple:
            assigned.setdefault(column.name, simple[column.name])
    if not assigned and len(unmatched) == 2 and all(column.is_text for column in unmatched):
        both = len(names) == 2 and all(map(language_code, names))
        languages = names if both else [x for x in names if x.strip().lower() in NAMES]
        if len(languages) == 2:  # the codes of languages are also other words
            return dict(zip((column.name for column in unmatched), languages, strict=True))
    for column in request.columns:
        if column.name in assigned or column.name in request.renamed:
            continue
        used = (None, *assigned.values())
        free = [alias for alias in column.aliases if simple.get(alias) not in used]
        if free:
            assigned[column.name] = simple[free[0]]
    return assigned


def join_elements(elements: Iterable[str]) -> str:
    """Return a list as one text; white space inside an element becomes a no-break space.

    >>> split_elements(join_elements(["Paris", "1 000"]))
    ['Paris', '1\xa0000']
    """
    return " ".join(NO_BREAK.join(element.split()) for element in elements)


def split_elements(text: str) -> list[str]:
    """Return the elements of a list that is one text, with spaces between them."""
    return [element for element in text.split(" ") if element]


def quoted(text: str, most: int = 60) -> str:
    """Return text between quotes on one line, cut if it is long."""
    cut = text if len(text) <= most else text[:most] + "…"
    return '"' + cut.replace("\t", "⇥").replace("\n", "⏎") + '"'


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 column`, `29 000 columns`."""
    return f"{spaced(number)} {noun}{'' if number == 1 else 's'}"


def spaced(number: int) -> str:
    """Return a number with spaces between thousands: `29 000`."""
    return f"{number:,}".replace(",", " ")


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _expected(column: Column, request: ColumnRequest) -> str:
    if column.name in request.renamed:
        return f"{quoted(request.renamed[column.name])}, which --columns assigns to {column.name}"
    more = " …" if len(column.aliases) > 4 else ""
    aliases = f" (or {', '.join(column.aliases[:4])}{more})" if column.aliases else ""
    return quoted(column.name) + aliases


def _assignments(renamed: Mapping[str, str]) -> str:
    return ",".join(f"{name}={other}" for name, other in renamed.items())
