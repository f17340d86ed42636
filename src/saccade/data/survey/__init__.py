"""Facts about the rows of a corpus: lengths, labels, scripts, images, and faults.

facts      the records: a survey, its splits, their lengths, labels, images and faults
reading    read a corpus once and survey it, keeping only counts and hashes of its rows
notes      sentences about faults
scripts    scripts of a text, such as Latin or Cyrillic
"""

from saccade.data.survey.facts import (
    Fault,
    Images,
    LabelFacts,
    Leak,
    Lengths,
    SplitSurvey,
    Survey,
    VectorFacts,
)
from saccade.data.survey.notes import notes
from saccade.data.survey.reading import survey

__all__ = [
    "Fault",
    "Images",
    "LabelFacts",
    "Leak",
    "Lengths",
    "SplitSurvey",
    "Survey",
    "VectorFacts",
    "notes",
    "survey",
]
