"""Names of columns: a mapping, or assignments as on the command line."""

import pytest

from saccade.data.sources import open_corpus
from saccade.data.sources.columns import Column, parse_columns
from saccade.errors import DataError


def test_parse_columns():
    assert parse_columns(None) == {}
    assert parse_columns({"source": "a"}) == {"source": "a"}
    assert parse_columns("source=english, target = french") == {
        "source": "english",
        "target": "french",
    }
    assert parse_columns("source=a=b") == {"source": "a=b"}
    for wrong in ("", "source", "source=", "=x", "source=a,,target=b"):
        with pytest.raises(DataError, match="is not a valid assignment"):
            parse_columns(wrong)


@pytest.mark.parametrize("columns", ["source=first", {"source": "first"}])
def test_columns_of_a_corpus_are_renamed(tmp_path, columns):
    path = tmp_path / "data.tsv"
    path.write_text("first\ttarget\na\tb\n")
    corpus = open_corpus(
        path, [Column("source"), Column("target")], columns=columns, valid_fraction=0.0
    )
    assert next(iter(corpus.splits["train"])).values == ("a", "b")
