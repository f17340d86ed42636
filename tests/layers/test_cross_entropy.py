"""Tests of cross-entropy in parts: equal to torch, and never all logits in memory."""

import subprocess
import sys

import pytest
import torch

from saccade.layers import cross_entropy as module
from saccade.layers.cross_entropy import cross_entropy, plain_cross_entropy
from saccade.layers.embeddings import OutputProjection

TOKENS, DIM, VOCABULARY = 37, 11, 101


def losses(loss, smoothing, bias, scale):
    torch.manual_seed(0)
    x = torch.randn(TOKENS, DIM, requires_grad=True)
    output = OutputProjection(DIM, VOCABULARY, bias=bias)
    if bias:
        torch.nn.init.normal_(output.bias)
    labels = torch.randint(VOCABULARY, (TOKENS,))
    result = loss(x, output, labels, smoothing=smoothing)
    (result.total * scale).backward()
    return [result.total, result.nll, x.grad, *(p.grad for p in output.parameters())]


@pytest.mark.parametrize("rows", [1, 5, 37, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_equals_torch(monkeypatch, rows, smoothing, bias, scale):
    monkeypatch.setattr(module, "NUMBERS_AT_ONCE", rows * VOCABULARY)
    ours, theirs = (
        losses(loss, smoothing, bias, scale) for loss in (cross_entropy, plain_cross_entropy)
    )
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_works_without_gradients():
    with torch.no_grad():
        result = cross_entropy(
            torch.zeros(3, DIM), OutputProjection(DIM, 7), torch.tensor([0, 1, 2])
        )
    assert result.total.item() == pytest.approx(3 * torch.log(torch.tensor(7.0)).item())


def test_no_tokens_give_zero():
    x = torch.zeros(0, DIM, requires_grad=True)
    result = cross_entropy(x, OutputProjection(DIM, 7), torch.zeros(0, dtype=torch.long))
    result.total.backward()
    assert result.total.item() == 0
    assert x.grad.shape == (0, DIM)


IN_A_CHILD = """
import torch
from saccade.layers.cross_entropy import cross_entropy
from saccade.layers.embeddings import OutputProjection
from tests.memory import peak_mib
output = OutputProjection(16, 32_000)
x, labels = torch.randn(8_192, 16, requires_grad=True), torch.randint(32_000, (8_192,))
cross_entropy(x[:8], output, labels[:8]).total.backward()
before = peak_mib()
cross_entropy(x, output, labels, smoothing=0.1).total.backward()
print(peak_mib() - before)
"""


def test_never_holds_all_logits_in_memory():
    """8 192 tokens with a vocabulary of 32 000 have 1 000 MiB of logits, and of gradients."""
    run = subprocess.run(
        [sys.executable, "-c", IN_A_CHILD], check=True, capture_output=True, text=True, timeout=120
    )
    assert float(run.stdout) < 150
