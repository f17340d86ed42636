"""Cross-entropy over a vocabulary, computed for a part of the tokens at a time.

    loss = Σ_i [ -(1 - ε) log p(y_i) - ε/v Σ_j log p(j) ],    p = softmax(W x_i + b)

ε is the label smoothing of Szegedy et al. (2016). The logits of all tokens at once would be the
largest matrix of a training step (tokens x vocabulary, and again for its gradient). Here the
gradient of each part is computed together with its loss, and its logits are freed before those of
the next part are computed.
"""

from typing import NamedTuple

import torch
from torch.autograd.function import FunctionCtx
from torch.nn import functional as F

from saccade.layers.embeddings import OutputProjection
from saccade.shapes import Float, Int, Tensor

NUMBERS_AT_ONCE = 1 << 22
"""Number of logits in memory at a time: 16 MB in float32."""


class CrossEntropy(NamedTuple):
    """Sums over the tokens.

    Attributes:
        total: The loss with label smoothing, to be minimised.
        nll: The negative log-likelihood without smoothing, in nats, detached.
    """

    total: Float[Tensor, ""]
    nll: Float[Tensor, ""]


def cross_entropy(
    x: Float[Tensor, "n d"],
    output: OutputProjection,
    labels: Int[Tensor, " n"],
    *,
    smoothing: float = 0.0,
) -> CrossEntropy:
    """Return the summed loss of predicting `labels` from `x` through `output`.

    Args:
        x: Hidden states.
        output: The projection to logits.
        labels: The correct token of each state.
        smoothing: Label smoothing ε, from 0 to 1.
    """
    return CrossEntropy(*_InParts.apply(x, output.weight, output.bias, labels, smoothing))


def plain_cross_entropy(
    x: Float[Tensor, "n d"],
    output: OutputProjection,
    labels: Int[Tensor, " n"],
    *,
    smoothing: float = 0.0,
) -> CrossEntropy:
    """Return the same with all logits at once: the slow, obvious reference.

    Args:
        x: The states before the output projection.
        output: The output projection.
        labels: The token id to predict at each state.
        smoothing: The label smoothing.
    """
    logits = output(x)
    total = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    return CrossEntropy(total, F.cross_entropy(logits, labels, reduction="sum").detach())


class _InParts(torch.autograd.Function):
    """The sums, with the gradients that `backward` only scales.

    Under autocast the three products of each part are computed in autocast's dtype, like those of
    `nn.Linear`. Sums stay in float32, also the gradients saved for `backward`, which may be scaled
    there for 16-bit training.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        device = x.device.type
        if not (torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)):
            return _InParts.sums(ctx, x.dtype, x, weight, bias, labels, smoothing)
        dtype = x.dtype if x.dtype == torch.float64 else torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            return _InParts.sums(ctx, dtype, x, weight, bias, labels, smoothing)

    @staticmethod
    def sums(
        ctx: FunctionCtx,
        dtype: torch.dtype,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        """Return the loss with and without smoothing; `dtype` is that of products."""
        wide = torch.promote_types(dtype, torch.float32)
        learning = any(ctx.needs_input_grad)  # type: ignore[attr-defined]
        vocabulary = weight.shape[0]
        mean_weight = weight.mean(0, dtype=wide) if smoothing else None
        mean_bias = None if bias is None else bias.mean(dtype=wide)
        x, weight = x.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
        grad_x = torch.empty_like(x, dtype=wide) if learning else None
        grad_weight = torch.zeros_like(weight, dtype=wide) if learning else None
        grad_bias = torch.zeros_like(bias, dtype=wide) if learning and bias is not None else None
        total, nll = x.new_zeros((), dtype=wide), x.new_zeros((), dtype=wide)
        rows = max(1, NUMBERS_AT_ONCE // vocabulary)
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            correct = labels[part].unsqueeze(1)
            logits = F.linear(x[part], weight, bias)
            p = torch.softmax(logits, -1, dtype=wide)  # one exponential per logit, not two
            # log Σ exp, from the largest logit: its probability is never rounded to 0
            log_sum = logits.amax(1, keepdim=True).to(wide) - p.amax(1, keepdim=True).log()
            logit = logits.gather(1, correct).to(wide)
            chosen = logit - log_sum
            del logits
            nll -= chosen.sum()
            total -= (1 - smoothing) * chosen.sum()
            if mean_weight is not None:  # mean log p = mean logit - log Σ exp
                mean_logit = x[part].sum(0, dtype=wide) @ mean_weight
                if mean_bias is not None:
                    mean_logit = mean_logit + len(correct) * mean_bias
                total -= smoothing * (mean_logit - log_sum.sum())
            if grad_x is None or grad_weight is None:
                continue
            slope = p
            if smoothing:
                slope -= smoothing / vocabulary
            slope.scatter_add_(1, correct, slope.new_full((), smoothing - 1).expand_as(correct))
            if grad_bias is not None:
                grad_bias += slope.sum(0)
            slope = slope.to(dtype)
            if dtype == wide:
                torch.mm(slope, weight, out=grad_x[part])
                grad_weight.addmm_(slope.t(), x[part])
            else:
                grad_x[part] = slope @ weight
                grad_weight += slope.t() @ x[part]
        ctx.save_for_backward(grad_x, grad_weight, grad_bias)  # type: ignore[arg-type]
        ctx.mark_non_differentiable(nll)
        return total, nll

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scale, saved = grads[0], ctx.saved_tensors  # type: ignore[attr-defined]
        if scale != 1:
            saved = (None if grad is None else grad * scale for grad in saved)
        return *saved, None, None
