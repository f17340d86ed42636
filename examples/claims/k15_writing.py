"""K15. A Transformer decoder learns from all places at once, but writes one token after the other.

Source: Vaswani et al. 2017, "Attention is all you need", sections 1 and 3.1; often said wrongly as
"the decoder cannot be parallelised", which is true of writing alone.

Measured: a language model of 4 layers of width 256 and one text of 16 to 256 tokens: the time of
one teacher-forced pass over all places, and of as many steps, each with the keys and values of the
ones before it in a cache. Both give the same logits.

Holds if: the logits agree to 1e-3, and at the longest text the steps take at least 5 times as long
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
    """The time of both ways, and how far their logits differ."""
    torch.manual_seed(0)
    decoder = TransformerDecoderConfig(num_layers=4, num_heads=4, hidden_dim=1024)
    model = LanguageModelConfig(decoder=decoder, dim=DIM).build(VOCABULARY).eval()
    lengths = [length for length in LENGTHS if length <= size.longest]
    ways = {"one pass": model, "step by step": partial(written, model)}
    taken: dict[str, dict[float, list[float]]] = {name: {} for name in ways}
    with torch.no_grad():
        for length in lengths:
            text = torch.randint(VOCABULARY, (1, length))
            for name, way in ways.items():
                taken[name][length] = seconds(partial(way, text), size.rounds)
        apart = float((model(text) - written(model, text)).abs().max())
    last = zip(taken["step by step"][lengths[-1]], taken["one pass"][lengths[-1]], strict=True)
    ratios = [steps / once for steps, once in last]
    return Outcome(
        verdict=judged(apart < 1e-3 and median(ratios) >= 5),
        figures=f"{lengths[-1]} tokens in {lengths[-1]} steps take {median(ratios):.1f} times as "
        f"long as in one pass (rounds: {between(ratios, '.1f')}); the logits differ by at most "
        f"{apart:.0e}",
        numbers={"seconds": taken, "logits_differ_by": apart},
        chart=lines(taken, x="tokens", y="seconds", log="xy"),
    )


def written(model: LanguageModel, text: torch.Tensor) -> torch.Tensor:
    """The logits after each token, one step after the other."""
    state, found = model.start(), []
    for token in text.unbind(1):
        logits, state = model.step(token, state)
        found.append(logits)
    return torch.stack(found, 1)


CLAIM = Claim(
    file=__file__,
    docstring=__doc__,
    measure=measure,
    full=Rounds(rounds=9, longest=256),
    quick=Rounds(rounds=1, longest=16),
)

if __name__ == "__main__":
    CLAIM.main()
