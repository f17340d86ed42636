"""report.html: the result first, text of users is escaped, and nothing is fetched."""

import json
import os
from itertools import pairwise

from saccade.lens.page.charts import tick_text
from saccade.training import film as films
from saccade.training.film import Film, read_film
from saccade.training.report import read_metrics, report_due
from saccade.training.run import Run
from tests.pages import Seen
from tests.training.runs import train

EVIL = '<script>alert("1")</script>'


ACTIVE = {"iframe", "object", "embed", "link", "a", "form"}


def report_of(folder) -> Seen:
    return Seen((folder / "report.html").read_text(encoding="utf-8"))


def test_text_of_users_is_escaped(place):
    rows = [f"{EVIL} {letter} 'q' & \"r\"\t<b>{letter} {EVIL}</b>" for letter in "abcdefgh"]
    for name in ("train", "valid"):
        text = "\n".join(["source\ttarget", *rows]) + "\n"
        (place / "data" / f"{name}.tsv").write_text(text)
    out = 'run<img src=x onerror="alert(2)">'
    train(place, out, "training.validate_items=5")
    seen = report_of(place / out)
    assert not ACTIVE & set(seen.names)
    assert seen.names.count("script") == 2  # the film, and what it shows
    assert not {"href", "src", "onerror", "style"} & seen.attributes
    assert EVIL in seen.text
    assert seen.inside["title"].startswith(out)  # charts have titles, too
    assert '& "r"' in seen.text
    assert seen.policy["default-src"] == "'none'"
    assert all(seen.policy[name].startswith("'sha256-") for name in ("style-src", "script-src"))


def test_the_report_begins_with_its_result(place):
    train(place, "run")
    page = (place / "run" / "report.html").read_text(encoding="utf-8")
    seen = Seen(page)
    assert len(page) < 1_500_000
    parts = ["Exact match on", "baseline", "Cost", "updates", "Loss", "Film of learning"]
    parts += ["How far to trust its attention", "Predictions for validation inputs"]
    places = [seen.text.index(part) for part in parts]
    assert places == sorted(places)
    assert "Without the words it looked at most, the probability of an answer falls by" in seen.text
    assert "max_steps = 12" in seen.text
    assert "nan" not in seen.text
    assert Run(place / "run").task().align_by.layer is not None
    folded = [values for tag, values in seen.tags if tag == "details"]
    assert len(folded) > 4
    assert all("open" not in values for values in folded)


def test_train_and_validation_share_a_chart_with_the_best_step_marked(place):
    train(place, "run")
    seen = report_of(place / "run")
    charts = [values["aria-label"] for _, values in seen.tags if values.get("class") == "chart"]
    [loss] = [name for name in charts if name.startswith("loss by step")]
    validations = [r for r in read_metrics(Run(place / "run")) if "valid_loss" in r]
    for name, key in (("train", "train_loss"), ("validation", "valid_loss")):
        first, last = validations[0][key], validations[-1][key]
        assert f"{name} from {first:.3g} to {last:.3g}" in loss
    best = max(validations, key=lambda r: (r["exact_match"], -r["valid_loss"]))
    assert loss.endswith(f"the best at {tick_text(best['step'])}")


def test_the_film_shows_the_attention_at_every_validation(place):
    train(place, "run")
    film = read_film(Run(place / "run"))
    assert [frame["step"] for frame in film["frames"]] == [4, 8, 12]
    assert len(film["inputs"]) == films.SCENES
    last, task = film["frames"][-1], Run(place / "run").task()
    given, right = film["inputs"][0]["read"], film["inputs"][0]["right"]
    [record] = task.records([" ".join(given["words"])], [right])
    if read_metrics(Run(place / "run"))[-1]["step"] == 12:  # the best weights may be earlier ones
        assert films.weights_of(record).shape == (len(right.split()), len(given["words"]))
    assert 0 < last["weights"][0][0] <= 1
    shown = json.loads(report_of(place / "run").inside["script application/json"])
    assert shown["frames"] == film["frames"]


def test_a_long_film_keeps_every_other_frame(place, monkeypatch):
    monkeypatch.setattr(films, "FRAMES", 8)
    train(place, "run", max_steps=2)
    run = Run(place / "run")
    task = run.task()
    items = run.samples()
    film = Film(run, task, items)
    for step in range(1, 60):
        film.record(step, 1.0, [""] * len(items))
    steps = [frame["step"] for frame in read_film(run)["frames"]]
    assert len(steps) <= 8
    assert steps[0] == 1
    assert steps[-1] > 48
    assert len({after - before for before, after in pairwise(steps)}) == 1
    film.record(steps[3], 1.0, [""] * len(items))  # resumed from an earlier checkpoint
    assert [frame["step"] for frame in read_film(run)["frames"]] == steps[:4]
    run.film.write_text("{")
    assert read_film(run) is None


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
