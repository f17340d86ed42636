"""The seams between the rooms: what one part may ask of another without knowing which it is."""

from typing import Protocol, runtime_checkable

from saccade.shapes import Float, Int, Tensor


@runtime_checkable
class Positional(Protocol):
    """What attention asks of a positional encoding: the two hooks that act inside a head.

    `at_q` and `at_k` are the places of the queries and keys, counted from 0. (The third hook,
    `embed`, acts on the tokens before attention, so attention never calls it.)
    """

    def rotate(
        self,
        query: Float[Tensor, "b h q d"],
        keys: Float[Tensor, "b g k d"],
        at_q: Int[Tensor, " q"],
        at_k: Int[Tensor, " k"],
    ) -> tuple[Float[Tensor, "b h q d"], Float[Tensor, "b g k d"]]:
        """Query and keys, each turned by its place."""
        ...

    def bias(
        self,
        query: Float[Tensor, "b h q d"],
        at_q: Int[Tensor, " q"],
        at_k: Int[Tensor, " k"],
    ) -> Float[Tensor, "b h q k"] | None:
        """What is added to the scores because of the places, or None for nothing."""
        ...
