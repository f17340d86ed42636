"""Choose a recipe for data: by the columns that it has, then by its size.

A task fits if the data has its columns; the fitting task that reads the most columns wins. `RULES`
then decide among its recipes; docs/how-to/inspect.md explains them. With a budget in minutes, a
large recipe that would read the data too few times on this machine is passed over.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from saccade.data import sources
from saccade.data.corpus import Corpus, Split
from saccade.data.sources.columns import (
    Column,
    ColumnNames,
    counted,
    listed,
    parse_columns,
    quoted,
    spaced,
)
from saccade.data.survey import Images, Lengths, SplitSurvey, survey
from saccade.errors import DataError, RecipeError, SplitError, WrongTaskError
from saccade.training import recipe as recipes
from saccade.training.precision import pick_device
from saccade.training.speed import epochs_within

SURVEYED = 20_000
"""Maximum number of rows read to choose a recipe, apart from counting."""
COUNTED = 500_000
"""Maximum number of rows that are counted."""
SAMPLED, FEWEST, DIFFERENT = 1000, 20, 0.25
"""Rows by which columns with unknown names are taken for texts, their fewest number, and the least
fraction of different values."""
_IDENTIFIERS = """
author created_at date id idx index key link name no nr row time timestamp url user uuid
"""
IDENTIFIERS = frozenset(["", "unnamed: 0", *_IDENTIFIERS.split()])
"""Names of columns that identify a row, rather than label it."""
OPENED = 64
"""Images, or parts of a text, that are opened to choose a recipe."""
LARGE_PAIRS, HUGE_PAIRS, LARGE_LABELS, LARGE_IMAGES = 100_000, 500_000, 50_000, 50_000
LARGE_TAGS = 50_000
LEAST_EPOCHS = 3.0
"""Times that a budget in minutes must read the data for a large recipe to be chosen: a rule of
thumb, the epochs below which recipes need no dropout."""
LARGE_TEXT = 2_000_000
"""Characters of plain text from which on a model of subwords learns more than one of characters."""
SMALL_IMAGE = 40
"""Pixels of the longer side of a small image."""
UNALPHABETIC = ("Han", "Hiragana", "Katakana", "Hangul")
"""Scripts with more characters than a vocabulary of characters holds."""
WEIGHTS = "model.encoder.weights"
FROM_SCRATCH = (
    "image.size=64",
    "model.encoder.kind=resnet",
    "model.encoder.widths=[24,48,96]",
    "model.encoder.blocks=1",
    "model.encoder.stem_stride=2",
)
"""An encoder of images that needs no pretrained weights."""


@dataclass(frozen=True, kw_only=True)
class RecipeChoice:
    """The recipe chosen for data.

    Attributes:
        recipe: Its name.
        task: The name of its task.
        changes: Assignments to keys of the recipe, such as "model.channels=3".
        reason: Why, in one sentence.
    """

    recipe: str
    task: str
    changes: tuple[str, ...]
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "changes": list(self.changes)}


@dataclass(frozen=True, kw_only=True)
class FittingTask:
    """A task whose columns are in the data.

    Attributes:
        name: The name of the task.
        recipes: The names of its built-in recipes.
        columns: The columns that it reads.
        corpus: The data, without a part held out.
    """

    name: str
    recipes: tuple[str, ...]
    columns: tuple[Column, ...]
    corpus: Corpus


def fitting_tasks(
    data: str | Path, *, pair: str | None = None, columns: ColumnNames | None = None
) -> list[FittingTask]:
    """Return the tasks that can read the data, those that read the most columns first.

    Args:
        data: A file or folder of data, `builtin:NAME` or `hf:NAME`.
        pair: For parallel text files, the two languages, such as "en-de".
        columns: Names of columns in the data by the names that the task knows them by.

    Raises:
        DataError: The data does not exist, or no task can read it.
    """
    errors: dict[str, DataError] = {}
    partly: dict[tuple[str, ...], DataError] = {}
    fitting: list[FittingTask] = []
    by_task = _recipes_by_task()
    columns_by_task = {
        name: tuple(map(_countable, recipes.load(names[0]).options.columns))
        for name, names in by_task.items()
    }
    known_names = dict.fromkeys(column.name for x in columns_by_task.values() for column in x)
    for name in parse_columns(columns):
        if name not in known_names:
            raise DataError(
                f"--columns assigns {name!r}, which no task reads; use {', '.join(known_names)}"
            )
    if Path(data).is_dir() and not any(Path(data).iterdir()):
        raise DataError(f"{data} is an empty folder; give a file or a folder with data")
    for task, names in by_task.items():
        wanted = columns_by_task[task]
        try:
            corpus = sources.open_corpus(
                data, wanted, pair=pair, columns=columns, valid_fraction=0.0, tolerant=True
            )
        except DataError as error:
            names_of_task = tuple(column.name for column in wanted if column.required)
            errors[", ".join(names_of_task)] = error
            if isinstance(error, SplitError):
                partly[names_of_task] = error
        else:
            fitting.append(FittingTask(name=task, recipes=names, columns=wanted, corpus=corpus))
    widest = max((len(task.corpus.splits["train"].columns) for task in fitting), default=0)
    for names_of_task, split_error in partly.items():
        if len(names_of_task) > widest:
            raise split_error
    known = [task for task in fitting if not task.corpus.splits["train"].assumed]
    assumed = [task for task in fitting if task not in known]
    fitting = known or [task for task in assumed if _are_texts(task.corpus.splits["train"])]
    if not fitting and assumed:
        raise _unknown_names(data, assumed[0].corpus.splits["train"])
    if not fitting:
        assigned = set(parse_columns(columns))
        matching = [error for names, error in errors.items() if assigned <= set(names.split(", "))]
        raise matching[0] if assigned and matching else _unreadable(data, errors)
    return sorted(fitting, key=lambda task: -len(task.corpus.splits["train"].columns))


def choose_recipe(
    data: str | Path,
    *,
    pair: str | None = None,
    columns: ColumnNames | None = None,
    changes: Sequence[str] = (),
    processes: int = 1,
    tasks: Sequence[FittingTask] | None = None,
) -> RecipeChoice:
    """Choose a built-in recipe for data, by its columns, its size and the budget in minutes.

    Args:
        data: A file or folder of data, `builtin:NAME` or `hf:NAME`.
        pair: For parallel text files, the two languages, such as "en-de".
        columns: Names of columns in the data by the names that the task knows them by.
        changes: Keys of the recipe that are set anyway, such as "training.minutes=3".
        processes: Processes that train together.
        tasks: The tasks that fit, if they are known already.

    Raises:
        DataError: The data does not exist, or no task can read it.

    Example:
        >>> choose_recipe("builtin:pydoc").task
        'language_modeling'
    """
    tasks = tasks or fitting_tasks(data, pair=pair, columns=columns)
    widest = len(tasks[0].corpus.splits["train"].columns)
    _require_known(tasks[0], data)
    facts: dict[str, Facts] = {}
    for task in tasks:
        if len(task.corpus.splits["train"].columns) == widest:
            facts |= dict.fromkeys(task.recipes, Facts(task, changes))
    too_slow = ""
    for rule in RULES:
        if rule.recipe not in facts or not (why := rule.why(facts[rule.recipe])):
            continue
        extra = rule.changes(facts[rule.recipe])
        if rule.large and (
            slow := facts[rule.recipe].too_slow(rule.recipe, extra, processes=processes)
        ):
            too_slow = slow
            continue
        task = facts[rule.recipe].task
        names = " and ".join(task.corpus.splits["train"].columns)
        many = "columns" if widest > 1 else "column"
        changed = f" with {', '.join(extra)}" if extra else ""
        return RecipeChoice(
            recipe=rule.recipe,
            task=task.name,
            changes=extra,
            reason=f"recipe {rule.recipe}{changed}, chosen because the data has the {many} "
            f"{names} and {why}{too_slow}",
        )
    raise RecipeError(f"no built-in recipe suits {data}; name one, such as a .toml file")


class Facts:
    """The facts about data that rules decide by, read when a rule needs them."""

    def __init__(self, task: FittingTask, changes: Sequence[str]) -> None:
        self.task, self._changes = task, changes

    @cached_property
    def rows(self) -> int:
        """The number of training rows, counted up to 500 000, or up to one that is broken."""
        number = 0
        with suppress(DataError):  # training reports it, and an inspection counts it
            for _ in islice(self.task.corpus.splits["train"], COUNTED):
                number += 1
        return number

    @cached_property
    def train(self) -> SplitSurvey:
        """A survey of the first training rows."""
        return self._surveyed(SURVEYED, open_images=False)

    @cached_property
    def images(self) -> Images | None:
        """The first images."""
        return self._surveyed(OPENED, open_images=True).images

    @cached_property
    def gpu(self) -> bool:
        """Whether training would use an accelerator."""
        return pick_device("auto").type != "cpu"

    @property
    def many(self) -> str:
        """The number of rows, for people."""
        return f"{'at least ' * (self.rows == COUNTED)}{counted(self.rows, 'row')}"

    @property
    def characters(self) -> int:
        """An estimate of the characters of all texts."""
        lengths = sum(lengths.characters for lengths in self.train.lengths.values())
        return round(lengths * self.rows / max(1, self.train.rows))

    @property
    def sides(self) -> tuple[Lengths, Lengths] | None:
        """The lengths of source and target, if the data has two columns of text."""
        lengths = tuple(self.train.lengths.values())
        return (lengths[0], lengths[1]) if len(lengths) == 2 else None

    def sets(self, key: str) -> bool:
        """Return whether a change of the user sets a key."""
        return any(change.partition("=")[0].strip() == key for change in self._changes)

    def too_slow(self, recipe: str, extra: Sequence[str], *, processes: int) -> str:
        """Return why a recipe is too slow for the budget in minutes; "" if it is not."""
        loaded = recipes.load(recipe, [*extra, *self._changes])
        minutes = loaded.training.minutes
        if minutes is None:
            return ""
        train = self.task.corpus.splits["train"]
        try:
            epochs = processes * epochs_within(loaded, train, minutes)
        except DataError:  # training reports it
            return ""
        if epochs >= LEAST_EPOCHS:
            return ""
        unit = "minute" if minutes == 1 else "minutes"
        return (
            f"; in {minutes:g} {unit} the larger recipe {recipe} would read them only {epochs:.2g} "
            f"times here, fewer than {LEAST_EPOCHS:g}"
        )

    def _surveyed(self, most: int, *, open_images: bool) -> SplitSurvey:
        corpus = self.task.corpus
        train = Corpus({"train": corpus.splits["train"]}, corpus.summary)
        facts = survey(train, self.task.columns, most=most, open_images=open_images)
        return facts.splits["train"]


@dataclass(frozen=True)
class Rule:
    """When to choose a recipe: `why` returns the reason, or "" if the recipe does not suit.

    A `large` recipe is passed over if the budget in minutes is too short for it.
    """

    recipe: str
    why: Callable[[Facts], str]
    changes: Callable[[Facts], tuple[str, ...]] = lambda facts: ()
    large: bool = False


def _letters(facts: Facts) -> str:
    sides = facts.sides
    letters = sides is not None and all(side.longest_word == 1 for side in sides)
    return "all words are single characters" if letters and _few(facts) else ""


def _few(facts: Facts) -> bool:
    """Return whether both sides have few enough words for a vocabulary of complete words."""
    sides = facts.sides
    return sides is not None and all((side.different_words or 1000) <= 196 for side in sides)


def _pronunciation(facts: Facts) -> str:
    if facts.sides is None:
        return ""
    source, target = facts.sides
    symbols = target.different_words or 1000
    if source.one_word < 0.95 or target.one_word > 0.5 or symbols > 196:
        return ""
    return f"each source is one word, spelled out in {symbols} different symbols"


def _pairs(facts: Facts) -> str:
    few = facts.rows < LARGE_PAIRS
    return f"{facts.many}, fewer than {spaced(LARGE_PAIRS)}" if few else facts.many


def _many_pairs(facts: Facts) -> str:
    if facts.rows < LARGE_PAIRS:
        return ""
    return f"{facts.many}, enough for a width of 256"


def _base_pairs(facts: Facts) -> str:
    if not facts.gpu or facts.rows < HUGE_PAIRS:
        return ""
    return f"{facts.many}, and this machine has an accelerator"


def _many_labels(facts: Facts) -> str:
    if not facts.gpu or facts.rows < LARGE_LABELS:
        return ""
    return f"{facts.many}, and this machine has an accelerator"


def _labels(facts: Facts) -> str:
    labels = facts.train.labels
    if labels is not None and labels.kind == "numbers":
        return f"{facts.many}; the labels are numbers, so it predicts a number"
    return facts.many


def _few_sentences(facts: Facts) -> str:
    if facts.rows >= LARGE_TAGS:
        return ""
    return f"{facts.many}, and a recurrent network needs fewer sentences than a Transformer"


def _many_sentences(facts: Facts) -> str:
    return f"{facts.many}, enough for a Transformer"


def _few_images(facts: Facts) -> str:
    if facts.rows >= LARGE_IMAGES:
        return ""
    return f"{facts.many}, and a convolutional network needs fewer images than a Transformer"


def _small_grey(facts: Facts) -> bool:
    images = facts.images
    return images is not None and images.grey and max(images.median) <= SMALL_IMAGE


def _size_and_colour(facts: Facts) -> tuple[str, ...]:
    """Return the changes of a recipe for small grey images that larger or coloured ones need."""
    images, changes = facts.images, list[str]()
    if images is None:
        return ()
    if not images.grey:
        changes.append("model.channels=3")
    if max(images.median) > SMALL_IMAGE:
        # 64 pixels leave a grid of 16 × 16; 64 images in a batch
        changes += ["image.size=64", "augment.crop=4", "training.batch_tokens=16384"]
    return tuple(change for change in changes if not facts.sets(change.partition("=")[0]))


def _many_small_images(facts: Facts) -> str:
    return f"{facts.many}: small grey images" if _small_grey(facts) else ""


def _many_images(facts: Facts) -> str:
    return f"{facts.many}: images in colour, or larger than {SMALL_IMAGE} pixels"


def _from_scratch(facts: Facts) -> tuple[str, ...]:
    return () if facts.sets(WEIGHTS) else FROM_SCRATCH


def _captions(facts: Facts) -> str:
    if facts.sets(WEIGHTS):
        return f"{facts.many} of captions"
    return f"{facts.many} of captions, with an encoder that needs no {WEIGHTS}"


def _vectors(facts: Facts) -> str:
    return f"{facts.many} of vectors"


def _book(facts: Facts) -> str:
    scripts = next(iter(facts.train.scripts.values()), {})
    if facts.characters >= LARGE_TEXT or next(iter(scripts), "") in UNALPHABETIC:
        return ""
    return f"about {spaced(facts.characters)} characters, fewer than {spaced(LARGE_TEXT)}"


def _much_text(facts: Facts) -> str:
    return f"about {spaced(facts.characters)} characters"


RULES = (
    Rule("vector-classifier", _vectors),  # vectors are the input, whatever else a row has
    Rule("vector-captioner", _vectors),
    Rule("reverse", _letters),
    Rule("pronounce", _pronunciation),
    Rule("transformer-base", _base_pairs, large=True),
    Rule("transformer-small", _many_pairs, large=True),
    Rule("transformer-tiny", _pairs),
    Rule("bert-small", _many_labels, large=True),
    Rule("bert-mini", _labels),
    Rule("rnn-tagger", _few_sentences),
    Rule("transformer-tagger", _many_sentences),
    Rule("cnn-small", _few_images, _size_and_colour),
    Rule("vit-tiny", _many_small_images, large=True),
    Rule("vit-small", _many_images, large=True),
    Rule("cnn-small", lambda facts: facts.many, _size_and_colour),
    Rule("caption-attention", _captions, _from_scratch),
    Rule("gpt-char", _book),
    Rule("gpt-mini", _much_text),
)
"""The first rule that applies decides; those of tasks that do not fit are passed over."""


def _recipes_by_task() -> dict[str, tuple[str, ...]]:
    """Return the built-in recipes of each task."""
    by_task: dict[str, tuple[str, ...]] = {}
    for name in recipes.names():
        task = recipes.load(name).task
        by_task[task] = (*by_task.get(task, ()), name)
    return by_task


def _countable(column: Column) -> Column:
    """Return a column that also takes lists of labels, which another kind of labels can read."""
    return replace(column, separator=",") if column.label and not column.separator else column


def _require_known(task: FittingTask, data: str | Path) -> None:
    """Raise if only a text is known of a table: its other columns may be labels or targets."""
    train = task.corpus.splits["train"]
    if train.running and _is_table(train):
        raise DataError(
            f"no recipe can be chosen for {data}: its lines are separated by tabs, like a table "
            "without a header. For text pairs, add --columns source=1,target=2 and give the file "
            f"itself; for plain text, name a recipe such as {task.recipes[0]}"
        )
    if len(train.columns) == 1 and train.unread:
        repeated = [column for column in train.unread if train.unread.count(column) > 1]
        if repeated:
            raise DataError(
                f"{data} has several columns named {quoted(repeated[0])}; rename all but one"
            )
        name, other = task.columns[0].name, _likely_label(train.unread)
        raise DataError(
            f"no recipe can be chosen for {data}: of its columns only the {name} is known, not "
            f"{listed(train.unread)}. If {other} is the label, add --columns label={other}; if it "
            f"is a text to generate, --columns source={name},target={other}; to learn from the "
            f"{name} alone, name a recipe such as {task.recipes[0]}"
        )


def _likely_label(names: Sequence[str]) -> str:
    """Return the first column that may be the label, because its name is not an identifier.

    >>> _likely_label(["id", "kind", "date"]), _likely_label(["id"])
    ('kind', 'id')
    """
    candidates = [name for name in names if name.strip().lower() not in IDENTIFIERS]
    return (candidates or names)[0]


def _is_table(text: Split) -> bool:
    """Return whether most parts of a running text have the same number of tabs in all lines."""
    tables = 0
    parts = [row.values[0].strip("\n").split("\n") for row in islice(text, OPENED)]
    for lines in parts:
        tabs = {line.count("\t") for line in lines}
        tables += len(lines) > 1 and len(tabs) == 1 and 0 not in tabs
    return tables > len(parts) / 2


def _are_texts(split: Split) -> bool:
    """Return whether all columns hold text, rather than labels, numbers or addresses."""
    rows = [row.values for row in islice(split, SAMPLED)]
    return len(rows) >= FEWEST and all(map(_is_text, zip(*rows, strict=True)))


def _is_text(values: Sequence[str]) -> bool:
    """Return whether values differ, and are mostly letters; labels repeat a few values."""
    written = sum(map(_is_written, values))
    return len(set(values)) >= DIFFERENT * len(values) and written >= 0.9 * len(values)


def _is_written(value: str) -> bool:
    characters = [character for character in value if not character.isspace()]
    letters = sum(x.isalpha() or unicodedata.category(x)[0] == "M" for x in characters)
    return 2 * letters > len(characters) and "://" not in value and "@" not in value


def _unreadable(data: str | Path, errors: Mapping[str, DataError]) -> DataError:
    """Return the error of data that no task can read; a missing file has its own message."""
    own = {key: error for key, error in errors.items() if not isinstance(error, WrongTaskError)}
    errors = own or errors
    messages = {str(error) for error in errors.values()}
    if len(messages) == 1:
        return DataError(messages.pop())
    detail = errors.get("text, label") or next(iter(errors.values()))
    sentences = str(detail).removesuffix(".").split(". ")
    starts = ("The first line is", "Its columns are")
    beginning = next((sentence for sentence in sentences if sentence.startswith(starts)), None)
    expected = "; or ".join(errors)
    if beginning is None:  # not a table
        return DataError(str(detail))
    return DataError(
        f"no recipe can be chosen for {data}: it has none of these columns: {expected}. "
        f"{beginning}. Name its columns, as in --columns source=NAME,target=NAME for text pairs "
        "or --columns text=NAME,label=NAME for labelled texts (numbers from 1 instead of names if "
        "there is no header)"
    )


def _unknown_names(data: str | Path, split: Split) -> DataError:
    """Return the error of a table of two columns that may be a text and its label, or a pair."""
    one, other = split.names
    return DataError(
        f"no recipe can be chosen for {data}: its columns {one} and {other} may be a text and its "
        f"label, or a pair of texts. For labels, add --columns text={one},label={other}; for "
        f"pairs, --columns source={one},target={other}"
    )
