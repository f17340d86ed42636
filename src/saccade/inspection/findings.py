"""The findings of an inspection, which `text` and `page` show."""

from __future__ import annotations

from dataclasses import dataclass

from saccade.data.survey import Survey
from saccade.inspection.cost import Cost
from saccade.training.choice import RecipeChoice


@dataclass(frozen=True)
class Fit:
    """A built-in recipe that can read the data, and its description."""

    recipe: str
    task: str
    description: str


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Facts about data, the recipes that fit, and the cost of training on this machine.

    Attributes:
        data: The file or folder, as given.
        understood: The files and columns that were recognised, in one sentence.
        task: The name of the task that would be trained.
        survey: The facts about the rows.
        notes: One sentence per fault of the data.
        recipe: The given or chosen recipe.
        choice: The chosen recipe with the reason; None if one was given.
        fits: The built-in recipes that can read the data.
        cost: The cost of a training run of `recipe`; None if it was not measured.
        cost_error: Why the cost could not be measured; empty if it could.
    """

    data: str
    understood: str
    task: str
    survey: Survey
    notes: tuple[str, ...]
    recipe: str
    choice: RecipeChoice | None
    fits: tuple[Fit, ...]
    cost: Cost | None = None
    cost_error: str = ""
