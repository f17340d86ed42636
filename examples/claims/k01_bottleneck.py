"""K1. Without attention an RNN gets worse as its input gets longer; with attention it does not.

Source: Cho et al. 2014, "On the properties of neural machine translation", and Bahdanau et al.
2015, "Neural machine translation by jointly learning to align and translate", section 5: one vector
holds only so much.

Measured: the recipe `reverse` on `builtin:reverse` (up to 12 letters, to be written backwards) with
`model.decoder.attention` "after" and "none", the same updates, three seeds; letters that are wrong,
by the length of the input. (An answer of twelve letters is wrong more easily than one of two, so
letters are counted and not answers.)

Holds if: in every seed, from the shortest inputs to the longest, the error without attention rises
by at least 0.1, and that with attention by less than a quarter of it.
"""

from statistics import fmean

from claim import Claim, Outcome, Trials, between, judged, lines, trained

from saccade.training.session import assess

DATA, ERROR = "builtin:reverse", "word_edit_rate"  # each letter is a word
MODELS = {"attention": "after", "no attention": "none"}


def measure(trials: Trials) -> Outcome:
    """The error of both models by length."""
    found = {
        name: [errors(attention, trials.steps, seed) for seed in range(trials.seeds)]
        for name, attention in MODELS.items()
    }
    shortest, *_, longest = lengths = list(found["attention"][0])
    by_length = {
        name: {length: [each[length] for each in runs] for length in lengths}
        for name, runs in found.items()
    }
    rises = {
        name: [each[longest] - each[shortest] for each in runs] for name, runs in found.items()
    }
    pairs = zip(rises["attention"], rises["no attention"], strict=True)
    told = " and ".join(
        f"from {fmean(each[shortest]):.2f} to {fmean(each[longest]):.2f} with {name} "
        f"(seeds: {between(each[longest])})"
        for name, each in by_length.items()
    )
    return Outcome(
        verdict=judged(all(without >= 0.1 and with_ < without / 4 for with_, without in pairs)),
        figures=f"between inputs of about {shortest:g} letters and of about {longest:g} the error "
        f"goes {told}",
        numbers={"error_by_length": by_length},
        chart=lines(by_length, x="letters of the input", y="share of wrong letters"),
    )


def errors(attention: str, steps: int, seed: int) -> dict[float, float]:
    """The error of a training, by the middle length of each bucket."""
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
