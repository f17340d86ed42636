"""Columns of the tasks that the tests of data imitate."""

from saccade.data.sources import Column

PAIR = (
    Column("source", ("src", "english", "input")),
    Column("target", ("tgt", "french", "output")),
)
LABELLED = (
    Column("text", ("sentence",)),
    Column("text_pair", ("sentence2",), required=False),
    Column("label", ("class",), numbers=True),
)
