"""saccade serve: what it refuses before it serves. tests/serve has the server itself."""

import pytest


@pytest.fixture(autouse=True)
def _without_token(monkeypatch):
    monkeypatch.delenv("SACCADE_TOKEN", raising=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "0.0.0.0 can be reached from other machines, so a token is needed"),
        (["--host", "192.0.2.1", "--port", 0], "a token is needed"),
        (["--token-file", "/nowhere/token"], "the token cannot be read from /nowhere/token"),
        (["--host", "256.1.1.1"], "a token is needed"),
    ],
)
def test_what_cannot_be_served(saccade, run, options, said):
    refused = saccade("serve", run, *options)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err


def test_runs_that_cannot_be_served(saccade, run, tmp_path):
    missing = saccade("serve", tmp_path / "none", "--port", 0)
    assert (missing.code, missing.out) == (2, "")
    assert "there is no run folder" in missing.err
    double = saccade("serve", run, f"{run.name}={run}", "--port", 0)
    assert f"two runs are named {run.name}" in double.err
    named = saccade("serve", f"a/b={run}", "--port", 0)
    assert "'a/b' cannot be the name of a model" in named.err


def test_a_token_in_a_file(saccade, run, tmp_path):
    for text, said in (("", "is empty"), ("short\n", "16 ASCII characters")):
        (tmp_path / "token").write_text(text)
        refused = saccade("serve", run, "--token-file", tmp_path / "token")
        assert refused.code == 2
        assert said in refused.err
