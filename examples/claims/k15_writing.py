"""K15. A Transformer decoder learns all positions at once, but generates one token at a time.

Source: Vaswani et al. 2017, "Attention is all you need", sections 1 and 3.1; often misstated as
"the decoder cannot be parallelised", which is true of generation alone.

Measured: a language model of 4 layers of width 256 and one text of 16 to 256 tokens: the time of
one teacher-forced pass over all positions, and of as many steps, each with the keys and values of
the earlier ones in a cache. Both give the same logits.

Holds if: the logits agree to 1e-3, and for the longest text the steps take at least 5 times as long
as the one pass (median of the rounds).
"""

from functools import partial
from statistics import median

import torch
from claim import Claim, Outcome, Rounds, between, judged, lines, seconds

from saccade.decoders.transformer import TransformerDecoderConfig
from saccade.models import LanguageModel, LanguageModelConfig

DIM, VOCABULARY, LENGTHS = 256, 1000, (16, 32, 64, 128, 256)


def measure(size: Rounds) -> Outcome:
    """Measure the time of both ways, and the difference of their logits."""
    torch.manual_seed(0)
    decoder = TransformerDecoderConfig(num_layers=4, num_heads=4, hidden_dim=1024)
    model = LanguageModelConfig(decoder=decoder, dim=DIM).build(VOCABULARY).eval()
    lengths = [length for length in LENGTHS if length <= size.longest]
    ways = {"one pass": model, "step by step": partial(stepwise, model)}
    taken: dict[str, dict[float, list[float]]] = {name: {} for name in ways}
    with torch.no_grad():
        for length in lengths:
            text = torch.randint(VOCABULARY, (1, length))
            for name, way in ways.items():
                taken[name][length] = seconds(partial(way, text), size.rounds)
        difference = float((model(text) - stepwise(model, text)).abs().max())
    last = zip(taken["step by step"][lengths[-1]], taken["one pass"][lengths[-1]], strict=True)
    ratios = [steps / once for steps, once in last]
    return Outcome(
        verdict=judged(difference < 1e-3 and median(ratios) >= 5),
        figures=f"{lengths[-1]} tokens in {lengths[-1]} steps take {median(ratios):.1f} times as "
        f"long as in one pass (rounds: {between(ratios, '.1f')}); the logits differ by at most "
        f"{difference:.0e}",
        numbers={"seconds": taken, "logits_differ_by": difference},
        chart=lines(taken, x="tokens", y="seconds", log="xy"),
    )


def stepwise(model: LanguageModel, text: torch.Tensor) -> torch.Tensor:
    """Return the logits after each token, computed in one step per token."""
    state, steps = model.start(), []
    for token in text.unbind(1):
        logits, state = model.step(token, state)
        steps.append(logits)
    return torch.stack(steps, 1)


CLAIM = Claim(
    file=__file__,
    docstring=__doc__,
    measure=measure,
    full=Rounds(rounds=9, longest=256),
    quick=Rounds(rounds=1, longest=16),
)

if __name__ == "__main__":
    CLAIM.main()
