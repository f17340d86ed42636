"""Cross entropy over a vocabulary, a part of the tokens at a time.

    loss = Σ_i [ -(1 - ε) log p(y_i) - ε/v Σ_j log p(j) ]        p = softmax(W x_i + b)

ε is the label smoothing of Szegedy et al. (2016). The logits of all tokens at once would be the
largest matrix of a training step (tokens x vocabulary, and the same again for its gradient). Here
each part's gradient is computed beside its loss, while its logits are at hand, and they are gone
before the next part's come.
"""

from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from saccade.layers.embeddings import OutputProjection
from saccade.shapes import Float, Int, Tensor

NUMBERS_AT_ONCE = 1 << 22
"""The logits that are held at a time: 16 MB in float32."""


class CrossEntropy(NamedTuple):
    """Sums over the tokens: what is learned from, and the plain -log p without smoothing."""

    total: Float[Tensor, ""]
    surprise: Float[Tensor, ""]


def cross_entropy(
    x: Float[Tensor, "n d"],
    output: OutputProjection,
    labels: Int[Tensor, " n"],
    *,
    smoothing: float = 0.0,
) -> CrossEntropy:
    """The loss of predicting `labels` from `x` through `output`, summed."""
    return CrossEntropy(*_InParts.apply(x, output.weight, output.bias, labels, smoothing))


def plain_cross_entropy(
    x: Float[Tensor, "n d"],
    output: OutputProjection,
    labels: Int[Tensor, " n"],
    *,
    smoothing: float = 0.0,
) -> CrossEntropy:
    """The same as it is written in books, all logits at once: for comparison."""
    logits = output(x)
    total = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    return CrossEntropy(total, F.cross_entropy(logits, labels, reduction="sum").detach())


class _InParts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        learning = any(ctx.needs_input_grad)
        grad_x = torch.empty_like(x) if learning else None
        grad_weight = torch.zeros_like(weight) if learning else None
        grad_bias = torch.zeros_like(bias) if learning and bias is not None else None
        total, surprise = x.new_zeros(()), x.new_zeros(())
        vocabulary = weight.shape[0]
        mean_weight = weight.mean(0) if smoothing else None
        rows = max(1, NUMBERS_AT_ONCE // vocabulary)
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            wanted = labels[part].unsqueeze(1)
            log_p = F.linear(x[part], weight, bias)
            logit = log_p.gather(1, wanted)
            log_p = torch.log_softmax(log_p, -1)
            chosen = log_p.gather(1, wanted)
            surprise -= chosen.sum()
            total -= (1 - smoothing) * chosen.sum()
            if mean_weight is not None:  # mean log p = mean logit - log Σ exp
                mean_logit = (x[part] @ mean_weight).sum()
                if bias is not None:
                    mean_logit = mean_logit + len(wanted) * bias.mean()
                total -= smoothing * (mean_logit - (logit - chosen).sum())
            if grad_x is None or grad_weight is None:
                continue
            slope = log_p.exp_()
            if smoothing:
                slope -= smoothing / vocabulary
            slope.scatter_add_(1, wanted, slope.new_full((), smoothing - 1).expand_as(wanted))
            torch.mm(slope, weight, out=grad_x[part])
            grad_weight.addmm_(slope.t(), x[part])
            if grad_bias is not None:
                grad_bias += slope.sum(0)
        ctx.save_for_backward(grad_x, grad_weight, grad_bias)
        ctx.mark_non_differentiable(surprise)
        return total, surprise

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scale = grads[0]
        if scale != 1:
            return (
                *(None if saved is None else saved * scale for saved in ctx.saved_tensors),
                None,
                None,
            )
        return *ctx.saved_tensors, None, None
