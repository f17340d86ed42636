"""Small synthetic corpora: references, and predictions with seeded errors."""

import random

WORDS = [
    *"a,—",
    "the",
    "dog",
    "cat",
    "man",
    "sees",
    "reads",
    "writes",
    "old",
    "red",
    "book",
    "in",
    "été",
]

INVALID_ITEMS = [
    (["a"], [], "1 predictions but references for 0 items"),
    ([], [], "got 0 predictions"),
    (["a", "b"], [["a"], []], "item 1 has no reference"),
    (["a"], ["a b"], "item 0 are the text 'a b'; give a list of texts per item"),
]
"""Predictions and references that no metric of text accepts, and the error."""


def sentences(count, seed=0):
    generator = random.Random(seed)
    return [
        " ".join(generator.choices(WORDS, k=generator.randint(3, 15))).capitalize() + "."
        for _ in range(count)
    ]


def worse(texts, fraction, seed=0):
    """Return the texts with this fraction of their words replaced, dropped or doubled."""
    generator = random.Random(seed)

    def word(one):
        if generator.random() >= fraction:
            return one
        return generator.choice(["", f"{one} {one}", generator.choice(WORDS)])

    return [" ".join(filter(None, map(word, text.split()))) for text in texts]


def ragged(texts, seed=0):
    """Return one to three references per text."""
    generator = random.Random(seed)
    others = [worse(texts, 0.3, seed=seed + i) for i in (1, 2)]
    return [
        [text, *(other[i] for other in others[: generator.randint(0, 2)])]
        for i, text in enumerate(texts)
    ]
