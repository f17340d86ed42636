"""Attention records: numbers by hand, checks, files and pictures."""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from saccade.errors import FigureError, ShapeError, WatchError
from saccade.lens.alignment.align_by import AlignBy
from saccade.lens.record import AttentionRecord, Side

READ = Side(("▁un", "▁chat", "on", "</s>"), ("un", "chaton"), (0, 1, 1, None))
WROTE = Side(("▁a", "▁kit", "ten", "</s>"), ("a", "kitten"), (0, 1, 1, None))
FIRST = np.array(
    [
        [[0.7, 0.1, 0.1, 0.1], [0.2, 0.5, 0.2, 0.1], [0.0, 0.1, 0.5, 0.4], [0.0, 0.0, 0.0, 1.0]],
        [[0.5, 0.1, 0.3, 0.1], [0.0, 0.1, 0.8, 0.1], [0.0, 0.1, 0.9, 0.0], [1.0, 0.0, 0.0, 0.0]],
    ]
)
SECOND = np.full((1, 4, 4), 0.25)


@pytest.fixture
def record():
    return AttentionRecord(READ, WROTE, {"decoder.0.cross": FIRST, "decoder.1.cross": SECOND})


def odd_record(words, heads=1):
    side = Side.of_words(words, stop="</s>")
    size = len(side.tokens)
    return AttentionRecord(side, side, {"": np.full((heads, size, size), 1 / size)})


# numbers


def test_mean_of_a_head_a_layer_and_all_layers(record):
    assert record.mean("decoder.0.cross", 1) == pytest.approx(FIRST[1])
    assert record.mean("decoder.0.cross") == pytest.approx(FIRST.mean(0))
    assert record.mean(head=0) == pytest.approx((FIRST[0] + 0.25) / 2)
    # layers have the same weight, whatever their number of heads
    assert record.mean() == pytest.approx((FIRST.mean(0) + 0.25) / 2)
    assert record.mean().dtype == np.float32


def test_by_words_sums_over_tokens_read_and_averages_over_tokens_written(record):
    """Head 0: "a" gives 0.7 and 0.1 + 0.1; "kitten" (0.2 + 0.0)/2 and (0.7 + 0.6)/2."""
    expected = np.array([[0.7, 0.2], [0.1, 0.65]])
    assert record.by_words("decoder.0.cross", 0) == pytest.approx(expected)


def test_a_word_without_tokens_attends_to_nothing():
    wrote = Side(("a", "</s>"), ("a", "lost"), (0, None))
    record = AttentionRecord(Side.of_words(["x"]), wrote, {"l": np.ones((1, 2, 1))})
    assert record.by_words().tolist() == [[1], [0]]
    assert record.alignment() == {(0, 0)}


def test_alignment_links_source_words_to_target_words():
    """Written words 0 and 1 attend to read words 2 and 0; control tokens are left out."""
    read, wrote = Side.of_words(["a", "b", "c"], stop="</s>"), Side.of_words(["x", "y"])
    weights = np.array([[[0.1, 0.1, 0.2, 0.6], [0.3, 0.0, 0.1, 0.6]]])
    record = AttentionRecord(read, wrote, {"l": weights})
    assert record.alignment() == {(2, 0), (0, 1)}
    assert record.alignment("l", threshold=0.25) == {(0, 1)}


def test_shifted_alignment_uses_the_next_row():
    read, wrote = Side.of_words(["a", "b"], stop="</s>"), Side.of_words(["x", "y"], stop="</s>")
    weights = np.array([[[0.9, 0.1, 0.0], [0.8, 0.1, 0.1], [0.2, 0.7, 0.1]]])
    record = AttentionRecord(read, wrote, {"l": weights})
    assert record.alignment() == {(0, 0), (0, 1)}
    assert record.alignment(AlignBy(shift=True)) == {(0, 0), (1, 1)}
    assert not record.shifted().weights["l"][:, -1].any()
    chosen = replace(record, align_by=AlignBy(layer="l", head=0, shift=True))
    assert chosen.alignment() == {(0, 0), (1, 1)}
    assert chosen.alignment("l") == record.alignment()
    assert AttentionRecord.from_json(chosen.to_json()).align_by == chosen.align_by


def test_alignment_joins_both_directions():
    """Both written words attend most to a; y attends to b most, a neighbour of the link (a, y)."""
    read, wrote = Side.of_words(["a", "b"]), Side.of_words(["x", "y"])
    record = AttentionRecord(read, wrote, {"l": np.array([[[0.9, 0.1], [0.6, 0.4]]])})
    assert record.alignment() == {(0, 0), (0, 1)}
    assert record.alignment(AlignBy(join="grow-diag")) == {(0, 0), (0, 1), (1, 1)}
    assert record.alignment(AlignBy(join="intersection")) == {(0, 0)}


def test_shifted_raises_on_self_attention():
    side = Side.of_words(["a", "b"])
    with pytest.raises(WatchError, match="every token is an input already"):
        AttentionRecord(side, side, {"l": np.full((1, 2, 2), 0.5)}).shifted()


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_a_translation_that_repeats_its_source_is_not_self_attention(tmp_path, suffix):
    weights = {"l": np.full((1, 2, 2), 0.5)}
    side, same = Side.of_words(["a", "b"]), Side.of_words(["a", "b"])
    for wrote, itself in ((side, True), (same, False)):
        record = AttentionRecord(side, wrote, weights)
        path = record.save(tmp_path / f"record{suffix}")
        assert record.reads_itself is AttentionRecord.load(path).reads_itself is itself


def test_older_records_of_equal_sides_are_self_attention():
    side = Side.of_words(["a", "b"])
    saved = json.loads(AttentionRecord(side, side, {"l": np.full((1, 2, 2), 0.5)}).to_json())
    del saved["reads_itself"]
    assert AttentionRecord.from_json(json.dumps(saved)).reads_itself


def test_slice_keeps_layers_and_heads_in_order(record):
    part = record.slice(layers=["decoder.0.cross"], heads=[1])
    assert part.layers == ("decoder.0.cross",)
    assert part.weights["decoder.0.cross"] == pytest.approx(FIRST[1:])
    assert part.read is record.read
    swapped = record.slice(layers=["decoder.1.cross", "decoder.0.cross"])
    assert swapped.layers == ("decoder.1.cross", "decoder.0.cross")
    assert record.slice(layers=["decoder.0.cross"], heads=[1, 0]).mean(head=0) == pytest.approx(
        FIRST[1]
    )


def test_a_record_copies_its_weights(record):
    weights = FIRST.copy()
    kept = AttentionRecord(READ, WROTE, {"l": weights})
    weights[:] = 9
    assert kept.weights["l"] == pytest.approx(FIRST)
    with pytest.raises(ValueError, match="read-only"):
        kept.weights["l"][0] = 0


# checks


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((4, 4)), r"layer 'l' must be \(heads, 4 tokens written, 4 tokens read\), got"),
        (np.ones((1, 4, 5)), r"got \(1, 4, 5\)"),
        (np.ones((0, 4, 4)), r"got \(0, 4, 4\)"),
        (np.full((1, 4, 4), np.nan), "NaN"),
        (np.full((1, 4, 4), np.inf), "infinity"),
    ],
)
def test_raises_on_weights_that_do_not_fit(weights, message):
    with pytest.raises(ShapeError, match=message):
        AttentionRecord(READ, WROTE, {"l": weights})


@pytest.mark.parametrize(
    ("word_of", "message"),
    [
        ((0,), "2 tokens but 1"),
        ((0, 1), "'b' belongs to word 1, but .* is 1"),
        ((-1, 0), "-1"),
    ],
)
def test_raises_on_sides_that_do_not_fit(word_of, message):
    with pytest.raises(ShapeError, match=message):
        Side(("a", "b"), ("ab",), word_of)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.mean("decoder.9"), "no layer 'decoder.9'; its layers: 'decoder.0.cross', "),
        (lambda r: r.mean("decoder.0.cross", 2), "no head 2; its heads are 0 to 1"),
        (lambda r: r.mean(head=1), "'decoder.1.cross' has no head 1; its heads are 0 to 0"),
        (lambda r: r.slice(heads=[-1]), "no head -1"),
        (lambda r: r.alignment("x"), "no layer 'x'"),
        (lambda r: r.figure(head=7), "no head 7"),
    ],
)
def test_raises_on_unknown_layers_and_heads(record, call, message):
    with pytest.raises(WatchError, match=message):
        call(record)


def test_a_model_without_attention_has_a_record_without_layers(tmp_path):
    empty = AttentionRecord(READ, WROTE, {})
    assert empty.layers == ()
    for look in (empty.mean, empty.alignment, empty.figure, empty.by_words):
        with pytest.raises(WatchError, match="no attention"):
            look()
    assert "layers: none" in empty._repr_html_()
    assert empty._repr_png_() is None
    assert AttentionRecord.from_json(empty.to_json()).read == READ
    assert AttentionRecord.load(empty.save(tmp_path / "a.npz")).wrote == WROTE


# files


def test_json_round_trip(record):
    text = record.to_json()
    again = AttentionRecord.from_json(text)
    assert (again.read, again.wrote, again.layers) == (READ, WROTE, record.layers)
    for name in record.layers:
        assert abs(again.weights[name] - record.weights[name]).max() <= 0.5e-5 + 1e-7
    assert again.to_json() == text
    assert "▁chat" in text


def test_json_is_rounded():
    record = odd_record(["a", "b"])
    assert json.loads(record.to_json())["weights"][""][0][0] == [0.33333, 0.33333, 0.33333]


def test_npz_is_exact(tmp_path):
    weights = np.random.default_rng(0).random((3, 4, 4), dtype=np.float32)
    names = ["", "file", "a/b", "decoder.0"]
    record = AttentionRecord(READ, WROTE, dict.fromkeys(names, weights))
    again = AttentionRecord.load(record.save(str(tmp_path / "new" / "a.npz")))
    assert again.layers == tuple(names)
    assert all((again.weights[name] == weights).all() for name in names)
    assert (again.read, again.wrote) == (READ, WROTE)


ODD = [
    "中文",
    "שלום",
    "مرحبا",
    "नमस्ते",
    "👩‍👩‍👧",
    "a\nb\t\x00\x7f",
    "\ud800",
    "$x^{",
    "<i>&",
    "",
    "x" * 500,
]


def test_odd_texts_survive_in_files_and_pictures(tmp_path):
    record = odd_record(ODD)
    for suffix in (".json", ".npz"):
        assert AttentionRecord.load(record.save(tmp_path / f"a{suffix}")).read == record.read
    for suffix in (".svg", ".png", ".pdf"):
        assert record.save(tmp_path / f"b{suffix}").stat().st_size > 1000
    words = [text.text for text in ET.parse(tmp_path / "b.svg").iter() if text.tag.endswith("text")]
    assert "中文" in words  # as text, which a viewer shows in its own font
    assert "a↵b\ufffd\ufffd\ufffd" in words
    assert "<i>&" in words


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "null",
        "{}",
        '{"format": 2}',
        "[" * 100_000,
        '{"format": 1, "read": 3}',
        '{"format": 1, "read": {"kind": "image"}, "wrote": {}, "weights": {}}',
    ],
)
def test_raises_on_json_that_is_not_a_record(tmp_path, text):
    with pytest.raises(FigureError, match="not an attention record"):
        AttentionRecord.from_json(text)
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(FigureError):
        AttentionRecord.load(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("weights", {"l": [[[1.0, 2.0], [3.0]]]}),
        ("weights", {"l": [[["a"]]]}),
        ("weights", {"l": [[[float("nan")] * 4] * 4]}),
        ("weights", [1]),
        ("read", {"kind": "text", "tokens": [1, 2], "words": [], "word_of": [None, None]}),
        ("read", {"kind": "text", "tokens": ["a"], "words": ["a"], "word_of": [0.5]}),
        ("read", {"kind": "text", "tokens": ["a"], "words": ["a"], "word_of": [True]}),
        ("wrote", {"kind": "text", "tokens": ["a"], "words": ["a"], "word_of": ["0"]}),
    ],
)
def test_raises_on_a_damaged_record(record, key, value):
    damaged = json.loads(record.to_json()) | {key: value}
    with pytest.raises(FigureError, match="not an attention record"):
        AttentionRecord.from_json(json.dumps(damaged))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npz", b"PK\x03\x04 no zip", "not an attention record"),
        ("a.npz", b"", "not an attention record"),
        ("a.json", b"\xff\xfe\x00", "not an attention record"),
        ("a.png", b"", "read from .json or .npz"),
        ("missing.json", None, "cannot read"),
    ],
)
def test_raises_on_files_that_are_not_records(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(FigureError, match=message):
        AttentionRecord.load(tmp_path / name)


def test_a_damaged_file_raises_or_is_harmless(tmp_path, record):
    content = record.save(tmp_path / "a.npz").read_bytes()
    generator = np.random.default_rng(0)
    errors = 0
    for _ in range(150):
        damaged = bytearray(content)
        damaged[generator.integers(len(content))] ^= int(generator.integers(1, 256))
        (tmp_path / "b.npz").write_bytes(damaged)
        try:
            AttentionRecord.load(tmp_path / "b.npz")
        except FigureError:
            errors += 1
    assert errors > 50


def test_load_never_unpickles(tmp_path):
    np.savez(tmp_path / "a.npz", texts=np.array([{"a": 1}], dtype=object))
    with pytest.raises(FigureError, match="not an attention record"):
        AttentionRecord.load(tmp_path / "a.npz")


# pictures


def test_the_figure_shows_tokens_or_words(record):
    """Source × target map of a translation (J1)."""
    chart = record.figure("decoder.0.cross", 0)
    assert chart.numbers["rows"] == list(WROTE.tokens)
    assert chart.numbers["columns"] == list(READ.tokens)
    assert np.array(chart.numbers["weights"]) == pytest.approx(FIRST[0])
    assert chart.get_suptitle() == "decoder.0.cross, head 0"
    words = record.figure(words=True)
    assert words.numbers["rows"] == ["a", "kitten"]
    assert words.get_suptitle() == "mean of 2 layers, mean of heads"
    one = record.slice(layers=["decoder.1.cross"]).figure()
    assert one.get_suptitle() == "decoder.1.cross, mean of heads"


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_complete_record_is_saved_beside_a_picture(tmp_path, record, suffix):
    path = record.save(tmp_path / f"map{suffix}")
    assert {file.name for file in tmp_path.iterdir()} == {path.name, "map.json"}
    assert AttentionRecord.load(tmp_path / "map.json").layers == record.layers
    again = record.save(tmp_path / "again" / f"map{suffix}")
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", ["map", "map.jpg", "map.html.zip", "map.PNG "])
def test_save_raises_on_an_unknown_suffix(tmp_path, record, name):
    with pytest.raises(FigureError, match=r"use one of \.json, \.npz, \.html, \.png, \.svg, \.pdf"):
        record.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_labels_of_sixty_tokens_are_not_clipped():
    words = [f"word-number-{i}" if i % 7 else "a-very-long-word-" * 3 for i in range(60)]
    chart = odd_record(words).figure()
    chart.draw_without_rendering()
    canvas = chart.get_window_extent()
    axes = chart.axes[0]
    for label in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        box = label.get_window_extent()
        assert box.x0 >= canvas.x0 - 1
        assert box.y0 >= canvas.y0 - 1
        assert box.x1 <= canvas.x1 + 1
        assert box.y1 <= canvas.y1 + 1


def test_the_figure_of_a_very_long_text_has_a_limited_size():
    width, height = odd_record(["x"] * 700).figure().get_size_inches()
    assert max(width, height) < 60


def test_a_notebook_shows_the_explorer_in_a_sandbox(record, monkeypatch):
    hostile = odd_record(["<script>alert(1)</script>", '"><img src=x onerror=y>'])
    frame = hostile._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts allow-downloads" ')
    assert frame.count("<") == frame.count(">") == 2  # the page is an escaped attribute
    [(_, page)] = re.findall(r'(srcdoc)="([^"]*)"', frame)
    assert unescape(page) == hostile.to_html()
    monkeypatch.setattr("saccade.lens.record.attention_record.LARGEST_CELL", 1000)
    picture = hostile._repr_html_()
    assert picture.startswith("<img alt=")
    assert "<script" not in picture
    assert "onerror" not in picture
    assert record._repr_svg_().lstrip().startswith("<?xml")
    assert record._repr_png_().startswith(b"\x89PNG")
    assert repr(record) == (
        "AttentionRecord(4 tokens written, 4 read; layers: decoder.0.cross, decoder.1.cross)"
    )


def test_an_empty_record_is_shown_as_text():
    record = AttentionRecord(Side((), (), ()), WROTE, {"l": np.zeros((1, 4, 0))})
    assert "0 read" in record._repr_html_()
    assert record.alignment() == set()
