"""Parts that need no server: metrics, logs, stop sequences, names, tokens, problems."""

import asyncio
import json
import logging
import re
import sys
import threading
from importlib.resources import files

import pytest

from saccade.errors import ServeError
from saccade.serve.auth import Authorization, is_loopback
from saccade.serve.logs import EngineNotices, JsonFormatter
from saccade.serve.models import ServedRun
from saccade.serve.problems import PROBLEMS, Problem
from saccade.serve.prometheus import ServerMetrics
from saccade.serve.stop_sequences import StopSequences
from saccade.serve.streamer import Streamer


def test_metrics_of_two_servers_are_separate():
    one, other = ServerMetrics(), ServerMetrics()
    one.dropped.labels('a"b\\c\nd').inc()
    assert b'saccade_connections_dropped_total{reason="a\\"b\\\\c\\nd"} 1.0\n' in one.text()
    assert b"{" not in other.text()


@pytest.mark.parametrize(
    ("stops", "pieces", "passed", "reached"),
    [
        ((), ["ab", "c"], ["ab", "c", ""], False),
        (("END",), ["abE", "N", "Dx", "y"], ["ab", "", "", "", ""], True),
        (("END",), ["abE", "N", "x"], ["ab", "", "ENx", ""], False),
        (("END",), ["abE", "N"], ["ab", "", "EN"], False),
        (("b", "ab"), ["xab"], ["x", ""], True),
        (("aab",), ["aaab"], ["a", ""], True),
        (("aab",), ["aa", "ab"], ["", "a", ""], True),
        (("x",), ["x"], ["", ""], True),
    ],
)
def test_text_ends_before_the_first_stop_sequence(stops, pieces, passed, reached):
    filtered = StopSequences(stops)
    assert [*(filtered.feed(piece) for piece in pieces), filtered.flush()] == passed
    assert filtered.reached is reached


@pytest.mark.parametrize("cut", range(1, 9))
def test_stop_sequences_do_not_depend_on_the_pieces(cut):
    text = "one two\nthree two"
    for stops in (["two"], ["\n", "three"], ["zzz"], ["e two"]):
        once, parts = StopSequences(stops), StopSequences(stops)
        expected = once.feed(text) + once.flush()
        pieces = [text[at : at + cut] for at in range(0, len(text), cut)]
        assert "".join(map(parts.feed, pieces)) + parts.flush() == expected


def test_served_run_parses_names_and_languages(tmp_path):
    (tmp_path / "first").mkdir()
    plain = ServedRun.parse(str(tmp_path / "first"))
    assert (plain.name, plain.folder, plain.languages) == ("first", tmp_path / "first", None)
    assert ServedRun.parse("en-fr=runs/x").languages == ("en", "fr")
    assert ServedRun.parse("my-model=runs/x").languages is None
    assert ServedRun.parse("runs/my-run").languages is None  # only an explicit name sets them
    for bad in ("=x", "a b=x", "a/b=x", "é=x", "../..", "-a=x", "a" * 101 + "=x"):
        with pytest.raises(ServeError, match="is not a valid name of a model"):
            ServedRun.parse(bad if bad != "../.." else "/")


def test_logged_errors_have_a_place_but_no_text(capsys):
    def line(**options):
        try:
            raise ValueError("a secret text")
        except ValueError:
            raised = sys.exc_info()
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed", (), raised)
        record.facts = {"id": "7"}
        return json.loads(JsonFormatter(**options).format(record))

    silent = line(text=False)
    assert (silent["event"], silent["error"], silent["id"]) == ("failed", "ValueError", "7")
    assert silent["level"] == "error"
    assert silent["at"][0].startswith(__file__)
    assert "secret" not in json.dumps(silent)
    assert line(text=True)["message"] == "a secret text"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "example.org", "localhost.example"])
def test_public_addresses_require_a_token(host):
    assert not is_loopback(host)
    with pytest.raises(ServeError, match=r"--token-file FILE, or .* SACCADE_TOKEN"):
        Authorization.for_address(host, token=None)
    authorization = Authorization.for_address(host, token="0123456789abcdef")
    assert "0123456789abcdef" not in repr(authorization)
    with pytest.raises(ServeError, match="16 ASCII characters"):
        Authorization.for_address(host, token="short")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_addresses_need_no_token(host):
    assert is_loopback(host)
    authorization = Authorization.for_address(host, token=None)
    authorization.check("/", {"host": f"[{host}]:80" if ":" in host else f"{host}:80"})


def test_every_problem_has_the_same_shape():
    for code, (status, _) in PROBLEMS.items():
        problem = Problem(code, "a sentence")
        assert problem.status_code == status
        kind = "invalid_request_error" if status < 500 else "server_error"
        error = {"code": code, "message": "a sentence", "type": kind, "param": None}
        assert problem.body() == {"error": error}
    assert Problem("full", "").headers["Retry-After"] == "1"
    assert Problem("no_token", "").headers["WWW-Authenticate"] == "Bearer"


def test_folder_with_an_equals_sign_needs_a_name(tmp_path):
    (tmp_path / "lr=3").mkdir()
    with pytest.raises(ServeError, match=r"as in: mymodel=.*lr=3$"):
        ServedRun.parse(str(tmp_path / "lr=3"))
    assert ServedRun.parse(f"mymodel={tmp_path / 'lr=3'}").folder == tmp_path / "lr=3"


def test_engine_notices_are_logged_once_logging_starts(capsys, caplog):
    caplog.set_level(logging.INFO, "saccade.serve")
    notify = EngineNotices()
    notify("building an engine")
    assert capsys.readouterr().err == "building an engine\n"
    notify.logs = True
    notify("using eager")
    assert capsys.readouterr().err == ""
    assert [record.facts for record in caplog.records] == [{"message": "using eager"}]


def test_close_does_not_wait_for_a_stuck_stream():
    released, streamer = threading.Event(), Streamer(1, lambda: None)

    def start():
        released.wait(60)
        yield "late"
        return True

    async def listen() -> None:
        pieces = streamer.stream(start)
        first = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0.05)
        assert streamer.close(0.05) is False
        released.set()
        assert (await first).text == "late"
        await pieces.aclose()

    asyncio.run(listen())
    assert streamer.close(60.0) is True


def test_index_has_every_element_that_scripts_use():
    page = files("saccade.serve.page")
    named = re.findall(r'^ +"?([\w-]+)"?: HTML', page.joinpath("parts.js").read_text(), re.M)
    ids = re.findall(r' id="([\w-]+)"', page.joinpath("index.html").read_text())
    assert len(named) > 10
    assert set(named) <= set(ids)
