"""The page of records in Chromium: opened from disk, used with pointer and keyboard, attacked."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from saccade.lens.page import page, page_of, view_model
from saccade.lens.page.charts import Interval, Line, interval_chart, line_chart
from saccade.lens.page.document import bundle
from saccade.lens.page.report import Confusions, Mistake, Report, Result, report_page
from saccade.lens.page.shades import strength
from saccade.lens.record import AttentionRecord, ImageSide, Side
from saccade.lens.record.attention_record import AlignBy
from saccade.training.film import packed
from tests.hostile_texts import HOSTILE

PATIENCE = 120_000  # milliseconds, for busy machines
SHOWN = 0.0005  # numbers have three decimals

READ = Side(("▁un", "▁chat", "on", "</s>"), ("un", "chaton"), (0, 1, 1, None))
WROTE = Side(("▁a", "▁kit", "ten", "</s>"), ("a", "kitten"), (0, 1, 1, None))


def weights(*shape, seed=0, sharp=1.0):
    """Return the softmax of noise."""
    noise = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    raised = np.exp(sharp * noise)
    return raised / raised.sum(-1, keepdims=True)


def translation(seed=0):
    layers = {"cross.0": weights(2, 4, 4, seed=seed), "cross.1": weights(1, 4, 4, seed=seed + 1)}
    return AttentionRecord(READ, WROTE, layers)


def film():
    """Two validations: at the second, each word attends to its own."""
    sides = {"read": READ.view(), "wrote": WROTE.view(), "right": "a kitten"}
    flat, own = np.full((2, 2), 0.5), np.eye(2)
    frames = [
        {"step": step, "loss": loss, "weights": [packed(weights)], "answers": [answer]}
        for step, loss, weights, answer in (
            (100, 2.0, flat, MARKUP[0]),
            (200, 1.0, own, "a kitten"),
        )
    ]
    return {"inputs": [sides], "frames": frames}


def report():
    """A report with every part."""
    losses = line_chart([Line("train", 0, [[(100, 2.0), (200, 1.0)]])], "step", "loss")
    scores = interval_chart([Interval(MARKUP[0], 0, 90.0, (85.0, 95.0))], "accuracy (%)")
    row = {"input": MARKUP[1], "answer": MARKUP[2], "confidence": "99 %", "right": MARKUP[3]}
    return Report(
        title="run",
        about="about",
        result=Result(
            metric="accuracy",
            value="90.0 %",
            interval="85.0 to 95.0 %",
            items="100",
            verdict="Better than the best baseline.",
            good=True,
            chart=scores,
        ),
        remarks=["what may help: more data"],
        cost={"updates": "200"},
        curves={"Loss": losses},
        confusions=Confusions(
            names=["a", "b"],
            rows=[("a", [(9, 9), (1, 1)], "90 %"), (MARKUP[4], [(0, 0), (10, 10)], "100 %")],
        ),
        lengths=None,
        mistakes=[Mistake(words=[(MARKUP[0], 10), ("b", 0)], row=row), Mistake(row=row)],
        predictions=[{"input": MARKUP[5], "prediction": "a", "reference": "b"}],
        belief=["A sentence."],
        film=film(),
        details={"Heads": [{"layer": "l", "head": 0}]},
        recipe="task = 1",
    )


@pytest.fixture
def visit(browser, tmp_path):
    """`visit(html)` opens a page from disk; pages must not log errors or load anything else.

    It shows tokens, unless it is opened with `units="words"`, with which pages begin.
    """
    contexts, complaints, requests, opened = [], [], [], []

    def opening(html, *, units="tokens", **options):
        path = tmp_path / f"page-{len(contexts)}.html"
        path.write_bytes(html.encode())
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        tab = context.new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        opened.append(path.as_uri())
        tab.goto(path.as_uri())
        tab.wait_for_selector('#view[aria-busy="false"], #film output')
        if tab.get_by_label("Show", exact=True).count() and units == "tokens":
            choose(tab, "Show", units)
        return tab

    yield opening
    for context in contexts:
        context.close()
    assert complaints == []
    assert requests == opened


def text_of(tab, name, panel=0):
    """Return the words of one side."""
    return tab.locator(".panel").nth(panel).get_by_role("toolbar", name=name).locator("button")


def choose(tab, label, option):
    """Choose an option and wait until it is drawn."""
    tab.get_by_label(label, exact=True).select_option(label=option)
    tab.evaluate("() => new Promise((drawn) => setTimeout(drawn, 50))")


def shades(buttons):
    return buttons.evaluate_all(
        "(all) => all.map((one) => Number(one.style.getPropertyValue('--weight')))"
    )


def summary(tab):
    return tab.locator(".said").first.inner_text()


def numbers(tab, rows, columns):
    """Return all numbers of the map, read by moving over it with the arrow keys."""
    walk = """([rows, columns]) => {
        const canvas = document.querySelector(".map canvas");
        const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
        const current = () => Number(document.querySelector(".number strong").textContent);
        for (let i = 0; i < rows; i++) press("ArrowUp");
        const numbers = [];
        for (let i = 0; i < rows; i++) {
            press("Home");
            const row = [current()];
            while (row.length < columns) {
                press("ArrowRight");
                row.push(current());
            }
            numbers.push(row);
            press("ArrowDown");
        }
        return numbers;
    }"""
    return np.array(tab.evaluate(walk, [rows, columns]))


def half_a_step(record):
    return max(float(array.max()) for array in record.weights.values()) / 510


def test_numbers_of_layers_heads_and_words_equal_the_record(visit):
    record = translation()
    near = SHOWN + half_a_step(record)
    tab = visit(record.to_html())
    assert numbers(tab, 4, 4) == pytest.approx(record.mean(), abs=near)
    choose(tab, "Head", "head 0")  # the second layer has no other
    assert numbers(tab, 4, 4) == pytest.approx(record.mean(head=0), abs=near)
    choose(tab, "Head", "mean of all heads")
    choose(tab, "Layer", "cross.0")
    assert numbers(tab, 4, 4) == pytest.approx(record.mean("cross.0"), abs=near)
    choose(tab, "Head", "head 1")
    assert numbers(tab, 4, 4) == pytest.approx(record.mean("cross.0", 1), abs=near)
    choose(tab, "Show", "words")
    assert numbers(tab, 2, 2) == pytest.approx(record.by_words("cross.0", 1), abs=2 * near)
    choose(tab, "Layer", "cross.1")
    assert numbers(tab, 2, 2) == pytest.approx(record.by_words("cross.1"), abs=2 * near)


def test_rollout_of_self_attention_equals_the_record(visit):
    layers = {f"layers.{i}": weights(2, 4, 4, seed=i) for i in range(3)}
    record = AttentionRecord(READ, READ, layers)
    near = SHOWN + 3 * half_a_step(record)
    tab = visit(record.to_html())
    choose(tab, "Layer", "rollout through 3 layers")
    assert numbers(tab, 4, 4) == pytest.approx(record.rollout(), abs=near)
    choose(tab, "Head", "head 1")
    assert numbers(tab, 4, 4) == pytest.approx(record.rollout(1), abs=near)


def test_pointing_shows_both_directions(visit):
    record = translation()
    mean = record.mean()
    tab = visit(record.to_html())
    read, wrote = text_of(tab, "Input"), text_of(tab, "Output")
    overall = mean.mean(0)
    assert shades(read) == pytest.approx(strength(overall), abs=0.02)
    wrote.nth(1).hover()
    assert shades(read) == pytest.approx(strength(mean[1]), abs=0.02)
    assert shades(wrote) == [0] * 4
    assert summary(tab) == f"▁kit attends most to {READ.tokens[mean[1].argmax()]}"
    items = tab.locator(".strongest li span").all_inner_texts()
    assert [float(item) for item in items] == pytest.approx(sorted(mean[1])[::-1], abs=0.002)
    read.nth(2).hover()
    assert shades(wrote) == pytest.approx(strength(mean[:, 2]), abs=0.02)
    assert shades(read) == [0] * 4
    assert summary(tab) == f"on gets most attention from {WROTE.tokens[mean[:, 2].argmax()]}"
    tab.mouse.move(1, 1)
    assert summary(tab).startswith("On average")


def test_the_view_begins_with_the_lines_of_the_aligning_head(visit):
    """Between the words of both texts, from each word to what it attends to most."""
    looks = np.full((2, 4, 4), 0.01, np.float32)
    looks[1, 0, 0] = looks[1, 1, 1] = looks[1, 2, 2] = looks[1, 3, 3] = 0.97
    layers = {"cross.0": weights(2, 4, 4), "cross.1": looks}
    record = AttentionRecord(READ, WROTE, layers, AlignBy(layer="cross.1", head=1))
    tab = visit(record.to_html(), units="words")
    assert text_of(tab, "Input").all_text_contents() == ["un", "chaton"]
    assert tab.get_by_label("Head", exact=True).input_value() == "1"
    assert tab.locator('.heads [aria-pressed="true"]').get_attribute("title") == "cross.1, head 1"
    ends = """(paths) => paths.map((path) => {
        const box = path.ownerSVGElement.getBoundingClientRect();
        const [from, to] = [path.getPointAtLength(0), path.getPointAtLength(1e6)];
        const at = ({ x, y }, shift) =>
            document.elementsFromPoint(box.x + x, box.y + y + shift)
                .find((one) => one.localName === "button")?.textContent;
        return [at(from, 3), at(to, -3)];
    })"""
    lines = tab.locator(".lines path")
    assert lines.evaluate_all(ends) == [["a", "un"], ["kitten", "chaton"]]
    text_of(tab, "Input").nth(1).hover()
    kinds = lines.evaluate_all("(paths) => paths.map((path) => path.getAttribute('class'))")
    assert kinds == ["dim", "read"]
    tab.locator(".heads button").first.click()
    tab.wait_for_function("() => document.querySelector('.panel .choice select').value === '0'")
    assert tab.get_by_label("Head", exact=True).input_value() == "0"


def test_trust_stands_beside_the_picture(visit):
    """The measure of the run, for records that carry it; packed, and as JSON."""
    sentence = "Without the words it looked at most, the probability of an answer falls by 0.4."
    record = translation().with_belief(sentence)
    tab = visit(page({"one": record, "other": translation()}))
    note = tab.locator(".looking .belief p")
    assert note.all_inner_texts() == ["How far to trust this picture", sentence]
    assert AttentionRecord.from_json(record.to_json()).belief == sentence


def test_a_given_answer_is_shown_with_its_scores(visit):
    """Beside the prediction, as `saccade look --answer` writes it; other pages say how to ask."""
    token = {"text": "kit", "probability": 0.1, "best": "cat", "best_probability": 0.8}
    scores = {"tokens": [token], "confidence": 0.1}
    given = view_model(translation(1), "your answer", scores)
    tab = visit(page_of([[view_model(translation(), "prediction"), given]]))
    verdict = tab.locator(".panel").nth(1).locator(".verdict").inner_text()
    assert verdict == "The model gives kit 10.0 % and prefers cat (80.0 %)."
    assert tab.locator(".scores li").count() == 1
    assert tab.get_by_text("Why not another answer?").count() == 0
    tab = visit(translation().to_html())
    tab.get_by_text("Why not another answer?").click()
    assert "saccade look RUN INPUT --answer ANSWER" in tab.locator(".why").inner_text()


def test_touch_selects_words_heads_and_weights(visit):
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    record = translation()
    mean = record.mean()
    tab = visit(record.to_html(), **phone)
    wrote = text_of(tab, "Output")
    wrote.nth(1).tap()
    assert wrote.nth(1).get_attribute("aria-pressed") == "true"
    assert summary(tab) == f"▁kit attends most to {READ.tokens[mean[1].argmax()]}"
    text_of(tab, "Input").nth(2).tap()
    assert summary(tab).startswith("on gets most attention from ")
    text_of(tab, "Input").nth(2).tap()  # again: the selection is removed
    assert text_of(tab, "Input").nth(2).get_attribute("aria-pressed") == "false"
    tab.locator(".heads button").nth(1).tap()
    tab.wait_for_function("() => document.querySelectorAll('.panel select')[1].value === '1'")
    tab.locator(".map canvas").scroll_into_view_if_needed()
    box = tab.locator(".map canvas").bounding_box()
    tab.touchscreen.tap(box["x"] + box["width"] - 5, box["y"] + box["height"] - 5)
    assert tab.locator(".number").inner_text().split()[:3] == ["</s>", "→", "</s>"]


def test_a_screen_reader_hears_names_roles_and_what_is_selected(visit):
    tab = visit(page({"one": translation(), "two": translation(3)}, title="Two models"))
    choose(tab, "Show", "words")
    heard = tab.locator("main").aria_snapshot()
    for spoken in (
        'heading "Two models" [level=1]',
        'combobox "Show"',
        'region "one"',
        'combobox "Head"',
        'toolbar "Input"',
        'toolbar "Output"',
        'button "chaton"',
        'group "Heads"',
        'button "cross.0, head 1"',
        'application "Attention map; use the arrow keys to move between weights"',
    ):
        assert spoken in heard, heard
    text_of(tab, "Output").nth(1).focus()
    status = tab.locator('.panel [role="status"]').first
    assert status.inner_text().startswith("kitten attends most to ")


def test_the_film_moves_with_its_slider(visit):
    tab = visit(report_page(report()))
    slider, status = tab.get_by_label("Validation", exact=True), tab.locator("#film output")
    cells = tab.locator(".frames rect")
    opacities = "(all) => all.map((one) => Number(one.getAttribute('fill-opacity')))"
    assert status.inner_text() == "Step 200, loss 1.00 (validation 2 of 2)"
    assert cells.evaluate_all(opacities) == [1, 0, 0, 1]
    at_end = float(tab.locator("#learning .now").get_attribute("x1"))
    slider.focus()
    tab.keyboard.press("ArrowLeft")
    assert status.inner_text() == "Step 100, loss 2.00 (validation 1 of 2)"
    assert cells.evaluate_all(opacities) == pytest.approx([0.12] * 4, abs=0.01)
    assert MARKUP[0] in tab.locator("#film figcaption").inner_text()
    assert float(tab.locator("#learning .now").get_attribute("x1")) < at_end
    tab.get_by_role("button", name="Play").click()
    tab.wait_for_function("() => document.querySelector('#film output').value.includes('200')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_and_view_fit_phones_and_have_no_accessibility_violations(visit, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    options = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    for html in (report_page(report()), translation().to_html()):
        tab = visit(html, **options)
        tab.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert tab.evaluate("document.documentElement.scrollWidth <= 390")
        assert tab.evaluate("window.pwned") is None
        violations = axe.run(tab)
        assert violations.violations_count == 0, violations.generate_report()


def test_flat_attention_looks_flat(visit):
    record = AttentionRecord(READ, READ, {"l": np.full((1, 4, 4), 0.25, np.float32)})
    tab = visit(record.to_html())
    assert shades(text_of(tab, "Attended to")) == pytest.approx([0.12] * 4, abs=0.01)


def test_the_map_shows_the_number_under_the_pointer(visit):
    record = translation()
    tab = visit(record.to_html())
    box = tab.locator(".map canvas").bounding_box()
    tab.mouse.move(box["x"] + box["width"] - 5, box["y"] + box["height"] - 5)
    shown = tab.locator(".number").inner_text().split()
    assert shown[:3] == ["</s>", "→", "</s>"]
    assert float(shown[3]) == pytest.approx(record.mean()[3, 3], abs=0.002)
    tab.mouse.move(box["x"] + 2, box["y"] + 2)  # among the labels
    assert tab.locator(".map canvas").evaluate("(canvas) => canvas.width > 0")


def test_the_map_can_be_saved_as_a_figure(visit):
    """With every label, whatever it holds, and every visible weight."""
    side = Side.of_words([*MARKUP, *ODD])
    size = len(side.tokens)
    looks = np.zeros((1, size, size), np.float32)
    looks[0, 3, 5], looks[0, 4, 5] = 0.8, 0.2
    tab = visit(AttentionRecord(READ, WROTE, {"l": weights(1, 4, 4)}).to_html())
    with tab.expect_download() as saving:
        tab.get_by_role("button", name="Save as SVG").click()
    figure = ElementTree.parse(saving.value.path()).getroot()
    assert [node.text for node in figure.findall("{*}text")] == [*WROTE.tokens, *READ.tokens]
    assert len(figure.findall("{*}g/{*}rect")) == 16
    tab = visit(AttentionRecord(side, side, {"l": looks}).to_html())
    choose(tab, "Layer", "l")
    with tab.expect_download() as saving:
        tab.get_by_role("button", name="Save as SVG").click()
    figure = ElementTree.parse(saving.value.path()).getroot()
    texts = [node.text for node in figure.findall("{*}text")]
    assert len(texts) == 2 * size
    assert set(MARKUP[-6:]) <= set(texts)
    strong, weak = figure.findall("{*}g/{*}rect")
    expected = [f"{one:.3f}" for one in strength(looks[0, 3:5])[:, 5]]
    assert [strong.get("fill-opacity"), weak.get("fill-opacity")] == expected
    assert strong.find("{*}title").text == "0.800"
    assert tab.evaluate("window.pwned") is None


def test_a_record_from_json_is_shown_like_a_packed_one(visit):
    """Its numbers are those of the record itself, without the rounding of packing."""
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    image = ImageSide(pixels, (2, 2), class_token=True)
    alone = AttentionRecord(image, image, {"a": weights(2, 5, 5), "b": weights(2, 5, 5, seed=1)})
    for record in (translation(), alone, AttentionRecord(READ, READ, {"l": weights(1, 4, 4)})):
        tab = visit(record.to_html())
        packed = numbers(tab, *record.mean().shape)
        saved = json.dumps(record.to_json()).replace("<", "\\u003c")
        module = bundle("view.js", "sides.js")
        show = f"show(document.getElementById('view'), [[fromRecord('m', JSON.parse({saved}))]])"
        tab.evaluate(f"async () => {{ {module}; await {show}; }}")
        assert tab.locator(".panel h2").inner_text() == "m"
        if record is not alone:
            choose(tab, "Show", "tokens")
        exact = numbers(tab, *record.mean().shape)
        assert exact == pytest.approx(packed, abs=2 * SHOWN + 3 * half_a_step(record))
        if record is not alone:  # which starts with its rollout
            assert exact == pytest.approx(record.mean(), abs=SHOWN + 1e-5)


def test_everything_works_with_the_keyboard_alone(visit):
    tab = visit(translation().to_html())
    wrote = text_of(tab, "Output")
    wrote.nth(0).focus()
    for key, word in [
        ("ArrowRight", "▁kit"),
        ("End", "</s>"),
        ("ArrowLeft", "ten"),
        ("Home", "▁a"),
    ]:
        tab.keyboard.press(key)
        assert tab.evaluate("document.activeElement.textContent") == word
        assert summary(tab).startswith(f"{word} attends most to")
    tab.keyboard.press("ArrowLeft")  # the first word is selected already
    assert tab.evaluate("document.activeElement.textContent") == "▁a"
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.keyboard.press("Enter")
    assert wrote.nth(0).get_attribute("aria-pressed") == "true"
    tab.keyboard.press("Tab")
    tab.keyboard.press("Shift+Tab")
    assert tab.evaluate("document.activeElement.textContent") == "▁a"
    tab.keyboard.press("Escape")
    assert wrote.nth(0).get_attribute("aria-pressed") == "false"
    tab.keyboard.press("Tab")
    for key, name in [("ArrowRight", "cross.0, head 1"), ("ArrowDown", "cross.1, head 0")]:
        tab.keyboard.press(key)
        assert tab.evaluate("document.activeElement.ariaLabel") == name
    tab.keyboard.press("Enter")
    tab.wait_for_selector('.heads [aria-pressed="true"]')
    assert tab.get_by_label("Layer", exact=True).input_value() == "1"
    for _ in range(2):  # past the heading that folds the map
        tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.matches('.map canvas')")
    tab.keyboard.press("ArrowDown")
    assert tab.locator(".number").inner_text().split()[:3] == ["▁kit", "→", "▁un"]


MARKUP = [
    "<script>pwned = 1</script>",
    "</script><script>window.pwned = 1</script>",
    "--></script><script>pwned = 1</script>",
    "<!--<script>",
    '"><img src=x onerror="pwned = 1">',
    "'><svg onload=pwned=1>",
    "<iframe srcdoc='<script>parent.pwned=1</script>'>",
    "javascript:pwned=1",
    "<style>*{display:none}</style>",
    "<link rel=stylesheet href=//x>",
    "<base href=//x>",
    "<meta http-equiv=refresh content=0>",
    "{{constructor.constructor('pwned=1')()}}",
    "${pwned=1}",
    "`${pwned=1}`",
    "\\u003cscript\\u003e",
    "&lt;b&gt;",
    "]]>",
    "__proto__",
    "constructor",
]
ODD = ["", " ", "\t\n", "\u2028", "\u2029", "\x00", "\x1b[31m", "\x7f", "\x85", "\ud800", "\ufffe"]
ODD += [
    "שלום",
    "مرحبا",
    "\u202eabc",
    "\u2066x",
    "漢字",
    "ひらがな",
    "한국어",
    "🙂",
    "👩‍👩‍👧",
    "e\u0301",
]
ODD += ["a" * 300, "'", '"', "\\", "$title", "%s", "-->", "null"]


def test_hostile_texts_are_shown_as_text(visit):
    words = MARKUP + ODD
    assert len(words) >= 49
    side = Side.of_words(words, stop="</script>")
    size = len(side.tokens)
    names = dict.fromkeys(MARKUP, weights(1, size, size))
    record = AttentionRecord(side, side, names)
    tab = visit(page({MARKUP[0]: record, MARKUP[4]: record}, title=MARKUP[1]))
    buttons = text_of(tab, "Attended to")
    shown = buttons.all_text_contents()
    assert shown[: len(MARKUP)] == MARKUP
    assert all(word.strip() for word in shown)
    buttons.nth(4).hover()
    tab.locator(".map canvas").first.focus()
    assert tab.evaluate("window.pwned") is None
    inside = "[...document.querySelectorAll('body *')].map((one) => one.localName)"
    foreign = {"img", "svg", "iframe", "link", "base", "meta", "style"}
    assert not foreign & set(tab.evaluate(inside))
    assert tab.locator("script").count() == 2
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


INSIDE = "[...new Set([...document.querySelectorAll('body *')].map((one) => one.localName))]"


def test_two_hundred_hostile_texts_in_a_view(visit):
    """As words, tokens, layer names, titles, trust and scored tokens; fifty at a time."""
    assert len(HOSTILE) >= 200
    inputs = []
    for start in range(0, len(HOSTILE), 50):
        texts = HOSTILE[start : start + 50]
        side = Side.of_words(texts)
        layers = {text: weights(1, len(texts), len(texts)) for text in texts[:3]}
        record = AttentionRecord(side, side, layers).with_belief(texts[0])
        token = {"text": texts[1], "probability": 0.1, "best": texts[2], "best_probability": 0.9}
        inputs.append([view_model(record, texts[3], {"tokens": [token], "confidence": 0.1})])
    plain = visit(translation().to_html()).evaluate(INSIDE)
    tab = visit(page_of(inputs, title=HOSTILE[0]), units="words")
    for number, [model] in enumerate(inputs):
        tab.get_by_label("Example", exact=True).select_option(str(number))
        first = model["read"]["words"][0]
        tab.wait_for_function(
            "(text) => document.querySelector('.belief').textContent.endsWith(text)", arg=first
        )
        shown = text_of(tab, "Attended to").all_text_contents()
        expected = [word for word in model["read"]["words"] if word.isprintable() and word.strip()]
        assert [word for word in shown if word in expected] == expected
        text_of(tab, "Attended to").nth(2).hover()
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.evaluate("window.__hit") is None
    assert set(tab.evaluate(INSIDE)) <= {
        *plain,
        "i",
        "li",
        "ol",
        "small",
        "span",
        "h2",
        "bdi",
        "div",
    }


def test_two_hundred_hostile_texts_in_a_report(visit):
    """As inputs, predictions, labels, words of mistakes and of the film, table cells and recipe."""
    plain = report()
    side = Side.of_words(HOSTILE[:20]).view()
    scene = {"read": side, "wrote": side, "right": HOSTILE[0]}
    frames = [
        {"step": step, "loss": 1.0, "weights": [packed(np.eye(20))], "answers": [HOSTILE[step]]}
        for step in (1, 2)
    ]
    hostile = replace(
        plain,
        title=HOSTILE[0],
        about=HOSTILE[1],
        remarks=HOSTILE[:3],
        predictions=[{"input": t, "prediction": t, "reference": t} for t in HOSTILE],
        mistakes=[Mistake(words=[(t, 5)], row={"input": t, "answer": t}) for t in HOSTILE],
        confusions=Confusions(
            names=HOSTILE[:6], rows=[(t, [(1, 1)] * 6, "50 %") for t in HOSTILE[:6]]
        ),
        belief=HOSTILE,
        film={"inputs": [scene], "frames": frames},
        details={t: [{t: t}] for t in HOSTILE},
        recipe="\n".join(HOSTILE),
    )
    known = visit(report_page(plain)).evaluate(INSIDE)
    tab = visit(report_page(hostile))
    tab.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert tab.evaluate("window.__hit") is None
    assert set(tab.evaluate(INSIDE)) <= set(known)
    shown = set(tab.locator('[aria-label="Trust"] li').all_text_contents())
    assert {text for text in HOSTILE if text.isprintable()} <= shown
    wide = """[...document.querySelectorAll("main *")].filter((one) => {
        const outside = one.getBoundingClientRect().right > innerWidth;
        return outside && !one.closest(".wide, pre, svg");
    }).map((one) => one.outerHTML.slice(0, 60))"""
    assert tab.evaluate(wide) == []


def pixel(tab, canvas, across, down):
    """Return the colour at these fractions of the width and height of a canvas."""
    return tab.locator(canvas).first.evaluate(
        """(canvas, [x, y]) => [...canvas.getContext("2d").getImageData(
            x * canvas.width, y * canvas.height, 1, 1).data]""",
        [across, down],
    )


def test_a_caption_over_its_image(visit):
    """The first word attends to the top left cell, the second to the bottom right one."""
    pixels = np.full((20, 30, 3), (200, 30, 40), np.uint8)
    looks = np.full((1, 3, 6), 0.02, np.float32)
    looks[0, 0, 0] = looks[0, 1, 5] = 0.9
    caption = Side.of_words(["red", "thing"], stop="</s>")
    record = AttentionRecord(ImageSide(pixels, (2, 3)), caption, {"cross": looks})
    tab = visit(record.to_html(), units="words")
    words = text_of(tab, "Output")
    assert words.all_text_contents() == ["red", "thing"]
    for word, cell, other in ((0, (0.1, 0.1), (0.9, 0.9)), (1, (0.9, 0.9), (0.1, 0.1))):
        words.nth(word).hover()
        strong, weak = (pixel(tab, ".image canvas", *place) for place in (cell, other))
        assert strong[1] > 150 > 100 > weak[1]  # yellow, and violet
        assert strong[3] == weak[3] == 255
    tab.get_by_label("show attention over the image").uncheck()
    assert pixel(tab, ".image canvas", 0.9, 0.9) == [200, 30, 40, 255]
    box = tab.locator(".image canvas").bounding_box()
    tab.mouse.move(box["x"] + 5, box["y"] + 5)
    assert summary(tab) == "cell 0,0 gets most attention from red"
    assert shades(words) == pytest.approx(strength(np.array([0.9, 0.02])), abs=0.01)


def test_an_image_alone_starts_with_the_rollout_of_its_class_token(visit):
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    image = ImageSide(pixels, (2, 2), class_token=True)
    layers = {f"layers.{i}": weights(2, 5, 5, seed=i, sharp=2.0) for i in range(2)}
    record = AttentionRecord(image, image, layers)
    tab = visit(record.to_html())
    assert summary(tab).startswith("class token attends most to ")
    items = dict(item.split("\n") for item in tab.locator(".strongest li").all_inner_texts())
    seen = {f"cell {i // 2},{i % 2}": weight for i, weight in enumerate(record.glance())}
    for cell, weight in seen.items():
        assert float(items[cell]) == pytest.approx(weight, abs=SHOWN + 2 * half_a_step(record))
    before = pixel(tab, ".image canvas", 0.3, 0.3)
    choose(tab, "Layer", "layers.1")
    assert pixel(tab, ".image canvas", 0.3, 0.3) != before
    tab.locator(".image canvas").nth(1).focus()
    tab.keyboard.press("ArrowRight")
    assert summary(tab).startswith("cell 0,1 attends most to ")


def test_two_models_side_by_side_and_several_inputs(visit):
    plain = AttentionRecord(READ, WROTE, {"attend": weights(1, 4, 4, seed=5)})
    silent = AttentionRecord(READ, WROTE, {})
    tab = visit(page({"rnn": [plain, silent], "transformer": [translation(), translation(3)]}))
    assert tab.locator(".panel h2").all_inner_texts() == ["rnn", "transformer"]
    left, right = (tab.locator(".panel").nth(i).bounding_box() for i in range(2))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    text_of(tab, "Output").nth(2).hover()
    assert tab.locator("button.marked").all_inner_texts() == ["ten", "ten"]
    mean = translation().mean()
    assert shades(text_of(tab, "Input", 1)) == pytest.approx(strength(mean[2]), abs=0.02)
    choose(tab, "Example", "2. un chaton → a kitten")
    assert "No attention to show" in tab.locator(".panel").first.inner_text()
    assert tab.locator(".map").count() == 1


def test_narrow_and_dark_screens_and_right_to_left_scripts(visit):
    side = Side.of_words(["שלום", "עולם", "זה", "משפט", "ארוך", "מאוד", "בעברית"], stop="</s>")
    record = AttentionRecord(side, side, {"l": weights(1, 8, 8)})
    html = page({"one": record, "other": record})
    options = {"viewport": {"width": 360, "height": 700}, "device_scale_factor": 2}
    backgrounds = []
    for scheme in ("light", "dark"):
        tab = visit(html, color_scheme=scheme, **options)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360
        backgrounds.append(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(set(backgrounds)) == 2
    words = text_of(tab, "Attending")
    assert words.nth(0).bounding_box()["x"] > words.nth(1).bounding_box()["x"]
    words.nth(0).focus()
    tab.keyboard.press("ArrowLeft")
    assert tab.evaluate("document.activeElement.textContent") == "עולם"


def test_a_large_record_opens(visit, record_property):
    """12 layers of 12 heads of 256 × 256."""
    side = Side.of_words([f"word{i}" for i in range(256)])
    one = weights(12, 256, 256)
    record = AttentionRecord(side, side, {f"layers.{i}": np.roll(one, i, 0) for i in range(12)})
    html = record.to_html()
    assert len(html.encode()) < 10_000_000
    tab = visit(html, units="words")
    opened = tab.evaluate("performance.now()")
    record_property("milliseconds", opened)
    assert opened < 2000
    tab.wait_for_function("() => document.querySelectorAll('.heads canvas').length === 144")
    text_of(tab, "Attending").nth(7).hover()
    strongest = record.mean()[7].max()
    shown = float(tab.locator(".strongest li span").first.inner_text())
    assert shown == pytest.approx(strongest, abs=0.001)
