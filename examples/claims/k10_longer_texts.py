"""K10. Beyond the trained length, learned positions fail, and other positions degrade less.

Source: a common claim; Press et al. 2022, "Train short, test long", measure it for larger models.

Measured: the recipe `gpt-char` (2 layers of width 64) on `builtin:pydoc` in blocks of 25
characters, with learned (a table of 50), sinusoidal, relative and rotary positions, three seeds;
the loss by position in all blocks of 50 (one every 5 characters) of a test text. The result is the
rise of the loss from positions 16 to 25, where the context is as long as it gets in training, to
positions 26 to 50. (The untrained rows of a learned table keep their initial values near 0, so they
add next to nothing, while a sinusoid adds as much as everywhere.)

Holds if: in every seed, the loss rises by at least 0.1 nats per character with learned positions,
and with each of the others by at least 0.05 less than that.
"""

from statistics import fmean

import torch
from claim import Claim, Outcome, Trials, between, judged, lines, trained
from torch.nn import functional as F

from saccade.data.builtin import pydoc
from saccade.tasks.language_modeling import LanguageModeling

TRAINED, TESTED, CHARACTERS = 25, 50, 20_000
STEP = 5  # between blocks: each character is at 2 of the positions 16 to 25, and at 5 beyond
KINDS = ("learned", "sinusoidal", "relative", "rotary")
SMALL = (
    f"text.block={TRAINED}",
    "model.dim=64",
    "model.decoder.num_layers=2",
    "model.decoder.hidden_dim=256",
)


def measure(trials: Trials) -> Outcome:
    """Measure the loss at every position, for every kind of positional encoding."""
    runs = {
        kind: [losses(kind, trials.steps, seed) for seed in range(trials.seeds)] for kind in KINDS
    }
    rises = {
        kind: [fmean(loss[TRAINED:]) - fmean(loss[TRAINED - 10 : TRAINED]) for loss in seeds]
        for kind, seeds in runs.items()
    }
    holds = all(
        rises["learned"][seed] >= 0.1
        and all(rises[kind][seed] <= rises["learned"][seed] - 0.05 for kind in KINDS[1:])
        for seed in range(trials.seeds)
    )
    by_position = {
        kind: {i + 1: [loss[i] for loss in seeds] for i in range(TESTED)}
        for kind, seeds in runs.items()
    }
    shown = ", ".join(f"{kind} {between(rises[kind])}" for kind in KINDS)
    return Outcome(
        verdict=judged(holds),
        figures=f"beyond {TRAINED} characters, the loss rises by (nats per character): {shown}",
        numbers={"rises": rises, "loss_by_place": by_position},
        chart=lines(by_position, x="position in the block", y="loss (nats per character)"),
    )


def losses(kind: str, steps: int, seed: int) -> list[float]:
    """Train a model and return its mean loss at each position of longer blocks."""
    changes = [*SMALL, f"model.decoder.position.kind={kind}"]
    task = trained("gpt-char", "builtin:pydoc", changes, steps=steps, seed=seed)
    assert isinstance(task, LanguageModeling)
    task.eval()
    blocks = passages(task)
    with torch.no_grad():
        logits = task.model(blocks[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), blocks[:, 1:], reduction="none")
    return loss.mean(0).tolist()


def passages(task: LanguageModeling) -> torch.Tensor:
    """Return the test texts in overlapping blocks, each with one more character as target."""
    text = "\n".join(text for (text,) in pydoc.rows("test"))
    tokens = torch.tensor(task.tokenizer.encode(text[:CHARACTERS]))
    return tokens.unfold(0, TESTED + 1, STEP)


CLAIM = Claim(
    file=__file__,
    docstring=__doc__,
    measure=measure,
    full=Trials(seeds=3, steps=600),
    quick=Trials(seeds=1, steps=1),
)

if __name__ == "__main__":
    CLAIM.main()
