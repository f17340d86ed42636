"""Sentences about the faults that a survey found in the data."""

from collections.abc import Iterator

from saccade.data.sources.columns import counted, listed, quoted, spaced
from saccade.data.survey.facts import Fault, LabelFacts, SplitSurvey, Survey

TWO_LABELS = "a classifier needs at least two"
IMBALANCED = 10
"""The ratio of the largest to the smallest class above which the labels are imbalanced."""
LABELS, REPEATED = 50, 20
"""The largest number of different targets that may be labels, and how often each of them occurs, on
average, at least."""


def notes(survey: Survey, *, training: bool = False) -> list[str]:
    """Return one sentence per fault.

    Args:
        survey: The survey.
        training: Whether to leave out what training reports itself: empty rows, labels with one
            row, and rows of `valid` that are also in `train`.
    """
    sentences: list[str] = []
    for name, split in survey.splits.items():
        sentences += _faults(name, split, empty=not training)
        if split.labels is not None:
            sentences += _missing_labels(name, split.labels)
        if split.labels is not None and name == "train":
            sentences += _label_notes(name, split.labels, single=not training)
        if name == "train":
            sentences += _target_notes(split)
    for leak in survey.leaks:
        if training and (leak.split, leak.other) == ("valid", "train"):
            continue
        rows = counted(leak.count, "row")
        verb = "is" if leak.count == 1 else "are"
        sentences.append(
            f"{rows} of {leak.split} {verb} also in {leak.other}, so scores on {leak.split} are "
            f"too high; the first: {leak.first[0]}"
        )
    return sentences


def _target_notes(split: SplitSurvey) -> Iterator[str]:
    """Yield a sentence if the targets of text pairs are a few words that repeat, like labels."""
    if list(split.lengths) != ["source", "target"]:
        return
    source, target = split.lengths["source"], split.lengths["target"]
    different = target.different_words or split.rows
    repeated = different <= LABELS and split.rows >= REPEATED * different
    if repeated and target.one_word > 0.95 and source.one_word < 0.5:
        yield (
            f"the targets are only {counted(different, 'different word')}, like labels; a "
            "classifier learns labels better: bert-mini, with --columns text=NAME,label=NAME"
        )


def _faults(name: str, split: SplitSurvey, *, empty: bool) -> Iterator[str]:
    consequence = "training stops there" if split.complete else "reading ended there"
    yield from _fault(split.broken, "broken row", name, consequence)
    if empty:
        yield from _fault(split.empty, "row", name, "left out of training", "with an empty column")
    yield from _fault(split.duplicates, "duplicate", name)
    yield from _fault(
        split.contradictions, "row", name, "a model cannot learn both", "with contradictory labels"
    )
    fault, noun = split.broken_files
    yield from _fault(fault, f"broken {noun}", name)


def _fault(
    fault: Fault, noun: str, split: str, consequence: str = "", quality: str = ""
) -> Iterator[str]:
    if fault.count:
        what = f"{counted(fault.count, noun)}{' ' * bool(quality)}{quality} in {split}"
        yield f"{what}{', ' * bool(consequence)}{consequence}; the first: {fault.first[0]}"


def _missing_labels(split: str, labels: LabelFacts) -> Iterator[str]:
    consequence = "which may mean that it is missing"
    if labels.kind == "numbers":
        consequence = "which is not a number, and training stops there"
    if labels.missing.count:
        yield (
            f"{counted(labels.missing.count, 'row')} of {split} with text for a missing value as "
            f"the label, {consequence}; the first: {labels.missing.first[0]}"
        )
    if labels.unknown:
        verb = "is" if len(labels.unknown) == 1 else "are"
        yield (
            f"{counted(len(labels.unknown), 'label')} of {split} {verb} not in the training data, "
            f"so its rows cannot be evaluated: {listed([quoted(x) for x in labels.unknown])}"
        )


def _label_notes(split: str, labels: LabelFacts, *, single: bool) -> Iterator[str]:
    if len(labels.counts) == 1:
        yield f"all labels of {split} are {quoted(next(iter(labels.counts)))}; {TWO_LABELS}"
    if labels.variants:
        groups = [
            " and ".join(f"{quoted(label)} ({spaced(count)})" for label, count in group)
            for group in labels.variants
        ]
        verb = "differs" if labels.extra_spellings == 1 else "differ"
        yield (
            f"{counted(labels.extra_spellings, 'label')} of {split} {verb} only in case or "
            f"spaces from another: {listed(groups, 4)}"
        )
    if labels.single and single:
        verb = "has" if len(labels.single) == 1 else "have"
        yield (
            f"{counted(len(labels.single), 'label')} of {split} {verb} only one {labels.unit}: "
            f"{listed([quoted(label) for label in labels.single])}"
        )
    if labels.unit == "word":  # most words are outside of spans in any data
        return
    if labels.imbalance >= IMBALANCED and (not labels.single or labels.largest > 0.5):
        names = list(labels.counts)
        yield (
            f"the labels of {split} are imbalanced: {quoted(names[0])} has "
            f"{counted(labels.counts[names[0]], 'row')} ({labels.largest:.0%}), "
            f"{quoted(names[-1])} has {spaced(labels.counts[names[-1]])}; look at macro_f1, not at "
            "accuracy alone"
        )
