"""Greedy search: the most likely token at each step."""

import torch

from saccade.decoding.hypothesis import GenerationLimits, Hypothesis
from saccade.decoding.stepping import write
from saccade.interfaces import State, Stepper
from saccade.shapes import Float, Int, Tensor

PART, SMALL = 128, 1 << 16
"""Tokens per part in the search for the maximum, and the size below which parts do not pay off."""


def greedy(
    stepper: Stepper[State],
    state: State,
    first: Int[Tensor, " b"],
    limits: GenerationLimits,
    *,
    length_penalty: float = 1.0,
) -> list[list[Hypothesis]]:
    """Generate by greedy search; of equally likely tokens, the lowest id is chosen.

    Args:
        stepper: The model.
        state: The state that `stepper.start` returned; it cannot be used again.
        first: The first token of each row: the start token, or the last token of a prompt.
        limits: When generation ends, and which tokens are never generated.
        length_penalty: Exponent α of the length in the score; it does not change the tokens.

    Returns:
        One hypothesis for each row.

    Raises:
        DecodingError: If no token is allowed, or logits are not finite.

    Examples:
        >>> import torch
        >>> from saccade.decoders.transformer import TransformerDecoderConfig
        >>> from saccade.decoding import GenerationLimits, greedy
        >>> from saccade.models import LanguageModelConfig
        >>> options = TransformerDecoderConfig(num_layers=1, num_heads=2, hidden_dim=32)
        >>> model = LanguageModelConfig(dim=16, decoder=options).build(20).eval()
        >>> limits = GenerationLimits(stop=2, max_length=5, min_length=5)
        >>> [[hypothesis]] = greedy(model, model.start(), torch.tensor([1]), limits)
        >>> len(hypothesis.tokens), hypothesis.finished
        (5, False)
    """
    return write(stepper, state, first, limits, most_likely, length_penalty)


def most_likely(
    log_p: Float[Tensor, "b v"], rows: Int[Tensor, " b"], step: int
) -> Int[Tensor, " b"]:
    """Return the most likely token of each row, the lowest of equals.

    `argmax` handles one number at a time, `amax` eight: in a large vocabulary `amax` finds the part
    that contains the maximum, and `argmax` searches that part only.
    """
    vocabulary = log_p.shape[1]
    even = vocabulary // PART * PART
    if even <= PART or log_p.numel() < SMALL:
        return log_p.argmax(-1)
    best = log_p[:, :even].unflatten(1, (-1, PART)).amax(-1)
    if even < vocabulary:
        best = torch.cat((best, log_p[:, even:].amax(-1, keepdim=True)), 1)
    places = best.argmax(-1, keepdim=True) * PART + torch.arange(PART, device=log_p.device)
    places.clamp_(max=vocabulary - 1)  # the last part may be short; repeat its last token
    return places.gather(1, log_p.gather(1, places).argmax(-1, keepdim=True)).squeeze(1)
