"""Whether a folder answers as the model it was written from."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein

from saccade.data.corpus import Item
from saccade.decoding import GenerationConfig, GenerationRequest, Hypothesis, TextEngine
from saccade.errors import InteropError
from saccade.interop.ctranslate2.running import Task, places_of, program_of
from saccade.interop.ctranslate2.vocabulary import TokenNames
from saccade.shapes import Float, Tensor
from saccade.tasks._shared.parallel_batches import of_one_length
from saccade.tasks.text_to_text import TextToText
from saccade.text import Tokenizer

MADE, LONGEST_MADE = 24, 16
"""How many inputs are made where none are given, and their tokens at most."""
CONTINUED = 20
"""The tokens that a language model writes in a comparison."""
TIE = 1e-3
"""Two tokens whose logits are so near, in relation to the largest, are as likely."""

DEADLY = {
    -getattr(signal, name)
    for name in ("SIGILL", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGABRT")
    if hasattr(signal, name)
}
"""What a process ends with when the program itself is at fault, not whoever ended it."""

_TRIAL = """
import sys, ctranslate2
kind, folder, numbers, token = sys.argv[1:]
program = getattr(ctranslate2, kind)(folder, compute_type=numbers, intra_threads=1)
if kind == "Translator":
    program.translate_batch([[token] * 3] * 9, max_decoding_length=3)
else:
    program.generate_batch([[token]] * 9, max_length=3)
"""


class DiedError(InteropError):
    """CTranslate2 kills the process that uses it here; trying again would not help."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """Greedy answers of an engine beside those of the model itself.

    compared   how many
    same       how many are token for token the same, or differ where two tokens were as likely
    tokens     the share of tokens that need no change to be the same
    quality    metrics of the answers of the model itself and of the engine, where some are known
    """

    compared: int
    same: int
    tokens: float
    quality: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def from_plain(cls, table: Mapping[str, Any]) -> Check:
        """From what `dataclasses.asdict` and JSON made of one."""
        quality = {name: (pair[0], pair[1]) for name, pair in table["quality"].items()}
        return cls(**{**table, "quality": quality})

    @property
    def exact(self) -> bool:
        """Whether all are the same."""
        return self.same == self.compared

    def __str__(self) -> str:
        """For people."""
        told = f"{self.same} of {self.compared} greedy answers are those of the model itself"
        metrics = [f"{name} {ours:.4g} -> {its:.4g}" for name, (ours, its) in self.quality.items()]
        return "; ".join((told, f"{self.tokens:.1%} of the tokens", *metrics))


def check(task: Task, engine: TextEngine, items: Sequence[Item] = ()) -> Check:
    """The engine beside the task's own on these items or, where there are none, on made inputs."""
    same, changes, tokens = 0, 0, 0
    inputs = _inputs(task, [item.inputs[0] for item in items])
    for rows in of_one_length([len(ids) for ids in inputs]):
        ids = [inputs[row] for row in rows]
        request = _wish(task, ids)
        pairs = zip(task.engine.generate(ids, request), engine.generate(ids, request), strict=True)
        for asked, ([ours], [its]) in zip(ids, pairs, strict=True):
            same += _same(task, asked, ours, its)
            changes += Levenshtein.distance(ours.tokens, its.tokens)
            tokens += max(len(ours.tokens), len(its.tokens))
    return Check(
        compared=len(inputs),
        same=same,
        tokens=1 - changes / max(1, tokens),
        quality={} if same == len(inputs) else _quality(task, engine, items),
    )


def require_survival(task: Task, folder: Path, quantization: str) -> None:
    """Let a process of its own use the folder first: a processor may die of what it advertises."""
    tokenizer = task.source if isinstance(task, TextToText) else task.tokenizer
    arguments = [program_of(task), str(folder), quantization, TokenNames(tokenizer).stop]
    command = [sys.executable, "-c", _TRIAL, *arguments]
    try:
        trial = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        raise InteropError("CTranslate2 was tried in a process, which did not end") from None
    if trial.returncode != 0:
        last = (trial.stderr.strip().splitlines() or [f"it ended with {trial.returncode}"])[-1]
        error = DiedError if trial.returncode in DEADLY else InteropError
        raise error(f"CTranslate2 was tried in a process, which died: {last}")


def _quality(
    task: Task, engine: TextEngine, items: Sequence[Item]
) -> dict[str, tuple[float, float]]:
    """The metrics of a translator's greedy answers, by the task's own engine and by this one."""
    items = [item for item in items if item.references]
    if not items or not isinstance(task, TextToText):
        return {}
    own, found = task.engine, []
    try:
        for each in (own, engine):
            task.engine = each
            found.append(task.evaluate(items, quick=True).values())
    finally:
        task.engine = own
    ours, its = found
    return {name: (ours[name], its[name]) for name in ours}


def _inputs(task: Task, texts: Sequence[str]) -> list[list[int]]:
    """Tokens as the engine of the task takes them, short enough to be answered without a cut."""
    if isinstance(task, TextToText):
        found = task.source.encode_batch(list(texts)) if texts else _made(task.source)
        return [ids[: task.config.text.max_length] for ids in found if ids]
    half = max(1, task.config.text.block // 2)
    found = task.tokenizer.encode_batch(list(texts)) if texts else _made(task.tokenizer)
    return [ids[:half] for ids in found if ids]


def _made(tokenizer: Tokenizer) -> list[list[int]]:
    """Sequences of tokens by chance, the same each time."""
    random = np.random.default_rng(0)
    lengths = random.integers(1, LONGEST_MADE + 1, MADE)
    return [random.choice(tokenizer.ordinary, length).tolist() for length in lengths]


def _wish(task: Task, inputs: Sequence[list[int]]) -> GenerationRequest:
    if isinstance(task, TextToText):
        longest = task.config.generation.longest(len(inputs[0]))
        limits = task.limits(min(longest, places_of(task)))
    else:
        limits = task.limits(min(CONTINUED, max(1, task.config.text.block // 2)))
    return GenerationRequest(limits=limits, options=GenerationConfig(), rows=range(len(inputs)))


def _same(task: Task, asked: list[int], ours: Hypothesis, theirs: Hypothesis) -> bool:
    if ours.tokens == theirs.tokens:
        return True
    stop = task.target.stop if isinstance(task, TextToText) else task.tokenizer.stop
    one, other = (*ours.tokens, stop), (*theirs.tokens, stop)
    at = next(i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    logits = _logits(task, asked, one[:at])
    gap = float((logits[one[at]] - logits[other[at]]).abs())
    return gap <= TIE * max(1.0, float(logits.abs().max()))


@torch.no_grad()
def _logits(task: Task, asked: list[int], written: Sequence[int]) -> Float[Tensor, " v"]:
    """Of what follows."""
    device = next(task.parameters()).device
    if isinstance(task, TextToText):
        source = torch.tensor([[*asked, task.source.stop]], device=device)
        target = torch.tensor([[task.target.start, *written]], device=device)
        return task.model(source, target)[0, -1]
    return task.model(torch.tensor([[*asked, *written]], device=device))[0, -1]
