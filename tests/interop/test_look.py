"""Tests of look: records of models of transformers, with words, continuations and patches."""

import json
import shutil
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from typer.testing import CliRunner

import saccade
from saccade.cli import app
from saccade.errors import InteropError, WatchError, WeightsError
from saccade.interop.look import read_model
from saccade.lens.record import AttentionRecord
from tests.interop.test_watch import BART, BERT, CLIP, GPT2, IMAGE, T5, WHISPER

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "two",
    "men",
    "are",
    "talk",
    "##ing",
    "a",
    "dog",
    "runs",
    ".",
    "house",
]


def word_piece():
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        eos_token="[SEP]",
    )


def image_processor(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = transformers.models.vit.image_processing_pil_vit.ViTImageProcessorPil
        return kind(size={"height": 8, "width": 8}, **options)


@pytest.fixture(scope="module")
def tokenizer():
    return word_piece()


@pytest.fixture(scope="module")
def bert():
    return transformers.BertModel(transformers.BertConfig(**BERT))


def test_an_encoder_gives_the_self_attention_of_its_text(bert, tokenizer):
    bert.train()
    (record,) = saccade.look(bert, tokenizer, ["Two men are talking."])
    assert bert.training
    assert record.reads_itself
    assert record.read.tokens == ("[CLS]", "Two", "men", "are", "talk", "ing", ".", "[SEP]")
    assert record.read.words == ("Two", "men", "are", "talking.")
    assert record.read.word_of == (None, 0, 1, 2, 3, 3, 3, None)
    assert record.layers == tuple(f"encoder.layer.{i}.attention.self" for i in range(2))
    bert.eval()
    with torch.no_grad(), saccade.watch(bert) as seen:
        bert(**tokenizer("Two men are talking.", return_tensors="pt"))
    for name in record.layers:
        np.testing.assert_allclose(record.weights[name], seen[name].weights[0], atol=1e-6)


def test_a_pair_of_texts_has_the_words_of_both(bert, tokenizer):
    (record,) = saccade.look(bert, tokenizer, [("a dog", "runs")], layers="encoder.layer.1.*")
    assert record.read.tokens == ("[CLS]", "a", "dog", "[SEP]", "runs", "[SEP]")
    assert record.read.words == ("a", "dog", "runs")
    assert record.read.word_of == (None, 0, 1, None, 2, None)
    assert record.layers == ("encoder.layer.1.attention.self",)


def test_layers_that_share_their_weights_are_numbered(tokenizer):
    config = transformers.AlbertConfig(**{**BERT, "embedding_size": 8})
    (record,) = saccade.look(transformers.AlbertModel(config), tokenizer, ["a dog"])
    assert [name.rpartition("#")[2] for name in record.layers] == ["1", "2"]


def test_a_decoder_gives_the_attention_of_text_and_continuation(tokenizer):
    config = transformers.GPT2Config(**{**GPT2, "vocab_size": len(WORDS), "eos_token_id": None})
    model = transformers.GPT2LMHeadModel(config)
    tokenizer = word_piece()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", special_tokens=[]
    )
    record, short = (
        saccade.look(model, tokenizer, ["a dog"], max_new_tokens=count)[0] for count in (3, 0)
    )
    assert len(record.read.tokens) == 5
    assert record.read.tokens[:2] == ("a", "dog")
    assert short.read.tokens == ("a", "dog")
    for name in record.layers:
        assert np.triu(record.weights[name], 1).sum() == 0
        np.testing.assert_allclose(record.weights[name][:, :2, :2], short.weights[name], atol=1e-6)


@pytest.mark.parametrize("source", ["a dog", "two men are talking. a dog runs"])
@pytest.mark.parametrize("kind", ["Marian", "T5"])
def test_a_translator_gives_its_cross_attention(kind, source, tokenizer):
    torch.manual_seed(0)
    if kind == "Marian":
        config = transformers.MarianConfig(**{**BART, "vocab_size": len(WORDS)})
        model = transformers.MarianMTModel(config)
    else:
        config = transformers.T5Config(**{**T5, "vocab_size": len(WORDS), "eos_token_id": 3})
        model = transformers.T5ForConditionalGeneration(config)
    (record,) = saccade.look(model, tokenizer, [source], max_new_tokens=4)
    assert not record.reads_itself
    assert len(record.layers) == 2
    assert all(
        "crosstt" not in name and ("encoder_attn" in name or "EncDec" in name)
        for name in record.layers
    )
    assert record.read.words == tuple(source.split())
    inputs = tokenizer(source, return_tensors="pt")
    written = model.eval().generate(**inputs, max_new_tokens=4, num_beams=1, do_sample=False)
    assert len(record.wrote.tokens) == written.shape[1] - 1
    with torch.no_grad(), saccade.watch(model) as seen:
        model(**inputs, decoder_input_ids=written[:, :-1])
    for name in record.layers:
        np.testing.assert_allclose(record.weights[name], seen[name].weights[0], atol=1e-6)


@pytest.mark.parametrize(("kind", "extra"), [("ViT", 1), ("DeiT", 2)])
def test_an_image_model_gives_the_attention_of_its_patches(kind, extra):
    config = getattr(transformers, f"{kind}Config")(**IMAGE)
    model = getattr(transformers, f"{kind}Model")(config).eval()
    pixels = np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    processor = image_processor(image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.3, 0.4])
    array, image = saccade.look(model, processor, [pixels, Image.fromarray(pixels)])
    assert (array.read.grid, array.read.class_token) == ((2, 2), True)
    assert np.array_equal(array.read.pixels, pixels)
    assert np.array_equal(image.read.pixels, pixels)
    with torch.no_grad(), saccade.watch(model) as seen:
        model(**processor(images=pixels, return_tensors="pt"))
    kept = [0, *range(extra, extra + 4)]
    for name in array.layers:
        expected = seen[name].weights[0][:, kept][:, :, kept]
        np.testing.assert_allclose(array.weights[name], expected, atol=1e-6)


def test_a_captioner_gives_the_attention_of_words_to_patches(tokenizer):
    torch.manual_seed(0)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        transformers.ViTConfig(**IMAGE),
        transformers.GPT2Config(**{**GPT2, "vocab_size": len(WORDS)}, add_cross_attention=True),
        decoder_start_token_id=2,
        pad_token_id=0,
    )
    model = transformers.VisionEncoderDecoderModel(config)
    processor = SimpleNamespace(tokenizer=tokenizer, image_processor=image_processor())
    for count in (3, 5):  # 5 is also the number of tokens of the image
        model.generation_config.min_new_tokens = count
        (record,) = saccade.look(
            model, processor, [Image.new("RGB", (8, 8), "blue")], max_new_tokens=count
        )
        assert len(record.wrote.tokens) == count
        assert (record.read.grid, record.read.class_token) == ((2, 2), True)
        assert record.layers == tuple(f"decoder.transformer.h.{i}.crossattention" for i in (0, 1))
        np.testing.assert_allclose(record.weights[record.layers[0]].sum(-1), 1, atol=1e-5)


def test_a_model_of_texts_and_images_looks_with_the_right_encoder(tokenizer):
    model = transformers.CLIPModel(transformers.CLIPConfig(**CLIP))
    processor = SimpleNamespace(tokenizer=tokenizer, image_processor=image_processor())
    text, image = saccade.look(model, processor, ["a dog", Image.new("RGB", (9, 7), "red")])
    assert text.layers[0] == "text_model.encoder.layers.0.self_attn"
    assert image.layers[0] == "vision_model.encoder.layers.0.self_attn"


def test_raises_on_inputs_that_the_processor_cannot_read(bert, tokenizer):
    with pytest.raises(InteropError, match="ViTImageProcessorPil does not read texts such as 'a'"):
        saccade.look(bert, image_processor(), ["a"])
    with pytest.raises(InteropError, match="does not read images"):
        saccade.look(bert, tokenizer, [Image.new("RGB", (8, 8))])
    whisper = transformers.WhisperModel(transformers.WhisperConfig(**{**BART, **WHISPER}))
    with pytest.raises(InteropError, match="WhisperModel reads input_features, neither texts nor"):
        saccade.look(whisper, tokenizer, ["a dog"])
    with pytest.raises(InteropError, match="put it into a list"):
        saccade.look(bert, tokenizer, "a dog")
    with pytest.raises(InteropError, match="BartModel cannot generate a text; load the class"):
        saccade.look(transformers.BartModel(transformers.BartConfig(**BART)), tokenizer, ["a dog"])
    with pytest.raises(WatchError, match="no attention matches 'nothing'"):
        saccade.look(bert, tokenizer, ["a dog"], layers="nothing")


@pytest.fixture(scope="module")
def bert_folder(bert, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    bert.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_the_command_writes_page_figure_and_json(bert_folder, bert, tokenizer, tmp_path):
    text = "Two men are talking."
    for suffix in ("html", "png", "json"):
        out = tmp_path / f"look.{suffix}"
        result = CliRunner().invoke(
            app, ["look", str(bert_folder), text, "a dog", "--out", str(out)]
        )
        assert result.exit_code == 0, result.output
        assert out.stat().st_size > 1000
        assert f"wrote {out}" in result.output
    assert (tmp_path / "look-2.png").exists()
    record = AttentionRecord.load(tmp_path / "look.json")
    (expected,) = saccade.look(bert, tokenizer, [text])
    assert record.read == expected.read
    np.testing.assert_allclose(record.mean(), expected.mean(), atol=1e-4)


def test_no_pickle_is_read_and_no_code_of_the_folder_is_run(bert_folder, tmp_path):
    pickled = tmp_path / "pickled"
    shutil.copytree(bert_folder, pickled)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(WeightsError, match="a pickle"):
        read_model(pickled)
    custom = tmp_path / "custom"
    shutil.copytree(bert_folder, custom)
    config = json.loads((custom / "config.json").read_text())
    config |= {
        "model_type": "made_up",
        "architectures": ["MadeUp"],
        "auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"},
        "attn_implementation": "kernels-community/evil",
    }
    (custom / "config.json").write_text(json.dumps(config))
    (custom / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(InteropError, match="transformers cannot read"):
        read_model(custom)
    assert not (tmp_path / "ran").exists()
    with pytest.raises(InteropError, match=r"no config\.json"):
        read_model(tmp_path)
