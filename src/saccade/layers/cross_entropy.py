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
    nll: Float[Tensor, ""]


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
    """The sums and, beside them, the gradients that `backward` only scales.

    Under autocast the three products of each part are computed in autocast's dtype, as those of
    `nn.Linear` are; everything that is summed up stays in float32, also what is saved for
    `backward`, where a scale for gradients of 16 bits may come in.
    """

    @staticmethod
    def forward(
        ctx: Any,
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
        ctx: Any,
        dtype: torch.dtype,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        """The loss with smoothing and without; `dtype` is that of products."""
        wide = torch.promote_types(dtype, torch.float32)
        learning = any(ctx.needs_input_grad)
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
            wanted = labels[part].unsqueeze(1)
            logits = F.linear(x[part], weight, bias)
            log_p = torch.log_softmax(logits, -1, dtype=wide)
            logit, chosen = logits.gather(1, wanted).to(wide), log_p.gather(1, wanted)
            del logits
            nll -= chosen.sum()
            total -= (1 - smoothing) * chosen.sum()
            if mean_weight is not None:  # mean log p = mean logit - log Σ exp
                mean_logit = x[part].sum(0, dtype=wide) @ mean_weight
                if mean_bias is not None:
                    mean_logit = mean_logit + len(wanted) * mean_bias
                total -= smoothing * (mean_logit - (logit - chosen).sum())
            if grad_x is None or grad_weight is None:
                continue
            slope = log_p.exp_()
            if smoothing:
                slope -= smoothing / vocabulary
            slope.scatter_add_(1, wanted, slope.new_full((), smoothing - 1).expand_as(wanted))
            if grad_bias is not None:
                grad_bias += slope.sum(0)
            slope = slope.to(dtype)
            if dtype == wide:
                torch.mm(slope, weight, out=grad_x[part])
                grad_weight.addmm_(slope.t(), x[part])
            else:
                grad_x[part] = slope @ weight
                grad_weight += slope.t() @ x[part]
        ctx.save_for_backward(grad_x, grad_weight, grad_bias)
        ctx.mark_non_differentiable(nll)
        return total, nll

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
