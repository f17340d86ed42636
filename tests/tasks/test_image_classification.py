"""Image classification: reading, training and predictions."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from saccade import cli, watch
from saccade.data import builtin, sources
from saccade.data.sources.images import read_image, resized
from saccade.data.transforms.augment import mix
from saccade.errors import (
    DataError,
    DecodingError,
    PositionError,
    RecipeError,
    RunError,
    ShapeError,
    WatchError,
)
from saccade.layers.residual import StochasticDepth
from saccade.lens.faithfulness.pointing import cells_in
from saccade.lens.record import AttentionRecord, ImageSide, Side
from saccade.models import ImageClassifierConfig
from saccade.tasks._shared import images as all_images
from saccade.tasks.image_classification import ImageClassification
from saccade.training import recipe as recipes
from saccade.training import session
from saccade.training.console import Console
from tests.training.runs import outcome

SMALL = (
    "image.size=8",
    "model.dim=16",
    "model.patch_size=2",
    "model.encoder.num_layers=2",
    "model.encoder.num_heads=2",
    "model.encoder.hidden_dim=24",
    "model.encoder.stochastic_depth=0",
    "augment.crop=1",
)
RESNET = ("image.size=8", "model.widths=[4,6]", "model.blocks=1")


def write(folder: Path, count: int = 6, *, side: int = 10) -> Path:
    """Write dark and light grey squares, one folder per class."""
    chance = np.random.default_rng(count)
    for number in range(count):
        name, low = (("dark", 0), ("light", 130))[number % 2]
        (folder / name).mkdir(parents=True, exist_ok=True)
        pixels = chance.integers(low, low + 120, (side, side, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def split_of(folder: Path, task_or_options):
    columns = task_or_options.columns
    return sources.open_corpus(folder, columns, valid_fraction=0.0).splits["train"]


def build(folder: Path, *changes: str, recipe: str = "vit-tiny") -> ImageClassification:
    small = RESNET if recipe.startswith("cnn") else SMALL
    options = recipes.load(recipe, [*small, *changes]).options
    write(folder / "photos")
    torch.manual_seed(1)
    return options.create(split_of(folder / "photos", options)).eval()


def photos(folder: Path) -> list[str]:
    return sorted(map(str, (folder / "photos").rglob("*.png")))


def test_a_batch_holds_bytes_of_the_configured_size(tmp_path):
    task = build(tmp_path, "model.channels=3")
    [first, *_, last] = photos(tmp_path)
    batch = task.force([first, last], ["dark", "light"])
    assert batch.images.dtype == torch.uint8
    assert batch.images.shape == (2, 3, 8, 8)
    expected = resized(read_image(first), (8, 8))
    assert np.array_equal(batch.images[0].permute(1, 2, 0).numpy(), expected)
    assert batch.truth.tolist() == [0, 1]
    assert build(tmp_path).force([first], ["dark"]).images.shape == (1, 1, 8, 8)


def test_the_loss_equals_cross_entropy_and_evaluation_does_not_augment(tmp_path):
    task = build(tmp_path, "augment.colour=0.5", "augment.mixup=1")
    batch = task.force(photos(tmp_path)[:3], ["dark"] * 3)
    loss = task(batch)
    logits = task.model(task.pixels.read(batch.images))
    assert loss.count == 3
    torch.testing.assert_close(loss.total, -logits.log_softmax(-1)[:, 0].sum())
    assert torch.equal(loss.total, task(batch).total)


def test_augmentation_uses_torchs_generator(tmp_path):
    task = build(tmp_path, "augment.erase=0.5", "augment.randaugment=1").train()
    batch = task.force(photos(tmp_path), ["dark", "light"] * 3)
    losses = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        losses.append(task(batch).total.item())
    assert losses[0] == losses[1] != losses[2]


def test_mixed_images_have_the_mixed_loss_of_two_labels(tmp_path):
    changes = ("augment.mixup=1", "augment.flip=false", "augment.crop=0")
    task = build(tmp_path, *changes, "loss.label_smoothing=0").train()
    batch = task.force(photos(tmp_path), ["dark"] * 3 + ["light"] * 3)
    torch.manual_seed(3)
    loss = task(batch).total
    torch.manual_seed(3)
    images, partners, share = mix(batch.images, 1.0)
    logs = -task.logits(images).log_softmax(-1)
    own, other = (logs[torch.arange(6), truth] for truth in (batch.truth, batch.truth[partners]))
    torch.testing.assert_close(loss, (share * own + (1 - share) * other).sum())
    assert 0 < share < 1


def test_label_smoothing_applies_in_training_only(tmp_path):
    task = build(tmp_path, "loss.label_smoothing=0.5", "augment.flip=false", "augment.crop=0")
    batch = task.force(photos(tmp_path), ["dark"] * 6)
    plain = task(batch).total
    assert abs(task.train()(batch).total - plain) > 1e-4


def test_class_weights_apply_to_both_labels_of_mixed_images(tmp_path):
    changes = ("augment.mixup=1", "augment.flip=false", "augment.crop=0", "loss.focal_gamma=1")
    weights = ("loss.label_smoothing=0", "loss.class_weights={ dark = 3 }")
    task = build(tmp_path, *changes, *weights).train()
    assert task.class_weights.tolist() == pytest.approx([1.5, 0.5])
    batch = task.force(photos(tmp_path), ["dark"] * 3 + ["light"] * 3)
    torch.manual_seed(3)
    loss = task(batch).total
    torch.manual_seed(3)
    images, partners, fraction = mix(batch.images, 1.0)
    p = task.logits(images).softmax(-1)
    focal = -(1 - p) * p.log() * torch.tensor([1.5, 0.5])
    own, other = (focal[torch.arange(6), truth] for truth in (batch.truth, batch.truth[partners]))
    torch.testing.assert_close(loss, (fraction * own + (1 - fraction) * other).sum())


def test_an_input_may_be_a_path_an_image_or_an_array(tmp_path):
    task = build(tmp_path, "model.channels=3")
    [path, *_] = photos(tmp_path)
    image = read_image(path)
    array = np.array(image)
    inputs = [path, Path(path), image, array, array / 255, array.astype(np.float32) / 255]
    answers = task.predict(inputs, batch_size=4)
    for answer in answers:
        assert answer.probabilities == pytest.approx(answers[0].probabilities, abs=1e-6)
        assert sum(answer.probabilities.values()) == pytest.approx(1)
        assert answer.label == max(answer.probabilities, key=answer.probabilities.get)
    grey = np.array(image.convert("L"))
    assert len(task.predict([grey, grey[:, :, None], image.convert("RGBA")])) == 3
    assert task.parse("a b.jpg") == "a b.jpg"


def test_answers_do_not_depend_on_neighbours(tmp_path):
    for recipe in ("vit-tiny", "cnn-small"):
        task = build(tmp_path, recipe=recipe)
        together = task.predict(photos(tmp_path), batch_size=4)
        alone = [task.predict([path])[0] for path in photos(tmp_path)]
        for one, other in zip(together, alone, strict=True):
            assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("one.png", "put it into a list"),
        ([np.zeros((3, 4, 5), np.uint8)], r"shape \(height, width\) or .* got uint8 \(3, 4, 5\)"),
        ([np.zeros((4, 4), np.int32)], "array of bytes"),
        ([np.zeros((0, 4), np.uint8)], "array of bytes"),
        ([np.full((4, 4), 2.0)], "numbers from 0 to 1"),
        ([np.full((4, 4), np.nan)], "numbers from 0 to 1"),
    ],
)
def test_raises_on_invalid_inputs(tmp_path, given, message):
    with pytest.raises(DecodingError, match=message):
        build(tmp_path).predict(given)


def test_raises_on_invalid_options_and_files(tmp_path):
    task = build(tmp_path)
    with pytest.raises(DecodingError, match="batch_size must be at least 1"):
        task.predict(photos(tmp_path), batch_size=0)
    with pytest.raises(DecodingError, match="'beam' is not an option"):
        task.predict(photos(tmp_path), beam=2)
    with pytest.raises(DecodingError, match=r"input 7 must be the path of an image, .* got int"):
        all_images.as_image(3, 7)
    (tmp_path / "no.png").write_text("no image")
    with pytest.raises(DataError, match=r"no\.png is not an image"):
        task.predict([tmp_path / "no.png"])
    with pytest.raises(DataError, match="'purple' was not in the training data: dark, light"):
        task.force(photos(tmp_path)[:1], ["purple"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.patch_size=3", "images of 8 x 8 pixels .* patches of 3"),
        ("model.channels=2", "channels can be 1 .* or 3"),
        ("model.encoder.position.grid=[4,3]", r"position.grid is \[4, 3\], .* 4 x 4 cells"),
        (
            "model.encoder.position.kind=complex",
            '"complex" works on text only; for images use none',
        ),
        ("model.kind=cnn", "model.kind cannot be 'cnn'; it can be: vit, resnet"),
        ("image.how=stretch", "image.how cannot be 'stretch'"),
    ],
)
def test_raises_on_invalid_recipes(change, message):
    with pytest.raises(RecipeError, match=message):
        recipes.load("vit-tiny", [*SMALL, change])


def test_images_are_decoded_once(tmp_path, monkeypatch):
    task = build(tmp_path)
    split = split_of(tmp_path / "photos", task)
    valid = sources.open_corpus(
        tmp_path / "photos", task.columns, valid_fraction=0.0, required=("valid",)
    ).splits["valid"]
    examples = task.encode(split, tmp_path / "cache")
    task.encode(valid, tmp_path / "cache")
    plain = task.predict(photos(tmp_path))
    monkeypatch.setattr(all_images, "read_image", None)
    again = task.encode(split, tmp_path / "cache")
    assert task.predict(photos(tmp_path)) == plain
    monkeypatch.undo()
    assert task.sizes(again).tolist() == [[16]] * 6
    for result in (examples, again):
        batch = task.collate(result, np.array([5, 0]))
        forced = task.force([photos(tmp_path)[5], photos(tmp_path)[0]], ["light", "dark"])
        assert torch.equal(batch.images, forced.images)
        assert torch.equal(batch.truth, forced.truth)
    other = build(tmp_path, "image.how=crop")
    assert other.gallery.view.key != task.gallery.view.key


def test_raises_on_broken_images_with_their_names(tmp_path):
    task = build(tmp_path)
    Path(photos(tmp_path)[2]).write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    with pytest.raises(DataError, match=r"dark.4\.png begins like PNG"):
        task.encode(split_of(tmp_path / "photos", task), tmp_path / "cache")


def test_pixels_are_scaled_by_the_training_data(tmp_path):
    task = build(tmp_path, "image.scale=data", "model.channels=3")
    images = task.gallery.arrays(photos(tmp_path))
    read = task.pixels.read(images)
    torch.testing.assert_close(read.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(read.std((0, 2, 3), correction=0), torch.ones(3))
    half = build(tmp_path, "image.scale=half").pixels.read(torch.tensor([[[[0, 255]]]]).byte())
    assert half.flatten().tolist() == [-1, 1]


def test_a_task_is_restored_from_its_files(tmp_path):
    task = build(tmp_path, "image.scale=data")
    task.temperature = 1.5
    (tmp_path / "run").mkdir()
    for name, content in task.files().items():
        (tmp_path / "run" / name).write_text(content)
    again = task.config.restore(tmp_path / "run").eval()
    again.model.load_state_dict(task.model.state_dict())
    assert again.temperature == 1.5
    assert again.predict(photos(tmp_path)) == task.predict(photos(tmp_path))
    (tmp_path / "run" / all_images.IMAGE_FILE).write_text("{")
    with pytest.raises(RunError, match=r"images\.json cannot be read"):
        task.config.restore(tmp_path / "run")


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_attention_records_cover_the_patches(tmp_path, pooling):
    task = build(tmp_path, f"model.pooling={pooling}")
    [answer] = task.predict(photos(tmp_path)[:1], attention=True)
    record = answer.attention
    assert record.layers == tuple(f"encoder.layers.{i}.self_attention" for i in range(2))
    assert record.read.grid == (4, 4)
    assert record.read.class_token == (pooling == "first")
    assert record.read.pixels.shape == (10, 10, 3)
    tokens = 16 + (pooling == "first")
    for weights in record.weights.values():
        assert weights.shape == (2, tokens, tokens)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    batch = task.force(photos(tmp_path)[:1], ["dark"])
    with torch.no_grad(), watch(task.model) as seen:
        task(batch)
    name = record.layers[1]
    np.testing.assert_allclose(record.weights[name], seen[name].weights[0].numpy(), atol=1e-6)


def test_a_cropped_image_is_shown_as_it_was_read(tmp_path):
    task = build(tmp_path, "image.how=crop")
    wide = Image.new("RGB", (40, 10), "red")
    assert task.predict([wide], attention=True)[0].attention.read.pixels.shape == (8, 8, 3)
    large = Image.new("RGB", (2000, 1000))
    squash = build(tmp_path).predict([large], attention=True)[0].attention
    assert squash.read.pixels.shape == (256, 512, 3)


def test_raises_on_attention_of_a_convolution(tmp_path):
    task = build(tmp_path, recipe="cnn-small")
    assert task.sizes(task.encode(split_of(tmp_path / "photos", task), tmp_path))[0] == [16]
    with pytest.raises(WatchError, match="no attention"):
        task.predict(photos(tmp_path)[:1], attention=True)


def test_records_of_a_pooled_classifier_name_its_queries(tmp_path):
    """A CNN that focuses on a part of the image: queries over the cells of its grid (C1)."""
    task = build(tmp_path, "model.attention_pooling.queries=2", recipe="cnn-attention")
    [answer] = task.predict(photos(tmp_path)[:1], attention=True)
    record = answer.attention
    assert record.layers == ("pooling",)
    assert record.wrote.words == ("query 1", "query 2")
    assert record.read.grid == task.grid == (2, 2)
    np.testing.assert_allclose(record.weights["pooling"].sum(-1), 1, atol=1e-5)
    with watch(task.model) as seen:
        task(task.force(photos(tmp_path)[:1], ["dark"]))
    weights = seen["pooling"].weights[0].numpy()
    np.testing.assert_allclose(record.weights["pooling"], weights, atol=1e-6)
    page = record.to_html()
    assert "query 2" in page
    assert record.figure().numbers
    saved = AttentionRecord.from_json(record.to_json())
    assert saved.wrote.words == record.wrote.words


def test_the_patches_of_a_transformer_can_be_pooled_by_attention(tmp_path):
    task = build(tmp_path, "model.pooling=attention")
    [answer] = task.predict(photos(tmp_path)[:1], attention=True)
    assert answer.attention.layers == ("pooling",)
    assert answer.attention.wrote.words == ("query",)
    assert not answer.attention.read.class_token


@pytest.mark.parametrize("recipe", ["cnn-attention", "vit-tiny", "cnn-small"])
def test_classifiers_with_attention_play_the_pointing_game(recipe, monkeypatch):
    """The label of a scene with a red circle is asked where the circle is (S0; C3)."""
    small = RESNET if recipe.startswith("cnn") else SMALL
    options = recipes.load(recipe, [*small, "image.size=16", "model.channels=3"]).options
    corpus = sources.open_corpus("builtin:red_circle", options.columns)
    task = options.create(corpus.splits["test"]).eval()
    items = list(task.items(corpus.splits["test"]))[:8]
    boxes = {item.inputs[0]: builtin.boxes(item.inputs[0]) for item in items}
    evaluation = task.evaluate(items)
    if recipe == "cnn-small":
        assert "pointing" not in evaluation.scores
        return
    assert 0 < sum(map(bool, boxes.values())) < len(items)
    assert "chance:" in evaluation.scores["pointing"].signature
    assert evaluation.tables["The pointing game"][0]["objects"] == sum(map(bool, boxes.values()))
    assert "pointing" not in task.evaluate(items, quick=True).scores

    def knowing(examples, answers):
        records = []
        for example in examples:
            [(_, box)] = boxes[example.picture]
            inside = cells_in(box, task.grid, (64, 64)).astype(float)
            image = ImageSide(np.zeros((16, 16), np.uint8), task.grid)
            maps = {"pooling": inside[None, None]}
            records.append(AttentionRecord(image, Side.of_words(["query"]), maps))
        return records

    monkeypatch.setattr(task, "look", knowing)
    scores = task.evaluate(items).scores
    hittable = [
        cells_in(box, task.grid, (64, 64)).any() for [(_, box)] in filter(None, boxes.values())
    ]
    assert scores["pointing"].value == pytest.approx(np.mean(hittable))


@pytest.mark.parametrize("stem", ["linear", "convolutional"])
@pytest.mark.parametrize(
    "kind", ["none", "sinusoidal", "learned", "relative_2d", "rotary", "conditional"]
)
def test_every_family_of_positions_reads_patches_G6_G9(kind, stem):
    changes = [f"model.encoder.position.kind={kind}", f"model.stem={stem}"]
    options = recipes.load("vit-tiny", [*SMALL, *changes]).options.model.sized(8)
    model = options.build(3).eval()
    small, large = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 12, 12)
    assert model(small).shape == (2, 3)
    if kind not in ("learned", "relative_2d"):
        assert model(large).shape == (2, 3)
    if kind == "relative_2d":
        position = replace(options.encoder.position, grid=(6, 6))
        wide = replace(options, encoder=replace(options.encoder, position=position)).build(3)
        assert wide(large).shape == wide(small).shape


def test_raises_on_learned_positions_without_a_grid():
    with pytest.raises(PositionError, match=r"build it with length=\(height, width\)"):
        ImageClassifierConfig().build(3)(torch.randn(1, 3, 32, 32))


def test_overlapping_patches_need_a_power_of_two(tmp_path):
    with pytest.raises(ShapeError, match="patches of 2, 4, 8"):
        build(tmp_path, "image.size=9", "model.patch_size=3")


def test_stochastic_depth_grows_with_depth_and_drops_complete_examples():
    options = recipes.load("vit-tiny", [*SMALL[:-2], "model.encoder.stochastic_depth=0.4"]).options
    model = options.model.sized(8).build(3)
    chances = [part.p for part in model.modules() if isinstance(part, StochasticDepth)]
    assert chances == pytest.approx([0.2, 0.2, 0.4, 0.4])
    part = StochasticDepth(0.4).train()
    x = part(torch.ones(2000, 3, 2))
    whole = x.flatten(1)
    assert ((whole == 0).all(1) | torch.isclose(whole, torch.tensor(1 / 0.6)).all(1)).all()
    assert 0.35 < (whole[:, 0] == 0).float().mean() < 0.45
    assert torch.equal(part.eval()(x), x)
    with pytest.raises(ShapeError, match="a fraction from 0"):
        StochasticDepth(1.0)


def test_predicts_several_labels_per_image(tmp_path):
    write(tmp_path / "photos")
    table = tmp_path / "table.tsv"
    names = [Path(path).relative_to(tmp_path) for path in photos(tmp_path)]
    labels = ["a,b", "a", "", "b", "a", "b"]
    lines = [f"{name}\t{label}" for name, label in zip(names, labels, strict=True)]
    table.write_text("\n".join(["file\tlabel", *lines]) + "\n")
    changes = ("labels.kind=several", 'metrics.names=["micro_f1"]', "augment.mixup=0.3")
    options = recipes.load("vit-tiny", [*SMALL, *changes]).options
    split = split_of(table, options)
    task = options.create(split)
    examples = task.encode(split, tmp_path / "cache")
    assert len(examples) == 6
    assert torch.isfinite(task(task.collate(examples, range(6))).total)
    assert task.evaluate(task.items(split)).values().keys() == {"micro_f1"}


CHANGES = (
    *SMALL[:2],
    "model.dim=32",
    "model.patch_size=2",
    "model.stem=linear",
    "model.encoder.num_layers=2",
    "model.encoder.hidden_dim=64",
    "augment.flip=false",
    "augment.crop=0",
    "training.batch_tokens=1024",
    "training.learning_rate=5e-3",
    "training.optim.warmup=10",
    "training.validate_every=100",
    "training.validate_items=50",
    "training.average.kind=none",
)


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> tuple[Path, ImageClassification]:
    """A run on the built-in digits, of some seconds."""
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("digits")
    task = session.train(
        "vit-tiny",
        data="builtin:digits",
        out=folder / "run",
        changes=CHANGES,
        max_steps=200,
        cache=folder / "cache",
        console=Console(quiet=True),
    )
    return folder / "run", task


def test_digits_are_learned_I5(digits):
    folder, task = digits
    evaluation = session.assess(session.load(folder), data="builtin:digits")
    assert evaluation.scores["accuracy"].value > 0.8
    assert evaluation.scores["expected_calibration_error"].value < 0.15
    assert evaluation.by_length == []
    assert set(evaluation.tables) == {
        "Precision and recall",
        "Confusions",
        "The most confident mistakes",
    }
    assert task.temperature != 1.0
    assert "Confusions" in (folder / "report.html").read_text()


def test_the_command_line_takes_paths_of_images(digits, tmp_path, capsys, monkeypatch):
    folder, task = digits
    photo = tmp_path / "a digit.png"
    read_image("builtin:digits/0").resize((80, 80)).save(photo)
    command = ["predict", folder, photo, "--json", "--attention", tmp_path / "a.json"]
    monkeypatch.setattr(sys, "argv", ["saccade", *map(str, command)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    table = json.loads(capsys.readouterr().out)
    assert table["input"] == str(photo)
    assert table["label"] == task.predict([photo])[0].label
    assert json.loads((tmp_path / "a.json").read_text())["read"]["grid"] == [4, 4]


def test_a_resumed_training_is_identical(tmp_path):
    write(tmp_path / "photos", 24)
    changes = (
        *SMALL,
        "augment.mixup=0.5",
        "augment.erase=0.2",
        "model.encoder.stochastic_depth=0.2",
        "training.batch_tokens=96",
        "training.validate_every=3",
        "training.checkpoint_every=2",
        "training.optim.schedule=constant",
    )

    def train(out: str, steps: int, *, resume: bool = False) -> None:
        session.train(
            "vit-tiny",
            data=tmp_path / "photos",
            out=tmp_path / out,
            changes=changes,
            max_steps=steps,
            resume=resume,
            cache=tmp_path / "cache",
            console=Console(quiet=True),
        )

    train("whole", 6)
    train("halves", 3)
    train("halves", 6, resume=True)
    assert outcome(tmp_path / "halves")["files"] == outcome(tmp_path / "whole")["files"]
