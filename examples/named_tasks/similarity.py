"""Similarity: how similar are two sentences, from 0 to 5? (as in STS-B; Pearson, Spearman)

    python examples/named_tasks/similarity.py

Labels with a decimal point make the task a regression: one output, and the mean squared error as
its loss. Each part of a sentence that means the same adds to the similarity, whether it is the same
word or a synonym.
"""

import random

from named_task import SMALL_READER, NamedTask

PARTS = (  # the weight of a part, and its meanings with their words
    (1.5, (("boy", "lad"), ("girl", "lass"), ("doctor", "medic"), ("dog", "hound"))),
    (2.0, (("sees", "spots"), ("buys", "purchases"), ("mends", "repairs"), ("hides", "conceals"))),
    (1.0, (("big", "large"), ("small", "little"), ("quick", "fast"), ("old", "ancient"))),
    (0.5, (("car", "automobile"), ("bike", "bicycle"), ("boat", "ship"), ("sofa", "couch"))),
)


def sample(chance: random.Random) -> tuple[str, str, str]:
    """Return two sentences and their similarity."""
    similarity = 0.0
    sides: tuple[list[str], list[str]] = ([], [])
    for weight, meanings in PARTS:
        one = chance.choice(meanings)
        other = one if chance.random() < 0.5 else chance.choice(meanings)
        similarity += weight * (one == other)
        sides[0].append(chance.choice(one))
        sides[1].append(chance.choice(other))
    first, second = ("the {} {} a {} {}".format(*words) for words in sides)
    return first, second, f"{similarity:.1f}"


TASK = NamedTask(
    docstring=__doc__,
    columns=("text", "text_pair", "label"),
    sample=sample,
    metrics=("pearson", "spearman", "mean_squared_error"),
    recipe="bert-mini",
    changes=(*SMALL_READER, "labels.kind=number"),
    steps=600,
)

if __name__ == "__main__":
    TASK.main()
