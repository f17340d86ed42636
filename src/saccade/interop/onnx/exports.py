"""Contents of an ONNX export: graphs, vocabularies, and the facts of `saccade.json`.

All of it follows from the task's description and the structure of its model: a model that generates
text becomes `encoder`, `decoder` and `decoder_step` (no encoder if it continues its input), any
other model becomes `model`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import nn

from saccade.errors import InteropError
from saccade.interop.onnx.decoders import SOURCE_MASK, Writing, writing_of
from saccade.interop.onnx.graphs import LOGITS, TOKENS, Graph, Port, Tensors
from saccade.interop.onnx.twins import followable
from saccade.shapes import Float, Tensor
from saccade.tasks import (
    Description,
    GeneratedText,
    ImageInput,
    LabelOutput,
    Task,
    TextInput,
    VectorInput,
    with_scaled_head,
)
from saccade.text import Tokenizer

SOURCE, IMAGE, VECTORS, LENGTH = "source", "image", "vectors", "length"

Arguments = Callable[[Tensors], Sequence[Tensor]]
"""Return the arguments of a model's `read` or `forward` from named tensors."""


@dataclass(frozen=True, kw_only=True)
class OnnxExport:
    """The files of an export.

    Attributes:
        graphs: The graphs, by the names of their files; the one that reads comes first.
        facts: The facts about inputs and answers.
        files: The contents of vocabularies, by the names of their files.
        ours: Return the logits of the task's own model for the inputs of the first graph and, of a
            model that generates text, the tokens so far.
        limits: The maximum number of tokens on the axes that have a limit.
    """

    graphs: Mapping[str, Graph]
    facts: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)
    ours: Callable[[Tensors], Tensor]
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Reading:
    """The input of a model, as ports of a graph and as arguments of a call."""

    ports: Sequence[Port]
    arguments: Arguments
    facts: Mapping[str, Any]
    limits: Mapping[str, int] = field(default_factory=dict)
    network: nn.Module | None = None
    """Computes the features that the model reads instead of pixels."""

    def copied_network(self) -> nn.Module | None:
        """Return the network as an exporter can follow it."""
        return None if self.network is None else followable(self.network)


def export_of(task: Task) -> OnnxExport:
    """Return what is exported of a task.

    Raises:
        InteropError: The task reads neither texts nor images.
    """
    about = task.describe()
    match about.writes:
        case GeneratedText(start=None) as writes:
            return _continuing(task, about, writes)
        case GeneratedText() as writes:
            return _generating(task, about, writes)
    return _answering(task, about)


def _answering(task: Task, about: Description) -> OnnxExport:
    """Export a model that answers in one pass; its logits include the temperature of labels."""
    reading = _reading(task, about, TOKENS, "mask", LENGTH)
    facts: dict[str, Any] = dict(reading.facts)
    ours = task.model
    match about.writes:
        case LabelOutput(labels=labels, temperature=temperature):
            facts["labels"] = {**labels.facts(), "temperature": 1.0}
            if temperature != 1:
                ours = with_scaled_head(ours, 1 / temperature)
    model, network = followable(ours), reading.copied_network()

    def run(given: Tensors) -> Sequence[Tensor]:
        return [model(*_with_features(network, reading.arguments(given)))]

    return OnnxExport(
        graphs={"model": Graph(_joined(network, model), run, reading.ports, [LOGITS])},
        facts=facts,
        files=_vocabularies(about),
        ours=lambda given: ours(*_with_features(reading.network, reading.arguments(given))),
        limits=reading.limits,
    )


def _generating(task: Task, about: Description, writes: GeneratedText) -> OnnxExport:
    """Export a model that reads an input and generates a text."""
    reading = _reading(task, about, SOURCE, SOURCE_MASK, SOURCE)
    model: Any = followable(task.model)
    network = reading.copied_network()
    writing = writing_of(model.decoder, masked=len(reading.ports) > 1)
    longest = _within(writes.options.max_length, writes.places)

    def read(given: Tensors) -> Sequence[Tensor]:
        return writing.begin(model.read(*_with_features(network, reading.arguments(given))))

    def ours(given: Tensors) -> Tensor:
        first, *others = _with_features(reading.network, reading.arguments(given))
        return task.model(first, given[TOKENS], *others)

    ratio = {} if {IMAGE, VECTORS} & reading.facts.keys() else {"ratio": writes.options.max_ratio}
    return OnnxExport(
        graphs={
            "encoder": Graph(_joined(network, model), read, reading.ports, writing.begun),
            **writing.graphs(model, len(writes.tokenizer)),
        },
        facts={
            **reading.facts,
            "writing": {
                **_vocabulary(writes.file, writes.tokenizer),
                "start": writes.start,
                **_ends(writes),
                "longest": longest,
                **ratio,
                **_steps(writing),
            },
        },
        files=_vocabularies(about),
        ours=ours,
        limits={**reading.limits, LENGTH: longest},
    )


def _continuing(task: Task, about: Description, writes: GeneratedText) -> OnnxExport:
    """Export a model that continues its input."""
    model: Any = followable(task.model)
    writing = writing_of(model.decoder)
    reading = _reading(task, about, TOKENS, "mask", LENGTH)
    return OnnxExport(
        graphs=writing.graphs(model, len(writes.tokenizer)),
        facts={
            **reading.facts,
            "writing": {
                **_ends(writes),
                "longest": writes.options.max_length,
                **_steps(writing, window=writes.window),
            },
        },
        files=_vocabularies(about),
        ours=lambda given: task.model(given[TOKENS]),
        limits=reading.limits,
    )


def _reading(task: Task, about: Description, tokens: str, mask: str, axis: str) -> _Reading:
    """Return the reading of a task, whose ports have these names."""
    match about.reads:
        case TextInput() as text:
            longest = _within(text.max_length, text.places)
            ports = [
                Port.tokens(tokens, axis, len(text.tokenizer)),
                Port.mask(mask, axis),
            ]
            if text.num_segments:
                ports.append(Port.tokens("segments", axis, text.num_segments))
            names = [port.name for port in ports]
            return _Reading(
                ports,
                lambda given: [given[name] for name in names],
                {"text": _text_facts(text, longest, about)},
                {axis: longest},
            )
        case ImageInput() as image:
            port = Port(IMAGE, ("batch", image.channels, image.size, image.size))
            features = image.features
            network = None if features is None else _Rounded(features())
            facts = {
                "size": image.size,
                "how": image.how,
                "channels": image.channels,
                "mean": list(image.mean),
                "spread": list(image.spread),
            }
            return _Reading([port], lambda given: [given[IMAGE]], {"image": facts}, {}, network)
        case VectorInput() as vectors:
            longest = _within(vectors.max_length, vectors.places)
            mean, spread = list(vectors.mean), list(vectors.spread)
            facts = {"width": vectors.width, "longest": longest, "mean": mean, "spread": spread}
            return _Reading(
                [Port(VECTORS, ("batch", axis, vectors.width)), Port.mask(mask, axis)],
                lambda given: [given[VECTORS], given[mask]],
                {"vectors": facts},
                {axis: longest},
            )
    raise InteropError(
        f"the task {task.name} cannot be exported to ONNX: it reads neither texts, images nor "
        "vectors; "
        "predict with Saccade instead"
    )


class _Rounded(nn.Module):
    """Features as a captioner was trained on them, rounded to float16."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d rows columns"]:
        """Return the grid of features, in float32 again."""
        return self.network(image).half().float()


def _with_features(network: nn.Module | None, arguments: Sequence[Tensor]) -> Sequence[Tensor]:
    first, *others = arguments
    return arguments if network is None else [network(first), *others]


def _joined(network: nn.Module | None, model: nn.Module) -> nn.Module:
    return model if network is None else nn.ModuleList([network, model])


def _within(longest: int, places: int | None) -> int:
    return longest if places is None else min(longest, places)


def _vocabularies(about: Description) -> dict[str, str]:
    """Return the contents of the vocabularies; after an opening, texts begin without a space."""
    opening = isinstance(about.reads, TextInput) and about.reads.opening
    return {
        file: tokenizer.within.to_str() if opening else tokenizer.to_string()
        for file, tokenizer in about.vocabularies.items()
    }


def _vocabulary(file: str, tokenizer: Tokenizer) -> dict[str, Any]:
    return {"tokenizer": file, "controls": asdict(tokenizer.controls)}


def _text_facts(text: TextInput, longest: int, about: Description) -> dict[str, Any]:
    facts = {
        **_vocabulary(text.file, text.tokenizer),
        "before": list(text.before),
        "after": list(text.after),
        "longest": longest,
    }
    if text.empty:
        facts["nothing"] = list(text.empty)
    match about.writes:
        case LabelOutput():
            facts |= {"pairs": text.pairs, "long": text.long}
    return facts


def _ends(writes: GeneratedText) -> dict[str, Any]:
    """Return the token that ends a text, and those that are never generated."""
    return {"stop": writes.stop, "never": list(writes.never)}


def _steps(writing: Writing, window: int | None = None) -> dict[str, Any]:
    """Return what a step changes, its value before the first, and how many tokens are seen."""
    state: dict[str, dict[str, str | Sequence[int | str]]] = {
        port.name: {"becomes": after} for port, after in writing.state.items()
    }
    for name, shape in writing.empty.items():
        state[name]["empty"] = shape
    return {"state": state, "window": window}
