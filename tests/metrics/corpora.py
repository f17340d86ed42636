"""Small made corpora: references, and answers that are wrong in a seeded way."""

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


def sentences(count, seed=0):
    draw = random.Random(seed)
    return [
        " ".join(draw.choices(WORDS, k=draw.randint(3, 15))).capitalize() + "."
        for _ in range(count)
    ]


def worse(texts, share, seed=0):
    """The texts with this share of their words replaced, dropped or doubled."""
    draw = random.Random(seed)

    def word(one):
        if draw.random() >= share:
            return one
        return draw.choice(["", f"{one} {one}", draw.choice(WORDS)])

    return [" ".join(filter(None, map(word, text.split()))) for text in texts]


def ragged(texts, seed=0):
    """One to three references for each text."""
    draw = random.Random(seed)
    others = [worse(texts, 0.3, seed=seed + i) for i in (1, 2)]
    return [
        [text, *(other[i] for other in others[: draw.randint(0, 2)])]
        for i, text in enumerate(texts)
    ]
