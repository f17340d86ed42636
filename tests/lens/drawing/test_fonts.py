"""Labels in every script: shortened, measured, and drawn with a font that has their fonts."""

import logging
import xml.etree.ElementTree as ET

import pytest
import torch
from matplotlib import ft2font
from matplotlib.text import Text

from saccade.lens.drawing import fonts
from saccade.lens.drawing.figures import heatmap
from saccade.lens.drawing.fonts import families, inches, short, undrawable, width, wrapped

ARABIC, HEBREW, CHINESE, HINDI, EMOJI = "مرحبا بالعالم", "שלום עולם", "两个人", "हिन्दी", "👍🏽"
NOWHERE = "\U000e0fff\U0010fffd"  # unassigned, and for private use
SUFFIXES = [".png", ".svg", ".pdf"]


def one_cell(label):
    return heatmap(torch.ones(1, 1), [label], ["key"])


@pytest.fixture
def without_further_fonts(monkeypatch):
    """Simulate a machine that has only matplotlib's own font."""
    fonts._cover.cache_clear()
    monkeypatch.setattr(fonts, "_installed", lambda: ())
    yield
    fonts._cover.cache_clear()


@pytest.mark.parametrize(
    ("label", "longest", "shown"),
    [
        ("short", 5, "short"),
        ("abcdefghij", 5, "ab…ij"),
        ("abcdefghij", 6, "abc…ij"),
        ("中文字很多很多", 6, "中…多"),
        ("a\nb", 28, "a↵b"),
        ("a\x00b\ud800", 28, "a\ufffdb\ufffd"),
        ("", 28, ""),
        ("e\u0301" * 9, 5, "e\u0301" * 2 + "…" + "e\u0301" * 2),
    ],
)
def test_long_labels_lose_their_middle(label, longest, shown):
    assert short(label, longest) == shown
    assert width(shown) <= longest


def test_width_counts_wide_letters_twice_and_marks_not_at_all():
    assert width("ab") == 2
    assert width("中文") == 4
    assert width("e\u0301\u200d") == 1


def test_inches_grow_with_letters_and_size():
    assert inches("", 10.0) == 0
    assert 0.974 < inches("m", 72.0) < 1.1  # a letter about as wide as high, and some margin
    assert inches("mm", 10.0) == pytest.approx(2 * inches("m", 10.0), rel=0.1)
    assert inches("m", 20.0) == pytest.approx(2 * inches("m", 10.0), rel=0.05)


@pytest.mark.parametrize("text", ["two words and more", "w" * 60, HEBREW * 5, "a, b, c " * 20])
@pytest.mark.parametrize("room", [1.0, 3.0])
def test_wrapped_lines_fit(text, room):
    lines = wrapped(text, room, 10.0).splitlines()
    assert max(inches(line, 10.0) for line in lines) <= room
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_text_that_fits_is_not_wrapped():
    assert wrapped("one  line", 3.0, 10.0) == "one  line"
    assert wrapped("", 3.0, 10.0) == ""


def test_the_default_font_has_hebrew_and_arabic():
    assert undrawable([ARABIC, HEBREW]) == frozenset()
    assert families([ARABIC, HEBREW]) == families([])


def test_chooses_fonts_that_have_the_letters(monkeypatch):
    fonts._cover.cache_clear()
    has = {"Some Han": set(CHINESE), "Some Hindi": set(HINDI), "Other Han": set(CHINESE)}
    monkeypatch.setattr(fonts, "_installed", lambda: tuple((name, name) for name in has))
    monkeypatch.setattr(
        fonts, "_had", lambda needed, path: needed & frozenset(has.get(path, "abc"))
    )
    assert families(["abc", CHINESE])[-1] == "Some Han"
    assert families(["abc", CHINESE, HINDI])[-2:] == ["Some Han", "Some Hindi"]
    assert families(["abc"]) == families([])
    assert undrawable(["xyz", CHINESE]) == set("xyz")
    fonts._cover.cache_clear()


def test_the_font_of_boxes_is_never_used():
    assert not any("Last Resort" in name for name, _ in fonts._installed())
    assert undrawable([NOWHERE]) == set(NOWHERE)


def test_invisible_characters_need_no_font():
    assert undrawable(["\u200b\u200d\u2068\ufe0f \u00a0\n\t"]) == frozenset()


@pytest.mark.usefixtures("without_further_fonts")
@pytest.mark.parametrize("suffix", [".png", ".pdf"])
@pytest.mark.parametrize("label", [CHINESE, HINDI, EMOJI])
def test_letters_that_no_font_has_are_reported_and_drawn_as_unknown(caplog, suffix, label):
    chart = one_cell(label)
    drawn = []
    chart.canvas.mpl_connect(
        "draw_event", lambda event: drawn.extend(t.get_text() for t in chart.findobj(Text))
    )
    with caplog.at_level(logging.WARNING):
        assert chart.picture(suffix)
    (record,) = caplog.records
    message = record.getMessage()
    assert "no installed font has" in message
    assert ".svg" in message
    assert "\n" not in message
    assert any(letter in message for letter in label)
    if suffix == ".png":
        assert "\ufffd" * len(label) in drawn
    assert chart.axes[0].get_yticklabels()[0].get_text() == label  # afterwards as before


@pytest.mark.usefixtures("without_further_fonts")
@pytest.mark.parametrize("label", [CHINESE, HINDI, EMOJI, ARABIC, HEBREW])
def test_an_svg_keeps_every_letter_without_a_warning(caplog, label):
    tree = ET.fromstring(one_cell(label).picture(".svg"))
    assert label in [node.text for node in tree.iter() if node.tag.endswith("text")]
    assert "sans-serif" in ET.tostring(tree, encoding="unicode")
    assert "unicode-bidi: plaintext" in ET.tostring(tree, encoding="unicode")
    assert not caplog.records


@pytest.mark.skipif(not hasattr(ft2font, "__libraqm_version__"), reason="matplotlib before 3.11")
@pytest.mark.parametrize("label", [ARABIC, HEBREW])
def test_right_to_left_is_drawn_from_right_to_left(caplog, label):
    """The last letter is on the left: matplotlib orders the glyphs."""
    font = fonts.get_font(fonts.fontManager.findfont("DejaVu Sans"))
    glyphs = [item.char for item in font._layout(label, ft2font.LoadFlags.NO_HINTING)]
    assert next(filter(None, glyphs)) == label[-1]
    assert one_cell(label).picture(".png")
    assert not caplog.records


@pytest.mark.parametrize("label", [ARABIC, HEBREW, HINDI])
def test_warns_about_a_matplotlib_that_is_too_old(caplog, monkeypatch, label):
    monkeypatch.delattr(ft2font, "__libraqm_version__", raising=False)
    one_cell("plain").picture(".png")
    assert not caplog.records
    one_cell(label).picture(".png")
    assert "matplotlib 3.11" in caplog.records[-1].getMessage()
    before = len(caplog.records)
    one_cell(label).picture(".svg")
    assert len(caplog.records) == before


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("label", ["", " ", "\n", "\x00", "\ud800", "\u202e", "\u200d", NOWHERE])
def test_odd_labels_are_drawn(suffix, label):
    assert one_cell(label).picture(suffix)
