"""Measures, logs, ends of texts, names of models: the parts that need no server."""

import asyncio
import json
import logging
import re
import sys
import threading
from importlib.resources import files

import pytest

from saccade.errors import ServeError
from saccade.serve.auth import Guard, is_loopback
from saccade.serve.logs import JsonLines, Saying
from saccade.serve.models import Served
from saccade.serve.problems import STATUS, Problem
from saccade.serve.prometheus import Measures
from saccade.serve.stop_sequences import Ends
from saccade.serve.streamer import Streamer


def test_servers_of_a_process_count_on_their_own():
    one, other = Measures(), Measures()
    one.dropped.labels('a"b\\c\nd').inc()
    assert b'saccade_connections_dropped_total{reason="a\\"b\\\\c\\nd"} 1.0\n' in one.text()
    assert b"{" not in other.text()


@pytest.mark.parametrize(
    ("stops", "pieces", "said", "reached"),
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
def test_text_ends_before_the_first_end(stops, pieces, said, reached):
    ends = Ends(stops)
    assert [*(ends.add(piece) for piece in pieces), ends.rest()] == said
    assert ends.reached is reached


@pytest.mark.parametrize("cut", range(1, 9))
def test_pieces_make_no_difference(cut):
    text = "one two\nthree two"
    for stops in (["two"], ["\n", "three"], ["zzz"], ["e two"]):
        whole, parts = Ends(stops), Ends(stops)
        at_once = whole.add(text) + whole.rest()
        pieces = [text[at : at + cut] for at in range(0, len(text), cut)]
        assert "".join(map(parts.add, pieces)) + parts.rest() == at_once


def test_names_of_models(tmp_path):
    (tmp_path / "first").mkdir()
    plain = Served.parse(str(tmp_path / "first"))
    assert (plain.name, plain.folder, plain.languages) == ("first", tmp_path / "first", None)
    assert Served.parse("en-fr=runs/x").languages == ("en", "fr")
    assert Served.parse("my-model=runs/x").languages is None
    assert Served.parse("runs/my-run").languages is None  # a folder's name says nothing
    for bad in ("=x", "a b=x", "a/b=x", "é=x", "../..", "-a=x", "a" * 101 + "=x"):
        with pytest.raises(ServeError, match="cannot be the name of a model"):
            Served.parse(bad if bad != "../.." else "/")


def test_logs_say_where_and_not_what(capsys):
    def line(**options):
        try:
            raise ValueError("a secret text")
        except ValueError:
            found = sys.exc_info()
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed", (), found)
        record.facts = {"id": "7"}
        return json.loads(JsonLines(**options).format(record))

    silent = line(text=False)
    assert (silent["event"], silent["error"], silent["id"]) == ("failed", "ValueError", "7")
    assert silent["level"] == "error"
    assert silent["at"][0].startswith(__file__)
    assert "secret" not in json.dumps(silent)
    assert line(text=True)["message"] == "a secret text"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "example.org", "localhost.example"])
def test_beyond_this_machine_a_token_is_needed(host):
    assert not is_loopback(host)
    with pytest.raises(ServeError, match=r"--token-file FILE, or .* SACCADE_TOKEN"):
        Guard.of(host, token=None, open=())
    guard = Guard.of(host, token="0123456789abcdef", open=())
    assert "0123456789abcdef" not in repr(guard)
    with pytest.raises(ServeError, match="16 ASCII characters"):
        Guard.of(host, token="short", open=())


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machine_may_go_without(host):
    assert is_loopback(host)
    guard = Guard.of(host, token=None, open=())
    guard.check("/", {"host": f"[{host}]:80" if ":" in host else f"{host}:80"})


def test_every_problem_has_one_shape():
    for code, status in STATUS.items():
        problem = Problem(code, "a sentence")
        assert problem.status_code == status
        assert problem.body() == {"error": {"code": code, "message": "a sentence"}}
    assert Problem("full", "").headers["Retry-After"] == "1"
    assert Problem("no_token", "").headers["WWW-Authenticate"] == "Bearer"


def test_a_folder_whose_name_holds_an_equals_sign(tmp_path):
    (tmp_path / "lr=3").mkdir()
    with pytest.raises(ServeError, match=r"as in: mymodel=.*lr=3$"):
        Served.parse(str(tmp_path / "lr=3"))
    assert Served.parse(f"mymodel={tmp_path / 'lr=3'}").folder == tmp_path / "lr=3"


def test_what_engines_say_is_logged_once_the_server_logs(capsys, caplog):
    caplog.set_level(logging.INFO, "saccade.serve")
    notify = Saying()
    notify("making it")
    assert capsys.readouterr().err == "making it\n"
    notify.logs = True
    notify("left to eager")
    assert capsys.readouterr().err == ""
    assert [record.facts for record in caplog.records] == [{"said": "left to eager"}]


def test_a_text_that_does_not_come_keeps_nobody_from_ending():
    held, streamer = threading.Event(), Streamer(1)

    def begin():
        held.wait(60)
        yield "late"
        return True

    async def listen() -> None:
        pieces = streamer.pieces(begin)
        waiting = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0.05)
        assert streamer.close(0.05) is False
        held.set()
        assert await waiting == "late"
        await pieces.aclose()

    asyncio.run(listen())
    assert streamer.close(60.0) is True


def test_every_element_that_scripts_ask_for_is_in_the_page():
    page = files("saccade.serve.page")
    named = re.findall(r'^ +"?([\w-]+)"?: HTML', page.joinpath("parts.js").read_text(), re.M)
    ids = re.findall(r' id="([\w-]+)"', page.joinpath("index.html").read_text())
    assert len(named) > 10
    assert set(named) <= set(ids)
