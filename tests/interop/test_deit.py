"""DeiT folders against transformers, and image classifiers of ViT and DeiT as tasks and starts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import saccade
from saccade.errors import InteropError
from saccade.interop import huggingface
from saccade.interop.huggingface.task_export import write_task
from saccade.interop.huggingface.task_import import read_task
from saccade.models import ImageClassifier, ImageEncoder
from tests.interop.references import CLOSE, randomised, read_back
from tests.interop.test_look import image_processor

SIZES = {
    "hidden_size": 21,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 19,
    "image_size": 9,
    "patch_size": 3,
    "num_channels": 3,
    "num_labels": 5,
    "layer_norm_eps": 1e-3,
}
MEAN, SPREAD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def reference(family: str, kind: str, **options: Any) -> Any:
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **options})
    return randomised(getattr(transformers, f"{family}{kind}")(config))


@pytest.mark.parametrize("kind", ["Model", "ForImageClassification"])
@torch.no_grad()
def test_loaded_and_saved_models_equal_transformers(
    kind: str, folder: Path, tmp_path: Path
) -> None:
    theirs, image = reference("DeiT", kind), torch.randn(2, 3, 9, 9)
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    order = (
        [0, *range(2, 11), 1] if kind == "Model" else slice(None)
    )  # ours has its token at the end
    torch.testing.assert_close(ours(image), theirs(image)[0][:, order], **CLOSE)
    again = read_back(ours, tmp_path / "ours")
    torch.testing.assert_close(ours(image), again(image)[0][:, order], **CLOSE)
    for name, value in huggingface.load(tmp_path / "ours").state_dict().items():
        torch.testing.assert_close(value, ours.state_dict()[name])


@torch.no_grad()
def test_the_heads_with_a_teacher_are_left_out(folder: Path) -> None:
    theirs, image = reference("DeiT", "ForImageClassificationWithTeacher"), torch.randn(2, 3, 9, 9)
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    assert type(ours) is ImageEncoder
    torch.testing.assert_close(ours(image)[:, 0], theirs.deit(image)[0][:, 0], **CLOSE)


@pytest.fixture(params=["ViT", "DeiT"])
def classifier(request: Any, folder: Path) -> Any:
    """Return a classifier of transformers; its folder also has the preparation of images."""
    labels = {i: f"class {i}" for i in range(5)}
    theirs = reference(request.param, "ForImageClassification", id2label=labels)
    theirs.save_pretrained(folder)
    processor = image_processor(image_mean=MEAN, image_std=SPREAD, resample=3)
    processor.size = {"height": 9, "width": 9}
    processor.save_pretrained(folder)
    return theirs


@pytest.fixture
def images() -> list[Image.Image]:
    noise = np.random.default_rng(0).integers(0, 255, (3, 9, 9, 3), dtype=np.uint8)
    return list(map(Image.fromarray, noise))


@torch.no_grad()
def test_an_imported_classifier_answers_looks_and_exports(
    classifier: Any, images: list[Image.Image], folder: Path, tmp_path: Path
) -> None:
    task = read_task(folder).task
    assert isinstance(task.model, ImageClassifier)
    pixels = image_processor(image_mean=MEAN, image_std=SPREAD, do_resize=False)(
        images=images, return_tensors="pt"
    )["pixel_values"]
    expected = classifier(pixels).logits.softmax(-1)
    answers = task.predict(images, attention=True)
    for answer, row in zip(answers, expected, strict=True):
        np.testing.assert_allclose(
            [answer.probabilities[f"class {i}"] for i in range(5)], row, atol=1e-4
        )
        assert answer.attention.read.grid == (3, 3)
    with saccade.watch(classifier) as seen:
        classifier(pixels)
    record = answers[0].attention
    distilled = task.config.model.distillation_token
    kept = [0, *range(1 + distilled, 10 + distilled)]
    for own, their in zip(record.weights.values(), seen.values(), strict=True):
        np.testing.assert_allclose(own, their.weights[0][:, kept][:, :, kept], atol=1e-4)
    write_task(task, tmp_path / "out")
    again = type(classifier).from_pretrained(tmp_path / "out").eval()
    torch.testing.assert_close(again(pixels).logits, classifier(pixels).logits, **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("size", [9, 15])
def test_training_starts_from_a_folder_with_images_of_another_size(
    size: int, classifier: Any, folder: Path, tmp_path: Path
) -> None:
    """Positions are interpolated as transformers does it; no update changes them."""
    data = tmp_path / "data"
    noise = np.random.default_rng(0)
    for label in ("a", "b"):
        (data / label).mkdir(parents=True)
        for number in range(8):
            pixels = noise.integers(0, 255, (15, 15, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(data / label / f"{number}.png")
    run = saccade.train(
        "vit-small",
        data=data,
        out=tmp_path / "run",
        init=folder,
        max_steps=1,
        changes=[
            f"image.size={size}",
            "image.scale=imagenet",
            "training.learning_rate=1e-30",
            "training.optim.weight_decay=0",
            "training.batch_tokens=100000",
        ],
    )
    image = torch.randn(2, 3, size, size)
    with torch.no_grad():
        body = getattr(classifier, classifier.base_model_prefix)
        expected = body(image, interpolate_pos_encoding=True)[0][:, 0]
        states = run.model.eval().encoder(image).states[:, 0]
    torch.testing.assert_close(states, expected, **CLOSE)
    assert run.pixels.scale.mean == pytest.approx([255 * x for x in MEAN])


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        (
            "preprocessor_config.json",
            {"size": {"height": 12, "width": 12}, "do_center_crop": True},
            "resized to 12 x 12, then cut, but .* the 9 x 9 of the model",
        ),
        ("preprocessor_config.json", {"size": {"shortest_edge": 9}}, "one height and width"),
        ("preprocessor_config.json", {"image_mean": [0.5]}, "a number for each of the 3"),
        ("config.json", {"qkv_bias": False}, "no task has this model yet"),
        ("config.json", {"patch_size": [3, 9]}, "only square patches"),
    ],
)
@pytest.mark.parametrize("classifier", ["ViT"], indirect=True)
def test_what_is_not_supported_is_named(
    file: str, changes: dict[str, Any], message: str, classifier: Any, folder: Path
) -> None:
    facts = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(facts | changes))
    with pytest.raises(InteropError, match=message):
        read_task(folder)
    (folder / "preprocessor_config.json").unlink()
    if file != "config.json":
        with pytest.raises(InteropError, match=r"no preprocessor_config\.json"):
            read_task(folder)
