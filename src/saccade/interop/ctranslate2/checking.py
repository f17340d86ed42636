"""Comparison of the answers of a folder with those of the model it was written from."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein

from saccade.data.corpus import Item
from saccade.decoding import GenerationConfig, GenerationRequest, Hypothesis, TextEngine
from saccade.errors import InteropError
from saccade.interop.ctranslate2.comparison import Check
from saccade.interop.ctranslate2.runnable import Runnable, require_runnable
from saccade.interop.ctranslate2.vocabulary import TokenNames
from saccade.shapes import Float, Tensor
from saccade.tasks import Task

RANDOM_INPUTS, LONGEST_RANDOM = 24, 16
"""The number of random inputs if none are given, and their maximum number of tokens."""
CONTINUED = 20
"""The number of tokens that a language model generates in a comparison."""
TIE = 1e-3
"""Two tokens count as equally likely if their logits differ by this fraction of the largest."""

DEADLY = {
    -getattr(signal, name)
    for name in ("SIGILL", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGABRT")
    if hasattr(signal, name)
}
"""Return codes of a process that crashed, as opposed to one that somebody ended."""

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
    """CTranslate2 crashes on this machine; trying again would not help."""


def check(task: Task, engine: TextEngine, items: Sequence[Item] = ()) -> Check:
    """Compare an engine with the task's own, on these items or, without any, on random inputs."""
    runnable = require_runnable(task)
    same, changes, tokens = 0, 0, 0
    inputs = _inputs(runnable, [item.inputs[0] for item in items])
    for _, group in groupby(sorted(inputs, key=len), key=len):
        ids = list(group)
        request = _request(runnable, ids)
        pairs = zip(
            runnable.engine.generate(ids, request), engine.generate(ids, request), strict=True
        )
        for given, ([ours], [its]) in zip(ids, pairs, strict=True):
            same += _same(runnable, given, ours, its)
            changes += Levenshtein.distance(ours.tokens, its.tokens)
            tokens += max(len(ours.tokens), len(its.tokens))
    return Check(
        compared=len(inputs),
        same=same,
        tokens=1 - changes / max(1, tokens),
        quality={} if same == len(inputs) else _quality(runnable, engine, items),
    )


def require_survival(task: Task, folder: Path, quantization: str) -> None:
    """Raise if a process that uses the folder crashes: some processors lack what they advertise."""
    runnable = require_runnable(task)
    token = TokenNames(runnable.reads.tokenizer).stop
    arguments = [runnable.program, str(folder), quantization, token]
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
    runnable: Runnable, engine: TextEngine, items: Sequence[Item]
) -> dict[str, tuple[float, float]]:
    """Return the metrics of greedy answers by the task's own engine and by this one."""
    items = [item for item in items if item.references]
    if not items:
        return {}
    own, values = runnable.engine, []
    try:
        for one in (own, engine):
            runnable.host.engine = one
            values.append(runnable.task.evaluate(items, quick=True).values())
    finally:
        runnable.host.engine = own
    ours, its = values
    return {name: (ours[name], its[name]) for name in ours}


def _inputs(runnable: Runnable, texts: Sequence[str]) -> list[list[int]]:
    """Return token ids as engines take them, short enough to be answered without a cut."""
    tokenizer = runnable.reads.tokenizer
    if texts:
        encoded = tokenizer.encode_batch(list(texts))
    else:
        random = np.random.default_rng(0)
        lengths = random.integers(1, LONGEST_RANDOM + 1, RANDOM_INPUTS)
        encoded = [random.choice(tokenizer.ordinary, length).tolist() for length in lengths]
    return [ids[: runnable.max_input] for ids in encoded if ids]


def _request(runnable: Runnable, inputs: Sequence[list[int]]) -> GenerationRequest:
    writes = runnable.writes
    if writes.start is None:
        longest = min(CONTINUED, runnable.max_input)
    else:
        longest = min(writes.options.longest(len(inputs[0])), runnable.places)
    return GenerationRequest(
        limits=writes.limits(longest), options=GenerationConfig(), rows=range(len(inputs))
    )


def _same(runnable: Runnable, given: list[int], ours: Hypothesis, theirs: Hypothesis) -> bool:
    if ours.tokens == theirs.tokens:
        return True
    stop = runnable.writes.stop
    one, other = (*ours.tokens, stop), (*theirs.tokens, stop)
    at = next(i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    logits = _logits(runnable, given, one[:at])
    gap = float((logits[one[at]] - logits[other[at]]).abs())
    return gap <= TIE * max(1.0, float(logits.abs().max()))


@torch.no_grad()
def _logits(
    runnable: Runnable, given: Sequence[int], written: Sequence[int]
) -> Float[Tensor, " v"]:
    """Return the logits of the token that follows `written`."""
    task, start = runnable.task, runnable.writes.start
    if start is None:
        rows = [[*given, *written]]
    else:
        rows = [[*given, *runnable.reads.after], [start, *written]]
    return task.model(*(torch.tensor([row], device=task.device) for row in rows))[0, -1]
