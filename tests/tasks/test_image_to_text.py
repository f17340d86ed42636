"""Captions: reading, training, predictions and attention."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

from saccade import watch
from saccade.data import sources
from saccade.encoders.efficientnet import EfficientNetLite0, _name_in_file
from saccade.errors import DataError, DecodingError, RecipeError, RunError, WatchError, WeightsError
from saccade.models import Captioner
from saccade.tasks._shared.images import Features
from saccade.tasks.image_to_text import ImageToText, unevenness
from saccade.training import recipe as recipes
from saccade.training import session
from saccade.training.console import Console
from tests.training.runs import outcome

COLOURS = ("red", "green", "blue", "white")
RESNET = (
    "image.size=16",
    "text.vocabulary.min_count=1",
    "model.dim=16",
    "model.encoder.kind=resnet",
    "model.encoder.widths=[6,8]",
    "model.encoder.blocks=1",
    "model.encoder.dim=12",
)
VIT = (
    "image.size=16",
    "text.vocabulary.min_count=1",
    "model.dim=16",
    "model.encoder.kind=vit",
    "model.encoder.dim=12",
    "model.encoder.patch_size=4",
    "model.encoder.encoder.num_layers=1",
    "model.encoder.encoder.num_heads=2",
    "model.encoder.encoder.hidden_dim=16",
)
FEATURES = ("image.size=40", "text.vocabulary.min_count=1", "model.dim=16", "model.encoder.dim=12")
WRITERS = {
    "caption-rnn": ("model.decoder.dim=16", "model.decoder.dropout=0.0"),
    "caption-attention": ("model.decoder.dim=16", "model.decoder.dropout=0.0"),
    "caption-transformer": (
        "model.decoder.num_layers=2",
        "model.decoder.num_heads=2",
        "model.decoder.hidden_dim=16",
        "model.decoder.dropout=0.0",
    ),
}


def write(folder: Path, count: int = 8) -> Path:
    """Halves of two colours, each with two captions."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["image\tcaption"]
    for number in range(count):
        left, right = COLOURS[number % 4], COLOURS[(number // 4 + number) % 4]
        image = Image.new("RGB", (20, 16), left)
        image.paste(right, (10, 0, 20, 16))
        image.save(folder / f"{number}.png")
        rows += [f"{number}.png\ta {left} half and a {right} half", f"{number}.png\t{left} {right}"]
    (folder / "captions.tsv").write_text("\n".join(rows) + "\n")
    return folder / "captions.tsv"


def build(folder: Path, *changes: str, recipe="caption-attention", reader=RESNET) -> ImageToText:
    options = recipes.load(recipe, [*reader, *WRITERS[recipe], *changes]).options
    table = write(folder / "photos")
    torch.manual_seed(1)
    return options.create(split_of(table, options)).eval()


def split_of(table: Path, options):
    return sources.open_corpus(table, options.columns, valid_fraction=0.0).splits["train"]


def photos(folder: Path) -> list[str]:
    return sorted(map(str, (folder / "photos").glob("*.png")))


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    """A file of weights as EfficientNet-Lite0 has them, but random."""
    path = tmp_path_factory.mktemp("weights") / "lite0.safetensors"
    torch.manual_seed(0)
    state = EfficientNetLite0().state_dict()
    kept = {_name_in_file(k): v for k, v in state.items() if not k.endswith("batches_tracked")}
    safetensors.torch.save_file(kept, path)
    return path


@pytest.mark.parametrize("recipe", WRITERS)
@pytest.mark.parametrize("reader", [RESNET, VIT])
def test_every_encoder_works_with_every_decoder(tmp_path, recipe, reader):
    task = build(tmp_path, recipe=recipe, reader=reader)
    texts = ["a red half", "blue", "a white half and a red half"]
    batch = task.force(photos(tmp_path)[:3], texts)
    assert batch.images.dtype == torch.uint8
    loss = task(batch)
    logits = task.model(task.view.read(batch.images), batch.target[:, :-1]).log_softmax(-1)
    assert loss.count == sum(len(task.target.encode(text)) + 1 for text in texts)
    expected = logits.gather(-1, batch.target[:, 1:, None])[..., 0]
    torch.testing.assert_close(loss.total, -expected[batch.target_mask[:, 1:]].sum())
    answers = task.predict(photos(tmp_path), max_length=5)
    assert len(answers) == 8
    alone = task.predict(photos(tmp_path)[3:4], max_length=5)[0]
    assert alone.text == answers[3].text
    assert alone.score == pytest.approx(answers[3].score, abs=1e-5)


def test_captions_take_the_options_of_generation(tmp_path):
    task = build(tmp_path)
    [best] = task.predict(photos(tmp_path)[:1], num_best=3, max_length=4)
    assert len(best.alternatives) == 2
    assert best.score >= best.alternatives[0].score
    drawn = [task.predict(photos(tmp_path)[:2], sample=True, seed=s, max_length=6) for s in (1, 1)]
    assert drawn[0] == drawn[1]
    second = task.predict(photos(tmp_path)[1:2], sample=True, seed=1, first=1, max_length=6)
    assert second[0].text == drawn[0][1].text
    with pytest.raises(DecodingError, match="'beams' is not an option"):
        task.predict(photos(tmp_path), beams=2)
    with pytest.raises(DecodingError, match="batch_size"):
        task.predict(photos(tmp_path), batch_size=0)
    with pytest.raises(DecodingError, match="put it into a list"):
        task.predict(photos(tmp_path)[0])


def test_captions_of_one_image_are_references_of_one_item(tmp_path):
    task = build(tmp_path)
    split = split_of(tmp_path / "photos" / "captions.tsv", task)
    items = list(task.items(split))
    assert len(items) == 8
    assert items[1].references == ("a green half and a green half", "green green")
    evaluation = task.evaluate(items, max_length=4, beam=1)
    assert list(evaluation.scores) == list(task.config.metrics.names)
    assert "nrefs:2" in evaluation.scores["bleu_4"].signature
    assert evaluation.by_length[0]["unit"] == "words"


def test_images_are_kept_once_and_captions_by_row(tmp_path):
    task = build(tmp_path)
    split = split_of(tmp_path / "photos" / "captions.tsv", task)
    examples = task.encode(split, tmp_path / "cache")
    assert len(examples) == 16
    assert len(examples.arrays) == 8
    sizes = task.sizes(examples)
    assert sizes[:, 0].tolist() == [64] * 16
    assert sizes[:2, 1].tolist() == [8, 3]
    batch = task.collate(examples, np.array([15, 2]))
    names = [photos(tmp_path)[7], photos(tmp_path)[1]]
    forced = task.force(names, ["white red", "a green half and a green half"])
    for name in ("images", "target", "target_mask", "places"):
        assert torch.equal(getattr(batch, name), getattr(forced, name))
    long = build(tmp_path, "text.max_length=4").encode(split, tmp_path / "cache")
    assert len(long) == 8
    assert long.skipped.too_long == 8


def test_unevenness_by_hand():
    looks = torch.tensor([[[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]]])
    written = torch.tensor([[True, True, False]])
    # cell 1: (1 - 1.25)² = 0.0625, cell 2: (1 - 0.75)² = 0.0625
    assert unevenness(looks, written).item() == pytest.approx(0.125)
    assert unevenness(looks, torch.zeros_like(written)).item() == 2


@pytest.mark.parametrize("recipe", ["caption-attention", "caption-transformer"])
def test_doubly_stochastic_attention_is_part_of_the_loss(tmp_path, recipe):
    plain = build(tmp_path, recipe=recipe).train()
    other = build(tmp_path, "loss.doubly_stochastic=0.5", recipe=recipe).train()
    other.model.load_state_dict(plain.model.state_dict())
    batch = plain.force(photos(tmp_path)[:2], ["red blue", "a white half"])
    for task in (plain, other):
        task.model.encoder.eval()
    result = other(batch)
    with torch.no_grad(), watch(plain.model, layers=plain.model.cross_attentions()) as seen:
        total = plain(batch).total
    looks = torch.stack([seen[name].weights.mean(1) for name in seen]).mean(0)
    uneven = ((1 - (looks * batch.target_mask[:, 1:, None]).sum(1)) ** 2).sum()
    torch.testing.assert_close(result.total, total + 0.5 * uneven)
    torch.testing.assert_close(result.metrics["unevenness"], uneven)
    torch.testing.assert_close(other.eval()(batch).total, plain.eval()(batch).total)
    names = [name for name, _ in other.model.named_parameters()]
    of_loss = torch.autograd.grad(result.total, other.model.parameters(), retain_graph=True)
    of_plain = torch.autograd.grad(plain.train()(batch).total, plain.model.parameters())
    assert any(
        not torch.allclose(one, two)
        for name, one, two in zip(names, of_loss, of_plain, strict=True)
        if "attend" in name or "cross" in name
    )


@pytest.mark.parametrize("recipe", ["caption-attention", "caption-transformer"])
def test_attention_records_are_words_over_cells_C3(tmp_path, recipe):
    task = build(tmp_path, recipe=recipe)
    [answer] = task.predict(photos(tmp_path)[:1], attention=True, max_length=6)
    record = answer.attention
    assert record.read.grid == (8, 8)
    assert record.read.pixels.shape == (16, 20, 3)
    assert len(record.layers) == (2 if recipe == "caption-transformer" else 1)
    assert " ".join(record.wrote.words) == answer.text
    for layer in record.weights.values():
        assert layer.shape[1:] == (len(record.wrote.tokens), 64)
        np.testing.assert_allclose(layer.sum(-1), 1, atol=1e-5)


def test_raises_on_attention_of_a_model_without_attention(tmp_path):
    task = build(tmp_path, recipe="caption-rnn")
    with pytest.raises(WatchError, match="no attention"):
        task.predict(photos(tmp_path)[:1], attention=True)
    with pytest.raises(RecipeError, match=r"loss\.doubly_stochastic = 1\.0: needs a decoder"):
        build(tmp_path, "loss.doubly_stochastic=1", recipe="caption-rnn")
    assert (
        task.point(list(task.items(split_of(tmp_path / "photos" / "captions.tsv", task)))) is None
    )


def test_attention_that_knows_the_boxes_always_points(monkeypatch):
    options = recipes.load(
        "caption-attention",
        [*RESNET, *WRITERS["caption-attention"], "image.size=64", "model.encoder.widths=[4,4,4,4]"],
    ).options
    corpus = sources.open_corpus("builtin:shapes", options.columns)
    task = options.create(corpus.splits["test"]).eval()
    items = list(task.items(corpus.splits["test"]))[:5]
    assert task.grid == (8, 8)
    played = task.point(items)
    assert played.count == sum(item.references[0].count(" a ") + 1 for item in items)
    assert 0 < played.chance < 0.3

    from saccade.data import builtin
    from saccade.lens.faithfulness.pointing import cells_in
    from saccade.lens.record import AttentionRecord, ImageSide, Side

    boxes = [builtin.boxes(item.inputs[0]) for item in items]

    image = ImageSide(np.zeros((64, 64), np.uint8), (8, 8))

    def knowing(inputs, captions):
        result = []
        for caption, of_image in zip(captions, boxes, strict=True):
            written = Side.of_words(caption.split())
            maps = np.zeros((1, len(written.words), 64))
            for word, box in of_image:
                maps[0, word, cells_in(box, (8, 8), (64, 64))] = 1
            result.append(AttentionRecord(image, written, {"decoder": maps}))
        return result

    monkeypatch.setattr(task, "records", knowing)
    assert task.point(items).rate == 1.0
    scores = task.evaluate(items, beam=1, max_length=3).scores
    assert scores["pointing"].value == 1.0
    assert "chance:" in scores["pointing"].signature
    assert "pointing" not in task.evaluate(items, quick=True, max_length=3).scores
    assert builtin.boxes("builtin:digits/3") == builtin.boxes("photo.jpg") == []


def test_features_are_computed_once_and_are_those_of_the_network_C1(tmp_path, weights, monkeypatch):
    change = f"model.encoder.weights={weights}"
    task = build(tmp_path, change, reader=FEATURES)
    split = split_of(tmp_path / "photos" / "captions.tsv", task)
    examples = task.encode(split, tmp_path / "cache")
    assert examples.arrays.shape == (1280, 2, 2)
    assert examples.arrays.dtype == "float16"
    live = task.force(photos(tmp_path)[:1], ["red"]).images
    assert torch.equal(task.collate(examples, [0]).images, live)
    network = EfficientNetLite0.load(weights)
    image = Image.open(photos(tmp_path)[0]).resize((40, 40), Image.Resampling.BICUBIC)
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float()
    with torch.no_grad():
        expected = network((pixels - 127) / 128)
    torch.testing.assert_close(live.float(), expected, atol=1e-2, rtol=1e-2)
    assert not any(".stem.network." in name for name, _ in task.named_parameters())
    monkeypatch.setattr(Features, "array", None)
    task.encode(split, tmp_path / "cache")
    assert torch.isfinite(task.train()(task.collate(examples, [0, 5])).total)


def test_a_run_remembers_the_weights_of_its_features(tmp_path, weights):
    task = build(tmp_path, f"model.encoder.weights={weights}", reader=FEATURES)
    (tmp_path / "run").mkdir()
    for name, content in task.files().items():
        (tmp_path / "run" / name).write_text(content)
    again = task.config.restore(tmp_path / "run").eval()
    again.model.load_state_dict(task.model.state_dict())
    inputs = photos(tmp_path)[:2]
    assert again.predict(inputs, max_length=4) == task.predict(inputs, max_length=4)
    facts = json.loads((tmp_path / "run" / "images.json").read_text())
    (tmp_path / "run" / "images.json").write_text(json.dumps({"weights": "0" + facts["weights"]}))
    with pytest.raises(RunError, match="is not the file that this run was trained with"):
        task.config.restore(tmp_path / "run").predict(inputs)


def test_pretrained_weights_can_be_fine_tuned(tmp_path, weights):
    changes = (f"model.encoder.weights={weights}", "model.encoder.fine_tune=true")
    task = build(tmp_path, *changes, reader=FEATURES)
    names = [name for name, _ in task.model.named_parameters() if ".network." in name]
    expected = EfficientNetLite0.load(weights).stem.conv.weight
    assert torch.equal(task.model.encoder.stem.network.stem.conv.weight, expected)
    assert names
    batch = task.force(photos(tmp_path)[:2], ["red", "blue"])
    assert batch.images.dtype == torch.uint8
    frozen = build(tmp_path, changes[0], reader=FEATURES)
    frozen.model.load_state_dict(task.model.state_dict(), strict=False)
    features = frozen.force(photos(tmp_path)[:2], ["red", "blue"])
    torch.testing.assert_close(frozen(features).total, task(batch).total, atol=1e-2, rtol=1e-3)
    (tmp_path / "run").mkdir()
    for name, content in task.files().items():
        (tmp_path / "run" / name).write_text(content)
    options = recipes.load(
        "caption-attention",
        [*FEATURES, *WRITERS["caption-attention"], *changes, "model.encoder.weights=gone.st"],
    ).options
    assert isinstance(options.restore(tmp_path / "run").model, Captioner)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ("model.encoder.weights=", RecipeError, "weights is missing: give the path"),
        ("model.encoder.weights=nowhere.st", WeightsError, r"nowhere\.st .* does not exist"),
        ("augment.flip=true", RecipeError, "features that are computed once"),
        ("augment.mixup=0.5", RecipeError, "captions cannot be mixed"),
        ("image.scale=data", RecipeError, "does not fit EfficientNet"),
        ("model.encoder.position.kind=rotary", RecipeError, "does not work on the cells"),
        ("model.encoder.kind=vgg", RecipeError, "it can be: resnet, vit, efficientnet"),
    ],
)
def test_raises_on_invalid_recipes(tmp_path, change, error, message):
    with pytest.raises(error, match=message):
        build(tmp_path, change, reader=FEATURES)


def test_raises_on_a_missing_image_with_its_name(tmp_path):
    task = build(tmp_path)
    table = tmp_path / "photos" / "captions.tsv"
    table.write_text("image\tcaption\n0.png\tred\n77.png\tblue\n")
    with pytest.raises(DataError, match=r":3: the image \"77\.png\" is not in"):
        task.encode(split_of(table, task), tmp_path / "cache")


def test_learns_and_resumes_identically(tmp_path):
    """A captioner learns (I7)."""
    table = write(tmp_path / "photos", 16)

    def train(out: str, steps: int, *, resume: bool = False) -> ImageToText:
        return session.train(
            "caption-attention",
            data=table,
            out=tmp_path / out,
            changes=[
                *RESNET,
                *WRITERS["caption-attention"],
                "text.max_length=4",
                "model.dim=32",
                "model.encoder.widths=[8,16]",
                "model.decoder.dim=32",
                "augment.crop=1",
                "loss.doubly_stochastic=0.1",
                "loss.label_smoothing=0",
                'metrics.names=["exact_match"]',
                "training.batch_tokens=600",
                "training.learning_rate=1e-2",
                "training.optim.schedule=constant",
                "training.optim.warmup=5",
                "training.validate_every=40",
                "training.checkpoint_every=20",
                "training.average.kind=none",
            ],
            max_steps=steps,
            resume=resume,
            cache=tmp_path / "cache",
            console=Console(quiet=True),
        )

    task = train("whole", 80)
    train("halves", 40)
    train("halves", 80, resume=True)
    assert outcome(tmp_path / "halves")["files"] == outcome(tmp_path / "whole")["files"]
    scores = session.evaluate(task, data=table, split="train", beam=1)
    assert scores["exact_match"] > 0.6
