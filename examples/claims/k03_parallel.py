"""K3. A Transformer reads and learns long texts faster than an RNN, which goes word by word.

Source: Vaswani et al. 2017, "Attention is all you need", section 1 and table 1: sequential
operations O(1) and O(n).

Measured: tokens per second for 1024 tokens as 64 texts of 16, 16 of 64, or 4 of 256: the same work,
with more of it in sequence. Reading is a forward pass of one encoder layer (width 256; the GRU of
width 400 has as many weights). Learning is a teacher-forced forward and backward pass of a
translator with one layer on each side; the RNN has attention. The gain depends on how much a
machine computes in parallel: two cores show little of what a GPU would.

Holds if: with the longest texts, the Transformer processes at least 1.5 times the tokens per second
of the RNN, both in reading and in learning (median of the rounds).
"""

from functools import partial
from statistics import median

import torch
from claim import Claim, Outcome, Rounds, judged, lines, seconds
from torch.nn import functional as F

from saccade.decoders.recurrent import RecurrentDecoderConfig
from saccade.decoders.transformer import TransformerDecoderConfig
from saccade.encoders.recurrent import RecurrentEncoderConfig
from saccade.encoders.stems import VectorStem
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.models import Translator, TranslatorConfig

DIM, VOCABULARY, TOKENS, LENGTHS = 256, 1000, 1024, (16, 64, 256)
READERS = {
    "Transformer": TransformerEncoderConfig(
        num_layers=1, num_heads=4, hidden_dim=1024, dropout=0.0
    ),
    "RNN": RecurrentEncoderConfig(dim=400, bidirectional=False, dropout=0.0),
}
WRITERS = {
    "Transformer": TransformerDecoderConfig(
        num_layers=1, num_heads=4, hidden_dim=1024, dropout=0.0
    ),
    "RNN": RecurrentDecoderConfig(dim=400, dropout=0.0),
}


def measure(size: Rounds) -> Outcome:
    """Measure the speeds of both models, in reading and in learning."""
    torch.manual_seed(0)
    lengths = [length for length in LENGTHS if length <= size.longest]
    speeds: dict[str, dict[float, list[float]]] = {}
    for name, reader in READERS.items():
        encoder = reader.build(VectorStem(DIM), DIM)
        config = TranslatorConfig(encoder=reader, decoder=WRITERS[name], dim=DIM)
        model = config.build(VOCABULARY, VOCABULARY)
        for length in lengths:
            x = torch.randn(TOKENS // length, length, DIM)
            text = torch.randint(VOCABULARY, (TOKENS // length, length))
            with torch.no_grad():
                read = seconds(partial(encoder, x), size.rounds)
            learned = seconds(partial(learn, model, text), size.rounds)
            for what, taken in ((f"{name}, reading", read), (f"{name}, learning", learned)):
                speeds.setdefault(what, {})[length] = [TOKENS / time for time in taken]
    medians = {what: {n: median(rounds) for n, rounds in by.items()} for what, by in speeds.items()}
    gains = {
        what: {n: medians[f"Transformer, {what}"][n] / medians[f"RNN, {what}"][n] for n in lengths}
        for what in ("reading", "learning")
    }
    shown = ", ".join(
        f"{what} {' / '.join(f'{gain:.2f}' for gain in by.values())}" for what, by in gains.items()
    )
    return Outcome(
        verdict=judged(all(by[lengths[-1]] >= 1.5 for by in gains.values())),
        figures=f"speed of the Transformer relative to the RNN for texts of "
        f"{' / '.join(map(str, lengths))} tokens: {shown}",
        numbers={"tokens_per_second": speeds, "gains": gains},
        chart=lines(speeds, x="tokens per text (1024 in total)", y="tokens per second", log="xy"),
    )


def learn(model: Translator, text: torch.Tensor) -> None:
    """Run one teacher-forced forward and backward pass with the text as its own target."""
    F.cross_entropy(model(text, text).flatten(0, 1), text.flatten()).backward()


CLAIM = Claim(
    file=__file__,
    docstring=__doc__,
    measure=measure,
    full=Rounds(rounds=9, longest=256),
    quick=Rounds(rounds=1, longest=64),
)

if __name__ == "__main__":
    CLAIM.main()
