"""saccade serve: errors before it serves. tests/serve has the server itself."""

import pytest


@pytest.fixture(autouse=True)
def _without_token(monkeypatch):
    monkeypatch.delenv("SACCADE_TOKEN", raising=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--host", "0.0.0.0"],
            "0.0.0.0 is reachable from other machines and needs a token",
        ),
        (["--host", "192.0.2.1", "--port", 0], "needs a token"),
        (["--token-file", "/nowhere/token"], "--token-file /nowhere/token cannot be read"),
        (["--host", "256.1.1.1"], "needs a token"),
    ],
)
def test_raises_on_invalid_addresses_and_tokens(saccade, run, options, message):
    result = saccade("serve", run, *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_raises_on_invalid_runs_and_names(saccade, run, tmp_path):
    missing = saccade("serve", tmp_path / "none", "--port", 0)
    assert (missing.code, missing.out) == (2, "")
    assert "does not exist; check the path" in missing.err
    double = saccade("serve", run, f"{run.name}={run}", "--port", 0)
    assert f"two runs are named {run.name}" in double.err
    named = saccade("serve", f"a/b={run}", "--port", 0)
    assert "'a/b' is not a valid name of a model" in named.err


def test_raises_on_empty_and_short_tokens(saccade, run, tmp_path):
    for text, message in (("", "is empty"), ("short\n", "16 ASCII characters")):
        (tmp_path / "token").write_text(text)
        result = saccade("serve", run, "--token-file", tmp_path / "token")
        assert result.code == 2
        assert message in result.err
