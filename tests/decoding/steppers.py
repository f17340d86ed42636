"""Small models to generate with, and slow, obvious searches in them."""

from dataclasses import dataclass

import torch

from saccade.decoding import GenerationLimits, Hypothesis

STOP, START = 0, 1


class Trigram:
    """A model whose logits depend on the row's context and the last two tokens.

    They grow a little with each step, or texts of the same trigrams would be equally likely.
    """

    def __init__(self, table):
        self.table = table  # (contexts, v, v, v)
        self.steps = []  # number of rows of each step
        self.selects = []  # rows of each select

    def logits(self, context, length, previous, last):
        return self.table[context, previous, last] * (1 + 0.03 * length)

    def start(self, context):
        return context, torch.zeros_like(context), 0

    def step(self, tokens, state):
        assert not torch.is_grad_enabled()
        context, previous, length = state
        self.steps.append(len(tokens))
        return self.logits(context, length, previous, tokens), (context, tokens, length + 1)

    def select(self, state, rows):
        self.selects.append(rows.tolist())
        context, previous, length = state
        return context[rows], previous[rows], length

    def log_p(self, context, written, limits):
        """Return the log-probabilities of the tokens that can follow, for one row."""
        previous, last = (0, START, *written)[-2:]
        row = self.logits(context, len(written), previous, last).float().log_softmax(-1).tolist()
        banned = {*limits.forbidden} | ({STOP} if len(written) < limits.min_length else set())
        return {token: value for token, value in enumerate(row) if token not in banned}


@dataclass
class Writing:
    context: torch.Tensor
    buffer: torch.Tensor
    length: int
    spent: bool = False


class InPlace(Trigram):
    """The same model, writing into the state it was given; to use such a state again is an error.

    It also refuses a call that does not do anything.
    """

    def start(self, context):
        return Writing(context, torch.zeros(len(context), 64, dtype=torch.long), 0)

    def step(self, tokens, state):
        self._spend(state)
        self.steps.append(len(tokens))
        state.buffer[:, state.length + 1] = tokens
        previous = state.buffer[:, state.length]
        logits = self.logits(state.context, state.length, previous, tokens)
        return logits, Writing(state.context, state.buffer, state.length + 1)

    def select(self, state, rows):
        self._spend(state)
        assert len(rows) > 0, "selected nothing"
        assert rows.tolist() != list(range(len(state.context))), "selected everything in order"
        self.selects.append(rows.tolist())
        return Writing(state.context[rows], state.buffer[rows], state.length)

    def _spend(self, state):
        assert not state.spent, "a state was used twice"
        state.spent = True


def random_trigram(contexts, vocabulary, seed=0, *, scale=1.5, stop=0.0, kind=Trigram):
    """Return a random model; `stop` is added to the logits of the stop token."""
    generator = torch.Generator().manual_seed(seed)
    table = scale * torch.randn(contexts, *3 * (vocabulary,), generator=generator)
    table[..., STOP] += stop
    return kind(table)


def run(search, stepper, limits, contexts=None, **options):
    """Run a search in all contexts of the model, or in these."""
    contexts = (
        torch.arange(len(stepper.table))
        if contexts is None
        else torch.tensor(contexts, dtype=torch.long)
    )
    first = torch.full((len(contexts),), START)
    return search(stepper, stepper.start(contexts), first, limits, **options)


def slow_greedy(model, context, limits):
    written, total = (), 0.0
    while len(written) < limits.max_length:
        log_p = model.log_p(context, written, limits)
        token = max(log_p, key=lambda token: (log_p[token], -token))
        total += log_p[token]
        if token == STOP:
            return Hypothesis.of(written, total, finished=True)
        written += (token,)
    return Hypothesis.of(written, total, finished=False)


def all_hypotheses(model, context, limits, length_penalty, written=(), total=0.0):
    """Return every possible sequence, with its score."""
    for token, value in model.log_p(context, written, limits).items():
        options = {"finished": token == STOP, "length_penalty": length_penalty}
        if token == STOP:
            yield Hypothesis.of(written, total + value, **options)
        elif len(written) + 1 == limits.max_length:
            yield Hypothesis.of((*written, token), total + value, **options)
        else:
            yield from all_hypotheses(
                model, context, limits, length_penalty, (*written, token), total + value
            )


def slow_beam(model, context, limits, beam, length_penalty):
    """Search one row with lists, always to the maximum length; return all hypotheses."""
    ended, live = [], [((), 0.0)]
    for _ in range(limits.max_length):
        candidates = [
            ((*written, token), total + value)
            for written, total in live
            for token, value in model.log_p(context, written, limits).items()
        ]
        candidates.sort(key=lambda item: -item[1])
        ended += [(w[:-1], total, True) for w, total in candidates[:beam] if w[-1] == STOP]
        live = [(w, total) for w, total in candidates if w[-1] != STOP][:beam]
    ended += [(w, total, False) for w, total in live]
    hypotheses = [
        Hypothesis.of(w, total, finished=finished, length_penalty=length_penalty)
        for w, total, finished in ended
    ]
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)


def assert_same(actual, expected):
    """Assert the same sequences in the same order, with numbers equal up to rounding."""
    assert [(h.tokens, h.finished) for h in actual] == [(h.tokens, h.finished) for h in expected]
    for ours, theirs in zip(actual, expected, strict=True):
        numbers = torch.tensor([ours.log_probability, ours.score])
        by_hand = torch.tensor([theirs.log_probability, theirs.score])
        torch.testing.assert_close(numbers, by_hand, atol=1e-4, rtol=1e-5)


def limits(max_length, min_length=0, forbidden=(START,)):
    return GenerationLimits(
        stop=STOP, max_length=max_length, min_length=min_length, forbidden=forbidden
    )
