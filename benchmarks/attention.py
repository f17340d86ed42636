"""Time and memory of attention: ours against torch's, side by side.

    python benchmarks/attention.py [--lengths 128 512 2048 8192] [--rounds 7] [--markdown FILE]

There are two groups: `Attend` with every factored score, against the same score by hand followed by
`F.scaled_dot_product_attention` or by plain matmul and softmax; and `MultiHeadAttention` against
`nn.MultiheadAttention` with and without its weights. 8 heads of width 64, batch x length = 8 192
tokens. All members of a group take turns in one process, and the median of the rounds counts; the
ratio is ours over the fastest peer (for watched: over the plain peer). Peak memory is measured in a
separate process, above what it had before the call.
"""

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import saccade
from saccade.attention import (
    Attend,
    Cosine,
    Dot,
    FactoredScore,
    General,
    LowRank,
    MultiHeadAttention,
    ScaledDot,
)

HEADS, HEAD_DIM, TOKENS = 8, 64, 8192
DIM = HEADS * HEAD_DIM
PATIENCE = 6.0  # seconds after which a member gets no more rounds; each gets at least one
Run = Callable[[], object]

SCORES: dict[str, Callable[[], FactoredScore]] = {
    "Dot": Dot,
    "ScaledDot": ScaledDot,
    "Cosine": Cosine,
    "General": lambda: General(HEAD_DIM, HEAD_DIM),
    "LowRank": lambda: LowRank(HEAD_DIM, HEAD_DIM, 32),
}


def by_hand(score: FactoredScore) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor, float]]:
    """Return the code that a user would write before calling the kernel."""
    match score:
        case ScaledDot():
            return lambda q, k: (q, k, 1 / math.sqrt(HEAD_DIM))
        case Cosine():
            return lambda q, k: (F.normalize(q, dim=-1), F.normalize(k, dim=-1), 1.0)
        case General():
            return lambda q, k: (score.query_proj(q), k, 1.0)
        case LowRank():
            return lambda q, k: (score.query_proj(q), score.key_proj(k), 1.0)
        case _:
            return lambda q, k: (q, k, 1.0)


def plain(query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    return torch.softmax(query @ keys.transpose(-2, -1) * scale, -1) @ values


def attend_group(name: str) -> dict[str, Callable[..., Tensor]]:
    score = SCORES[name]()
    attend, factors = Attend(score), by_hand(score)

    def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v)

    def watched(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with saccade.watch(attend):
            return attend(q, k, v)

    def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, scale = factors(q, k)
        return F.scaled_dot_product_attention(q, k, v, scale=scale)

    def matmul(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, scale = factors(q, k)
        return plain(q, k, v, scale)

    group = {"ours": ours, "sdpa": sdpa, "plain": matmul}
    return group | {"watched": watched} if name == "ScaledDot" else group


def multihead_group() -> dict[str, Callable[..., Tensor]]:
    twin = nn.MultiheadAttention(DIM, HEADS, batch_first=True)
    attention = MultiHeadAttention.from_torch(twin)

    def watched(x: Tensor) -> Tensor:
        with saccade.watch(attention):
            return attention(x)

    return {
        "ours": attention,
        "torch": lambda x: twin(x, x, x, need_weights=False)[0],
        "torch_weights": lambda x: twin(x, x, x, need_weights=True, average_attn_weights=False)[0],
        "watched": watched,
    }


def prepared(group: str, length: int, batch: int, *, backward: bool) -> dict[str, Run]:
    """Return each member of a group as a call that does all of its work."""
    if group == "MultiHeadAttention":
        members = multihead_group()
        inputs = [torch.randn(batch, length, DIM)]
    else:
        members = attend_group(group)
        inputs = [torch.randn(batch, HEADS, length, HEAD_DIM) for _ in range(3)]

    def call(member: Callable[..., Tensor]) -> Run:
        def forward() -> None:
            with torch.no_grad():
                member(*inputs)

        def both() -> None:
            leaves = [x.detach().requires_grad_() for x in inputs]
            member(*leaves).sum().backward()

        return both if backward else forward

    return {name: call(member) for name, member in members.items()}


def times(runs: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    for run in runs.values():
        run()
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds):
        names = list(runs) if turn % 2 == 0 else list(reversed(runs))
        for name in names:
            if turn and sum(taken[name]) > PATIENCE:
                continue
            start = time.perf_counter()
            runs[name]()
            taken[name].append(time.perf_counter() - start)
    return taken


def memory(group: str, length: int, member: str, *, backward: bool) -> float:
    """Return the peak MiB above what a separate process had before the call."""
    arguments = [group, str(length), member, str(int(backward))]
    command = [sys.executable, __file__, "--measure-memory", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def measure_memory(group: str, length: str, member: str, backward: str) -> None:
    for run in prepared(group, 64, 1, backward=bool(int(backward))).values():
        run()
    n = int(length)
    run = prepared(group, n, TOKENS // n, backward=bool(int(backward)))[member]
    before = peak_mib()
    run()
    print(peak_mib() - before)


def peak_mib() -> float:
    """Return the most memory that this process ever held, as the kernel counts it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def rows(lengths: list[int], rounds: int) -> list[dict[str, object]]:
    table: list[dict[str, object]] = []
    for group in (*SCORES, "MultiHeadAttention"):
        for length in lengths:
            for backward in (False, True):
                runs = prepared(group, length, TOKENS // length, backward=backward)
                taken = times(runs, rounds)
                median = {name: statistics.median(all_of) for name, all_of in taken.items()}
                peers = [m for name, m in median.items() if name not in ("ours", "watched")]
                row = {
                    "group": group,
                    "length": length,
                    "pass": "forward+backward" if backward else "forward",
                    "ms": {name: round(1000 * m, 2) for name, m in median.items()},
                    "ratio": round(median["ours"] / min(peers), 3),
                    "rounds_ms": {
                        n: [round(1000 * t, 2) for t in all_of] for n, all_of in taken.items()
                    },
                }
                if "watched" in median:
                    against = median.get("plain", median.get("torch_weights", math.nan))
                    row["watched_ratio"] = round(median["watched"] / against, 3)
                table.append(row)
                shown = {k: v for k, v in row.items() if k != "rounds_ms"}
                print(json.dumps(shown), file=sys.stderr, flush=True)
    return table


def memory_markdown(lengths: list[int]) -> str:
    lines = [
        "Peak MiB of one forward+backward above the start: weights, gradients, activations.",
        "",
        f"| what | {' | '.join(f'{n} tokens' for n in lengths)} |",
        f"|---|{'---|' * len(lengths)}",
    ]
    for group in ("ScaledDot", "LowRank", "MultiHeadAttention"):
        for member in prepared(group, 64, 1, backward=True):
            peaks = [round(memory(group, n, member, backward=True)) for n in lengths]
            print(group, member, peaks, file=sys.stderr, flush=True)
            lines.append(f"| {group}: {member} | {' | '.join(map(str, peaks))} |")
    return "\n".join(lines) + "\n"


def markdown(table: list[dict[str, object]]) -> str:
    lines = [
        f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"{date.today().isoformat()}; medians; batch x length = {TOKENS} tokens, {HEADS} heads of "
        f"{HEAD_DIM}.",
        "",
        "| what | tokens | pass | ms | ours / fastest peer | watched / plain |",
        "|---|---|---|---|---|---|",
    ]
    for row in table:
        ms = ", ".join(f"{name} {value}" for name, value in row["ms"].items())  # type: ignore[attr-defined]
        watched = row.get("watched_ratio", "")
        lines.append(
            f"| {row['group']} | {row['length']} | {row['pass']} | {ms} | {row['ratio']} "
            f"| {watched} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512, 2048, 8192])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file")
    parser.add_argument("--only", choices=["time", "memory"], help="measure only one of them")
    parser.add_argument("--measure-memory", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure_memory:
        measure_memory(*options.measure_memory)
        return
    parts = [] if options.only == "memory" else [markdown(rows(options.lengths, options.rounds))]
    if options.only != "time":
        parts.append(memory_markdown(options.lengths))
    text = "\n".join(parts)
    print(text)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
