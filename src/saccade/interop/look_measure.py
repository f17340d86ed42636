"""Measures of the attention of models of transformers, with what each kind of model predicts.

What an answer is depends on the model:

    with a head over classes    its most probable class
    decoder                     the most probable token after the text
    encoder and decoder         the generated text: the geometric mean over its tokens
    without such a head         the mean of its states: half of 1 + the cosine of the angle to that
                                of the complete input
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch.nn import functional as F

from saccade.interop.look import Eye, evaluation_mode
from saccade.lens.faithfulness.erasure import attended
from saccade.lens.record import AttentionRecord
from saccade.shapes import Tensor
from saccade.tasks.measures.any_model import (
    PROBABILITY,
    AttentionMeasures,
    Likely,
    measure_records,
)

LIKENESS = "the likeness of the states to those of the complete input"


def measure_look(
    model: Any,
    processor: Any,
    inputs: Sequence[Any],
    *,
    layers: str | Sequence[str] | None = None,
    max_new_tokens: int = 20,
) -> AttentionMeasures:
    """Measure how far the attention of a transformers model can be trusted.

    Args:
        model: A model of transformers, as `saccade.look` takes it.
        processor: Its tokenizer, image processor or processor.
        inputs: Texts, pairs of texts, or images.
        layers: Measure only these: a dotted name, a pattern, or several. Default: all.
        max_new_tokens: Maximum number of tokens that an encoder-decoder generates.

    Raises:
        InteropError: If the processor cannot read an input.
        WatchError: If no attention between the tokens of an input can be seen, or nothing can be
            erased.
    """
    writes = bool(model.config.is_encoder_decoder)
    eye = Eye(model, processor, layers, max_new_tokens if writes else 0)
    with evaluation_mode(model), torch.no_grad():
        records = [eye.record(item) for item in inputs]
        outcome_of = _outcome_of(eye, inputs[0])
        has_states = outcome_of is _states
        likely = [_likely(eye, outcome_of, item) for item in inputs]
        return measure_records(
            inputs,
            records,
            likely,
            model=model,
            attention=_into_all_states if has_states else attended,
            outcome=LIKENESS if has_states else PROBABILITY,
        )


Outcome = Callable[[Eye, dict[str, Tensor]], Callable[[dict[str, Tensor]], float]]
"""Return, for a complete input, the function of how probable its answer is for another input."""


def _outcome_of(eye: Eye, item: Any) -> Outcome:
    """Return what a model predicts; it is run once to see."""
    if eye.model.config.is_encoder_decoder:
        return _generated
    inputs, side = eye.read(item)
    logits = getattr(eye.forward(inputs), "logits", None)
    if logits is not None and logits.ndim == 2 and logits.shape[1] > 1:
        return _class
    return (
        _next_token if logits is not None and side is not None and eye.can_generate() else _states
    )


def _likely(eye: Eye, outcome_of: Outcome, item: Any) -> Likely:
    value_of = outcome_of(eye, eye.read(item)[0])

    def likely(given: Sequence[Any]) -> list[float]:
        return [value_of(eye.read(one, prepared=one is not item)[0]) for one in given]

    return likely


def _class(eye: Eye, inputs: dict[str, Tensor]) -> Callable[[dict[str, Tensor]], float]:
    several = eye.model.config.problem_type == "multi_label_classification"

    def probabilities(given: dict[str, Tensor]) -> Tensor:
        logits = eye.forward(given).logits[0].float()
        return logits.sigmoid() if several else logits.softmax(-1)

    return _of_best(probabilities, inputs)


def _next_token(eye: Eye, inputs: dict[str, Tensor]) -> Callable[[dict[str, Tensor]], float]:
    return _of_best(lambda given: eye.forward(given).logits[0, -1].float().softmax(-1), inputs)


def _of_best(
    probabilities: Callable[[dict[str, Tensor]], Tensor], inputs: dict[str, Tensor]
) -> Callable[[dict[str, Tensor]], float]:
    best = int(probabilities(inputs).argmax())
    return lambda given: float(probabilities(given)[best])


def _generated(eye: Eye, inputs: dict[str, Tensor]) -> Callable[[dict[str, Tensor]], float]:
    ids = eye.generate(inputs)

    def value(given: dict[str, Tensor]) -> float:
        logits = eye.model(**given, decoder_input_ids=ids[:, :-1]).logits[0].float()
        return float((-F.cross_entropy(logits, ids[0, 1:])).exp())

    return value


def _states(eye: Eye, inputs: dict[str, Tensor]) -> Callable[[dict[str, Tensor]], float]:
    def vector(given: dict[str, Tensor]) -> Tensor:
        body = eye.model.base_model
        output = body(**given) if body is not eye.model else eye.forward(given)
        return output.last_hidden_state[0].float().mean(0)

    complete = vector(inputs)
    return lambda given: float(0.5 + F.cosine_similarity(vector(given), complete, 0) / 2)


def _into_all_states(record: AttentionRecord) -> Float[np.ndarray, " parts"]:
    """Return how much of each part reaches the mean of all states, by attention rollout."""
    row: Float[np.ndarray, " parts"] = record.rollout().mean(0) @ record.read.membership()
    return row
