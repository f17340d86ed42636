"""K5. Attention learns word alignments: a diagonal where the word order stays the same.

Source: Bahdanau et al. 2015, "Neural machine translation by jointly learning to align and
translate", section 5.2.1 and figure 3.

Measured: the recipe `reverse` (an RNN with attention) on `builtin:copy` and `builtin:reverse`,
three seeds; the alignment error rate on the test pairs, whose gold links are known: i to i, and i
to n - 1 - i. Words are aligned as `saccade predict --align` does, by the attention that training
selected.

Holds if: the alignment error rate is below 5 % for both orders in every seed.
"""

from claim import Claim, Outcome, Trials, between, judged, trained

from saccade.data.builtin import copy, reverse
from saccade.lens.alignment.error_rate import alignment_error_rate
from saccade.lens.alignment.extraction import from_pharaoh
from saccade.lens.drawing.chart import Chart
from saccade.lens.record import AttentionRecord
from saccade.tasks.text_to_text import TextToText

ORDERS = {"copy": copy, "reverse": reverse}
SHOWN = 8  # the least number of letters of the pair that is drawn


def measure(trials: Trials) -> Outcome:
    """Measure the error rate of each order and seed, and draw one pair of each order."""
    errors: dict[str, list[float]] = {}
    shown: dict[str, AttentionRecord] = {}
    for name, data in ORDERS.items():
        rows = list(data.rows("test"))
        gold = [from_pharaoh(links) for *_, links in rows]
        for seed in range(trials.seeds):
            task = trained("reverse", f"builtin:{name}", [], steps=trials.steps, seed=seed)
            assert isinstance(task, TextToText)
            records = task.records([row[0] for row in rows], [row[1] for row in rows])
            predicted = [record.alignment() for record in records]
            errors.setdefault(name, []).append(alignment_error_rate(predicted, gold, gold))
        shown[name] = next(record for record in records if len(record.wrote.words) >= SHOWN)
    worst = max(max(rates) for rates in errors.values())
    return Outcome(
        verdict=judged(worst < 0.05),
        figures=f"alignment error rate {between(errors['copy'], '.1%')} for the same order, "
        f"{between(errors['reverse'], '.1%')} for the reversed order",
        numbers={"alignment_error_rate": errors},
        chart=maps(shown),
    )


def maps(records: dict[str, AttentionRecord]) -> Chart:
    """Draw the weights that words are aligned by, one row per output letter."""
    chart = Chart({}, figsize=(6.4, 3.4))
    for axes, (name, record) in zip(chart.subplots(1, len(records)), records.items(), strict=True):
        axes.imshow(record.to_align(), cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(record.read.words)), record.read.words)
        axes.set_yticks(range(len(record.wrote.words)), record.wrote.words)
        axes.set_title(name)
    return chart


CLAIM = Claim(
    file=__file__,
    docstring=__doc__,
    measure=measure,
    full=Trials(seeds=3, steps=1000),
    quick=Trials(seeds=1, steps=2),
)

if __name__ == "__main__":
    CLAIM.main()
