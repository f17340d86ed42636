"""Published alignment error rates, recomputed from the outputs of other aligners.

    SACCADE_DATA=... python benchmarks/alignment.py

Reads wordalign/: the Romanian-English gold of WPT 2005 (248 pairs, counted from 1) and what MGIZA
and fast_align gave for them (counted from 0; those of the reverse direction name the target first),
whose error rates stand in the README of github.com/lilt/alignment-scripts. Each is also read from a
copy with its sides swapped and one that counts from 1, through the options for that. Exits with 1
if a figure differs by more than the published rounding.
"""

from pathlib import Path
from typing import Literal

from quality import data_folder

from saccade.data.lines import read_lines
from saccade.lens.align import Link, from_pharaoh, to_pharaoh
from saccade.lens.gold import read_gold
from saccade.lens.measure import alignment_error_rate

PUBLISHED = {
    ("giza", "forward"): 28.7,
    ("giza", "reverse"): 32.2,
    ("giza", "grow-diagonal"): 27.9,
    ("fastalign", "forward"): 33.8,
    ("fastalign", "reverse"): 35.5,
    ("fastalign", "grow-diagonal"): 32.1,
}
ROUNDING = 0.1  # per cent: one figure was published as 35.5, and is 35.56
PAIRS = 248


def read(lines: list[str], *, first: Literal[0, 1] = 0, swapped: bool = False) -> list[set[Link]]:
    return [from_pharaoh(line, first=first, swapped=swapped) for line in lines]


def rewritten(links: list[set[Link]], *, first: Literal[0, 1], swapped: bool) -> list[str]:
    """The same alignments as another tool might write them."""
    moved = [{(s + first, t + first) for s, t in each} for each in links]
    return [to_pharaoh({(t, s) for s, t in each} if swapped else each) for each in moved]


def main() -> None:
    folder: Path = data_folder() / "wordalign"
    golds = read_gold(read_lines(folder / "ro-en" / "roen.gold"), count=PAIRS, first=1)
    sure, possible = [gold.sure for gold in golds], [gold.possible for gold in golds]
    wrong = False
    print(
        "| aligner | direction | published | here | swapped | from 1 |\n|---|---|---|---|---|---|"
    )
    for (aligner, direction), published in PUBLISHED.items():
        name = f"{aligner}.roen.{direction}.talp"
        given = list(read_lines(folder / "reference_outputs" / name))
        links = read(given, swapped=direction == "reverse")
        ways = (
            links,
            read(rewritten(links, first=0, swapped=True), swapped=True),
            read(rewritten(links, first=1, swapped=False), first=1),
        )
        rates = [100 * alignment_error_rate(way, sure, possible) for way in ways]
        shown = " | ".join(f"{rate:.1f}" for rate in rates)
        print(f"| {aligner} | {direction} | {published} | {shown} |")
        wrong |= any(abs(rate - published) > ROUNDING for rate in rates)
    raise SystemExit(int(wrong))


if __name__ == "__main__":
    main()
