"""Word alignments and inline tags of predictions, for `predict --align` and `--markup`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saccade.lens.alignment.extraction import Link
    from saccade.tasks import Aligns, Answer, Task


class WordAligner:
    """Aligner of the words of an answer with those of its input.

    Args:
        reverse: Task of the opposite translation direction, whose alignments are joined with the
            answer's own.
    """

    def __init__(self, reverse: Aligns | None = None) -> None:
        self._reverse = reverse

    def __call__(self, line: str, answer: Answer) -> set[Link]:
        """Return 0-based pairs (word of the input, word of the answer)."""
        from saccade.lens.alignment.extraction import symmetrise

        if answer.attention is None:
            return set()
        links = answer.attention.alignment()
        if self._reverse is None or not answer.text:
            return links
        [record] = self._reverse.records([answer.text], [line])
        return symmetrise(links, {(source, target) for target, source in record.alignment()})


def alignment_json(links: Collection[Link], line: str, text: str) -> dict[str, object]:
    """Return the links in Pharaoh format, and the (start, end) characters of both words of each."""
    from saccade.lens.alignment.extraction import to_pharaoh, word_spans

    sources, targets = word_spans(line), word_spans(text)
    spans = [{"input": sources[s], "text": targets[t]} for s, t in sorted(links)]
    return {"alignment": to_pharaoh(links), "spans": spans}


def predict_lines(task: Task, lines: Sequence[str], **options: Any) -> list[Answer]:
    """Return the predictions for lines of text."""
    return task.predict([task.parse(line) for line in lines], **options)


def predict_markup(task: Task, lines: Sequence[str], **options: Any) -> list[Answer]:
    """Return the predictions for lines of text with inline tags, which are carried over."""
    from saccade.lens.alignment.markup import read_markup

    marked = [read_markup(line) for line in lines]
    answers = task.predict([markup.text for markup in marked], **options)
    align = WordAligner()
    return [
        replace(answer, text=markup.put_back(answer.text, align(markup.text, answer)))
        for markup, answer in zip(marked, answers, strict=True)
    ]
