"""The numbers printed in lectures on attention, computed with the parts of this package.

Each block below takes one worked example (the tensors of a notebook, the table of a slide, a
documented shape), computes it with Saccade's attention and positions, and compares every number:

    python examples/lecture_numbers.py              print the checks; exit code 1 if one fails
    python examples/lecture_numbers.py --out DIR    also draw two pictures into DIR

    L1-L2    self-attention of a sentence, without parameters
    L3-L5    the same with query, key and value matrices, and scaled
    L6-L7    several heads, of full width and split
    L8-L9    weights shown on slides
    L10      sizes of the matrices of an attention, and of a complete Transformer
    L11      an image as a sequence of patches

Two statements of lectures are corrected here: the *rows* of the weights sum to 1, the columns need
not (L1, L8); and the key shown for head index 2 belongs to the *third* head (L6).

Random numbers come from a generator seeded with 123 at the start of each block. The printed
numbers are rounded, so they are compared within 1e-4; the scores, which are large, within 1e-3.
"""

import argparse
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import saccade
from saccade.attention import Attend, Dot, MultiHeadAttention, ScaledDot
from saccade.positions import Grid, Sinusoidal

SEED = 123
PRINTED = 1e-4  # numbers are printed with four decimals
PRINTED_SCORE = 1e-3
SAME = 1e-5  # two ways to compute one float32 result
SUM = 1e-6

Numbers = float | Sequence[float] | Sequence[Sequence[float]]


@dataclass(frozen=True)
class Check:
    """Computed numbers and their expected values."""

    item: str
    what: str
    computed: tuple[float, ...]
    expected: tuple[float, ...]
    tolerance: float = 0.0
    relative: bool = False

    @property
    def name(self) -> str:
        """A unique name of the check."""
        return f"{self.item} {self.what}"

    @property
    def off(self) -> float:
        """The largest difference, relative to the expected number if `relative`."""
        if len(self.computed) != len(self.expected):
            return math.inf
        expected = torch.tensor(self.expected, dtype=torch.float64)
        difference = (torch.tensor(self.computed, dtype=torch.float64) - expected).abs()
        if self.relative:
            difference = difference / expected.abs()
        return float(difference.max())  # NaN if one of them is

    @property
    def passes(self) -> bool:
        """Whether every number is within the tolerance; NaN never is."""
        return self.off <= self.tolerance


def numbers(
    item: str,
    what: str,
    computed: Tensor,
    expected: Tensor | Numbers,
    tolerance: float,
    *,
    relative: bool = False,
) -> Check:
    """Check numbers within a tolerance."""
    target = torch.as_tensor(expected, dtype=torch.float64)
    return Check(item, what, _flat(computed), _flat(target), tolerance, relative)


def shape(item: str, what: str, computed: Tensor, expected: Sequence[int]) -> Check:
    """Check the shape of a tensor."""
    return Check(item, what, tuple(computed.shape), tuple(expected))


def count(item: str, what: str, computed: int, expected: int) -> Check:
    """Check an integer."""
    return Check(item, what, (computed,), (expected,))


def _flat(values: Tensor) -> tuple[float, ...]:
    return tuple(values.detach().double().flatten().tolist())


# L1, L2: self-attention without parameters

WORDS = ("can", "you", "help", "me", "to", "translate", "this", "sentence")
WORD_IDS = (0, 7, 1, 2, 5, 6, 4, 3)
SECOND = 1  # the index of the second word, whose numbers the examples follow

FIRST_EMBEDDING_START = (0.3374, -0.1778, -0.3035, -0.5880)
COLUMN_SUMS = (0.9927, 0.9994, 1.0101, 0.9517, 0.9975, 1.0483, 1.0002, 1.0001)
PLAIN_CONTEXT_2 = (
    (-0.93975, -0.46856, 1.0311, -0.28192, 0.49373, -0.012896, -0.27327, -0.76358),
    (1.3958, -0.99543, -0.00071287, 1.2449, -0.078077, 1.2765, -1.4589, -2.1601),
)


def embedded_sentence() -> Tensor:
    """Return the eight words as vectors, (8, 16)."""
    torch.manual_seed(SEED)
    embedding = nn.Embedding(10, 16)
    return embedding(torch.tensor(WORD_IDS)).detach()


def watched_weights(
    attend: Attend, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None
) -> Tensor:
    """Return the weights (q, k) with which the queries attend to the keys."""
    with saccade.watch(attend) as seen:
        attend(query, keys, values, bias=bias)
    return seen[""].weights[0, 0]


def l1() -> Iterator[Check]:
    x = embedded_sentence()
    yield shape("L1", "embedded sentence", x, (8, 16))
    yield numbers("L1", "first word begins", x[0, :4], FIRST_EMBEDDING_START, PRINTED)

    scores_by_loop = torch.empty(8, 8)
    for i, query in enumerate(x):
        for j, key in enumerate(x):
            scores_by_loop[i, j] = torch.dot(query, key)
    yield numbers("L1", "dot scores = two loops", Dot()(x, x), scores_by_loop, SAME)

    weights = watched_weights(Attend(Dot()), x, x, x)
    yield shape("L1", "weights", weights, (8, 8))
    yield numbers("L1", "rows sum to 1, all 8", weights.sum(1), [1.0] * 8, SUM)
    yield numbers("L1", "columns sum to", weights.sum(0), COLUMN_SUMS, PRINTED)


def l2() -> Iterator[Check]:
    x = embedded_sentence()
    attend = Attend(Dot())
    context = attend(x, x, x)
    yield numbers("L2", "context of word 2", context[SECOND], PLAIN_CONTEXT_2, PRINTED)

    weights = watched_weights(attend, x, x, x)
    context_by_loop = torch.zeros(8, 16)
    for i in range(8):
        for j in range(8):
            context_by_loop[i] += weights[i, j] * x[j]
    yield numbers("L2", "all contexts = two loops", context, context_by_loop, SAME)


# L3 to L5: queries, keys and values by three matrices

SCORE_2_3 = 14.3667
SCORES_2 = (-25.1623, 9.3602, 14.3667, 32.1482, 53.8976, 46.6626, -1.2131, -32.9392)
WEIGHTS_2 = (
    (2.2317e-9, 1.2499e-5, 4.3696e-5, 3.7242e-3),
    (0.85596, 0.14026, 8.8897e-7, 3.1935e-10),
)
CONTEXT_2 = (
    (-1.2226, -3.4387, -4.3928, -5.2125, -1.1249, -3.3041, -1.4316, -3.2765),
    (-2.5114, -2.6105, -1.5793, -2.8433, -2.4142, -0.3998, -1.9917, -3.3499),
)


def projection_matrices() -> tuple[Tensor, Tensor, Tensor]:
    """Return the matrices of query, key and value, (16, 16) each."""
    torch.manual_seed(SEED)
    return torch.rand(16, 16), torch.rand(16, 16), torch.rand(16, 16)


def projected_sentence() -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values of the eight words, (8, 16) each."""
    x = embedded_sentence()
    for_query, for_key, for_value = projection_matrices()
    return x @ for_query.T, x @ for_key.T, x @ for_value.T


def l3() -> Iterator[Check]:
    queries, keys, values = projected_sentence()
    scores = Dot()(queries, keys)
    yield numbers("L3", "omega_2,3", scores[SECOND, 2], SCORE_2_3, PRINTED_SCORE)
    yield numbers("L3", "omega_2", scores[SECOND], SCORES_2, PRINTED_SCORE)

    # the key and the value of word 2 alone equal row 2 of those of the complete sentence
    _, for_key, for_value = projection_matrices()
    x_2 = embedded_sentence()[SECOND]
    yield numbers("L3", "key of word 2 alone", keys[SECOND], for_key @ x_2, SAME)
    yield numbers("L3", "value of word 2 alone", values[SECOND], for_value @ x_2, SAME)


def l4() -> Iterator[Check]:
    queries, keys, values = projected_sentence()
    weights = watched_weights(Attend(ScaledDot()), queries, keys, values)
    yield numbers("L4", "alpha_2", weights[SECOND], WEIGHTS_2, PRINTED, relative=True)
    yield numbers("L4", "rows sum to 1, all 8", weights.sum(1), [1.0] * 8, SUM)


def l5() -> Iterator[Check]:
    queries, keys, values = projected_sentence()
    context = Attend(ScaledDot())(queries, keys, values)
    yield numbers("L5", "context of word 2", context[SECOND], CONTEXT_2, PRINTED)

    one_head = MultiHeadAttention(16, 1, bias=False)
    with torch.no_grad():
        one_head.get_parameter("projection.weight").copy_(torch.cat(projection_matrices()))
        one_head.get_parameter("out_proj.weight").copy_(torch.eye(16))
        one_head_context = one_head(embedded_sentence())
    yield numbers("L5", "the same by one head", one_head_context, context, SAME)


# L6, L7: several heads

THIRD_HEAD = 2  # index 2, counted from 0: the third head
KEY_2_OF_THIRD_HEAD = (
    (-1.9619, -0.7701, -0.7280, -1.6840, -1.0801, -1.6778, 0.6763, 0.6547),
    (1.4445, -2.7016, -1.1364, -1.1204, -2.4430, -0.5982, -0.8292, -1.4401),
)


def l6() -> Iterator[Check]:
    x = embedded_sentence()
    torch.manual_seed(SEED)
    torch.rand(16, 16)  # sampled and not used, as in the example
    for_query, for_key, for_value = (torch.rand(8, 16, 16) for _ in range(3))
    contexts_of_word_2 = torch.rand(8, 16)  # random in the example as well

    attention = MultiHeadAttention(16, 8, head="full", bias=False)
    stacked = torch.cat([matrices.flatten(0, 1) for matrices in (for_query, for_key, for_value)])
    with torch.no_grad():
        attention.get_parameter("projection.weight").copy_(stacked)
        queries = attention.projection.query(x[None])[0].unflatten(-1, (8, 16)).transpose(0, 1)
        projected = attention.project(x[None])
        keys, values = projected.keys[0], projected.values[0]
        out = attention(x)
        squeezed = attention.out_proj(contexts_of_word_2.flatten())

    yield shape("L6", "queries of word 2, per head", queries[:, SECOND], (8, 16))
    yield shape("L6", "keys, per head", keys, (8, 8, 16))
    key = keys[THIRD_HEAD, SECOND]
    yield numbers("L6", "key 2 of the third head", key, KEY_2_OF_THIRD_HEAD, PRINTED)

    repeated = x.T.repeat(8, 1, 1)
    keys_by_bmm = torch.bmm(for_key, repeated)
    yield shape("L6", "sentence, once per head", repeated, (8, 16, 8))
    yield shape("L6", "keys by bmm", keys_by_bmm, (8, 16, 8))
    yield numbers("L6", "all keys = bmm, permuted", keys, keys_by_bmm.permute(0, 2, 1), SAME)

    yield shape("L6", "output matrix, Linear(128, 16)", attention.out_proj.weight, (16, 128))
    yield shape("L6", "eight contexts, squeezed", squeezed, (16,))

    attend = Attend(ScaledDot())
    heads = [attend(queries[i], keys[i], values[i]) for i in range(8)]
    out_by_loop = attention.out_proj(torch.cat(heads, -1))
    yield numbers("L6", "output = loop over heads", out, out_by_loop, SAME)


def l7() -> Iterator[Check]:
    torch.manual_seed(SEED)
    x = torch.rand(2, 8, 16)
    attention = MultiHeadAttention(16, 4)
    with saccade.watch(attention) as seen:
        out = attention(x)
    weights = seen[""].weights
    yield shape("L7", "output", out, (2, 8, 16))
    yield shape("L7", "weights, per head", weights, (2, 4, 8, 8))
    yield shape("L7", "weights, averaged", weights.mean(1), (2, 8, 8))
    yield shape("L7", "output matrix", attention.out_proj.weight, (16, 16))

    twin = nn.MultiheadAttention(16, 4, batch_first=True)
    attention = MultiHeadAttention.from_torch(twin)
    with saccade.watch(attention) as seen:
        out = attention(x)
    their_out, their_weights = twin(x, x, x)
    yield numbers("L7", "output = torch's", out, their_out, SAME)
    yield numbers("L7", "averages = torch's", seen[""].weights.mean(1), their_weights, SAME)


# L8, L9: weights shown on slides, as the softmax of their logarithms

GREETING = ("Hello", "I", "love", "you")
GREETING_WEIGHTS = (
    (0.80, 0.10, 0.05, 0.05),
    (0.10, 0.60, 0.20, 0.10),
    (0.05, 0.20, 0.65, 0.10),
    (0.20, 0.10, 0.10, 0.60),
)
GREETING_COLUMN_SUMS = (1.15, 1.00, 1.00, 0.85)
VEDIAMO_WEIGHTS = (0.45, 0.45, 0.05, 0.05)


def l8() -> Iterator[Check]:
    torch.manual_seed(SEED)
    table = torch.tensor(GREETING_WEIGHTS)
    nothing = torch.zeros(len(GREETING), 1)  # scores of 0, so that only the bias counts
    weights = watched_weights(Attend(Dot()), nothing, nothing, nothing, bias=table.log())
    yield numbers("L8", "softmax gives the table", weights, GREETING_WEIGHTS, SUM)
    yield numbers("L8", "rows sum to 1, all 4", weights.sum(1), [1.0] * 4, SUM)
    yield numbers("L8", "columns sum to", weights.sum(0), GREETING_COLUMN_SUMS, SUM)


def l9() -> Iterator[Check]:
    torch.manual_seed(SEED)
    keys = torch.tensor(VEDIAMO_WEIGHTS).log().unsqueeze(-1)
    states = torch.rand(4, 16)
    attend = Attend(Dot())
    weights = watched_weights(attend, torch.ones(1, 1), keys, states)[0]
    yield numbers("L9", "weights of 'vediamo'", weights, VEDIAMO_WEIGHTS, SUM)
    yield numbers("L9", "they sum to", weights.sum(), 1.0, SUM)

    context = attend(torch.ones(1, 1), keys, states)[0]
    by_hand = 0.45 * (states[0] + states[1]) + 0.05 * (states[2] + states[3])
    yield numbers("L9", "context of 'vediamo'", context, by_hand, SUM)


# L10: sizes

ATTENTION_SIZE = 1_050_624
ENCODER_LAYER_SIZE = 3_152_384
DECODER_LAYER_SIZE = 4_204_032
NORM_SIZE = 1_024
TRANSFORMER_SIZE = 44_140_544
TRANSFORMER_TENSORS = 184


def l10() -> Iterator[Check]:
    yield from projection_shapes()
    yield from transformer_sizes()


def projection_shapes() -> Iterator[Check]:
    """Check three matrices if memory and values have their own widths, else one packed matrix."""
    torch.manual_seed(SEED)
    ours = MultiHeadAttention(50, 1, bias=False, key_dim=30, value_dim=40).state_dict()
    theirs = nn.MultiheadAttention(50, 1, bias=False, kdim=30, vdim=40).state_dict()
    for name, expected in (("query", (50, 50)), ("key", (50, 30)), ("value", (50, 40))):
        matrix = ours[f"projection.{name}_proj.weight"]
        yield shape("L10", f"{name} matrix", matrix, expected)
        yield shape("L10", f"{name} matrix of torch", theirs[f"{name[0]}_proj_weight"], expected)
    yield count("L10", "packed matrices, 3 widths", num_packed(ours), 0)
    yield count("L10", "the same of torch, 3 widths", num_packed(theirs), 0)

    ours = MultiHeadAttention(50, 1, bias=False).state_dict()
    theirs = nn.MultiheadAttention(50, 1, bias=False).state_dict()
    yield shape("L10", "packed matrix, 1 width", ours["projection.weight"], (150, 50))
    yield shape("L10", "the same of torch, 1 width", theirs["in_proj_weight"], (150, 50))


def num_packed(state: dict[str, Tensor]) -> int:
    """Count the matrices that hold query, key and value together."""
    return sum(matrix.shape[0] == 3 * 50 for matrix in state.values())


def transformer_sizes() -> Iterator[Check]:
    """Check the default Transformer: 6 + 6 layers, width 512, 8 heads, feed-forward width 2048."""
    torch.manual_seed(SEED)
    dim, hidden_dim, layers = 512, 2048, 6
    attention = num_parameters(MultiHeadAttention(dim, 8))
    feed_forward = (dim * hidden_dim + hidden_dim) + (hidden_dim * dim + dim)
    norm = 2 * dim
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    transformer = layers * encoder_layer + layers * decoder_layer + 2 * norm
    yield count("L10", "attention parameters", attention, ATTENTION_SIZE)
    yield count("L10", "norm parameters", norm, NORM_SIZE)
    yield count("L10", "encoder layer parameters", encoder_layer, ENCODER_LAYER_SIZE)
    yield count("L10", "decoder layer parameters", decoder_layer, DECODER_LAYER_SIZE)
    yield count("L10", "transformer parameters", transformer, TRANSFORMER_SIZE)

    twin = nn.Transformer(batch_first=True, device="meta")  # shapes only, no memory
    yield count("L10", "transformer parameters of torch", num_parameters(twin), TRANSFORMER_SIZE)
    yield count("L10", "transformer tensors of torch", len(twin.state_dict()), TRANSFORMER_TENSORS)


def num_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


# L11: an image as patches

PATCHES_SHAPE = (196, 768)
CONVOLUTION_SAME = 2e-6  # relative to the largest number


def l11() -> Iterator[Check]:
    torch.manual_seed(SEED)
    image = torch.rand(1, 3, 224, 224)
    patches = F.unfold(image, kernel_size=16, stride=16)[0].T
    yield shape("L11", "224 x 224 x 3 in patches of 16", patches, PATCHES_SHAPE)
    row, column = 3, 5
    pixels = image[0, :, 16 * row : 16 * (row + 1), 16 * column : 16 * (column + 1)]
    patch = patches[14 * row + column]
    yield numbers("L11", "patch of row 3, column 5", patch, pixels.flatten(), 0.0)

    convolution = nn.Conv2d(3, 768, kernel_size=16, stride=16)
    with torch.no_grad():
        by_convolution = convolution(image)[0].flatten(1).T
        by_linear = F.linear(patches, convolution.weight.flatten(1), convolution.bias)
    tolerance = CONVOLUTION_SAME * float(by_convolution.abs().max())
    yield numbers("L11", "linear layer = convolution", by_linear, by_convolution, tolerance)

    placed = Sinusoidal(768).embed(by_linear, Grid.of(14, 14))
    yield shape("L11", "with rows and columns added", placed, PATCHES_SHAPE)


BLOCKS = (l1, l2, l3, l4, l5, l6, l7, l8, l9, l10, l11)


def all_checks() -> Iterator[Check]:
    for block in BLOCKS:
        yield from block()


# the report


def report(checks: Iterable[Check]) -> str:
    """Return one line per check, in columns, and a last line with the number that pass."""
    checks = list(checks)
    rows = [
        (
            "PASS" if check.passes else "FAIL",
            check.item,
            check.what,
            "=",
            _shown(check.computed),
            f"(expected {_shown(check.expected)},",
            f"{_difference(check)})",
        )
        for check in checks
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for check, row in zip(checks, rows, strict=True):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(" ".join(cells).rstrip())
        if not check.passes:
            lines.append(f"     computed {_shown(check.computed, at_most=16)}")
            lines.append(f"     expected {_shown(check.expected, at_most=16)}")
    passed = sum(check.passes for check in checks)
    return "\n".join([*lines, f"{passed} of {len(checks)} pass"])


def _shown(values: tuple[float, ...], at_most: int = 4) -> str:
    """Return the numbers, or the first two and the last of many; integers as a shape."""
    if all(isinstance(value, int) for value in values):
        return " x ".join(f"{value:,}" for value in values)
    texts = [f"{value:.6g}" for value in values]
    if len(texts) <= at_most:
        return " ".join(texts)
    return f"{texts[0]} {texts[1]} ... {texts[-1]} [{len(texts)}]"


def _difference(check: Check) -> str:
    if check.off == 0:
        return "exact"
    kind = " relative" if check.relative else ""
    return f"off by {_short(check.off)}{kind}, allowed {_short(check.tolerance)}"


def _short(value: float) -> str:
    return f"{value:.0e}".replace("e-0", "e-") if value else "0"


def draw(folder: Path) -> list[Path]:
    """Draw the self-attention of the sentence, and the matrix of the sinusoidal positions."""
    from saccade.lens import figures

    x = embedded_sentence()
    weights = watched_weights(Attend(Dot()), x, x, x)
    attention_map = figures.heatmap(weights, WORDS, WORDS, title="self-attention of a sentence")
    position_matrix = figures.positions(Sinusoidal(128), 50)
    return [
        attention_map.save(folder / "self_attention.png"),
        position_matrix.save(folder / "positions.png"),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compute the numbers printed in lectures.")
    parser.add_argument("--out", type=Path, metavar="DIR", help="also draw two pictures into DIR")
    options = parser.parse_args(arguments)

    checks = list(all_checks())
    print(report(checks))
    if options.out is not None:
        for picture in draw(options.out):
            print(f"wrote {picture}")
    return 0 if all(check.passes for check in checks) else 1


if __name__ == "__main__":
    raise SystemExit(main())
