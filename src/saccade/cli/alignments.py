"""Word alignments and inline tags of predictions, for `predict --align` and `--markup`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saccade.lens.alignment.extraction import Link
    from saccade.tasks import Aligns, Answer, Predictor


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
        from saccade.tasks import AnswerPiece, links_in_text

        if answer.attention is None:
            return set()
        links = answer.attention.alignment()
        if self._reverse is None or not answer.text:
            return links
        whole = AnswerPiece((0, len(line)), (0, len(answer.text)))
        pieces = [piece for piece in answer.pieces or (whole,) if piece.text[0] < piece.text[1]]
        records = self._reverse.records(
            [answer.text[slice(*piece.text)] for piece in pieces],
            [line[slice(*piece.input)] for piece in pieces],
        )
        backward = [{(source, target) for target, source in r.alignment()} for r in records]
        return symmetrise(links, links_in_text(line, answer.text, pieces, backward))


def alignment_json(links: Collection[Link], line: str, text: str) -> dict[str, object]:
    """Return the links in Pharaoh format, and the (start, end) characters of both words of each."""
    from saccade.lens.alignment.extraction import to_pharaoh, word_spans

    sources, targets = word_spans(line), word_spans(text)
    spans = [{"input": sources[s], "text": targets[t]} for s, t in sorted(links)]
    return {"alignment": to_pharaoh(links), "spans": spans}


def predict_lines(task: Predictor, lines: Sequence[str], **options: Any) -> list[Answer]:
    """Return the predictions for lines of text."""
    return task.predict([task.parse(line) for line in lines], **options)


def predict_markup(task: Predictor, lines: Sequence[str], **options: Any) -> list[Answer]:
    """Return the predictions for lines of text with inline tags, which are carried over."""
    from saccade.lens.alignment.markup import read_markup

    marked = [read_markup(line) for line in lines]
    answers = task.predict([markup.text for markup in marked], **options)
    align = WordAligner()
    return [
        replace(answer, text=markup.put_back(answer.text, align(markup.text, answer)), pieces=())
        for markup, answer in zip(marked, answers, strict=True)
    ]
