"""Parsing: the constituency tree of a sentence, as text to text (bracket F1)

    python examples/named_tasks/parsing.py

A tree is written as a line of text (Vinyals et al. 2015, "Grammar as a foreign language"), so a
translator learns to parse: "Ann sees a cat" becomes "(S (NP Ann ) (VP sees (NP a cat ) ) )". The
phrase of "of" belongs to the noun before it, that of "at" and "with" to the verb.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from named_task import NamedTask, Row, Trained

from saccade.metrics import bracket_f1

NOUNS = ["dog", "cat", "boy", "girl", "king", "door", "house", "car", "ship", "friend"]
ADJECTIVES = ["old", "small", "red", "happy"]
NAMES = ["Ann", "Bob", "Eve"]
INTRANSITIVE, TRANSITIVE = ["sleeps", "waits", "laughs"], ["sees", "likes", "paints", "follows"]


def noun_phrase(chance: random.Random, depth: int) -> str:
    """Return a name, or a noun with a determiner and what belongs to it."""
    if chance.random() < 0.2:
        return f"(NP {chance.choice(NAMES)} )"
    adjective = f"{chance.choice(ADJECTIVES)} " if chance.random() < 0.3 else ""
    determiner = chance.choice(("the", "a", "every"))
    simple = f"(NP {determiner} {adjective}{chance.choice(NOUNS)} )"
    if depth and chance.random() < 0.3:
        return f"(NP {simple} (PP of {noun_phrase(chance, depth - 1)} ) )"
    return simple


def verb_phrase(chance: random.Random) -> str:
    """Return a verb with its object and an adverbial."""
    parts = [chance.choice(INTRANSITIVE)]
    if chance.random() < 0.6:
        parts = [chance.choice(TRANSITIVE), noun_phrase(chance, 1)]
    if chance.random() < 0.4:
        parts.append(f"(PP {chance.choice(('at', 'with'))} {noun_phrase(chance, 0)} )")
    return f"(VP {' '.join(parts)} )"


def words(tree: str) -> list[str]:
    """Return the words of a tree."""
    return [token for token in tree.split() if token != ")" and not token.startswith("(")]


def sample(chance: random.Random) -> tuple[str, str]:
    """Return a sentence and its tree."""
    tree = f"(S {noun_phrase(chance, 1)} {verb_phrase(chance)} )"
    return " ".join(words(tree)), tree


def most_frequent_shapes(train: Sequence[Row]) -> dict[int, str]:
    """Return the most frequent tree of each number of words, with {} in the place of words."""
    shapes: dict[int, Counter[str]] = {}
    for sentence, tree in train:
        inside = (token if token[0] in "()" else "{}" for token in tree.split())
        shapes.setdefault(len(sentence.split()), Counter())[" ".join(inside)] += 1
    return {length: counts.most_common(1)[0][0] for length, counts in shapes.items()}


def more(trained: Trained) -> Iterator[str]:
    """Yield the score of a baseline that knows the usual tree of each number of words."""
    shapes = most_frequent_shapes(trained.train)
    items = trained.evaluation.items
    sentences = [item.inputs[0].split() for item in items]
    trees = [shapes.get(len(sentence), "").format(*sentence) for sentence in sentences]
    score = bracket_f1(trees, [item.references for item in items], samples=0)
    yield "baseline: most frequent tree of the same number of words"
    yield f"  bracket_f1          {score.value:6.3f}"


TASK = NamedTask(
    docstring=__doc__,
    columns=("source", "target"),
    sample=sample,
    metrics=("bracket_f1", "exact_match"),
    recipe="transformer-tiny",
    changes=(
        'text.source={kind="token", size=200}',
        "model.dim=64",
        "model.encoder.num_layers=2",
        "model.encoder.hidden_dim=128",
        "model.encoder.dropout=0.0",
        "model.decoder.num_layers=2",
        "model.decoder.hidden_dim=128",
        "model.decoder.dropout=0.0",
        "generation.beam=1",
        "generation.max_ratio=5",  # a tree has more tokens than its sentence
        'metrics.names=["bracket_f1", "exact_match"]',
        "training.learning_rate=4e-3",
        "training.batch_tokens=2048",
        "training.optim.warmup=50",
        "training.adapt=false",
    ),
    steps=400,
    more=more,
)

if __name__ == "__main__":
    TASK.main()
