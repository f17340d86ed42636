"""What is written of each task: its graphs, its vocabularies, and what `saccade.json` says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import nn

from saccade.errors import InteropError
from saccade.interop.onnx.decoders import SOURCE_MASK, Writing, writing_of
from saccade.interop.onnx.graphs import LOGITS, TOKENS, Graph, Port, Tensors
from saccade.interop.onnx.twins import followable
from saccade.positions.learned import Learned
from saccade.shapes import Float, Tensor
from saccade.tasks import Task
from saccade.tasks._shared.classifier import Classifier
from saccade.tasks._shared.images import Features, Pixels
from saccade.tasks.image_classification import ImageClassification
from saccade.tasks.image_to_text import ImageToText
from saccade.tasks.language_modeling import LanguageModeling
from saccade.tasks.masked_language_modeling import MaskedLanguageModeling
from saccade.tasks.text_classification import TextClassification
from saccade.tasks.text_to_text import TextToText
from saccade.text import Tokenizer

SOURCE, IMAGE, VOCABULARY = "source", "image", "tokenizer.json"


@dataclass(frozen=True, kw_only=True)
class OnnxExport:
    """What is to be written.

    graphs    by the names of their files; of a writer, the first is what reads
    facts     what is said of inputs and answers
    files     the vocabularies
    ours      the logits of the task's own model, for what the first graph takes and, of a writer,
              the tokens so far
    limits    the most tokens on the axes that have a limit
    """

    graphs: Mapping[str, Graph]
    facts: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)
    ours: Callable[[Tensors], Tensor]
    limits: Mapping[str, int] = field(default_factory=dict)


def draft_of(task: Task) -> OnnxExport:
    """As the kind of task has it."""
    match task:
        case TextToText():
            return _translator(task)
        case LanguageModeling():
            return _language_model(task)
        case ImageToText():
            return _captioner(task)
        case TextClassification():
            return _text_classifier(task)
        case MaskedLanguageModeling():
            return _masked_language_model(task)
        case ImageClassification():
            return _image_classifier(task)
    raise InteropError(f"the task {task.name} has no form in ONNX")


def _translator(task: TextToText) -> OnnxExport:
    model, options = followable(task.model), task.config.generation
    writing = writing_of(model.decoder, masked=True)
    most_read = _room(model.encoder, task.config.text.max_length + 1)
    most_written = _room(model.decoder, options.max_length)
    reader = Graph(
        model,
        lambda given: writing.begin(model.read(given[SOURCE], given[SOURCE_MASK])),
        [Port.tokens(SOURCE, SOURCE, len(task.source)), Port.mask(SOURCE_MASK, SOURCE)],
        writing.begun,
    )
    files = task.vocabularies()
    read, written = min(files), max(files)  # one, or the source's and the target's
    return OnnxExport(
        graphs={"encoder": reader, **writing.graphs(model, len(task.target))},
        facts={
            "text": {
                **_vocabulary(read, task.source),
                "before": [],
                "after": [task.source.stop],
                "longest": most_read,
            },
            "writing": {
                **_vocabulary(written, task.target),
                "start": task.target.start,
                **_ends(task.target),
                "longest": most_written,
                "ratio": options.max_ratio,
                **_steps(writing),
            },
        },
        files=files,
        ours=lambda given: task.model(given[SOURCE], given[TOKENS], given[SOURCE_MASK]),
        limits={SOURCE: most_read, "length": most_written},
    )


def _language_model(task: LanguageModeling) -> OnnxExport:
    model, text = followable(task.model), task.config.text
    writing = writing_of(model.decoder)
    begin = task.before_texts()
    anywhere = text.layout == "stream" and not text.opening
    tokenizer = task.tokenizer.within.to_str() if text.opening else task.tokenizer.to_string()
    return OnnxExport(
        graphs=writing.graphs(model, len(task.tokenizer)),
        facts={
            "text": {
                **_vocabulary(VOCABULARY, task.tokenizer),
                "before": [] if anywhere else begin,
                "nothing": begin,
                "after": [],
                "longest": text.block,
            },
            "writing": {
                **_ends(task.tokenizer),
                "longest": task.config.generation.max_length,
                **_steps(writing, window=text.block),
            },
        },
        files={VOCABULARY: tokenizer},
        ours=lambda given: task.model(given[TOKENS]),
        limits={"length": text.block},
    )


def _captioner(task: ImageToText) -> OnnxExport:
    model, options = followable(task.model), task.config.generation
    writing = writing_of(model.decoder)
    most = _room(model.decoder, options.max_length)
    before: nn.Module = nn.Identity()
    if isinstance(task.view, Features):
        before = _Rounded(task.view.network)
    whole = nn.ModuleList([followable(before), model])
    reader = Graph(
        whole,
        lambda given: writing.begin(model.read(whole[0](given[IMAGE]))),
        [_image(task.view.pixels)],
        writing.begun,
    )
    return OnnxExport(
        graphs={"encoder": reader, **writing.graphs(model, len(task.target))},
        facts={
            "image": _pixels(task.view.pixels),
            "writing": {
                **_vocabulary(VOCABULARY, task.target),
                "start": task.target.start,
                **_ends(task.target),
                "longest": most,
                **_steps(writing),
            },
        },
        files={VOCABULARY: task.target.to_string()},
        ours=lambda given: task.model(before(given[IMAGE]), given[TOKENS]),
        limits={"length": most},
    )


def _text_classifier(task: TextClassification) -> OnnxExport:
    return OnnxExport(
        graphs={"model": _reader(task.model, task.tokenizer, task.config.model.num_segments)},
        facts={
            "text": {
                **_framed(task.tokenizer, task.config.text.max_length),
                "pairs": task.pairs,
                "long": task.config.text.long,
            },
            "labels": _labels(task),
        },
        files={VOCABULARY: task.tokenizer.to_string()},
        ours=_reads(task.model),
        limits={"length": task.config.text.max_length},
    )


def _masked_language_model(task: MaskedLanguageModeling) -> OnnxExport:
    return OnnxExport(
        graphs={"model": _reader(task.model, task.tokenizer, task.config.model.num_segments)},
        facts={"text": _framed(task.tokenizer, task.config.text.max_length)},
        files={VOCABULARY: task.tokenizer.to_string()},
        ours=_reads(task.model),
        limits={"length": task.config.text.max_length},
    )


def _image_classifier(task: ImageClassification) -> OnnxExport:
    model = followable(task.model)
    graph = Graph(model, lambda given: [model(given[IMAGE])], [_image(task.pixels)], [LOGITS])
    return OnnxExport(
        graphs={"model": graph},
        facts={"image": _pixels(task.pixels), "labels": _labels(task)},
        ours=lambda given: task.model(given[IMAGE]),
    )


class _Rounded(nn.Module):
    """Features as a captioner was trained on them: kept in float16."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d rows columns"]:
        """The grid, in float32 again."""
        return self.network(image).half().float()


def _reader(model: nn.Module, tokenizer: Tokenizer, num_segments: int) -> Graph:
    """All that a reader of text with a head takes; segments if it knows any."""
    inputs = [Port.tokens(TOKENS, "length", len(tokenizer)), Port.mask("mask", "length")]
    if num_segments:
        inputs.append(Port.tokens("segments", "length", num_segments))
    model = followable(model)
    return Graph(model, lambda given: [_reads(model)(given)], inputs, [LOGITS])


def _reads(model: nn.Module) -> Callable[[Tensors], Tensor]:
    return lambda given: model(given[TOKENS], given["mask"], given.get("segments"))


def _room(part: nn.Module, longest: int) -> int:
    """As many tokens as a reader or writer has places for."""
    position = getattr(part, "position", None)
    if isinstance(position, Learned) and isinstance(position.length, int):
        return min(longest, position.length)
    return longest


def _vocabulary(file: str, tokenizer: Tokenizer) -> dict[str, Any]:
    return {"tokenizer": file, "controls": asdict(tokenizer.controls)}


def _framed(tokenizer: Tokenizer, longest: int) -> dict[str, Any]:
    """A text between the control tokens of BERT."""
    return {
        **_vocabulary(VOCABULARY, tokenizer),
        "before": [tokenizer.cls],
        "after": [tokenizer.sep],
        "longest": longest,
    }


def _ends(tokenizer: Tokenizer) -> dict[str, Any]:
    """The token that ends what is written, and those that are never written."""
    controls = tokenizer.controls
    never = {*controls.ids, controls.unknown} - {None, tokenizer.stop}
    return {"stop": tokenizer.stop, "never": sorted(never)}


def _steps(writing: Writing, window: int | None = None) -> dict[str, Any]:
    """What a step changes, how it begins, and how many tokens are seen at once, if not all are."""
    state: dict[str, dict[str, str | Sequence[int | str]]] = {
        port.name: {"becomes": after} for port, after in writing.state.items()
    }
    for name, shape in writing.empty.items():
        state[name]["empty"] = shape
    return {"state": state, "window": window}


def _image(pixels: Pixels) -> Port:
    return Port(IMAGE, ("batch", pixels.channels, pixels.config.size, pixels.config.size))


def _pixels(pixels: Pixels) -> dict[str, Any]:
    return {
        "size": pixels.config.size,
        "how": pixels.config.how,
        "channels": pixels.channels,
        **pixels.facts(),
    }


def _labels(task: Classifier) -> dict[str, Any]:
    return {**task.labels.facts(), "temperature": task.temperature}
