"""Comparing recipes: trained on the same data with the same budget, measured in the same way.

plan         what is compared: recipes by their names, seeds, the budget
folder       where it all lies, and whether what is asked fits what is there
work         one training and its measurements
child        the same in a process of its own
measure      what is measured of a trained model
memory       how much memory a process has needed
statistics   means over seeds, and whether differences can be told from chance
comparison   everything that was found, for the page and for programs
charts       pictures of it
page         compare.html
session      the whole job
"""

from saccade.compare.runner import compare

__all__ = ["compare"]
