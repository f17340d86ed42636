"""K1. Without attention, an RNN gets worse as its input gets longer; with attention, it does not.

Source: Cho et al. 2014, "On the properties of neural machine translation", and Bahdanau et al.
2015, "Neural machine translation by jointly learning to align and translate", section 5: one vector
has a limited capacity.

Measured: the recipe `reverse` on `builtin:reverse` (write up to 12 letters backwards) with
`model.decoder.attention` set to "after" and to "none", the same number of updates, three seeds; the
error rate of letters by input length. (A prediction of twelve letters is wrong more easily than one
of two, so letters are counted instead of predictions.)

Holds if: in every seed, from the shortest to the longest inputs, the error rate without attention
rises by at least 0.1, and with attention by less than a quarter of that.
"""

from statistics import fmean

from claim import Claim, Outcome, Trials, between, judged, lines, trained

from saccade.training.session import assess

DATA, ERROR = "builtin:reverse", "word_edit_rate"  # each letter is a word
MODELS = {"attention": "after", "no attention": "none"}


def measure(trials: Trials) -> Outcome:
    """Measure the error rate of both models by input length."""
    runs = {
        name: [error_rates(attention, trials.steps, seed) for seed in range(trials.seeds)]
        for name, attention in MODELS.items()
    }
    shortest, *_, longest = lengths = list(runs["attention"][0])
    by_length = {
        name: {length: [errors[length] for errors in seeds] for length in lengths}
        for name, seeds in runs.items()
    }
    rises = {
        name: [errors[longest] - errors[shortest] for errors in seeds]
        for name, seeds in runs.items()
    }
    pairs = zip(rises["attention"], rises["no attention"], strict=True)
    changes = " and ".join(
        f"from {fmean(errors[shortest]):.2f} to {fmean(errors[longest]):.2f} with {name} "
        f"(seeds: {between(errors[longest])})"
        for name, errors in by_length.items()
    )
    return Outcome(
        verdict=judged(all(without >= 0.1 and with_ < without / 4 for with_, without in pairs)),
        figures=f"from inputs of about {shortest:g} letters to inputs of about {longest:g}, the "
        f"error rate goes {changes}",
        numbers={"error_by_length": by_length},
        chart=lines(by_length, x="input length (letters)", y="error rate of letters"),
    )


def error_rates(attention: str, steps: int, seed: int) -> dict[float, float]:
    """Train a model and return its error rate by the mean length of each bucket."""
    changes = [f"model.decoder.attention={attention}", f'metrics.names=["{ERROR}"]']
    task = trained("reverse", DATA, changes, steps=steps, seed=seed)
    rows = assess(task, data=DATA, beam=1).by_length
    return {(row["from"] + row["to"]) / 2: row[ERROR] for row in rows}


CLAIM = Claim(
    file=__file__,
    docstring=__doc__,
    measure=measure,
    full=Trials(seeds=3, steps=1000),
    quick=Trials(seeds=1, steps=2),
)

if __name__ == "__main__":
    CLAIM.main()
