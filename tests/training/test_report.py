"""report.html: text of users is escaped, and nothing is fetched."""

import os

from saccade.training.report import read_metrics, report_due
from saccade.training.run import Run
from tests.pages import Seen
from tests.training.runs import train

EVIL = '<script>alert("1")</script>'


TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "pre", "figure"}
TAGS |= {"main", "div", "picture", "source", "img", "ul", "li", "b"}
IMAGES = {"img", "source"}
TAGS |= {"table", "thead", "tbody", "tr", "th", "td"}


def test_text_of_users_is_escaped(place):
    rows = [f"{EVIL} {letter} 'q' & \"r\"\t<b>{letter} {EVIL}</b>" for letter in "abcdefgh"]
    for name in ("train", "valid"):
        text = "\n".join(["source\ttarget", *rows]) + "\n"
        (place / "data" / f"{name}.tsv").write_text(text)
    out = 'run<img src=x onerror="alert(2)">'
    train(place, out, "training.validate_items=5")
    page = (place / out / "report.html").read_text(encoding="utf-8")
    seen = Seen(page)
    assert set(seen.names) <= TAGS
    assert not {"href", "onerror", "style"} & seen.attributes
    images = [values.get("src") or values["srcset"] for tag, values in seen.tags if tag in IMAGES]
    assert images
    assert all(address.startswith("data:image/svg+xml;base64,") for address in images)
    assert "http:" not in page
    assert "https:" not in page
    assert "url(" not in page
    assert EVIL in seen.text
    assert f"Saccade: {out}" in seen.text
    assert '& "r"' in seen.text
    assert seen.policy["default-src"] == "'none'"
    assert seen.policy["style-src"].startswith("'sha256-")
    assert "script-src" not in seen.policy


def test_the_report_explains_its_measures_of_attention(place):
    train(place, "run")
    seen = Seen((place / "run" / "report.html").read_text(encoding="utf-8"))
    assert "How far to believe its attention" in seen.text
    assert "Without the words it looked at most, the probability of an answer falls by" in seen.text
    assert Run(place / "run").task().align_by.layer is not None


def test_the_report_shows_curves_and_predictions(place):
    train(place, "run")
    seen = Seen((place / "run" / "report.html").read_text(encoding="utf-8"))
    for part in ("valid loss", "exact match", "max_steps = 12", "12 steps"):
        assert part in seen.text, part
    assert "nan" not in seen.text
    names = [values["alt"] for tag, values in seen.tags if tag == "img"]
    assert {"loss by step", "learning rate by step", "validation: exact match by step"} <= {*names}
    assert len(names) == len({*names})
    legends = [values["class"] for tag, values in seen.tags if tag == "b"]
    assert legends == ["colour-0", "colour-1", "colour-2"]  # of updates, training, validation


def test_wide_tables_have_their_own_scroll_bar(place):
    train(place, "run", max_steps=2)
    seen = Seen((place / "run" / "report.html").read_text(encoding="utf-8"))
    tables = [at for at, (tag, _) in enumerate(seen.tags) if tag == "table"]
    assert tables
    assert all(seen.tags[at - 1][1]["class"].split()[0] == "wide" for at in tables)


def test_an_old_report_is_rewritten(place):
    train(place, "run", max_steps=4)
    run = Run(place / "run")
    assert not report_due(run)
    report = place / "run" / "report.html"
    os.utime(report, ns=(0, 0))
    assert report_due(run)
    train(place, "run", max_steps=4, resume=True)
    assert not report_due(run)
    report.unlink()
    assert report_due(run)


def test_read_metrics_skips_a_torn_line(place):
    train(place, "run", max_steps=2)
    run = Run(place / "run")
    records = read_metrics(run)
    with run.metrics.open("a") as file:
        file.write('{"step": 3, "lo')
    assert read_metrics(run) == records
