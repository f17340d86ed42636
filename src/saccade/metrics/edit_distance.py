"""The edit distance of Levenshtein (1966), fast and obvious.

The fast one keeps a whole column of the table in the bits of two integers, +1 and -1 steps, and so
computes a column in a dozen operations (Myers 1999 in the form of Hyyrö 2003). Python's integers
have any number of bits, so texts may have any length.
"""

from collections.abc import Hashable, Sequence


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """The fewest insertions, deletions and replacements that turn one into the other.

    >>> edit_distance("kitten", "sitting")
    3
    """
    if len(one) == 0 or len(other) == 0:
        return len(one) + len(other)
    where: dict[Hashable, int] = {}
    for i, symbol in enumerate(one):
        where[symbol] = where.get(symbol, 0) | 1 << i
    bits = (1 << len(one)) - 1
    last = 1 << (len(one) - 1)
    up, down, distance = bits, 0, len(one)  # vertical steps of +1 and of -1
    for symbol in other:
        equal = where.get(symbol, 0)
        diagonal = (((equal & up) + up) ^ up) | equal
        right = (down | ~(diagonal | up)) & bits  # horizontal steps of +1
        left = up & diagonal
        if right & last:
            distance += 1
        elif left & last:
            distance -= 1
        right, left = right << 1 | 1, left << 1
        free = equal | down
        up = (left | ~(free | right)) & bits
        down = right & free & bits
    return distance


def edit_distance_by_table(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """The same by the table itself, row by row: the reference for the tests."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row = row, [i]
        for j, b in enumerate(other, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b)))
    return row[-1]
