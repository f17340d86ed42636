"""Texts for training: a synthetic language large enough for ties, and a few sentences."""

import random

SENTENCES = (
    "Two men are talking in front of a house.",
    "Ein Mann schläft in einem grünen Raum auf einem Sofa.",
    'A man wearing headphones sits, and reads: "nothing" (for 2 hours).',
    "Δύο άντρες μιλάνε. Два человека. 二人の男が話している。",
    "a man's house and the men's houses; housing the houses 🎉",
)


def synthetic(sentences: int, seed: int = 0) -> list[str]:
    """Return sentences of generated words, frequent and rare, many equally frequent."""
    chance = random.Random(seed)
    syllables = [c + v for c in "bdfgklmnprst" for v in ("a", "e", "i", "o", "ü", "ж")]
    words = ["".join(chance.choices(syllables, k=chance.randint(1, 4))) for _ in range(4000)]
    shares = [1 / rank for rank in range(1, len(words) + 1)]
    return [
        " ".join(chance.choices(words, shares, k=chance.randint(3, 14))) for _ in range(sentences)
    ]
