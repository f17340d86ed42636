"""Inspection: what data holds, which recipes fit it, and what a training would cost here.

record       inspect data, and the inspection that results
findings     the findings of an inspection
cost         the cost of a training, by a short trial in a child process
text         an inspection as lines of text
page         an inspection as a page

The facts come from `saccade.data.survey`, the choice of a recipe from `saccade.training.choice`.
"""

from saccade.inspection.cost import Cost
from saccade.inspection.record import Inspection, inspect
from saccade.training.choice import RecipeChoice, choose_recipe

__all__ = ["Cost", "Inspection", "RecipeChoice", "choose_recipe", "inspect"]
