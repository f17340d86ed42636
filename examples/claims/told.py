"""What a claim's file says of it, in its first lines.

It begins with what is claimed, then says where that comes from ("Source:"), how it is measured
("Measured:"), and by which rule it is judged ("Holds if:", or "Reported:" where there is no rule).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Told:
    """What a claim's file says of it."""

    key: str
    claim: str
    source: str
    measured: str
    rule: str

    @classmethod
    def of(cls, docstring: str) -> "Told":
        """From the first lines of the file."""
        first, *parts = (" ".join(part.split()) for part in docstring.strip().split("\n\n"))
        key, claim = first.split(". ", 1)
        source, measured, rule = parts
        assert source.startswith("Source: "), f"{key} says no source"
        assert measured.startswith("Measured: "), f"{key} does not say how it is measured"
        assert rule.startswith(("Holds if: ", "Reported: ")), f"{key} has no rule"
        return cls(key, claim, source, measured, rule)
