"""An inspection as lines of text: numbers first, aligned, with small histograms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from saccade.data.sources.columns import counted, quoted, spaced
from saccade.data.survey import (
    Fault,
    Images,
    LabelFacts,
    Lengths,
    SplitSurvey,
    Survey,
    VectorFacts,
)
from saccade.data.survey.notes import TWO_LABELS
from saccade.inspection.cost import Cost, Tokens
from saccade.inspection.findings import Findings

WIDTH = 9
"""Width of the column of numbers, in characters."""
BAR = 24
"""Length of the longest bar, in characters."""
RARE = 0.001
"""Minimum fraction of letters for a script to be listed."""
EXAMPLES = 8
"""Maximum number of examples listed per fault."""
LABELS = 12
"""Maximum number of labels listed."""
MEGABYTE = 1 << 20


def text(inspection: Findings) -> str:
    """Return the inspection as text."""
    survey = inspection.survey
    train = next(iter(survey.splits.values()))
    sections = {
        "Data": _data(inspection),
        "Rows": _rows(survey),
        **{f"Length of {name}": _lengths(lengths) for name, lengths in train.lengths.items()},
        "Labels": _labels(train.labels) if train.labels else [],
        "Scripts": _scripts(train),
        "Images": _images(train.images) if train.images and train.images.count else [],
        "Vectors": _vectors(train.vectors) if train.vectors else [],
        "Faults": _faults(survey) or ["  none"],
        "Recipes that fit": _fits(inspection),
        f"Cost of {inspection.recipe} on this machine": _cost(inspection),
    }
    parts = ["\n".join([title, *lines]) for title, lines in sections.items() if lines]
    return "\n\n".join(parts)


def line(number: object, words: str) -> str:
    """Return a line with a right-aligned number, followed by words."""
    shown = spaced(number) if isinstance(number, int) else str(number)
    return f"  {shown:>{WIDTH}}  {words}".rstrip()


def percent(fraction: float) -> str:
    """Return a fraction as a percentage, with decimals if it is below 1 %.

    >>> percent(0.123), percent(0.0004), percent(1.0)
    ('12 %', '0.04 %', '100 %')
    """
    value = 100 * fraction
    if 0 < value < 0.01:
        return "< 0.01 %"
    return f"{value:.2g} %" if 0 < value < 1 else f"{value:.0f} %"


def _data(inspection: Findings) -> list[str]:
    lines = [f"  {inspection.understood}", f"  task: {inspection.task.replace('_', ' ')}"]
    if inspection.choice is not None:
        lines.append(f"  {inspection.choice.reason}")
    return lines


def _rows(survey: Survey) -> list[str]:
    return [
        line(
            split.rows,
            f"{name}{', parts of running text' * split.running}"
            f"{', of which not all were read' * (not split.complete)}",
        )
        for name, split in survey.splits.items()
    ]


def _lengths(lengths: Lengths) -> list[str]:
    unit = lengths.unit
    return [
        line(lengths.median, f"{unit} (median); 95 %: {lengths.p95}, longest: {lengths.longest}"),
        *_histogram(lengths.bars),
    ]


def _histogram(bars: Sequence[tuple[str, int]]) -> Iterator[str]:
    most = max(1, *(count for _, count in bars))
    for name, count in bars:
        bar = "█" * round(BAR * count / most) or ("▏" if count else "")
        yield line(name, f"{bar} {spaced(count)}")


def _labels(labels: LabelFacts) -> list[str]:
    if labels.range is not None:
        low, mean, high = labels.range
        return [line(f"{mean:.4g}", f"mean of the numbers, from {low:.4g} to {high:.4g}")]
    if not labels.counts:
        return ["  more than 10 000 different labels"]
    names, unit = list(labels.counts), labels.unit
    rows = sum(labels.counts.values())
    lines = [
        line(len(names), "label" if len(names) == 1 else "different labels"),
    ]
    if len(names) > 1:
        ratio = f"{labels.imbalance:.1f}"
        lines.append(line(ratio, f"times as many {unit}s in the largest as in the smallest"))
    for name in names[:LABELS]:
        count = labels.counts[name]
        lines.append(line(count, f"{percent(count / rows):>6}  {name}"))
    if len(names) > LABELS:
        rest = sum(labels.counts[name] for name in names[LABELS:])
        lines.append(line(rest, f"{percent(rest / rows):>6}  in {len(names) - LABELS} more"))
    return lines


def _scripts(train: SplitSurvey) -> list[str]:
    return [
        line(percent(fraction), f"{script} in {column}")
        for column, scripts in train.scripts.items()
        for script, fraction in list(scripts.items())[:4]
        if fraction >= RARE
    ]


def _images(images: Images) -> list[str]:
    modes = ", ".join(f"{mode} {spaced(count)}" for mode, count in images.modes.items())
    width, height = images.median
    lines = [line(images.count, f"images; mode {modes}{', all grey' * images.grey}")]
    if images.modes:
        smallest, largest = (f"{w} × {h}" for w, h in (images.smallest, images.largest))
        span = f"; from {smallest} to {largest}" if smallest != largest else ""
        lines.append(line(f"{width}×{height}", f"pixels (median){span}"))
    return lines


def _vectors(vectors: VectorFacts) -> list[str]:
    widths = (
        line(width, f"numbers per vector, in {counted(count, 'sequence')}")
        for width, count in list(vectors.widths.items())[:5]
    )
    return [line(vectors.count, "sequences of vectors"), *widths]


def _faults(survey: Survey) -> list[str]:
    lines: list[str] = []
    for name, split in survey.splits.items():
        consequence = "training does not start" if split.complete else "reading ended there"
        lines += _fault(split.broken, "broken row", f"in {name}; {consequence}")
        lines += _fault(split.empty, "row", f"with an empty column in {name}")
        lines += _fault(split.duplicates, "duplicate", f"in {name}")
        lines += _fault(split.contradictions, "row", f"of {name} with contradictory labels")
        fault, noun = split.broken_files
        lines += _fault(fault, f"broken {noun}", f"in {name}")
        if split.labels is not None:
            lines += _fault(split.labels.missing, "row", f"of {name} {_missing(split.labels)}")
            unknown = Fault(len(split.labels.unknown), tuple(map(quoted, split.labels.unknown)))
            lines += _fault(unknown, "label", f"of {name} that training and validation lack")
    for leak in survey.leaks:
        fault = Fault(leak.count, leak.first)
        lines += _fault(fault, "row", f"of {leak.split} also in {leak.other}")
    labels = next(iter(survey.splits.values())).labels
    if labels is not None and len(labels.counts) == 1:
        only = tuple(map(quoted, labels.counts))
        lines += _fault(Fault(1, only), "label", f"for all rows; {TWO_LABELS}")
    if labels is not None and labels.variants:
        groups = [
            " = ".join(f"{quoted(label)} ({spaced(count)})" for label, count in group)
            for group in labels.variants
        ]
        lines += _fault(
            Fault(labels.extra_spellings, tuple(groups)),
            "label",
            "different from another only in case or spaces",
        )
    if labels is not None and labels.single:
        singles = Fault(len(labels.single), tuple(map(quoted, labels.single)))
        lines += _fault(singles, "label", f"with only one {labels.unit}")
    return lines


def _missing(labels: LabelFacts) -> str:
    if labels.kind == "numbers":
        return "with a label that is not a number; training stops at the first"
    return "with text for a missing value as the label"


def _fault(fault: Fault, noun: str, words: str) -> list[str]:
    """Return the number of rows with a fault, and the first examples."""
    if not fault.count:
        return []
    shown = [f"{'':>{WIDTH + 4}}{example}" for example in fault.first[:EXAMPLES]]
    if len(fault.first) > EXAMPLES:
        shown.append(f"{'':>{WIDTH + 4}}and {len(fault.first) - EXAMPLES} more: see --json")
    return [line(fault.count, f"{noun}{'s' * (fault.count > 1)} {words}"), *shown]


def _cost(inspection: Findings) -> list[str]:
    if inspection.cost is None:
        return [f"  not measured: {inspection.cost_error}"] if inspection.cost_error else []
    cost = inspection.cost
    lines = [
        line(
            duration(cost.minutes_per_epoch),
            f"per epoch: about {counted(round(cost.updates_per_epoch), 'update')} of "
            f"{cost.seconds_per_update:.2g} s, without validations",
        ),
        line(
            duration(cost.minutes),
            f"for the recipe's budget, {_epochs(cost.epochs)} epochs; --minutes sets another",
        ),
        *_memory(cost),
        line(spaced(cost.parameters), "parameters"),
    ]
    if cost.tokens is not None:
        lines.append(_tokens(cost.tokens))
    return lines


def _fits(inspection: Findings) -> list[str]:
    """Return the recipes of the task, and the names of recipes of other tasks."""
    fits = [fit for fit in inspection.fits if fit.task == inspection.task]
    width = max((len(fit.recipe) for fit in fits), default=0)
    lines = [
        f"  {'>' if fit.recipe == inspection.recipe else ' '} {fit.recipe:<{width}}  "
        f"{fit.description}"
        for fit in fits
    ]
    others = [fit.recipe for fit in inspection.fits if fit.task != inspection.task]
    return [*lines, f"    other tasks: {', '.join(others)}"] if others else lines


def _epochs(epochs: float) -> str:
    return f"{epochs:.2g}" if epochs < 10 else spaced(round(epochs))


def _memory(cost: Cost) -> Iterator[str]:
    if cost.peak_memory is not None:
        yield line(f"{cost.peak_memory / MEGABYTE:,.0f} MiB".replace(",", " "), "of memory")
    if cost.device_memory is not None:
        shown = f"{cost.device_memory / MEGABYTE:,.0f} MiB".replace(",", " ")
        yield line(shown, f"of memory on {cost.device}")


def _tokens(tokens: Tokens) -> str:
    return line(
        percent(tokens.above),
        f"of the rows above the limit of {counted(tokens.limit, 'token')}; median: "
        f"{tokens.median}, 95 %: {tokens.p95}, longest: {tokens.longest}",
    )


def duration(minutes: float) -> str:
    """Return a duration in seconds, minutes or hours.

    >>> duration(0.2), duration(12.34), duration(300.0)
    ('12 s', '12.3 min', '5.0 h')
    """
    if minutes < 1:
        return f"{60 * minutes:.0f} s"
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
