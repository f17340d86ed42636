"""Tasks as ONNX graphs: onnxruntime gives the same answers, or nothing is written."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx.numpy_helper
import pytest
import torch
from PIL import Image

from saccade.attention import GeneralConfig, ScoreConfig
from saccade.config import kinds
from saccade.decoders.recurrent import RecurrentDecoderConfig
from saccade.decoders.transformer import TransformerDecoderConfig
from saccade.decoding import GenerationConfig
from saccade.encoders.convolutional import ResNetConfig
from saccade.encoders.patches import PatchReaderConfig
from saccade.encoders.recurrent import RecurrentEncoderConfig
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.errors import InteropError
from saccade.interop import export_task
from saccade.interop import onnx as interop
from saccade.interop.onnx import graphs, packages, verifying, writing
from saccade.interop.onnx.exports import export_of
from saccade.lens.alignment.align_by import AlignBy
from saccade.models import (
    CaptionerConfig,
    ConvolutionalClassifierConfig,
    ImageClassifierConfig,
    LanguageModelConfig,
    MaskedLanguageModelConfig,
    TextClassifierConfig,
    TranslatorConfig,
)
from saccade.positions import (
    BucketsConfig,
    ComplexConfig,
    ConditionalConfig,
    LearnedConfig,
    NoPositionConfig,
    PositionConfig,
    RelativeConfig,
    RotaryConfig,
    SinusoidalConfig,
)
from saccade.tasks import (
    Description,
    Input,
    Output,
    Task,
    image_classification,
    image_to_text,
    language_modeling,
    masked_language_modeling,
    text_classification,
    text_to_text,
)
from saccade.tasks._shared.classifier import AboutClassifier
from saccade.tasks._shared.images import ImageConfig, Pixels, Scale
from saccade.tasks._shared.labels import Classes, Number, Several
from saccade.text import Tokenizer, VocabularyConfig
from tests.interop.references import randomised
from tests.onnx_export import without_shape_checks

SENTENCES = ["a cat sat on the mat", "the dog ran away from a cat", "two men sat in the sun", "a"]
ROOT = Path(__file__).parents[2]
BLOCK = {"num_heads": 2, "hidden_dim": 8}
READER = TransformerEncoderConfig(num_layers=1, **BLOCK)
WRITER = TransformerDecoderConfig(num_layers=1, **BLOCK)
GRU_READER = RecurrentEncoderConfig(dim=7, num_layers=2)
GRU_WRITER = RecurrentDecoderConfig(dim=5, num_layers=2)
RESNET = ResNetConfig(channels=3, widths=(6, 8), blocks=1)
PATCHES = PatchReaderConfig(encoder=replace(READER, position=LearnedConfig()), dim=12, patch_size=4)


@pytest.fixture(autouse=True)
def _without_shape_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    without_shape_checks(monkeypatch)


def vocabulary(kind: str = "word", size: int = 60) -> Tokenizer:
    return Tokenizer.train(SENTENCES, VocabularyConfig(kind=kind, size=size))


def ready(task: Task) -> Any:
    randomised(task.model)
    return task.eval()


def translator(encoder: Any = READER, decoder: Any = WRITER, **options: Any) -> Any:
    config = text_to_text.TextToTextConfig(
        model=TranslatorConfig(encoder=encoder, decoder=decoder, dim=12, **options),
        text=text_to_text.TranslationTextConfig(max_length=20),
        generation=GenerationConfig(max_length=12, beam=1),
    )
    return ready(text_to_text.TextToText(config, vocabulary(), vocabulary("bpe", 290)))


def language_model(decoder: Any = WRITER, **text: Any) -> Any:
    config = language_modeling.LanguageModelingConfig(
        model=LanguageModelConfig(decoder=decoder, dim=12),
        text=language_modeling.LanguageTextConfig(block=9, **text),
        generation=GenerationConfig(max_length=20),
    )
    return ready(language_modeling.LanguageModeling(config, vocabulary()))


def captioner(encoder: Any = RESNET, decoder: Any = WRITER) -> Any:
    config = image_to_text.ImageToTextConfig(
        model=CaptionerConfig(encoder=encoder, decoder=decoder, dim=12),
        image=ImageConfig(size=8, scale="data"),
        generation=GenerationConfig(max_length=7, beam=1),
    )
    view = Pixels(config.image, 3, Scale((90.0, 100.0, 110.0), (50.0, 60.0, 70.0)))
    return ready(image_to_text.ImageToText(config, view, vocabulary()))


def text_classifier(encoder: Any = READER, labels: Any = None, **options: Any) -> Any:
    pairs = options.pop("pairs", False)
    config = text_classification.TextClassificationConfig(
        model=TextClassifierConfig(encoder=encoder, dim=12, **options),
        text=text_classification.ClassificationTextConfig(max_length=10),
    )
    labels = labels or Classes(["cat", "dog", "men"])
    task = text_classification.TextClassification(
        config, vocabulary(), labels, AboutClassifier(1.7, pairs=pairs)
    )
    return ready(task)


def masked_language_model(encoder: Any = READER) -> Any:
    config = masked_language_modeling.MaskedLanguageModelingConfig(
        model=MaskedLanguageModelConfig(encoder=encoder, dim=12),
        text=masked_language_modeling.MaskedTextConfig(max_length=40),
    )
    return ready(masked_language_modeling.MaskedLanguageModeling(config, vocabulary()))


def image_classifier(model: Any = None) -> Any:
    model = model or ImageClassifierConfig(encoder=PATCHES.encoder, dim=12, patch_size=4)
    config = image_classification.ImageClassificationConfig(model=model, image=ImageConfig(size=8))
    pixels = Pixels(config.image, model.channels)
    return ready(image_classification.ImageClassification(config, pixels, Classes(["x", "y", "z"])))


def written(task: Task, folder: Path) -> Path:
    folder.mkdir()
    interop.write_task(task, folder)
    return folder


def facts(folder: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((folder / "saccade.json").read_text(encoding="utf-8"))
    return table


@pytest.fixture(scope="session")
def example() -> Any:
    """The class `Model` of docs/how-to/onnx.md, which knows nothing of Saccade."""
    page = (ROOT / "docs" / "how-to" / "onnx.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(# only.*?)^```", page, re.DOTALL | re.MULTILINE)[0]
    assert not re.search(r"import (torch|saccade)", code)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/how-to/onnx.md", "exec"), names)
    return names["Model"]


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(1).integers(0, 256, (11, 9, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


# --- every task: writing compares for several sizes; then the example of docs/how-to/onnx.md does


def test_exports_a_transformer_translator(tmp_path: Path, example: Any) -> None:
    task = translator()
    task.align_by = AlignBy(shift=True)  # chosen in training; not a vocabulary
    folder = written(task, tmp_path / "out")
    assert sorted(path.name for path in folder.iterdir()) == [
        "decoder.onnx",
        "decoder_step.onnx",
        "encoder.onnx",
        "saccade.json",
        "tokenizer.source.json",
        "tokenizer.target.json",
    ]
    assert not any(b".py" in path.read_bytes() for path in folder.glob("*.onnx"))  # of our code
    texts = ["a cat</s> sat", "the sun", " ".join(["men"] * 30)]
    ours = [answer.text for answer in task.predict(texts, split="none")]
    assert [example(folder).translate(text) for text in texts] == ours
    assert max(map(len, ours)) > 0
    table = facts(folder)
    assert table["text"]["after"] == [2]
    assert table["text"]["longest"] == 21
    assert table["writing"]["never"] == [0, 1, 3, 4, 5, 6]
    assert table["graphs"]["encoder"]["inputs"] == {
        "source": {"type": "int64", "shape": ["batch", "source"]},
        "source_mask": {"type": "bool", "shape": ["batch", "source"]},
    }
    assert table["graphs"]["decoder_step"]["inputs"]["past_keys.0"]["shape"] == [
        "batch",
        2,
        "past",
        6,
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "decoder",
    [GRU_WRITER, replace(GRU_WRITER, attention="none", cell="lstm")],
    ids=["attention", "none"],
)
def test_exports_a_recurrent_translator(decoder: Any, tmp_path: Path, example: Any) -> None:
    task = translator(GRU_READER, decoder)
    folder = written(task, tmp_path / "out")
    texts = ["a cat sat", "the sun", "two men ran away from the dog in the sun"]
    ours = [answer.text for answer in task.predict(texts, split="none")]
    assert [example(folder).translate(text) for text in texts] == ours


@pytest.mark.slow
def test_exports_a_language_model(tmp_path: Path, example: Any) -> None:
    """Also beyond its block, of which the last half is then read again."""
    task = language_model()
    folder = written(task, tmp_path / "out")
    assert not (folder / "encoder.onnx").exists()
    prompts = ["a cat", "", "the dog ran away from a cat and two men sat in the sun"]
    ours = [a.text for a in task.predict(prompts, sample=False, beam=1, max_length=20)]
    assert [example(folder).continue_text(prompt, 20) for prompt in prompts] == ours
    tokens = np.array([[8, 9, 10], [11, 8, 7]])
    rows = interop.load(folder).write({}, tokens, 20)
    assert rows == interop.load(folder).write({}, tokens, 20, cached=False)
    assert max(map(len, rows)) > 9


@pytest.mark.slow
def test_exports_a_captioner(tmp_path: Path, example: Any, photo: Path) -> None:
    task = captioner()
    folder = written(task, tmp_path / "out")
    assert example(folder).caption(photo) == task.predict([photo])[0].text
    assert facts(folder)["image"] == {
        "size": 8,
        "how": "squash",
        "channels": 3,
        "mean": [90.0, 100.0, 110.0],
        "spread": [50.0, 60.0, 70.0],
    }


def test_exports_a_classifier_of_pairs(tmp_path: Path, example: Any) -> None:
    task, folder = text_classifier(num_segments=2, pairs=True), tmp_path / "out"
    export_task(task, "onnx", folder)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    pairs = [("a cat", "the dog"), ("a", "two men sat in the sun on the mat"), (SENTENCES[1],) * 2]
    ours = [answer.label for answer in task.predict(pairs)]
    assert [example(folder).classify(*pair) for pair in pairs] == ours
    assert facts(folder)["labels"] == {
        "kind": "one",
        "names": ["cat", "dog", "men"],
        "temperature": 1.0,
    }


def test_softmax_of_logits_gives_calibrated_probabilities(tmp_path: Path, photo: Path) -> None:
    task = image_classifier()
    task.temperature = 2.5
    folder = written(task, tmp_path / "image")
    pixels = task.pixels.read(task.gallery.arrays([photo])).numpy()
    logits = torch.from_numpy(interop.load(folder).run("model", {"image": pixels})["logits"])
    [answer] = task.predict([photo])
    assert list(answer.probabilities.values()) == pytest.approx(
        logits.softmax(-1)[0].tolist(), abs=1e-5
    )


def test_exports_a_masked_language_model(tmp_path: Path) -> None:
    task = masked_language_model()
    folder = written(task, tmp_path / "out")
    table, [answer] = facts(folder), task.predict(["a [MASK] sat"])
    ids = [*task.tokenizer.encode("a"), 6, *task.tokenizer.encode_part(" sat")]
    tokens = np.array([[*table["text"]["before"], *ids, *table["text"]["after"]]])
    given = {"tokens": tokens, "mask": np.ones_like(tokens, bool)}
    logits = interop.load(folder).run("model", given)["logits"][0, 2]
    best = max(task.tokenizer.ordinary.tolist(), key=lambda id: logits[id])
    assert answer.text == task.tokenizer.decode([*ids[:1], best, *ids[2:]])


def test_exports_an_image_classifier(tmp_path: Path, example: Any, photo: Path) -> None:
    task = image_classifier()
    folder = written(task, tmp_path / "out")
    assert example(folder).classify_image(photo) == task.predict([photo])[0].label


# --- variants


POSITIONS = [
    NoPositionConfig(),
    SinusoidalConfig(layout="halves", fuse="concat", width=4),
    LearnedConfig(length=20),
    RelativeConfig(max_distance=3),
    BucketsConfig(num_buckets=6, max_distance=5),
    RotaryConfig(base=100.0),
    ComplexConfig(),
]
VARIANTS: dict[str, Callable[[], Any]] = {
    **{
        f"positions {position.kind}": lambda position=position: translator(
            replace(READER, position=position), replace(WRITER, position=position)
        )
        for position in POSITIONS
    },
    **{
        f"score {kind}": lambda kind=kind: translator(
            replace(READER, score=kinds(ScoreConfig)[kind]()),
            replace(WRITER, score=kinds(ScoreConfig)[kind](), num_kv_heads=1, norm_order="post"),
        )
        for kind in ("dot", "cosine", "general", "low_rank", "additive")
    },
    **{
        f"cells {cell} {attention}": lambda cell=cell, attention=attention: translator(
            replace(GRU_READER, cell=cell, bidirectional=attention != "none"),
            replace(GRU_WRITER, cell=cell, attention=attention, score=GeneralConfig()),
        )
        for cell in ("rnn", "gru", "lstm")
        for attention in ("none", "before", "after")
    },
    "open block": lambda: translator(
        *(
            replace(
                side,
                norm="rms",
                feed_forward="gated",
                activation="silu",
                bias=False,
                head_dim=5,
                qk_norm=True,
            )
            for side in (READER, WRITER)
        )
    ),
    "two layers": lambda: translator(
        replace(READER, num_layers=2), replace(WRITER, num_layers=2, norm_order="post")
    ),
    "nothing fed": lambda: translator(
        GRU_READER, replace(GRU_WRITER, attention="after", feed_context=False)
    ),
    "recurrent reader, Transformer writer": lambda: translator(GRU_READER, WRITER),
    "Transformer reader, recurrent writer": lambda: translator(READER, GRU_WRITER),
    "conditional text": lambda: masked_language_model(
        replace(READER, position=ConditionalConfig(), norm="batch")
    ),
    "recurrent text": lambda: text_classifier(GRU_READER, pooling="summary"),
    "several labels": lambda: text_classifier(labels=Several(["a", "b"], ","), pooling="mean"),
    "a number": lambda: text_classifier(labels=Number(3.0, 2.0)),
    "packed": lambda: language_model(layout="packed"),
    "opening": lambda: language_model(opening="a cat"),
    "caption by looking": lambda: captioner(RESNET, GRU_WRITER),
    "caption without looking": lambda: captioner(RESNET, replace(GRU_WRITER, attention="none")),
    "caption of patches": lambda: captioner(PATCHES, WRITER),
    "convolutional": lambda: image_classifier(
        ConvolutionalClassifierConfig(channels=1, widths=(6, 8), blocks=1)
    ),
    **{
        f"image positions {kind}": lambda kind=kind: image_classifier(
            ImageClassifierConfig(
                encoder=replace(READER, position=kinds(PositionConfig)[kind]()),
                dim=16,
                patch_size=2,
                stem="convolutional",
                pooling="mean" if kind == "rotary" else "first",
            )
        )
        for kind in ("none", "sinusoidal", "relative_2d", "rotary", "conditional")
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_exports_every_variant(name: str, tmp_path: Path) -> None:
    """Writing compares for several batch sizes and lengths, and raises on a difference."""
    folder = written(VARIANTS[name](), tmp_path / "out")
    assert {path.stem for path in folder.glob("*.onnx")} == set(facts(folder)["graphs"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["packed", "opening"])
def test_exports_the_tokens_before_a_prompt(name: str, tmp_path: Path, example: Any) -> None:
    task = VARIANTS[name]()
    folder = written(task, tmp_path / "out")
    prompts = ["two men", "", " sat in the"]
    ours = [a.text for a in task.predict(prompts, sample=False, beam=1, max_length=8)]
    assert [example(folder).continue_text(prompt, 8) for prompt in prompts] == ours


@pytest.mark.slow
@pytest.mark.parametrize("name", ["several labels", "a number"])
def test_exports_several_labels_and_numbers(name: str, tmp_path: Path, example: Any) -> None:
    task = VARIANTS[name]()
    folder = written(task, tmp_path / "out")
    for text in SENTENCES:
        [answer], theirs = task.predict([text]), example(folder).classify(text)
        if name == "a number":
            assert theirs == pytest.approx(float(answer.label), abs=1e-3)
        else:
            assert ",".join(theirs) == answer.label


# --- errors


def faulty(real: Callable[..., Any]) -> Callable[..., Any]:
    """A fault in the last bias of a graph, which has a number for each of three classes."""

    def exported(self: Any) -> Any:
        result = real(self)
        weight = next(x for x in result.graph.initializer if "bias" in x.name and x.dims == [3])
        moved = onnx.numpy_helper.to_array(weight) + np.float32(0.01)
        weight.CopyFrom(onnx.numpy_helper.from_array(moved, weight.name))
        return result

    return exported


def test_raises_and_writes_nothing_if_logits_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs.Graph, "exported", property(faulty(graphs.Graph.exported.func)))
    with pytest.raises(
        InteropError, match=r"model.onnx does not give the same logits: 0.0\d+ apart"
    ):
        export_task(text_classifier(), "onnx", tmp_path / "out")
    assert not list(tmp_path.iterdir())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep me")
    with pytest.raises(InteropError, match="out is not empty; choose a new folder to export to"):
        export_task(text_classifier(), "onnx", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_raises_if_greedy_search_misses_the_best_token() -> None:
    """Hand-worked: the second token of the row is 0.5 behind; as good as the best will do."""
    export = export_of(language_model())
    logits = torch.zeros(1, 2, 60)
    logits[0, 0, 9], logits[0, 1, 8], logits[0, 1, 10] = 1.0, 1.0, 0.5
    export = replace(export, ours=lambda given: logits.clone())
    first = torch.tensor([[7]])
    verifying._require_best(export, {}, first, [[9, 8]], 2)
    with pytest.raises(InteropError, match=r"chose a token that is 0.5 behind the best of ours"):
        verifying._require_best(export, {}, first, [[9, 10]], 2)
    logits[0, 1, 8] = 0.5
    verifying._require_best(export, {}, first, [[9, 10]], 2)
    logits[0, 0, 0] = 9.0  # padding is never written, however likely
    verifying._require_best(export, {}, first, [[9, 10]], 2)


def test_raises_on_tasks_that_read_neither_texts_nor_images(tmp_path: Path) -> None:
    class Other(Task):
        name = "summaries"

        def describe(self) -> Description:
            return Description(reads=Input(), writes=Output(), model=None)

    Other.__abstractmethods__ = frozenset()
    with pytest.raises(InteropError, match="the task summaries cannot be exported to ONNX: it re"):
        interop.write_task(Other(), tmp_path)


def test_raises_if_torch_cannot_export_a_model(tmp_path: Path) -> None:
    task = text_classifier()
    task.model.pooler = Asking()
    with pytest.raises(InteropError, match="cannot write this model as ONNX"):
        interop.write_task(task, tmp_path)


class Asking(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if bool(x.sum() > 0) else -x


def test_raises_on_a_model_of_more_than_2_gb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "TOO_LARGE", 100)
    export = export_of(text_classifier())
    with pytest.raises(InteropError, match="an ONNX file holds 2 GB"):
        _ = export.graphs["model"].exported


@pytest.mark.parametrize("name", ["onnx", "onnxscript", "onnxruntime"])
def test_raises_on_a_missing_package_and_names_the_extra(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InteropError, match=rf'{name} is needed .* "saccade-attention\[onnx\]"'):
        writing.write_task(text_classifier(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_raises_on_an_old_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.onnx, "ops")
    with pytest.raises(InteropError, match=r"needs torch 2.8 or newer, this is"):
        packages.require_exporter()


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_raises_on_a_folder_that_is_not_an_export(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "saccade.json").write_text(content)
    with pytest.raises(
        InteropError, match=r"saccade.json cannot be read .* export --to onnx wrote"
    ):
        interop.load(tmp_path)
