"""Acceptability: is a sentence grammatical? (as in CoLA; Matthews correlation)

    python examples/named_tasks/acceptability.py

The verb agrees with its subject, not with the nouns between them: "the keys near the door are
old". A bag of words cannot tell which noun is the subject.
"""

import random

from named_task import SMALL_READER, NamedTask

NOUNS = ["key", "dog", "car", "door", "boy", "lamp", "ship", "bird"]
ADJECTIVES = ["old", "red", "small", "new", "loud", "wet"]
PLACES = ["near", "behind", "above", "beside"]
VERBS = {"is": "are", "was": "were", "has been": "have been", "looks": "look", "seems": "seem"}


def sample(chance: random.Random) -> tuple[str, str]:
    """Return a sentence, and whether its verb has the number of its subject."""
    plural, right = chance.random() < 0.5, chance.random() < 0.5
    subject = chance.choice(NOUNS)
    words = ["the", subject + "s" * plural]
    for _ in range(chance.randint(1, 2)):
        other = chance.choice(NOUNS) + "s" * (chance.random() < 0.5)
        words += [chance.choice(PLACES), "the", other]
    singular = chance.choice(list(VERBS))
    words += [VERBS[singular] if plural == right else singular, chance.choice(ADJECTIVES)]
    return " ".join(words), "acceptable" if right else "unacceptable"


TASK = NamedTask(
    docstring=__doc__,
    columns=("text", "label"),
    sample=sample,
    metrics=("matthews", "accuracy"),
    recipe="bert-mini",
    changes=(*SMALL_READER, 'metrics.names=["matthews", "accuracy"]'),
    steps=250,
)

if __name__ == "__main__":
    TASK.main()
