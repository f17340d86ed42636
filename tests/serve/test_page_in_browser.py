"""The server's page in Chromium: every task, tokens, errors, keyboard, phones, attacks."""

import base64
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import uvicorn
from PIL import Image

from saccade.data import sources
from saccade.lens.record import AttentionRecord, Side
from saccade.metrics.score import MetricScore
from saccade.serve import json_body
from saccade.serve.cards import ModelCard
from saccade.serve.middleware import RequestMiddleware
from saccade.serve.server import configure, listen
from saccade.tasks import Answer
from saccade.tasks._shared.labels import Classification, percent
from saccade.training import recipe as recipes
from tests.hostile_texts import HOSTILE
from tests.serve.conftest import TOKEN, picture
from tests.serve.fakes import Echo, EndlessWriter, eventually

PATIENCE = 120_000  # milliseconds, for busy machines
REFUSED = "Failed to load resource"  # Chromium logs this for every status from 400 on
LOOKED = "#looked:not([hidden]):not(.waiting) .strongest"
PHOTO = {"name": "photo.png", "mimeType": "image/png", "buffer": picture(10)}


class Parrot(Echo):
    """Task that returns its input; its alternatives and attention are over the lines."""

    def predict(self, inputs: Any, *, attention: bool = False, **options: Any) -> list[Answer]:
        return [self.answer(text.split("\n"), text) for text in inputs]

    def answer(self, lines: list[str], text: str) -> Answer:
        others = tuple(Answer(line, -1.0) for line in lines)
        return Answer(text, -0.5, attention_of(lines), others)


class Labeller(Parrot):
    """Classifier for which every line of its input is a label."""

    def answer(self, lines: list[str], text: str) -> Answer:
        probabilities = {line: 1 / len(lines) for line in lines}
        return Classification(lines[0], -0.5, attention_of(lines), probabilities=probabilities)


def attention_of(lines: list[str]) -> AttentionRecord:
    side = Side.of_words(lines)
    weights = np.full((1, len(lines), len(lines)), 1 / len(lines), dtype=np.float32)
    return AttentionRecord(side, side, {lines[0]: weights})


@pytest.fixture(scope="module")
def served() -> Iterator[Callable[[RequestMiddleware], str]]:
    """Give `served(middleware)`, which serves from a thread and returns the address."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(middleware: RequestMiddleware) -> str:
        sock = listen("127.0.0.1", 0)
        server = uvicorn.Server(configure(middleware, middleware.limits))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        running.append((server, thread))
        assert eventually(lambda: server.started, 60)
        return f"http://127.0.0.1:{sock.getsockname()[1]}"

    yield start
    for server, _ in running:
        server.should_exit = server.force_exit = True
    for _, thread in running:
        thread.join(60)


@pytest.fixture(scope="module")
def url(all_models, served) -> str:
    return served(all_models)


@pytest.fixture
def visit(browser):
    """Give `visit(url)`, which opens the page.

    At the end, no page may have logged an error or called another host. With `refused`, error
    responses of the server are allowed.
    """
    contexts, complaints, requested, homes = [], [], [], set()

    def opening(url, *, refused=False, ready="#work:not([hidden])", **options):
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        tab = context.new_page()

        def complain(message):
            if not (refused and message.text.startswith(REFUSED)):
                complaints.append(message.text)

        def dialog(box):
            complaints.append(f"a dialog opened: {box.message}")
            box.dismiss()

        tab.on("console", complain)
        tab.on("dialog", dialog)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: requested.append(request.url))
        homes.add(url.removesuffix("/docs"))
        tab.goto(url)
        tab.wait_for_selector(ready)
        return tab

    yield opening
    for context in contexts:
        context.close()
    assert complaints == []
    outside = [url for url in requested if not url.startswith((*homes, "data:", "blob:"))]
    assert outside == []


def write(tab, *texts):
    """Put texts into the fields, as if typed."""
    for number, text in enumerate(texts):
        tab.evaluate(
            """([id, text]) => {
                const area = document.getElementById(id);
                area.value = text;
                area.dispatchEvent(new Event("input", { bubbles: true }));
            }""",
            [f"text-{number}", text],
        )


def until(tab, expression):
    """Wait until an expression is true; a function, because the page forbids `eval`."""
    tab.wait_for_function(f"() => {expression}")


def settle(tab):
    """Wait until no request is running."""
    until(
        tab,
        """!document.querySelector('#answers [aria-busy="true"]')
            && document.getElementById("view").getAttribute("aria-busy") !== "true" """,
    )


def answers(tab):
    settle(tab)
    return tab.locator("#answers .answer").all_inner_texts()


def compare_with(tab, *names):
    """Tick the models that are compared with the first."""
    for box in tab.locator("#chips input").all():
        box.set_checked(box.get_attribute("value") in names)


def predict(tab, model, *texts):
    """Choose a model, enter texts, and wait for the prediction and its attention."""
    tab.select_option("#model", model)
    write(tab, *texts)
    tab.wait_for_selector(LOOKED)
    return answers(tab)


def marked(text, spans):
    """Yield the parts of a text, each span followed by its label."""
    at = 0
    for span in spans:
        yield from (text[at : span.end], span.label)
        at = span.end
    yield text[at:]


def test_every_task_shows_predictions_and_attention(visit, url, tasks):
    tab = visit(url, refused=True)  # in passing, a text without [MASK]
    assert tab.locator("#model option").all_inner_texts() == list(tasks)
    best = tasks["en-fr"].predict(["a b c"], attention=True)[0]
    assert predict(tab, "en-fr", "a b c") == [best.text or "(empty text)"]
    strongest = float(tab.locator(".strongest li span").first.inner_text())
    assert strongest == pytest.approx(best.attention.by_words().mean(0).max(), abs=0.0006)
    mood = tasks["mood"].predict(["i am happy"])[0]
    assert predict(tab, "mood", "i am happy") == [mood.label]
    rows = [row.split("\n") for row in tab.locator(".bars li").all_inner_texts()]
    expected = sorted(mood.probabilities.items(), key=lambda item: -item[1])
    assert rows == [[label, f"{100 * value:.1f} %"] for label, value in expected]
    [label] = predict(tab, "nli", "a cat", "a dog")
    assert label in {"yes", "no"}
    tab.get_by_label("Second text").fill("another")
    settle(tab)
    text = "Ann likes 🌍 Rome."
    spans = tasks["names"].predict([text])[0].spans
    [tagged] = predict(tab, "names", text)
    assert tab.locator(".tagged mark").count() == len(spans)
    assert tagged == "".join(marked(text, spans))
    [filled] = predict(tab, "holes", "the [MASK] cat")
    assert "[MASK]" not in filled
    for model in ("photos", "captions"):
        tab.select_option("#model", model)
        if model == "photos":
            tab.get_by_label("Choose an image").set_input_files(PHOTO)
        tab.wait_for_selector(LOOKED)
        assert len(answers(tab)) == 1
        tab.wait_for_selector(".lens .image canvas")
    assert tab.locator(".shown img").count() == 1
    tab.select_option("#model", "en-fr")
    write(tab, "")
    assert answers(tab) == []
    assert tab.locator("#looked").is_hidden()


def test_vectors_are_uploaded_and_shown_as_a_strip(visit, build, served, tmp_path):
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", np.random.default_rng(number).normal(size=(6, 3)))
    rows = [f"{number}.npy\t{'ab'[number % 2]}\n" for number in range(4)]
    (tmp_path / "train.tsv").write_text("vectors\tlabel\n" + "".join(rows))
    recipe = recipes.load("vector-classifier-rnn", ["model.dim=8", "model.encoder.dim=8"])
    corpus = sources.open_corpus(tmp_path, recipe.options.columns, valid_fraction=0.0)
    task = recipe.options.create(corpus.splits["train"]).eval()
    [answer] = task.predict([tmp_path / "1.npy"])
    tab = visit(served(build(others={"clips": task})))
    tab.get_by_label("Choose a .npy file").set_input_files(tmp_path / "1.npy")
    tab.wait_for_selector(LOOKED)
    assert answers(tab) == [answer.label]
    assert tab.locator(".lens .image canvas").count() == 1
    assert tab.locator(".strongest li").count() == 6
    assert tab.locator(".strongest li").first.inner_text().startswith("step ")


def test_several_models_side_by_side(visit, url):
    tab = visit(url, viewport={"width": 1500, "height": 900})
    tab.select_option("#model", "mood")
    assert tab.locator("#chips label").all_inner_texts() == ["en-fr", "names", "holes", "book"]
    compare_with(tab, "en-fr", "names")
    write(tab, "a b c")
    tab.wait_for_selector(LOOKED)
    assert len(answers(tab)) == 3
    names = ["mood", "en-fr", "names"]
    assert tab.locator("#answers h2").all_inner_texts() == names
    assert tab.locator(".lens .panel h2").all_inner_texts() == names
    boxes = [tab.locator("article").nth(i).bounding_box() for i in range(3)]
    assert len({box["y"] for box in boxes}) == 1
    for left, right in pairwise(boxes):
        assert left["x"] + left["width"] <= right["x"]
    tab.locator(".lens .panel").nth(1).get_by_label("Input").locator("button").first.hover()
    assert tab.locator(".lens .said").nth(1).inner_text().startswith("a gets ")
    compare_with(tab)
    until(tab, "document.querySelectorAll('.lens .panel').length === 1")


def test_cards_and_examples(visit, build, served):
    """Each model has a card with its score, and a click on an example predicts it."""
    score = MetricScore(name="accuracy", value=0.9, signature="", interval=(0.85, 0.95))
    photo = f"data:image/png;base64,{base64.b64encode(picture(10)).decode()}"
    cards = {
        "mood": ModelCard(
            metric="accuracy",
            score=score,
            items=1500,
            trained="2026-01-31",
            parameters=12_345,
            examples=["i am happy", HOSTILE[0]],
        ),
        "photos": ModelCard(examples=[photo]),
    }
    tab = visit(served(build("mood", "photos", "names", cards=cards)))
    head = tab.locator("article .model")
    assert head.locator(".task").inner_text() == "text classification"
    facts = head.locator("li").all_inner_texts()
    assert facts == [
        "accuracy 90.0 % [85.0, 95.0] on 1,500 validation inputs",
        "trained 2026-01-31",
        "12.3 K weights",
    ]
    examples = tab.get_by_role("group", name="Examples").locator("button")
    assert examples.all_inner_texts() == ["i am happy", HOSTILE[0]]
    examples.first.focus()
    tab.keyboard.press("Enter")
    tab.wait_for_selector(LOOKED)
    assert tab.get_by_label("Text", exact=True).input_value() == "i am happy"
    assert answers(tab)[0] in {"good", "bad"}
    tab.select_option("#model", "photos")
    tab.get_by_role("button", name="Example 1").click()
    tab.wait_for_selector(".lens .image canvas")
    assert tab.locator(".shown img").get_attribute("src") == photo
    tab.select_option("#model", "names")
    assert tab.locator("#examples").is_hidden()


def test_nothing_jumps_while_typing(visit, build, served):
    """The view below the answer keeps its place, also while a request runs."""
    tab = visit(served(build(others={"parrot": Parrot()})), viewport={"width": 1400, "height": 900})
    write(tab, "one\ntwo")
    tab.wait_for_selector(LOOKED)
    settle(tab)
    tab.evaluate(
        """() => {
            window.places = new Set();
            const look = () => {
                const { top } = document.getElementById("looked").getBoundingClientRect();
                window.places.add(Math.round(top));
                requestAnimationFrame(look);
            };
            look();
        }"""
    )
    area = tab.get_by_label("Text", exact=True)
    area.press("End")
    area.press_sequentially(" three four", delay=60)  # some pauses are long enough for a request
    settle(tab)
    area.press("Backspace")
    until(tab, "document.querySelector('.answer').textContent.endsWith('fou')")
    settle(tab)
    assert len(tab.evaluate("[...window.places]")) == 1
    assert tab.evaluate("scrollY") == 0


def test_the_address_keeps_models_and_texts(visit, url):
    tab = visit(url)
    tab.select_option("#model", "mood")
    compare_with(tab, "en-fr", "names")
    tab.locator("#options summary").click()
    tab.get_by_label("Beam width").fill("2")
    write(tab, "i & am #happy é")
    tab.wait_for_selector(LOOKED)
    expected = answers(tab)
    assert len(expected) == 3
    tab.reload()
    tab.wait_for_selector(LOOKED)
    assert tab.input_value("#model") == "mood"
    assert tab.locator("#chips :checked").count() == 2
    assert tab.get_by_label("Text", exact=True).input_value() == "i & am #happy é"
    assert tab.get_by_label("Beam width").input_value() == "2"
    assert answers(tab) == expected
    tab.evaluate("location.hash = 'model=en-fr&text=a%20b'")  # as by another link
    until(tab, "document.querySelectorAll('article').length === 1")
    assert tab.input_value("#model") == "en-fr"
    assert tab.get_by_label("Text", exact=True).input_value() == "a b"
    tab.wait_for_selector(LOOKED)


def test_view_settings_survive_a_changed_input(visit, url):
    tab = visit(url)
    predict(tab, "mood", "i am")
    words = "document.querySelector('.lens .text').children.length"
    until(tab, f"{words} === 2")
    tab.get_by_label("Head", exact=True).select_option("1")
    tab.get_by_label("Show", exact=True).select_option("tokens")
    until(tab, f"{words} > 2")
    write(tab, "i am happy")
    until(tab, f"{words} > 4")
    assert tab.get_by_label("Show", exact=True).input_value() == "tokens"
    assert tab.get_by_label("Head", exact=True).input_value() == "1"


def test_language_model_generates_and_shows_attention(visit, url):
    tab = visit(url)
    tab.select_option("#model", "book")
    write(tab, "the cat")
    tab.wait_for_timeout(400)
    assert tab.locator("#answers .answer").count() == 0  # it generates on request only
    tab.evaluate("Math.random = () => 0.25")  # of which the page makes the seed
    tab.locator("#options summary").click()
    tab.get_by_label("Maximum new tokens").fill("5")
    tab.get_by_label("Temperature").fill("1")
    tab.get_by_role("button", name="Generate").click()
    tab.wait_for_selector("article .said:not(:empty)")
    status = tab.locator("article .said").inner_text()
    assert status in ("Finished.", "Stopped at the maximum length (5 tokens).")
    tab.get_by_role("button", name="Show attention").click()
    tab.wait_for_selector(LOOKED)
    [text] = answers(tab)
    assert text.startswith("the cat")
    tab.get_by_label("Show", exact=True).select_option("tokens")
    until(tab, "document.querySelectorAll('.lens .text button').length > 4")
    tokens = tab.locator('.lens [aria-label="Attended to"] button').all_text_contents()
    assert len(tokens) >= len("the cat")
    assert tab.locator("article .said").inner_text() == ""  # the same text again
    assert tab.locator("#stop").is_disabled()


def test_stream_is_shown_live_and_can_be_stopped(visit, build, served):
    writer = EndlessWriter()
    tab = visit(served(build(others={"writer": writer})))
    tab.get_by_label("Text", exact=True).focus()
    tab.keyboard.press("Control+Enter")  # from an empty text
    until(tab, "document.querySelector('.stream')?.textContent.length > 5")
    assert tab.evaluate("document.activeElement.id") == "text-0"
    tab.get_by_role("button", name="Stop").click()
    assert tab.evaluate("document.activeElement.id") == "go"
    length = len(tab.locator(".stream").inner_text())
    assert tab.locator("article .said").inner_text() == "Stopped."
    assert eventually(lambda: writer.writing == 0)
    assert len(tab.locator(".stream").inner_text()) == length
    tab.get_by_role("button", name="Generate").click()
    until(tab, "document.querySelector('.stream')?.textContent.length > 5")
    write(tab, "else")  # cancels the stream
    assert eventually(lambda: writer.writing == 0)
    assert tab.locator(".stream").count() == 0


def test_failed_stream_keeps_its_text(visit, build, served):
    tab = visit(served(build(others={"writer": EndlessWriter(fails_after=4)})))
    tab.get_by_role("button", name="Generate").press("Enter")
    tab.wait_for_selector("article .wrong")
    assert tab.locator("article .wrong").inner_text() == "it cannot continue"
    assert tab.locator(".stream").inner_text() == "xxx"
    assert tab.locator("#go").is_enabled()


def test_alternatives_and_error_messages(visit, url, tasks):
    tab = visit(url, refused=True)
    predict(tab, "en-fr", "a b c")
    tab.locator("#options summary").click()
    tab.get_by_label("Number of answers").fill("3")
    tab.wait_for_selector(".others li")
    best = tasks["en-fr"].predict(["a b c"], num_best=3)[0]
    shown = tab.locator(".others bdi").all_text_contents()
    assert shown == [other.text or "∅" for other in best.alternatives]
    scores = tab.locator(".others .score").all_inner_texts()
    assert scores == [f"confidence {percent(other.confidence)}" for other in best.alternatives]
    tab.get_by_label("Beam width").fill("99")
    wrong = tab.wait_for_selector("article .wrong")
    assert wrong.inner_text() == "beam must be at most 16, got 99; lower it"
    assert tab.locator("#answers .answer").count() == 0
    assert tab.locator("#looked").is_hidden()
    tab.get_by_label("Beam width").fill("4")
    tab.wait_for_selector(".others li")
    assert tab.locator("article .wrong").count() == 0
    tab.select_option("#model", "holes")  # the text has no [MASK]
    tab.wait_for_selector("article .wrong")
    assert "[MASK]" in tab.locator("article .wrong").inner_text()


def test_another_answer_is_scored_beside_the_prediction(visit, url, tasks):
    """Its tokens have the probabilities of `score`, and its attention a panel of its own."""
    tab = visit(url)
    predict(tab, "en-fr", "a b c")
    tab.get_by_text("Why not another answer?").click()
    field = tab.get_by_label("Another answer")
    field.fill("c b")
    field.press("Enter")
    tab.wait_for_selector(".scored .scores li")
    [scored] = tasks["en-fr"].score(["a b c"], ["c b"])
    shown = [item.split("\n") for item in tab.locator(".scores li").all_inner_texts()]
    for (text, chance, *_), token in zip(shown, scored.token_scores, strict=True):
        assert text == token.text
        assert float(chance.removesuffix(" %")) == pytest.approx(100 * token.probability, abs=0.051)
    until(tab, "document.querySelectorAll('.lens .panel').length === 2")
    assert tab.locator(".lens .panel h2").all_inner_texts() == ["prediction", "your answer"]
    write(tab, "a b")  # another input: the answer is gone
    until(tab, "document.querySelectorAll('.lens .panel').length === 1")
    [label] = predict(tab, "mood", "i am happy")
    tab.get_by_text("Why not another answer?").click()
    other = ({"good", "bad"} - {label}).pop()
    assert tab.get_by_label("Another label").input_value() == other
    tab.get_by_role("button", name="Score it").click()
    tab.wait_for_selector(".scored .verdict")
    assert f"and prefers {label}" in tab.locator(".verdict").inner_text()


def test_too_large_attention_leaves_the_prediction(visit, build, served):
    tab = visit(served(build("mood", weights=10)), refused=True)
    write(tab, "i am happy")
    assert tab.wait_for_selector("#answers .answer").inner_text() in {"good", "bad"}
    status = tab.locator("article .said").inner_text()
    assert status.startswith("Attention is not shown: the attention of the request can have ")
    assert "more than the 10 allowed" in status


def test_token_form_and_its_storage_in_the_tab(visit, build, served):
    middleware = build("mood", "en-fr", token=TOKEN)
    tab = visit(served(middleware), refused=True, ready="#token:not([hidden])")
    assert tab.locator("#work").is_hidden()
    assert tab.evaluate("document.activeElement.id") == "token-field"
    for wrong in ("not the one that it should be", "ключ"):
        tab.get_by_label("Token", exact=True).fill(wrong)
        tab.keyboard.press("Enter")
        tab.wait_for_selector("text=This token is not valid for this server.")
        assert tab.get_by_label("Token", exact=True).input_value() == ""
    tab.get_by_label("Token", exact=True).fill(TOKEN)
    tab.get_by_role("button", name="Use token").click()
    tab.wait_for_selector("#work:not([hidden])")
    write(tab, "i am happy")
    tab.wait_for_selector(LOOKED)
    tab.reload()
    tab.wait_for_selector("#work:not([hidden])")
    assert tab.evaluate("localStorage.length") == 0
    compare_with(tab, "en-fr")
    middleware.authorization = replace(middleware.authorization, token="another")
    write(tab, "i am sad")
    tab.wait_for_selector("#token:not([hidden])")
    assert tab.locator("#token-said").inner_text() == "This token is not valid for this server."
    tab.get_by_label("Token", exact=True).fill("another")
    tab.keyboard.press("Enter")
    tab.wait_for_selector(LOOKED)  # the request is sent again
    assert tab.locator("#text-0").input_value() == "i am sad"


def test_retries_a_full_server_a_few_times(visit, url):
    tab = visit(url, refused=True)
    tab.select_option("#model", "mood")
    tries = []

    def full(route):
        tries.append(time.monotonic())
        if len(tries) == 2:
            route.continue_()
            return
        body = {"error": {"code": "full", "message": "too many <b>requests</b>"}}
        wait = "1" if len(tries) == 1 else "0.01"
        route.fulfill(status=429, headers={"Retry-After": wait}, json=body)

    tab.route("**/v1/predict", full)
    write(tab, "i am")
    tab.wait_for_selector("text=The server is busy.")
    tab.wait_for_selector(LOOKED)
    assert tries[1] - tries[0] >= 1
    tries += [0.0] * 10
    write(tab, "i am happy")
    tab.wait_for_selector("article .wrong")
    assert tab.locator("article .wrong").inner_text() == "too many <b>requests</b>"
    assert len(tries) == 16  # four more


def test_recovers_after_a_lost_connection(visit, url):
    tab = visit(url, refused=True)
    tab.select_option("#model", "mood")
    tab.route("**/v1/predict", lambda route: route.abort())
    write(tab, "i am")
    tab.wait_for_selector("text=The server does not respond.")
    tab.unroute("**/v1/predict")
    tab.get_by_role("button", name="Try again").click()
    tab.wait_for_selector(LOOKED)
    assert tab.locator("article .wrong").count() == 0
    tab.route("**/v1/models", lambda route: route.abort())
    tab.reload()
    tab.wait_for_selector("#trouble:not([hidden])")
    tab.unroute("**/v1/models")
    tab.get_by_role("button", name="Try again").click()
    tab.wait_for_selector("#work:not([hidden])")
    assert tab.locator("#trouble").is_hidden()


def test_late_response_is_not_shown(visit, build, served):
    """Also if the browser cannot cancel the request."""
    tab = visit(served(build(others={"parrot": Parrot()})))
    tab.evaluate(
        """() => {
            const ask = window.fetch;
            window.seen = [];
            new MutationObserver(() => {
                seen.push(document.querySelector(".answer")?.textContent);
            }).observe(document.getElementById("answers"), { childList: true, subtree: true });
            window.fetch = async (path, { signal, ...options } = {}) => {
                const [text] = JSON.parse(options.body).inputs;
                const response = await ask(path, options);
                if (text === "early") await new Promise((done) => setTimeout(done, 1500));
                return response;
            };
        }"""
    )
    with tab.expect_request("**/v1/predict"):
        write(tab, "early")
    write(tab, "late")
    tab.wait_for_selector("text=late")
    tab.wait_for_timeout(1700)
    assert answers(tab) == ["late"]
    assert "early" not in tab.evaluate("seen")
    assert tab.locator('[aria-label="Attended to"] button').all_text_contents() == ["late"]


def test_page_is_usable_with_the_keyboard(visit, url):
    tab = visit(url)

    def tab_to(what):
        for _ in range(30):
            tab.keyboard.press("Tab")
            if tab.evaluate("(what) => document.activeElement.matches(what)", what):
                style = "getComputedStyle(document.activeElement).outlineStyle"
                assert tab.evaluate(style) == "solid"
                return
        raise AssertionError(f"no way to {what}")

    tab_to("#model")
    tab.keyboard.press("m")  # mood
    tab_to("#text-0")
    tab.keyboard.type("i am")
    tab.wait_for_selector(LOOKED)
    tab_to("article .deed button")
    tab_to('[aria-label="Attended to"] button')
    tab.keyboard.press("ArrowRight")
    word = tab.evaluate("document.activeElement.textContent")
    assert tab.locator(".lens .said").inner_text().startswith(f"{word} gets")
    tab_to(".map canvas")
    tab_to(".lens .deed button")
    tab.select_option("#model", "photos")
    tab.locator("#model").focus()
    tab_to("#image")
    assert tab.evaluate("getComputedStyle(document.querySelector('.button')).outlineStyle") == (
        "solid"
    )


def test_images_can_be_pasted_and_dropped(visit, url):
    tab = visit(url)
    tab.select_option("#model", "photos")
    give = """([kind, content, name]) => {
        const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
        const given = new DataTransfer();
        given.items.add(new File([bytes], name, { type: "image/png" }));
        const options = { bubbles: true, cancelable: true };
        const event = kind === "drop"
            ? new DragEvent("drop", { ...options, dataTransfer: given })
            : new ClipboardEvent("paste", { ...options, clipboardData: given });
        return document.body.dispatchEvent(event);
    }"""
    seen = set()
    for kind, side in (("paste", 9), ("drop", 12)):
        content = base64.b64encode(picture(side)).decode()
        assert tab.evaluate(give, [kind, content, "a.png"]) is False  # it was accepted
        until(tab, f"document.querySelector('.shown img')?.naturalWidth === {side}")
        tab.wait_for_selector(LOOKED)
        seen.add(tab.locator(".shown img").get_attribute("src"))
    assert len(seen) == 2
    settle(tab)


def test_large_images_are_resized_before_upload(visit, url, monkeypatch):
    received, parse_upload = [], json_body.parse_upload

    def receive(*args):
        received.append(parse_upload(*args))
        return received[-1]

    monkeypatch.setattr(json_body, "parse_upload", receive)
    tab = visit(url)
    tab.select_option("#model", "photos")
    file = io.BytesIO()
    Image.new("RGB", (1700, 850)).save(file, "BMP")
    large = {"name": "large.bmp", "mimeType": "image/bmp", "buffer": file.getvalue()}
    tab.get_by_label("Choose an image").set_input_files(large)
    tab.wait_for_selector("text=resized to 1600 × 800 pixels")
    tab.wait_for_selector(LOOKED)
    assert received[0]["model"] == "photos"
    assert [Image.open(io.BytesIO(image)).size for image in received[0]["inputs"]] == [(1600, 800)]


def test_copying_and_saving_predictions_and_maps(visit, url):
    tab = visit(url, permissions=["clipboard-read", "clipboard-write"])
    [text] = predict(tab, "mood", "i am happy")
    pasted = "navigator.clipboard.readText()"
    tab.get_by_role("button", name="Copy prediction").click()
    tab.wait_for_selector("text=copied")
    assert tab.evaluate(pasted) == text
    tab.get_by_role("button", name="Copy as JSON").click()
    until(tab, "navigator.clipboard.readText().then((text) => text[0] === '{')")
    copied = json.loads(tab.evaluate(pasted))
    assert copied["label"] == text
    record = AttentionRecord.from_json(json.dumps(copied["attention"]))
    tab.get_by_role("button", name="Copy as SVG").click()
    until(tab, "navigator.clipboard.readText().then((text) => text[0] === '<')")
    figure = ElementTree.fromstring(tab.evaluate(pasted))
    texts = [element.text for element in figure.findall("{*}text")]
    assert texts == [*record.wrote.words, *record.read.words]
    with tab.expect_download() as saving:
        tab.get_by_role("button", name="Save as SVG").click()
    assert saving.value.suggested_filename == "attention.svg"
    assert ElementTree.parse(saving.value.path()).getroot().tag.endswith("svg")
    tab.evaluate("() => { Object.defineProperty(navigator, 'clipboard', { value: undefined }) }")
    tab.get_by_role("button", name="Copy prediction").click()  # as on a page without TLS
    tab.wait_for_selector("text=copied")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_phones(visit, url, scheme):
    options = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    tab = visit(url, color_scheme=scheme, **options)
    fits = "document.documentElement.scrollWidth <= 390"
    tab.select_option("#model", "mood")
    compare_with(tab, "en-fr", "names")
    assert tab.evaluate(fits)
    write(tab, "a b c d e f " * 8 + "a" * 200)
    tab.wait_for_selector(LOOKED)
    settle(tab)
    assert tab.evaluate(fits)
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 23)"
    assert dark == (scheme == "dark")
    tab.select_option("#model", "captions")
    tab.get_by_label("Choose an image").set_input_files(PHOTO)
    tab.wait_for_selector(LOOKED)
    assert tab.evaluate(fits)


def test_hostile_texts_are_shown_as_text(visit, build, served):
    """As inputs, predictions, alternatives, labels, tokens and layer names, ten at a time."""
    assert len(set(HOSTILE)) == len(HOSTILE) >= 200
    tab = visit(served(build(others={"parrot": Parrot(), "labeller": Labeller()})))
    compare_with(tab, "labeller")
    inside = "[...document.querySelectorAll('body *')].map((one) => one.localName)"
    tab.wait_for_selector("#work:not([hidden])")
    for start in range(0, len(HOSTILE), 10):
        lines = HOSTILE[start : start + 10]
        write(tab, "\n".join(lines))
        tab.wait_for_function(
            """(text) => document.querySelector(".answer")?.textContent === text
                && document.querySelectorAll(".bars li").length > 0
                && !document.querySelector("#looked").matches(".waiting, [hidden]")""",
            arg="\n".join(lines),
        )
        settle(tab)
        tab.locator(".lens .panel").first.locator(".text button").first.hover()
        assert tab.locator(".others bdi").all_text_contents() == [line or "∅" for line in lines]
        words = tab.locator('.lens [aria-label="Attended to"]').first.locator("button")
        assert len(words.all_text_contents()) == len(lines)
        labels = tab.locator(".bars bdi").all_text_contents()
        shown = [line for line in lines if line.isprintable()]
        assert [label for label in labels if label in shown] == shown
        if start == 0:
            allowed = set(tab.evaluate(inside))
        assert set(tab.evaluate(inside)) == allowed
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.evaluate("window.__hit") is None
    assert not allowed & {"img", "iframe", "svg", "style", "script", "object", "embed", "video"}


def test_hostile_errors_and_model_names_are_shown_as_text(visit, build, served):
    home = served(build(others={"echo": Echo()}))
    tab = visit(home, refused=True)
    name = HOSTILE[28]
    about = {"object": "model", "created": 0, "owned_by": "saccade", "languages": [name, name]}
    listed = [
        {"id": model, "task": model, "reads": "text", "writes": True, "streams": False, **about}
        for model in (name, HOSTILE[0])
    ]
    body = {"error": {"code": "invalid", "message": name}}
    tab.route("**/v1/models", lambda route: route.fulfill(json={"object": "list", "data": listed}))
    tab.route("**/v1/predict", lambda route: route.fulfill(status=422, json=body))
    tab.reload()
    tab.wait_for_selector("#work:not([hidden])")
    write(tab, "text")
    assert tab.wait_for_selector("article .wrong").inner_text() == name
    assert tab.locator("article h2").inner_text() == name
    assert tab.locator("#model option").all_inner_texts() == [name, HOSTILE[0]]
    assert name in tab.locator("article .task").inner_text()
    assert tab.locator("#chips label").all_inner_texts() == [HOSTILE[0]]
    assert tab.evaluate("window.__hit") is None
    tab.unroute("**/v1/predict")
    tab.unroute("**/v1/models")
    tab.reload()
    tab.wait_for_selector("#work:not([hidden])")
    tab.evaluate("document.getElementById('text-0').value = 'half \\ud83d'")
    tab.keyboard.press("Tab")
    tab.evaluate("document.getElementById('text-0').dispatchEvent(new Event('input'))")
    assert tab.wait_for_selector("article .wrong").inner_text()


def test_the_page_paints_within_a_second_and_is_small(visit, url, record_property):
    tab = visit(url)
    tab.reload()
    tab.wait_for_selector("#work:not([hidden])")
    paint = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    record_property("milliseconds", paint)
    assert paint < 1000
    sizes = tab.evaluate(
        "performance.getEntriesByType('resource').map((one) => one.decodedBodySize)"
    )
    assert sum(sizes) < 200_000
    assert max(sizes) < 30_000


def test_cut_inputs_are_shown_as_such(visit, url):
    tab = visit(url)
    predict(tab, "mood", "i am happy " * 300)
    assert "only a part of it was read" in tab.locator("article .cut").inner_text()
    predict(tab, "mood", "i am happy")
    tab.wait_for_selector("article .cut", state="detached")


def test_api_page_describes_and_tries_every_route(visit, url):
    tab = visit(f"{url}/docs")
    described = tab.evaluate("fetch('/openapi.json').then((response) => response.json())")
    routes = [f"{m.upper()} {path}" for path, known in described["paths"].items() for m in known]
    assert tab.locator("#contents a").all_inner_texts() == routes
    fields = tab.locator('[aria-label="post /v1/predict"] table').first.locator("th")
    schema = described["components"]["schemas"]["PredictRequest"]
    assert fields.all_inner_texts() == list(schema["properties"])
    for path, words in (("/v1/predict", '"truncated"'), ("/translate", '"translatedText"')):
        section = tab.locator(f'[aria-label="post {path}"]')
        section.locator(".try summary").click()
        section.get_by_role("button", name="Send").click()
        output = section.locator('[aria-label="Response"]')
        output.wait_for()
        assert words in output.inner_text()
        assert f"curl {url}{path} --json" in section.locator(".code").first.inner_text()
    assert "-F model=photos -F image=@photo.png" in tab.locator(".code").first.inner_text()


def test_api_page_shows_errors_and_asks_for_the_token(visit, build, served):
    home = served(build("mood", token=TOKEN))
    tab = visit(f"{home}/docs", refused=True, ready="#token:not([hidden])")
    tab.get_by_label("Token", exact=True).fill("not the one")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("text=This token is not valid")
    tab.get_by_label("Token", exact=True).fill(TOKEN)
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#work:not([hidden])")
    section = tab.locator('[aria-label="post /v1/predict"]')
    section.locator(".try summary").click()
    section.get_by_label("Body", exact=True).fill('{"inputs": []}')
    section.get_by_role("button", name="Send").click()
    output = section.locator('[aria-label="Response"]')
    output.wait_for()
    assert "inputs: must have at least 1 item" in output.inner_text()
    assert "-H 'Authorization: Bearer TOKEN'" in section.locator(".code").first.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_api_page_fits_phones_and_has_no_accessibility_violations(visit, url, scheme):
    options = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    tab = visit(f"{url}/docs", color_scheme=scheme, **options)
    for summary in tab.locator("summary").all():
        summary.click()
    assert tab.evaluate("document.documentElement.scrollWidth <= 390")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    report = axe.run(tab)
    assert report.violations_count == 0, report.generate_report()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_has_no_accessibility_violations(visit, url, build, served, scheme):
    """By the rules of axe: names, roles, contrast, order."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    def check(tab):
        settle(tab)
        tab.wait_for_timeout(200)  # until transitions have ended
        report = axe.run(tab)
        assert report.violations_count == 0, report.generate_report()

    tab = visit(url, refused=True, color_scheme=scheme)
    check(tab)
    predict(tab, "mood", "i am happy")
    check(tab)
    tab.locator(".lens .text button").nth(2).click()
    compare_with(tab, "en-fr")
    tab.locator("#options summary").click()
    tab.get_by_label("Number of answers").fill("3")
    tab.wait_for_selector(".others li")
    tab.wait_for_selector(LOOKED)
    check(tab)
    tab.get_by_label("Beam width").fill("99")
    tab.wait_for_selector("article .wrong")
    check(tab)
    tab.select_option("#model", "photos")
    tab.get_by_label("Choose an image").set_input_files(PHOTO)
    tab.wait_for_selector(LOOKED)
    check(tab)
    locked = served(build("mood", token=TOKEN))
    tab = visit(locked, refused=True, ready="#token:not([hidden])", color_scheme=scheme)
    tab.get_by_label("Token", exact=True).fill("not the one")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("text=This token is not valid")
    check(tab)
