"""What `predict --align` and `predict --markup` make of answers: linked words, and tags."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saccade.lens.alignment.extraction import Link
    from saccade.tasks import Aligns, Task


class Linking:
    """Finds which words of an answer belong to which of its input.

    With a task of the other direction, `back`, what it finds is joined with what that one finds.
    """

    def __init__(self, back: Aligns | None) -> None:
        self._back = back

    def __call__(self, line: str, answer: Any) -> set[Link]:
        """0-based pairs (word of the input, word of the answer); none of an empty answer."""
        from saccade.lens.alignment.extraction import symmetrise

        if answer.attention is None:
            return set()
        links: set[Link] = answer.attention.alignment()
        if self._back is None or not answer.text:
            return links
        [record] = self._back.records([answer.text], [line])
        return symmetrise(links, {(source, target) for target, source in record.alignment()})


def links_as_json(links: Collection[Link], line: str, text: str) -> dict[str, Any]:
    """The pairs as Pharaoh's text, and for each the characters (start, end) of both words."""
    from saccade.lens.alignment.extraction import to_pharaoh, word_spans

    sources, targets = word_spans(line), word_spans(text)
    spans = [{"input": sources[s], "text": targets[t]} for s, t in sorted(links)]
    return {"alignment": to_pharaoh(links), "spans": spans}


def without_tags(task: Task, lines: Sequence[str], **options: Any) -> list[Any]:
    """The answers to lines of text."""
    return task.predict([task.parse(line) for line in lines], **options)


def with_tags(task: Task, lines: Sequence[str], **options: Any) -> list[Any]:
    """The answers to lines of text with tags, which are carried over."""
    from saccade.lens.alignment.markup import read_markup

    marked = [read_markup(line) for line in lines]
    answers = task.predict([each.text for each in marked], **options)
    link = Linking(None)
    return [
        replace(answer, text=each.put_back(answer.text, link(each.text, answer)))
        for each, answer in zip(marked, answers, strict=True)
    ]
