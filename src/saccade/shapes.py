"""Types for shape annotations, and the meaning of their letters.

    b  batch          s  source length     q  number of queries          d  width of a vector
    h  heads          t  target length     k  number of keys             e  width of a key
    v  vocabulary     n  tokens, patches   r  hidden width of a score    c  classes

Batch comes first, heads second. `*b` stands for any number of leading axes. The tests check the
annotations at run time (jaxtyping with beartype); elsewhere they cost nothing.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Tensor"]
