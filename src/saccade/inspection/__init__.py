"""Inspect data: its contents and faults, the recipes that fit, and the cost of training here.

record       `inspect` and the `Inspection` it returns
findings     the findings of an inspection
cost         the cost of training, estimated by a short trial in a child process
text         an inspection as lines of text
page         an inspection as a page

The facts come from `saccade.data.survey`, the choice of a recipe from `saccade.training.choice`.
"""

from saccade.inspection.cost import Cost
from saccade.inspection.record import Inspection, inspect
from saccade.training.choice import RecipeChoice, choose_recipe

__all__ = ["Cost", "Inspection", "RecipeChoice", "choose_recipe", "inspect"]
