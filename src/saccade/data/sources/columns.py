"""Which columns of a file are the wanted ones: by name, by usual other names, or by number."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from saccade.errors import DataError

# ISO 639-1, and three-letter codes often seen; other codes work with --pair
_CODES = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de
dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id
ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu
lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu
rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr
ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
ara ast bel ben bul cat ceb ces cmn dan deu dsb ell eng epo est eus fas fin fra gla gle grc gsw hau
heb hin hrv hsb hun ibo ilo ind isl ita jpn kab kan kat kor kmr lat lav lit ltz mar mkd mlt mya nds
nld nno nob pol por ron rus san sco slk slv som spa sqi srp swa swe szl tam tel tgl tha tok tur ukr
urd uzb vie wol xho yid yor yue zho zul
"""
LANGUAGES = frozenset(_CODES.split())


@dataclass(frozen=True)
class Column:
    """A column that a task wants: its name, usual other names, whether it can do without.

    `numbers`: JSON and Parquet may hold numbers in it, such as labels; else only text.
    `running`: plain text files hold running text, a document a file; else an example a line.
    `image`: the values name images; where a table says so, they are found when rows are read.
    """

    name: str
    others: tuple[str, ...] = ()
    required: bool = True
    numbers: bool = False
    running: bool = False
    image: bool = False


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a caller asks of every file: columns, languages, and his own names or numbers."""

    wanted: tuple[Column, ...]
    pair: tuple[str, str] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = [column.name for column in self.wanted]
        for name, given in self.renamed.items():
            if name not in known:
                raise DataError(
                    f"--columns names {name!r}, which is not asked for; it may name "
                    f"{', '.join(known)}"
                )
            if not given:
                raise DataError(f"--columns gives no name or number for {name}")
        numbered = [given.isdecimal() for given in self.renamed.values()]
        if any(numbered) and not all(numbered):
            raise DataError(
                "--columns takes names (a file with a header) or numbers (a file without), "
                f"not both: {_assignments(self.renamed)}"
            )
        if any(numbered) and min(map(int, self.renamed.values())) < 1:
            raise DataError(f"columns count from 1, got {_assignments(self.renamed)}")
        if self.pair and len(self.required) < 2:
            raise DataError(f"--pair is for text pairs; {' '.join(known)} has no two languages")

    @property
    def numbered(self) -> bool:
        """Whether columns are given by number, which says that there is no header."""
        return any(given.isdecimal() for given in self.renamed.values())

    @property
    def running(self) -> bool:
        """Whether plain text is running text: the only column that must be there is, unnamed."""
        return len(self.required) == 1 and self.required[0].running and not self.renamed

    @property
    def images(self) -> bool:
        """Whether a column that must be there holds images."""
        return any(column.image for column in self.required)

    @property
    def classes(self) -> bool:
        """Whether sub-folders may be classes: an image and a label must be there, unnamed."""
        return (
            len(self.required) == 2
            and self.required[0].image
            and self.required[1].numbers
            and not self.renamed
        )

    @property
    def required(self) -> tuple[Column, ...]:
        """The columns that must be there."""
        return tuple(column for column in self.wanted if column.required)


@dataclass(frozen=True)
class Taken:
    """The wanted columns that a file has, where they stand in it (from 0), and what it calls them.

    `width` is the number of columns of every record.
    """

    columns: tuple[Column, ...]
    places: tuple[int, ...]
    found_as: tuple[str, ...]
    width: int

    @property
    def names(self) -> tuple[str, ...]:
        """The wanted names."""
        return tuple(column.name for column in self.columns)

    def describe(self) -> str:
        """As in: source = column "en", target = column "de"."""
        shown = [name if name.isdecimal() else quoted(name) for name in self.found_as]
        pairs = zip(self.names, shown, strict=True)
        return ", ".join(f"{name} = column {column}" for name, column in pairs)


def parse_pair(pair: str) -> tuple[str, str]:
    """`en-de` is ("en", "de")."""
    languages = pair.split("-")
    if len(languages) != 2 or not all(re.fullmatch(r"\w+", language) for language in languages):
        raise DataError(f"--pair takes two languages such as en-de, got {pair!r}")
    if languages[0] == languages[1]:
        raise DataError(f"--pair takes two different languages, got {pair!r}")
    return languages[0], languages[1]


def is_language(name: str) -> bool:
    """Whether it is a language's code, perhaps with a region: de, deu, pt_BR, zh-cn."""
    return re.split(r"[-_]", name.lower(), maxsplit=1)[0] in LANGUAGES and len(name) <= 8


def by_number(width: int, asked: Asked, where: str) -> Taken:
    """The columns by their numbers, in a file without a header whose first line has `width`."""
    missing = [column.name for column in asked.required if column.name not in asked.renamed]
    if missing:
        raise DataError(
            f"--columns {_assignments(asked.renamed)} gives no number for {', '.join(missing)}"
        )
    columns = tuple(column for column in asked.wanted if column.name in asked.renamed)
    numbers = tuple(asked.renamed[column.name] for column in columns)
    places = tuple(int(number) - 1 for number in numbers)
    for column, place in zip(columns, places, strict=True):
        if place >= width:
            raise DataError(
                f"{where}, line 1: {column.name} is to be column {place + 1}, but the line has "
                f"{counted(width, 'column')}"
            )
    return Taken(columns, places, numbers, width)


def by_name(names: Sequence[str], asked: Asked, where: str, advice: str) -> Taken:
    """The columns by the names that a header or the keys of a record give."""
    called = _called(names, asked)
    missing = [column for column in asked.required if column.name not in called]
    if missing:
        raise DataError(f"{where} has no column {_either(missing[0], asked)}. {advice}")
    columns = tuple(column for column in asked.wanted if column.name in called)
    found_as = tuple(called[column.name] for column in columns)
    for name in found_as:
        if list(names).count(name) > 1:
            raise DataError(f"{where} has two columns called {quoted(name)}; rename one")
        if found_as.count(name) > 1:
            raise DataError(f"--columns takes the column {quoted(name)} twice")
    return Taken(columns, tuple(map(list(names).index, found_as)), found_as, len(names))


def _called(names: Sequence[str], asked: Asked) -> dict[str, str]:
    """What the file calls each wanted column: the surest ways first."""
    called = {name: given for name, given in asked.renamed.items() if given in names}
    unmatched = [column for column in asked.required if column.name not in asked.renamed]
    if asked.pair and len(unmatched) >= 2 and set(asked.pair) <= set(names):
        called |= dict(zip((column.name for column in unmatched), asked.pair, strict=False))
    simple = {name.strip().lower(): name for name in reversed(names)}
    for column in asked.wanted:
        if column.name not in asked.renamed and column.name in simple:
            called.setdefault(column.name, simple[column.name])
    if not called and len(names) == 2 and len(unmatched) == 2 and all(map(is_language, names)):
        return dict(zip((column.name for column in unmatched), names, strict=True))
    for column in asked.wanted:
        if column.name in called or column.name in asked.renamed:
            continue
        used = (None, *called.values())
        free = [other for other in column.others if simple.get(other) not in used]
        if free:
            called[column.name] = simple[free[0]]
    return called


def how_to_say(asked: Asked) -> str:
    """The two ways to name columns by hand."""
    names = [column.name for column in asked.required]
    more = "".join(f"[,{column.name}=NAME]" for column in asked.wanted if not column.required)
    by_names = ",".join(f"{name}=NAME" for name in names) + more
    by_numbers = ",".join(f"{name}={number}" for number, name in enumerate(names, 1))
    return f"--columns {by_names} if it is a header, --columns {by_numbers} if there is none"


def quoted(text: str, most: int = 60) -> str:
    """Text between quotes, cut if it is long, on one line."""
    cut = text if len(text) <= most else text[:most] + "…"
    return '"' + cut.replace("\t", "⇥").replace("\n", "⏎") + '"'


def counted(number: int, noun: str) -> str:
    """`1 column`, `29 000 columns`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}".replace(",", " ")


def some(names: Sequence[str], most: int = 8) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _either(column: Column, asked: Asked) -> str:
    if column.name in asked.renamed:
        return quoted(asked.renamed[column.name]) + f", which --columns gives for {column.name}"
    others = f" (nor {', '.join(column.others[:4])}{' …' * (len(column.others) > 4)})"
    return quoted(column.name) + (others if column.others else "")


def _assignments(renamed: Mapping[str, str]) -> str:
    return ",".join(f"{name}={given}" for name, given in renamed.items())
