"""Small tasks that every decoder must learn: to copy a sequence and to reverse it."""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from saccade.decoding import GenerationLimits, greedy
from saccade.models import Translator

PAD, START, STOP, COPY, REVERSE = range(5)
SYMBOLS = 10
VOCABULARY = 5 + SYMBOLS


@dataclass(frozen=True)
class Batch:
    """Sources that begin with the task, and targets with start and stop tokens."""

    source: torch.Tensor
    source_mask: torch.Tensor
    target: torch.Tensor


def make_batch(size: int, lengths: range, generator: torch.Generator) -> Batch:
    longest = max(lengths)
    source = torch.full((size, longest + 1), PAD)
    target = torch.full((size, longest + 2), PAD)
    span = torch.randint(lengths.start, lengths.stop, (size,), generator=generator).tolist()
    backwards = torch.randint(0, 2, (size,), generator=generator).tolist()
    for i, (n, reverse) in enumerate(zip(span, backwards, strict=True)):
        symbols = torch.randint(5, VOCABULARY, (n,), generator=generator)
        source[i, 0] = REVERSE if reverse else COPY
        source[i, 1 : n + 1] = symbols
        target[i, 0] = START
        target[i, 1 : n + 1] = symbols.flip(0) if reverse else symbols
        target[i, n + 1] = STOP
    return Batch(source, source != PAD, target)


def train(
    model: Translator,
    *,
    lengths: range,
    steps: int,
    learning_rate: float = 2e-3,
    size: int = 64,
    enough: float = 0.998,
) -> int:
    """Train until `enough` of a fixed set is correct at two checks in a row; return the steps.

    At most `steps`. One check may pass by luck while the learning rate is high.
    """
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, learning_rate, total_steps=steps + 1, pct_start=0.1
    )
    passed = 0
    for step in range(steps):
        model.train()
        batch = make_batch(size, lengths, generator)
        logits = model(batch.source, batch.target[:, :-1], batch.source_mask)
        loss = F.cross_entropy(
            logits.flatten(0, 1), batch.target[:, 1:].flatten(), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            passed = passed + 1 if exact_match(model, lengths=lengths, seed=7) >= enough else 0
        if passed == 2:
            return step + 1
    return steps


def exact_match(model: Translator, *, lengths: range, size: int = 500, seed: int = 2) -> float:
    """Return the fraction of completely correct answers, by greedy decoding."""
    batch = make_batch(size, lengths, torch.Generator().manual_seed(seed))
    answers = answer(model, batch)
    right = [
        list(tokens) == target[(target > STOP)].tolist()
        for tokens, target in zip(answers, batch.target, strict=True)
    ]
    return sum(right) / len(right)


def answer(model: Translator, batch: Batch) -> list[tuple[int, ...]]:
    model.eval()
    with torch.no_grad():
        state = model.start(batch.source, batch.source_mask)
        first = torch.full((len(batch.source),), START)
        rows = greedy(
            model, state, first, GenerationLimits(stop=STOP, max_length=batch.target.shape[1])
        )
    return [hypotheses[0].tokens for hypotheses in rows]
