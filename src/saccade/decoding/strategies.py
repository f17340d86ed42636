"""One call for greedy search, sampling and beam search."""

from collections.abc import Sequence

import torch

from saccade.decoding.beam import beam_search
from saccade.decoding.greedy_search import greedy
from saccade.decoding.hypothesis import GenerationLimits, Hypothesis
from saccade.decoding.options import GenerationConfig
from saccade.decoding.sampling import sample
from saccade.interfaces import State, Stepper
from saccade.shapes import Int, Tensor


def generate(
    stepper: Stepper[State],
    state: State,
    *,
    start: int | Int[Tensor, " b"],
    limits: GenerationLimits,
    options: GenerationConfig,
    rows: Sequence[int],
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Generate by greedy search, sampling or beam search, as `options` say.

    Args:
        stepper: The model.
        state: The state that `stepper.start` returned; it cannot be used again.
        start: The first token, one for all rows or one for each.
        limits: When generation ends, and which tokens are never generated.
        options: Options of generation.
        rows: Index of each input; its seed is `options.seed` plus the index.
        device: Device of the model.

    Returns:
        The hypotheses of each row, best first.

    Raises:
        DecodingError: If an option is invalid, no token is allowed, or logits are not finite.

    Examples:
        >>> from saccade.decoders.transformer import TransformerDecoderConfig
        >>> from saccade.decoding import GenerationConfig, GenerationLimits, generate
        >>> from saccade.models import LanguageModelConfig
        >>> decoder = TransformerDecoderConfig(num_layers=1, num_heads=2, hidden_dim=32)
        >>> model = LanguageModelConfig(dim=16, decoder=decoder).build(20).eval()
        >>> limits = GenerationLimits(stop=2, max_length=6)
        >>> options = GenerationConfig(sample=True, top_p=0.9, seed=7)
        >>> rows = generate(
        ...     model, model.start(), start=1, limits=limits, options=options, rows=range(3)
        ... )
        >>> len(rows), len(rows[0][0].tokens) <= 6
        (3, True)
    """
    first = torch.as_tensor(start, device=device).expand(len(rows))
    if options.sample:
        return sample(
            stepper,
            state,
            first,
            limits,
            seeds=[options.seed + row for row in rows],
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            length_penalty=options.length_penalty,
        )
    if options.beam == 1:
        return greedy(stepper, state, first, limits, length_penalty=options.length_penalty)
    return beam_search(
        stepper,
        state,
        first,
        limits,
        beam=options.beam,
        length_penalty=options.length_penalty,
        num_best=options.num_best,
    )
