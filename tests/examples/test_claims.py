"""The claims: each has a rule that can fail, and writes the data of its page."""

import ast
import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from saccade.attention import Dot, MultiHeadAttention
from saccade.metrics import MetricScore

ROOT = Path(__file__).parents[2]
CLAIMS = sorted((ROOT / "examples" / "claims").glob("k*.py"))
ARITHMETIC = ("k04_variance", "k07_heads_cost", "k11_good_positions", "k14_three_vectors")
LARGEST = 100_000  # bytes of a plot


@pytest.fixture(autouse=True)
def _own_random_numbers():
    """Claims seed the generator; restore it for the tests that follow."""
    with torch.random.fork_rng():
        yield


def load(name: str) -> ModuleType:
    folder = str(CLAIMS[0].parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)


def page_maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_claims", ROOT / "docs" / "make_claims.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_claims"] = module  # dataclasses look their module up here
    spec.loader.exec_module(module)
    return module


claim, Statement = load("claim"), load("statement").Statement


def require_files(folder: Path, name: str) -> dict[str, object]:
    picture = folder / f"{name}.svg"
    assert picture.stat().st_size < LARGEST
    assert "<svg" in picture.read_text(encoding="utf-8")
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


# all of them


def test_every_claim_has_a_complete_statement():
    files = [ast.parse(path.read_text(encoding="utf-8")) for path in CLAIMS]
    statements = [Statement.parse(ast.get_docstring(file)) for file in files]
    assert [statement.key for statement in statements] == [f"K{i}" for i in range(1, 16)]
    assert [f"k{int(statement.key[1:]):02}" for statement in statements] == [
        path.stem[:3] for path in CLAIMS
    ]
    reported = [s.key for s in statements if s.rule.startswith("Reported: ")]
    assert reported == ["K13"]


@pytest.mark.slow
@pytest.mark.parametrize("path", CLAIMS, ids=lambda path: path.stem)
def test_a_rehearsal_runs(path, tmp_path):
    """Every claim, K1 to K15, runs with few updates."""
    run = subprocess.run(
        [sys.executable, path, "--quick", "--out", tmp_path / "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    key = f"K{int(path.stem[1:3])}"
    [line] = run.stdout.splitlines()
    printed = line.removeprefix(f"{key} ").split(" (rehearsal): ")
    assert printed[0] in ("holds", "does not hold", "reported")
    result = require_files(tmp_path / "out", path.stem)
    assert (result["key"], result["verdict"], result["figures"]) == (key, *printed)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]  # training runs leave no files


# arithmetic


@pytest.mark.parametrize("name", ARITHMETIC)
def test_claims_by_arithmetic_hold(name, tmp_path, capsys):
    """K4, K7, K11 and K14 are measured in full."""
    load(name).CLAIM.main(["--quick", "--out", str(tmp_path)])
    result = require_files(tmp_path, name)
    assert (result["verdict"], result["rehearsal"]) == ("holds", True)
    assert capsys.readouterr().out == f"{result['key']} holds (rehearsal): {result['figures']}\n"


def test_operations_equal_the_formula():
    """The operations that K7 counts."""
    batch, length, dim = 3, 32, 64
    by_hand = 2 * 4 * batch * length * dim**2 + 2 * 2 * batch * length**2 * dim
    x = torch.randn(batch, length, dim)
    assert load("k07_heads_cost").operations(MultiHeadAttention(dim, 8), x) == by_hand


def test_parameters_of_three_vectors_for_500_000_words():
    """The parameters that K14 counts."""
    numbers = load("k14_three_vectors").CLAIM.measure(SimpleNamespace(words=500_000)).numbers
    assert numbers["three_vectors"][500_000] == 3 * 512 * 500_000
    assert numbers["one_vector"] == 512 * 500_000 + 3 * 512**2
    assert numbers["transformer"] == 44_140_544


@pytest.mark.parametrize(
    ("name", "part", "wrong"),
    [
        ("k04_variance", "ScaledDot", type("ScaledDot", (Dot,), {})),
        ("k07_heads_cost", "MultiHeadAttention", lambda d, h, head="full": full_heads(d, h)),
        ("k11_good_positions", "Sinusoidal", load("rejected_positions").AddIndex),
    ],
)
def test_a_false_claim_does_not_hold(monkeypatch, name, part, wrong):
    module = load(name)
    monkeypatch.setattr(module, part, wrong)
    assert module.measure(module.CLAIM.quick).verdict == "does not hold"


def full_heads(dim, num_heads):
    return MultiHeadAttention(dim, num_heads, head="full")


def test_three_vectors_of_subwords_do_not_hold():
    module = load("k14_three_vectors")
    assert module.measure(module.Size(words=40_000)).verdict == "does not hold"


# rules of claims with training runs, whose results are set by hand


def verdict(monkeypatch, name: str, part: str, replacement, **size) -> str:
    """Return the verdict of a claim with `part` of its file replaced."""
    module = load(name)
    monkeypatch.setattr(module, part, replacement)
    return module.measure(SimpleNamespace(**size)).verdict


@pytest.mark.parametrize(
    ("with_", "without", "expected"),
    [
        ([0.01, 0.02], [0.3, 0.2], "holds"),
        ([0.01, 0.06], [0.3, 0.2], "does not hold"),  # attention also gets worse in one seed
        ([0.01, 0.02], [0.3, 0.09], "does not hold"),  # without it, one seed does not get worse
    ],
)
def test_the_bottleneck_is_judged_in_every_seed(monkeypatch, with_, without, expected):
    """The rule of K1."""
    rises = {"after": with_, "none": without}

    def error_rates(attention, steps, seed):
        return {2.0: 0.1, 5.0: 0.1, 11.0: 0.1 + rises[attention][seed]}

    assert (
        verdict(monkeypatch, "k01_bottleneck", "error_rates", error_rates, seeds=2, steps=1)
        == expected
    )


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (lambda layer, n: n**2 if layer == "MultiHeadAttention" else n, "holds"),
        (lambda layer, n: n, "does not hold"),
        (lambda layer, n: n**2, "does not hold"),
    ],
)
def test_slopes_are_fitted(monkeypatch, time, expected):
    """The rule of K2."""

    def seconds(call, rounds):
        return [time(type(call.func).__name__, call.args[0].shape[1])] * rounds

    size = {"rounds": 2, "longest": 2048}
    assert verdict(monkeypatch, "k02_quadratic", "seconds", seconds, **size) == expected


@pytest.mark.parametrize(
    ("reading", "learning", "expected"),
    [(2.0, 1.6, "holds"), (2.0, 1.4, "does not hold"), (1.4, 2.0, "does not hold")],
)
def test_a_transformer_must_be_faster_in_reading_and_learning(
    monkeypatch, reading, learning, expected
):
    """The rule of K3."""
    module = load("k03_parallel")

    def seconds(call, rounds):
        learns = call.func is module.learn
        model = call.args[0] if learns else call.func
        recurrent = any("Recurrent" in type(part).__name__ for part in model.modules())
        return [(learning if learns else reading) if recurrent else 1.0] * rounds

    size = {"rounds": 2, "longest": 64}
    assert verdict(monkeypatch, "k03_parallel", "seconds", seconds, **size) == expected


@pytest.mark.parametrize(
    ("slower", "apart", "expected"),
    [(6, 0.0, "holds"), (4, 0.0, "does not hold"), (6, 0.1, "does not hold")],
)
def test_steps_must_be_slower_and_equal_the_one_pass(monkeypatch, slower, apart, expected):
    """The rule of K15: the same logits, in one pass or in as many steps (M6)."""
    module = load("k15_writing")
    stepwise = module.stepwise
    monkeypatch.setattr(module, "stepwise", lambda *given: stepwise(*given) + apart)

    def seconds(call, rounds):
        in_one_pass = isinstance(call.func, torch.nn.Module)
        return [1 if in_one_pass else slower] * rounds

    size = {"rounds": 2, "longest": 16}
    assert verdict(monkeypatch, "k15_writing", "seconds", seconds, **size) == expected


def test_the_scores_of_attention_are_reported_with_their_intervals(monkeypatch):
    """K13 is reported: falls of the probability beside those of random words, and alignments."""
    names = ("comprehensiveness", "comprehensiveness_over_random", "alignment_error_rate")

    def assessed(name, size):
        scores = {
            key: MetricScore(name=key, value=0.3, signature="", interval=(0.2, 0.4))
            for key in names
        }
        return SimpleNamespace(
            scores=scores, values=lambda: dict.fromkeys(names, 0.3), as_json=lambda: {"details": {}}
        )

    module = load("k13_explains")
    monkeypatch.setattr(module, "assessed", assessed)
    outcome = module.measure(module.CLAIM.quick)
    assert outcome.verdict == "reported"
    assert outcome.figures.count("falls by 0.30") == 2
    assert outcome.figures.endswith("alignment error rate on phrases 0.30 [0.20, 0.40]")
    assert outcome.numbers["mood"]["scores"] == dict.fromkeys(names, 0.3)


@pytest.mark.parametrize(("left", "expected"), [(1e-9, "holds"), (0.01, "does not hold")])
def test_gradients_are_judged_by_the_fraction_that_remains(monkeypatch, left, expected):
    """The rule of K6."""

    def gradient(cell, attention, length, seed):
        return 0.5 / length if attention == "before" else (1.0 if length == 5 else left)

    assert verdict(monkeypatch, "k06_gradient_path", "gradient", gradient, seeds=2) == expected


@pytest.mark.parametrize(
    ("pre", "post", "expected"),
    [(1e-2, 1e-3, "holds"), (1e-2, 1e-2, "does not hold"), (0.0, 0.0, "does not hold")],
)
def test_the_highest_learning_rate_decides(monkeypatch, pre, post, expected):
    """The rule of K8."""

    def loss(order, rate, steps, seed):
        return 1.5 if rate <= {"pre": pre, "post": post}[order] else 3.3

    size = {"seeds": 2, "steps": 1, "rates": (1e-3, 1e-2)}
    assert verdict(monkeypatch, "k08_norm_order", "loss", loss, **size) == expected


@pytest.mark.parametrize(("last", "expected"), [(0.06, "holds"), (0.04, "does not hold")])
def test_heads_are_judged_in_every_layer(monkeypatch, last, expected):
    """The rule of K9."""
    module = load("k09_heads_differ")
    names = ("encoder.layers.0.self_attention", "decoder.layers.1.cross")
    by_steps = {0: dict.fromkeys(names, 0.05), 9: dict(zip(names, (0.3, last), strict=True))}
    monkeypatch.setattr(module, "trained", lambda *_, steps, seed: by_steps[steps])
    monkeypatch.setattr(module, "divergences", lambda task: task)
    outcome = module.measure(SimpleNamespace(seeds=2, steps=9))
    assert outcome.verdict == expected
    names = [label.get_text() for label in outcome.chart.axes[0].get_xticklabels()]
    assert names == ["encoder 0 self", "decoder 1 cross"]


@pytest.mark.parametrize(
    ("rises", "expected"),
    [
        ({"learned": 0.5, "sinusoidal": 0.3, "relative": 0.0, "rotary": -0.1}, "holds"),
        ({"learned": 0.5, "sinusoidal": 0.48, "relative": 0.0, "rotary": 0.0}, "does not hold"),
        ({"learned": 0.08, "sinusoidal": 0.0, "relative": 0.0, "rotary": 0.0}, "does not hold"),
    ],
)
def test_positions_are_judged_by_the_rise_of_the_loss(monkeypatch, rises, expected):
    """The rule of K10."""

    def losses(kind, steps, seed):
        return [4.0] * 15 + [2.0] * 10 + [2.0 + rises[kind]] * 25

    assert verdict(monkeypatch, "k10_longer_texts", "losses", losses, seeds=2, steps=1) == expected


@pytest.mark.parametrize(
    ("fewest", "most", "expected"),
    [
        (0.10, 0.02, "holds"),
        (0.10, 0.095, "does not hold"),  # data does not help
        (0.0, -0.05, "does not hold"),  # the ViT was never worse
    ],
)
def test_a_vit_must_be_worse_and_catch_up(monkeypatch, fewest, most, expected):
    """The rule of K12."""
    monkeypatch.setattr(load("k12_vit_data"), "write_images", lambda *_: None)

    def accuracy(name, data, steps, seed):
        lead = fewest if data.name == "100" else most
        return 0.9 if name == "CNN" else 0.9 - lead

    assert verdict(monkeypatch, "k12_vit_data", "accuracy", accuracy, seeds=2, steps=1) == expected


# shared parts


def test_parse_raises_on_a_claim_without_a_rule():
    with pytest.raises(AssertionError, match="K9 has no rule"):
        Statement.parse("K9. So it is.\n\nSource: us.\n\nMeasured: not.\n\nTrust us.")


def test_parse_joins_the_lines_of_paragraphs():
    statement = Statement.parse(
        "K9. So\nit is.\n\nSource: us.\n\nMeasured: a\nb.\n\nHolds if: 1 < 2.\n"
    )
    assert statement == Statement(
        "K9", "So it is.", "Source: us.", "Measured: a b.", "Holds if: 1 < 2."
    )


def test_between_gives_a_range():
    assert claim.between([0.3, 0.1, 0.2]) == "0.10 to 0.30"
    assert claim.between([0.101, 0.099], ".1f") == "0.1"


def test_lines_go_through_the_means():
    chart = claim.lines({"a": {1: [1.0, 3.0], 2: [4.0]}}, x="x", y="y", log="xy")
    [axes] = chart.axes
    assert axes.lines[0].get_ydata().tolist() == [2.0, 4.0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_seconds_excludes_the_first_call():
    calls = []
    taken = claim.seconds(lambda: calls.append(1), 3)
    assert (len(calls), len(taken)) == (4, 3)
    assert all(time >= 0 for time in taken)


def test_write_table(tmp_path):
    path = claim.write_table(tmp_path / "a.tsv", ("source", "target"), [("a b", "b a")])
    assert path.read_text(encoding="utf-8") == "source\ttarget\na b\tb a\n"


# the page


def test_the_page_is_up_to_date():
    maker = page_maker()
    assert maker.page() == maker.PAGE.read_text(encoding="utf-8"), "run python docs/make_claims.py"


def test_the_page_shows_results_and_missing_results(tmp_path):
    module = load("k14_three_vectors")
    module.CLAIM.main(["--out", str(tmp_path)])
    page = page_maker().page(tmp_path)
    [row] = [line for line in page.splitlines() if line.startswith("| [K14](#k14) |")]
    assert "| **holds** | 768,000,000 parameters" in row
    assert "![K14](../claims/k14_three_vectors.svg)" in page
    assert "Not measured yet: `python examples/claims/k01_bottleneck.py`." in page


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"rehearsal": True}, "rehearsal"), ({"rule": "Holds if: it does."}, "another rule")],
)
def test_the_page_raises_on_results_that_do_not_fit(tmp_path, changed, message):
    load("k14_three_vectors").CLAIM.main(["--out", str(tmp_path)])
    path = tmp_path / "k14_three_vectors.json"
    result = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**result, **changed}), encoding="utf-8")
    with pytest.raises(SystemExit, match=message):
        page_maker().page(tmp_path)
