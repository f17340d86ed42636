"""Model cards: the README.md of an export, with the data, scores, baselines, limits and use.

A card never quotes a text of the training data. The licence is left to the user, since it depends
on the data.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from saccade._version import __version__
from saccade.metrics.score import MetricScore
from saccade.tasks import (
    Baseline,
    Description,
    GeneratedText,
    ImageInput,
    LabelOutput,
    TagOutput,
    Task,
    TextInput,
    TokenOutput,
    VectorInput,
    standing,
)

CARD = "README.md"
"""The name of the file."""
LABELS = 30
"""Labels that are listed at most."""


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """Facts about a training run for a card; every field but the name may be left out.

    Attributes:
        name: The name of the model.
        recipe: The recipe that it was trained with.
        data: The data, as it was given to `saccade train`.
        examples: The number of examples by split.
        training: The cost of the training, in words.
        metric: The metric that matters most.
        scores: The scores of the model, by metric.
        split: The split that the scores were measured on.
        items: The number of its items.
        baselines: The baselines, measured on the same items.
    """

    name: str
    recipe: str = ""
    data: str = ""
    examples: Mapping[str, int] = field(default_factory=dict)
    training: str = ""
    metric: str = ""
    scores: Mapping[str, MetricScore] = field(default_factory=dict)
    split: str = "valid"
    items: int = 0
    baselines: Sequence[Baseline] = ()


@dataclass(frozen=True)
class _Use:
    """The kind of a model: in words, as a tag of Hugging Face, and as a class of transformers."""

    words: str
    tag: str
    auto: str = ""
    call: str = ""
    reader: str = "AutoTokenizer"


GENERATE = """answer = model.generate(**tokenizer(["Your text"], return_tensors="pt"))
print(tokenizer.batch_decode(answer, skip_special_tokens=True))"""
CLASSIFY = """logits = model(**tokenizer({inputs}, return_tensors="pt")).logits
print(model.config.id2label[int(logits[0].argmax())])"""
TAG = """inputs = tokenizer(["Your", "words"], is_split_into_words=True, return_tensors="pt")
labels = model(**inputs).logits[0].argmax(-1)  # that of a word is at its first token
print([(word, model.config.id2label[int(x)]) for word, x in zip(inputs.word_ids(), labels)])"""
CLASSIFY_IMAGE = """logits = model(**processor(Image.open("photo.jpg"), return_tensors="pt")).logits
print(model.config.id2label[int(logits[0].argmax())])"""
FILL = """inputs = tokenizer(f"Your {tokenizer.mask_token} text", return_tensors="pt")
masked = inputs["input_ids"] == tokenizer.mask_token_id
print(tokenizer.batch_decode(model(**inputs).logits[masked].argmax(-1)))"""


def model_card(task: Task, to: str, facts: CardFacts) -> str:
    """Return the text of a card.

    Args:
        task: The exported task.
        to: The format of the export.
        facts: What is known of its training.
    """
    about = task.describe()
    use = _use(about)
    count = sum(parameter.numel() for parameter in task.model.parameters())
    sections = {
        "Training data": list(_data(facts)),
        "Scores": list(_scores(facts)),
        "Limits": list(_limits(about, facts)),
        "How to use it": list(_how_to(about, use, to)),
        "Licence": [
            "None is given here. It depends on the training data: add the licence that you choose."
        ],
    }
    intro = f"{use.words}: a {type(task.model).__name__} with {count:,} parameters"
    intro += f", trained with the recipe {facts.recipe}" if facts.recipe else ""
    intro += f". Exported to {to} by Saccade {__version__}."
    body = "".join(
        f"\n## {title}\n\n" + "\n".join(lines) + "\n" for title, lines in sections.items()
    )
    head = _front_matter(use, facts) if to == "huggingface" else ""
    return f"{head}# {facts.name}\n\n{intro}\n{body}"


def _use(about: Description) -> _Use:
    match about.reads, about.writes:
        case TextInput(), GeneratedText(start=None):
            return _Use("A language model", "text-generation", "AutoModelForCausalLM", GENERATE)
        case TextInput(), GeneratedText():
            return _Use("A text-to-text model", "translation", "AutoModelForSeq2SeqLM", GENERATE)
        case TextInput(), TagOutput():
            auto = "AutoModelForTokenClassification"
            return _Use("A tagger of words", "token-classification", auto, TAG)
        case TextInput() as reads, LabelOutput():
            inputs = '"First text", "Second text"' if reads.pairs else '"Your text"'
            call = CLASSIFY.replace("{inputs}", inputs)
            auto = "AutoModelForSequenceClassification"
            return _Use("A text classifier", "text-classification", auto, call)
        case TextInput(), TokenOutput():
            return _Use("A masked language model", "fill-mask", "AutoModelForMaskedLM", FILL)
        case ImageInput(), GeneratedText():
            return _Use("An image captioner", "image-to-text")
        case ImageInput(), LabelOutput():
            auto, reader = "AutoModelForImageClassification", "AutoImageProcessor"
            kind = "image-classification"
            return _Use("An image classifier", kind, auto, CLASSIFY_IMAGE, reader)
        case VectorInput(), GeneratedText():
            return _Use("A captioner of sequences of vectors", "other")
        case VectorInput(), LabelOutput():
            return _Use("A classifier of sequences of vectors", "other")
    return _Use("A model", "other")


def _front_matter(use: _Use, facts: CardFacts) -> str:
    """Return the metadata of a Hugging Face model card; JSON values are valid YAML."""
    lines = [
        "---",
        "library_name: transformers",
        f"pipeline_tag: {use.tag}",
        "tags: [saccade]",
        "# license: add the licence that you choose",
    ]
    if facts.scores:
        result = {
            "task": {"type": use.tag},
            "dataset": {
                "name": facts.data or "unknown",
                "type": "custom",
                "split": "validation" if facts.split == "valid" else facts.split,
            },
            "metrics": [
                {"type": name, "value": round(score.value, 6)}
                for name, score in facts.scores.items()
            ],
        }
        index = [{"name": facts.name, "results": [result]}]
        lines.append(f"model-index: {json.dumps(index, ensure_ascii=False)}")
    return "\n".join([*lines, "---", "", ""])


def _data(facts: CardFacts) -> Iterator[str]:
    yield f"`{facts.data}`" if facts.data else "Not recorded."
    if facts.examples:
        counts = ", ".join(f"{count:,} in {name}" for name, count in facts.examples.items())
        yield f"\nExamples: {counts}."
    if facts.training:
        yield f"\nTraining: {facts.training}."


def _scores(facts: CardFacts) -> Iterator[str]:
    if not facts.scores:
        yield "Not measured. `saccade evaluate RUN --data DATA` measures the run."
        return
    yield f"On {facts.items:,} items of the split {facts.split}, with 95 % confidence intervals:\n"
    yield "| metric | model | interval |" + "".join(f" {b.name} |" for b in facts.baselines)
    yield "|---|---|---|" + "---|" * len(facts.baselines)
    for name, score in facts.scores.items():
        interval = "" if score.interval is None else "[{:.4g}, {:.4g}]".format(*score.interval)
        others = [
            f"{baseline.scores[name].value:.4g}" if name in baseline.scores else ""
            for baseline in facts.baselines
        ]
        yield "| " + " | ".join([name, f"{score.value:.4g}", interval, *others]) + " |"
    if facts.baselines:
        names = ", ".join(f"{baseline.name} ({baseline.kind})" for baseline in facts.baselines)
        yield f"\nBaselines, fitted to the same training data: {names}."
    if place := standing(facts.scores, facts.baselines, facts.metric):
        yield f"\n{str(place)[0].upper()}{str(place)[1:]}."
    signatures = dict.fromkeys(f"`{s.name}`: {s.signature}" for s in facts.scores.values())
    yield "\nSignatures: " + "; ".join(signatures) + "."


def _limits(about: Description, facts: CardFacts) -> Iterator[str]:
    if facts.scores and facts.split == "valid":
        yield "- The best weights were chosen on the validation set; expect lower scores elsewhere."
    yield "- It knows what its training data contains. Measure it on your own data before using it."
    match about.reads:
        case TextInput(max_length=length) as reads:
            part = reads.part.format(length)
            yield f"- It reads up to {length:,} tokens; of a longer input, {part}."
        case ImageInput(size=size):
            yield f"- Images are resized to {size} × {size} pixels."
        case VectorInput(width=width, max_length=length) as reads:
            part = reads.part.format(length)
            yield f"- It reads vectors of {width} numbers; of more than {length:,} steps, {part}."
    match about.writes:
        case GeneratedText(options=options):
            yield f"- It generates up to {options.max_length:,} tokens, which may be wrong."
        case LabelOutput(labels=labels) if labels.names:
            names = ", ".join(f"`{name}`" for name in labels.names[:LABELS])
            more = len(labels.names) - LABELS
            rest = f" and {more} more" if more > 0 else ""
            yield f"- It only knows these labels: {names}{rest}."


def _how_to(about: Description, use: _Use, to: str) -> Iterator[str]:
    match to:
        case "huggingface":
            yield "```python"
            images = isinstance(about.reads, ImageInput)
            if images:
                yield "from PIL import Image"
            yield f"from transformers import {', '.join(sorted((use.auto, use.reader)))}\n"
            yield 'folder = "path/to/this/folder"'
            name = "processor" if images else "tokenizer"
            yield f"{name} = {use.reader}.from_pretrained(folder)"
            yield f"model = {use.auto}.from_pretrained(folder).eval()"
            yield f"{use.call}\n```"
        case "ctranslate2":
            program = "Generator" if use.auto == "AutoModelForCausalLM" else "Translator"
            names = " and ".join(f"`{name}`" for name in about.vocabularies)
            yield "```python"
            yield "import ctranslate2\n"
            yield f'model = ctranslate2.{program}("path/to/this/folder")\n```\n'
            turn = "turns" if len(about.vocabularies) == 1 else "turn"
            yield f"Tokens go in and come out by name. {names} {turn} text into tokens and back."
        case _:
            yield "```python"
            yield "import onnxruntime\n"
            yield 'session = onnxruntime.InferenceSession("path/to/this/folder/FILE.onnx")\n```\n'
            yield "`saccade.json` describes the graphs: inputs, outputs, control tokens, labels."
            yield "The guide on ONNX in the documentation of Saccade has a complete example."
