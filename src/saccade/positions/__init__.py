"""Positional encodings, which give attention the order of its inputs.

Attention by itself reads a set. A `Position` adds order through three hooks, of which each family
overrides its own: `embed` on the tokens, `rotate` on queries and keys, `bias` on the scores. Places
count from 0 in text; in images they are a `Grid` of rows and columns.

    Sinusoidal    waves of decreasing frequency, added or concatenated    (Vaswani et al. 2017)
    Learned       a learned table, added or concatenated                  (Gehring et al. 2017)
    Relative      a bias by distance in text                              (Shaw et al. 2018)
    Buckets       a bias by ranges of distances in text, per head         (Raffel et al. 2020)
    Relative2d    a bias by distance in rows and columns                  (Bello et al. 2019)
    Rotary        queries and keys rotated by their place                 (Su et al. 2021)
    Complex       tokens rotated by their place at learned frequencies    (Wang et al. 2019)
    Conditional   a convolution over neighbouring tokens                  (Chu et al. 2021)
    Position      no positions, the base class of the others

The options of each class stand beside it, such as `RotaryConfig`; `PositionConfig` is any of them.
"""

from saccade.positions.base import Grid, NoPositionConfig, Placed, Position
from saccade.positions.buckets import Buckets, BucketsConfig
from saccade.positions.complex import Complex, ComplexConfig
from saccade.positions.conditional import Conditional, ConditionalConfig
from saccade.positions.config import PositionConfig
from saccade.positions.learned import Learned, LearnedConfig
from saccade.positions.relative import Relative, RelativeConfig
from saccade.positions.relative2d import Relative2d, Relative2dConfig
from saccade.positions.rotary import Rotary, RotaryConfig
from saccade.positions.sinusoidal import Sinusoidal, SinusoidalConfig

__all__ = [
    "Buckets",
    "BucketsConfig",
    "Complex",
    "ComplexConfig",
    "Conditional",
    "ConditionalConfig",
    "Grid",
    "Learned",
    "LearnedConfig",
    "NoPositionConfig",
    "Placed",
    "Position",
    "PositionConfig",
    "Relative",
    "Relative2d",
    "Relative2dConfig",
    "RelativeConfig",
    "Rotary",
    "RotaryConfig",
    "Sinusoidal",
    "SinusoidalConfig",
]
