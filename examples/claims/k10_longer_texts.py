"""K10. Beyond the trained length learned positions fail, and other positions get worse by less.

Source: a common claim; Press et al. 2022, "Train short, test long", measure it for larger models.

Measured: the recipe `gpt-char` (2 layers of width 64) on `builtin:pydoc` in blocks of 25
characters, with learned (a table of 50), sinusoidal, relative and rotary positions, three seeds;
the loss by place in all blocks of 50 (one every 5 characters) of a test text. What is compared is
the rise from places 16 to 25, where there is as much to read as there ever was in training, to
places 26 to 50. (The rows of a learned table that were never trained keep their first values, near
0: a place there adds next to nothing, where a sinusoid adds as much as everywhere.)

Holds if: in every seed the loss rises by at least 0.1 nats a character with learned positions, and
with each of the others by at least 0.05 less than that.
"""

from statistics import fmean

import torch
from claim import Claim, Outcome, Trials, between, judged, lines, trained
from torch.nn import functional as F

from saccade.data.builtin import pydoc
from saccade.tasks.language_modeling import LanguageModeling

TRAINED, TESTED, CHARACTERS = 25, 50, 20_000
STEP = 5  # between blocks: so each character stands at 2 of the places 16 to 25, and at 5 beyond
KINDS = ("learned", "sinusoidal", "relative", "rotary")
SMALL = (
    f"text.block={TRAINED}",
    "model.dim=64",
    "model.decoder.num_layers=2",
    "model.decoder.hidden_dim=256",
)


def measure(trials: Trials) -> Outcome:
    """The loss at every place, with every kind of positions."""
    found = {
        kind: [losses(kind, trials.steps, seed) for seed in range(trials.seeds)] for kind in KINDS
    }
    rises = {
        kind: [fmean(each[TRAINED:]) - fmean(each[TRAINED - 10 : TRAINED]) for each in runs]
        for kind, runs in found.items()
    }
    holds = all(
        rises["learned"][seed] >= 0.1
        and all(rises[kind][seed] <= rises["learned"][seed] - 0.05 for kind in KINDS[1:])
        for seed in range(trials.seeds)
    )
    by_place = {
        kind: {place + 1: [each[place] for each in runs] for place in range(TESTED)}
        for kind, runs in found.items()
    }
    told = ", ".join(f"{kind} {between(rises[kind])}" for kind in KINDS)
    return Outcome(
        verdict=judged(holds),
        figures=f"beyond {TRAINED} characters the loss rises by (nats a character): {told}",
        numbers={"rises": rises, "loss_by_place": by_place},
        chart=lines(by_place, x="place in the block", y="nats a character"),
    )


def losses(kind: str, steps: int, seed: int) -> list[float]:
    """The mean loss at each place of longer blocks than were trained on."""
    changes = [*SMALL, f"model.decoder.position.kind={kind}"]
    task = trained("gpt-char", "builtin:pydoc", changes, steps=steps, seed=seed)
    assert isinstance(task, LanguageModeling)
    task.eval()
    blocks = passages(task)
    with torch.no_grad():
        logits = task.model(blocks[:, :-1])
        found = F.cross_entropy(logits.transpose(1, 2), blocks[:, 1:], reduction="none")
    return found.mean(0).tolist()


def passages(task: LanguageModeling) -> torch.Tensor:
    """Characters of the test texts in blocks that overlap, each with the one that follows."""
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
