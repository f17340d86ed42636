"""The letters of every shape annotation in Saccade, and the names to write them with.

    b  batch          s  source length     q  queries (their number)     d  width of a vector
    h  heads          t  target length     k  keys (their number)        e  width of a key
    v  vocabulary     n  tokens, patches   r  hidden width of a score    c  classes

Batch comes first, heads second. `*b` stands for any number of leading axes. The annotations are
checked at run time in the tests (jaxtyping with beartype) and cost nothing outside of them.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Tensor"]
