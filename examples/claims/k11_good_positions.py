"""K11. Sinusoidal positions are unique, bounded, consistent across lengths, and deterministic.

Source: Vaswani et al. 2017, "Attention is all you need", section 3.5; the list of properties is
common in lectures.

Measured: the vectors of `Sinusoidal(128)` and, for comparison, of three schemes that lack a
property: a learned table (before training), the index i in every dimension, and the fraction i/n of
the text. Unique: no two of 50 positions are closer than 0.01. Bounded: no value exceeds 1 up to
position 10 000. Consistent: the distance of positions p and p + k is the same for every p, in a
text of 25 as in one of 50 (within 1e-9). Deterministic: built twice, with different random numbers,
it is the same.

Holds if: `Sinusoidal` has all four properties, and each of the other schemes lacks at least one.
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
    """The last position at which values are checked."""

    far: int


def measure(size: Size) -> Outcome:
    """Check which scheme has which property."""
    schemes: dict[str, Make] = {
        "Sinusoidal": lambda: Sinusoidal(DIM),
        "Learned": lambda: Learned(DIM, size.far + 1),
        "index i": lambda: AddIndex(DIM),
        "fraction i/n": lambda: AddFraction(DIM),
    }
    checked = {name: properties(make, size.far) for name, make in schemes.items()}
    lacks = {
        name: [what for what, present in scheme.items() if not present]
        for name, scheme in checked.items()
    }
    others = [name for name in schemes if name != "Sinusoidal"]
    nearest = float(torch.nn.functional.pdist(vectors(Sinusoidal(DIM), LONG)).min())
    return Outcome(
        verdict=judged(not lacks["Sinusoidal"] and all(lacks[name] for name in others)),
        figures=f"of {', '.join(checked['Sinusoidal'])}, Sinusoidal lacks "
        f"{' and '.join(lacks['Sinusoidal']) or 'nothing'} (the closest two of {LONG} positions "
        f"are {nearest:.2f} apart); "
        + "; ".join(f"{name} is not {' or '.join(lacks[name])}" for name in others),
        numbers={"properties": checked, "nearest_places": nearest},
        chart=figures.positions(Sinusoidal(DIM), LONG),
    )


def properties(make: Make, far: int) -> dict[str, bool]:
    """Return which of the four properties a scheme has."""
    torch.manual_seed(0)
    scheme = make()
    table, short = vectors(scheme, LONG), vectors(scheme, SHORT)
    between = distances(table)
    uneven = between[1:, 1:] - between[:-1, :-1]
    changed = between[:SHORT, :SHORT] - distances(short)
    torch.manual_seed(1)
    again = vectors(make(), LONG)
    return {
        "unique": float(torch.nn.functional.pdist(table).min()) > 0.01,
        "bounded": float(vectors(scheme, far + 1).abs().max()) <= 1,
        "consistent": max(float(error.abs().max()) for error in (uneven, changed)) < 1e-9,
        "deterministic": bool(torch.equal(table, again)),
    }


def vectors(scheme: Absolute, length: int) -> torch.Tensor:
    """Return the vector of each position of a text of this length."""
    with torch.no_grad():
        return scheme.table(torch.arange(length), torch.float64)


def distances(table: torch.Tensor) -> torch.Tensor:
    """Return the distance between each two positions."""
    return torch.cdist(table, table, compute_mode="donot_use_mm_for_euclid_dist")


CLAIM = Claim(
    file=__file__, docstring=__doc__, measure=measure, full=Size(far=10_000), quick=Size(far=1000)
)

if __name__ == "__main__":
    CLAIM.main()
