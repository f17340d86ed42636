"""Answers in notebooks: tables without scripts, whatever the texts are."""

from saccade.tasks import Answer
from saccade.tasks._shared.answering import Answers
from saccade.tasks._shared.labels import Classification

EVIL = "<img src=x onerror=alert(1)>"


def test_answers_show_text_and_confidence():
    html = Answer(EVIL, -1.0, confidence=0.5)._repr_html_()
    assert "<img" not in html
    assert "confidence 50 %" in html
    assert "(empty text)" in Answer(" ", 0.0)._repr_html_()


def test_classifications_show_their_most_probable_labels():
    probabilities = {EVIL: 0.6, **{f"label {i}": 0.4 / 8 for i in range(8)}}
    html = Classification(EVIL, -0.5, probabilities=probabilities, labels=(EVIL,))._repr_html_()
    assert "<img" not in html
    assert html.count("<tr>") == 5
    assert "60.0 %" in html
    assert "and 4 less likely" in html


def test_a_list_of_answers_is_a_table_and_still_a_list():
    answers = Answers([Answer(f"text {i}", 0.0) for i in range(60)])
    html = answers._repr_html_()
    assert html.count("<tr>") == 50
    assert "and 10 more" in html
    assert answers == list(answers)
