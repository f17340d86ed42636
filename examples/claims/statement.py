"""The statement of a claim, parsed from the docstring of its file.

The docstring has four paragraphs: the claim after its key ("K1. ..."), its source ("Source: ..."),
how it is measured ("Measured: ..."), and the rule that judges it ("Holds if: ..."), or what is
reported instead of a rule ("Reported: ...").
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Statement:
    """A claim with its source, measurement and rule."""

    key: str
    claim: str
    source: str
    measured: str
    rule: str

    @classmethod
    def parse(cls, docstring: str) -> "Statement":
        """Parse the docstring of a claim's file; raise if a paragraph is missing."""
        first, *parts = (" ".join(part.split()) for part in docstring.strip().split("\n\n"))
        key, claim = first.split(". ", 1)
        source, measured, rule = parts
        assert source.startswith("Source: "), f"{key} has no source"
        assert measured.startswith("Measured: "), f"{key} has no measurement"
        assert rule.startswith(("Holds if: ", "Reported: ")), f"{key} has no rule"
        return cls(key, claim, source, measured, rule)
