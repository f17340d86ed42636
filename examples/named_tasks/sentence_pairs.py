"""Sentence pairs: does the second sentence follow from the first? (as in MNLI, RTE; accuracy)

    python examples/named_tasks/sentence_pairs.py

"a small dog sleeps in the garden" entails "a animal sleeps", contradicts "a large dog sleeps", and
leaves open whether "a brown dog sleeps".
"""

import random

from named_task import SMALL_READER, NamedTask

KINDS = {"dog": "animal", "cat": "animal", "boy": "person", "girl": "person"}
VALUES = {
    "size": ("small", "large"),
    "colour": ("brown", "white"),
    "who": tuple(KINDS),
    "verb": ("sleeps", "waits", "eats"),
    "place": ("in the garden", "in the house", "at school"),
}
OPTIONAL = ("size", "colour", "place")


def sample(chance: random.Random) -> tuple[str, str, str]:
    """Return a premise, a hypothesis, and how they relate."""
    label = chance.choice(("entailment", "contradiction", "neutral"))
    premise = {part: chance.choice(values) for part, values in VALUES.items()}
    missing = chance.sample(OPTIONAL, 1 if label == "neutral" else chance.randint(0, 1))
    stated = {part: value for part, value in premise.items() if part not in missing}
    hypothesis = dict(stated)
    for part in OPTIONAL:  # a hypothesis may say less than the premise
        if chance.random() < 0.5:
            hypothesis.pop(part, None)
    if label == "contradiction":
        part = chance.choice([part for part in stated if part != "who"])
        hypothesis[part] = chance.choice([v for v in VALUES[part] if v != stated[part]])
    elif label == "neutral":
        hypothesis.update({part: premise[part] for part in missing})
    if chance.random() < 0.5:
        hypothesis["who"] = KINDS[hypothesis["who"]]
    return sentence(stated), sentence(hypothesis), label


def sentence(parts: dict[str, str]) -> str:
    """Return the parts in the order of a sentence."""
    return " ".join(("a", *(parts[part] for part in VALUES if part in parts)))


TASK = NamedTask(
    docstring=__doc__,
    columns=("text", "text_pair", "label"),
    sample=sample,
    metrics=("accuracy", "macro_f1"),
    recipe="bert-mini",
    changes=(*SMALL_READER, 'metrics.names=["accuracy", "macro_f1"]'),
    steps=600,
    sizes=(3000, 200, 300),
)

if __name__ == "__main__":
    TASK.main()
