"""K11. Sinusoidal positions are unique, bounded, the same in every length, and not random.

Source: Vaswani et al. 2017, "Attention is all you need", section 3.5; the list of what positions
should be is common in lectures.

Measured: the vectors of `Sinusoidal(128)`, and for comparison of three schemes that lack something:
a learned table (before training), the index i in every number, and the share i/n of the text.
Unique: no two of 50 places are nearer than 0.01. Bounded: no number beyond 1 up to place 10 000.
Consistent: places p and p + k are as far apart for every p, in a text of 25 as in one of 50 (1e-9).
Determined: built twice, with other random numbers, it is the same.

Holds if: `Sinusoidal` has all four, and each of the other schemes lacks at least one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from claim import Claim, Outcome, judged
from rejected_positions import AddFraction, AddIndex

from saccade.lens import figures
from saccade.positions import Learned, Sinusoidal
from saccade.positions.base import Absolute

DIM, SHORT, LONG = 128, 25, 50
Make = Callable[[], Absolute]


@dataclass(frozen=True, kw_only=True)
class Size:
    """The last place at which numbers are looked at."""

    far: int


def measure(size: Size) -> Outcome:
    """Which scheme has which property."""
    schemes: dict[str, Make] = {
        "Sinusoidal": lambda: Sinusoidal(DIM),
        "Learned": lambda: Learned(DIM, size.far + 1),
        "index i": lambda: AddIndex(DIM),
        "share i/n": lambda: AddFraction(DIM),
    }
    found = {name: properties(make, size.far) for name, make in schemes.items()}
    lacks = {name: [what for what, has in each.items() if not has] for name, each in found.items()}
    others = [name for name in schemes if name != "Sinusoidal"]
    nearest = float(torch.nn.functional.pdist(vectors(Sinusoidal(DIM), LONG)).min())
    return Outcome(
        verdict=judged(not lacks["Sinusoidal"] and all(lacks[name] for name in others)),
        figures=f"of {', '.join(found['Sinusoidal'])} Sinusoidal lacks "
        f"{' and '.join(lacks['Sinusoidal']) or 'nothing'} (its nearest two of {LONG} places are "
        f"{nearest:.2f} apart); "
        + "; ".join(f"{name} is not {' nor '.join(lacks[name])}" for name in others),
        numbers={"properties": found, "nearest_places": nearest},
        chart=figures.positions(Sinusoidal(DIM), LONG),
    )


def properties(make: Make, far: int) -> dict[str, bool]:
    """What a scheme has of the list."""
    torch.manual_seed(0)
    scheme = make()
    table, short = vectors(scheme, LONG), vectors(scheme, SHORT)
    apart = distances(table)
    uneven, other = apart[1:, 1:] - apart[:-1, :-1], apart[:SHORT, :SHORT] - distances(short)
    torch.manual_seed(1)
    again = vectors(make(), LONG)
    return {
        "unique": float(torch.nn.functional.pdist(table).min()) > 0.01,
        "bounded": float(vectors(scheme, far + 1).abs().max()) <= 1,
        "consistent": max(float(each.abs().max()) for each in (uneven, other)) < 1e-9,
        "determined": bool(torch.equal(table, again)),
    }


def vectors(scheme: Absolute, length: int) -> torch.Tensor:
    """The vector of each place of a text of so many."""
    with torch.no_grad():
        return scheme.table(torch.arange(length), torch.float64)


def distances(table: torch.Tensor) -> torch.Tensor:
    """Between each two places."""
    return torch.cdist(table, table, compute_mode="donot_use_mm_for_euclid_dist")


CLAIM = Claim(
    file=__file__, docstring=__doc__, measure=measure, full=Size(far=10_000), quick=Size(far=1000)
)

if __name__ == "__main__":
    CLAIM.main()
