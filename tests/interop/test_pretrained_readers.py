"""Captioners and classifiers that start from a ViT or DeiT, trained on or with cached states."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import saccade
from saccade.data import sources
from saccade.errors import RecipeError
from saccade.interop import export_task
from saccade.tasks import Task
from saccade.tasks._shared.images import EncoderFeatures, Features
from saccade.training.console import Console
from tests.interop.references import randomised
from tests.interop.test_vit import SIZES
from tests.onnx_export import without_shape_checks

HALF = {"rtol": 1e-2, "atol": 1e-2}  # cached states are in half precision
SMALL = {**SIZES, "image_size": 15, "num_channels": 3}
CAPTIONER = (
    "text.vocabulary.min_count=1",
    "model.dim=12",
    "model.decoder.num_layers=1",
    "model.decoder.num_heads=2",
    "model.decoder.hidden_dim=16",
    "generation.max_length=4",
)
FROZEN = (*CAPTIONER, "model.encoder.frozen=true")
CLASSIFIER = ("augment={}", "image.scale=half")


@pytest.fixture(params=["ViT", "DeiT"])
def body(request: pytest.FixtureRequest, folder: Path) -> Any:
    """A model in `folder` that reads images of 15 pixels."""
    config = getattr(transformers, f"{request.param}Config")(**SMALL)
    kind = getattr(transformers, f"{request.param}ForImageClassification")
    model = randomised(kind(config))
    model.save_pretrained(folder)
    return getattr(model, model.base_model_prefix)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Images of two colours, of 12 pixels, with captions."""
    table, noise = tmp_path / "data" / "captions.tsv", np.random.default_rng(0)
    table.parent.mkdir()
    rows = ["image\ttext\tlabel"]
    for number in range(12):
        colour = ("red", "blue")[number % 2]
        pixels = noise.integers(0, 90, (12, 12, 3), dtype=np.uint8)
        pixels[..., 2 * (number % 2)] += 150
        Image.fromarray(pixels).save(table.parent / f"{number}.png")
        rows.append(f"{number}.png\ta {colour} picture\t{colour}")
    table.write_text("\n".join(rows) + "\n")
    return table


def trained(recipe: str, data: Path, init: Path | None, *changes: str, name: str = "run") -> Task:
    out = data.parent.parent / name
    return saccade.train(
        recipe,
        data=data,
        out=out,
        init=init,
        max_steps=2,
        device="cpu",
        cache=out.parent / "cache",
        console=Console(quiet=True),
        columns={"label": "label"} if recipe == "vit-small" else {"text": "text"},
        changes=[
            "image.size=12",
            "training.validate_items=2",
            "training.learning_rate=0.01",
            "training.batch_tokens=60",
            "training.optim.warmup=1",
            *changes,
        ],
    )


def images(data: Path) -> list[str]:
    return [str(data.parent / f"{number}.png") for number in range(3)]


def states_of(body: Any, names: list[str]) -> torch.Tensor:
    """Return the states of patches, with positions interpolated as transformers does it."""
    pixels = torch.stack(
        [torch.from_numpy(np.array(Image.open(name))).permute(2, 0, 1) for name in names]
    )
    with torch.no_grad():
        states = body(pixels.float() / 127.5 - 1, interpolate_pos_encoding=True)[0]
    return states[:, -16:]


def test_states_of_a_frozen_captioner_are_those_of_transformers(
    body: Any, folder: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = trained("caption-transformer", data, folder, *FROZEN)
    assert isinstance(task.view, EncoderFeatures)
    arrays = task.gallery.arrays(images(data))
    assert arrays.shape == (3, 21, 1, 16)
    states = task.model.read(task.view.read(arrays)).states
    torch.testing.assert_close(states, states_of(body, images(data)), **HALF)
    assert not any(p.requires_grad for p in task.model.encoder.parameters())
    answers = task.predict(images(data), attention=True)
    assert answers[0].attention.read.grid == (4, 4)
    again = saccade.load(data.parent.parent / "run")
    assert again.predict(images(data)) == task.predict(images(data))
    corpus = sources.open_corpus(data, task.config.columns, valid_fraction=0.0)
    split, cache = corpus.splits["train"], data.parent / "cache"
    batch = task.collate(task.encode(split, cache), [0, 1, 2])
    assert torch.equal(batch.images, arrays)
    monkeypatch.setattr(Features, "array", None)  # the cache has them, also for the loaded run
    assert torch.equal(again.collate(again.encode(split, cache), [0, 1, 2]).images, arrays)


@pytest.fixture
def vit(folder: Path) -> Any:
    model = randomised(transformers.ViTForImageClassification(transformers.ViTConfig(**SMALL)))
    model.save_pretrained(folder)
    return model.vit


def test_a_captioner_may_train_the_encoder_it_starts_from(
    vit: Any, folder: Path, data: Path
) -> None:
    still = ("training.learning_rate=1e-30", "training.optim.weight_decay=0")
    task = trained("caption-attention", data, folder, "text.vocabulary.min_count=1", *still)
    pixels = task.view.read(task.gallery.arrays(images(data)))
    states = task.model.read(pixels).states
    torch.testing.assert_close(states, states_of(vit, images(data)), rtol=1e-4, atol=1e-4)
    assert all(p.requires_grad for p in task.model.encoder.parameters())


def test_a_frozen_classifier_equals_one_that_reads_pixels(
    vit: Any, folder: Path, data: Path, tmp_path: Path
) -> None:
    frozen = trained("vit-small", data, folder, *CLASSIFIER, "model.frozen=true")
    assert frozen.gallery.arrays(images(data)).shape == (3, 21, 1, 17)
    export_task(frozen, "huggingface", tmp_path / "out")  # raises if its logits differ
    other = transformers.ViTForImageClassification.from_pretrained(tmp_path / "out").eval()
    for name, value in vit.state_dict().items():
        if name != "embeddings.position_embeddings":
            assert torch.equal(other.vit.state_dict()[name], value), name
    arrays = [frozen.pixels.array(Image.open(name)) for name in images(data)]
    pixels = frozen.pixels.read(torch.from_numpy(np.stack(arrays)))
    with torch.no_grad():
        expected = other(pixels).logits
        logits = frozen.logits(frozen.gallery.arrays(images(data)))
        torch.testing.assert_close(logits, expected, **HALF)
        with saccade.watch(other) as seen:
            other(pixels)
    record = frozen.predict(images(data), attention=True)[0].attention
    assert record.read.grid == (4, 4)
    for own, their in zip(record.weights.values(), seen.values(), strict=True):
        np.testing.assert_allclose(own, their.weights[0], atol=1e-4)


def test_frozen_models_run_as_onnx(
    vit: Any, folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`export_task` compares the answers to noise with those of the model."""
    without_shape_checks(monkeypatch)
    captioner = trained("caption-transformer", data, folder, *FROZEN)
    export_task(captioner, "onnx", tmp_path / "captioner")
    changes = (*CLASSIFIER, "model.frozen=true")
    classifier = trained("vit-small", data, folder, *changes, name="second")
    export_task(classifier, "onnx", tmp_path / "classifier")


def test_what_cannot_be_frozen_is_an_error(data: Path) -> None:
    vit = ("model.encoder={ kind = 'vit', patch_size = 4, frozen = true }",)
    with pytest.raises(RecipeError, match="there are none; give a folder of ViT or DeiT"):
        trained("caption-transformer", data, None, *vit, *CAPTIONER)
    with pytest.raises(RecipeError, match="augment has no effect with features"):
        trained("caption-transformer", data, None, *vit, "augment.flip=true")
    with pytest.raises(RecipeError, match="augment has no effect with features"):
        trained("vit-small", data, None, "model.frozen=true")


def test_pixels_have_the_scale_that_the_weights_expect(vit: Any, folder: Path, data: Path) -> None:
    facts = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6], "size": 15}
    (folder / "preprocessor_config.json").write_text(json.dumps(facts))
    task = trained("caption-transformer", data, folder, *FROZEN)
    assert task.view.facts()["mean"] == pytest.approx([25.5, 51, 76.5])
    assert task.view.facts()["spread"] == pytest.approx([102, 127.5, 153])
    halved = trained("vit-small", data, folder, *CLASSIFIER, name="halved")
    assert halved.pixels.scale.mean == (127.5,) * 3
    init = data.parent.parent / "halved"
    again = trained("vit-small", data, init, "augment={}", name="again")
    assert again.pixels.scale == halved.pixels.scale  # not that of the data, as in the recipe
    with pytest.raises(RecipeError, match=r'image\.scale = "init" is the scale of the model'):
        trained("vit-small", data, None, "image.scale=init", name="third")
