"""Tests of the byte alphabet: equal to that of the library, and readable."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from saccade.text.alphabet import LETTERS, readable, spell, unspell


def test_the_letters_equal_those_of_the_library():
    assert len(set(LETTERS)) == 256
    assert set(LETTERS) == set(pre_tokenizers.ByteLevel.alphabet())


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_spelling_equals_the_library_and_is_invertible(text):
    library = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    assert spell(text) == "".join(piece for piece, _ in library.pre_tokenize_str(text))
    assert unspell(spell(text)).decode() == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" man", "▁man"),
        ("hou", "hou"),
        ("  ", "▁▁"),
        ("grün", "grün"),
        ("\n\t", "\\n\\t"),
        ("\x00", "\\x00"),
        ("\u200f", "\\u200f"),
        ("🎉", "🎉"),
    ],
)
def test_pieces_as_people_read_them(text, shown):
    assert readable(spell(text)) == shown


def test_parts_of_a_character_show_their_bytes():
    euro = spell(" €")
    assert [readable(euro[:2]), readable(euro[2:])] == ["▁\\xe2", "\\x82\\xac"]


def test_names_outside_the_alphabet_are_unchanged():
    assert readable("⟨pad⟩") == "⟨pad⟩"
