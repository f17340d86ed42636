"""Compare recipes trained on the same data with the same budget and measured in the same way.

entrants       the recipes of a comparison, their names and their common budget
folder         layout of the output folder, and checks before a comparison is resumed
training_job   one training run and its measurements
worker         the same in a process of its own
measurements   quality, cost and speed of a trained model, and its predictions for some inputs
statistics     means over seeds, and significance of differences
outcome        the verdict: better, tie or not learned
comparison     all results, for the page and for compare.json
charts, page   compare.html
runner         `compare`, which ties it all together
"""

from saccade.compare.comparison import Comparison
from saccade.compare.runner import compare

__all__ = ["Comparison", "compare"]
