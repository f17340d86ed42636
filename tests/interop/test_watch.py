"""Tests of watch on models of transformers: equal to the attentions that they give themselves."""

import warnings

import pytest
import torch
import transformers

import saccade

TEXT = {"vocab_size": 40, "pad_token_id": 0, "max_position_embeddings": 32}
BERT = {
    **TEXT,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
}
LLAMA = {**BERT, "num_key_value_heads": 2}
BART = {
    **TEXT,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "decoder_start_token_id": 2,
    "eos_token_id": 2,
    "bos_token_id": 1,
    "forced_eos_token_id": None,
}
IMAGE = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "image_size": 8,
    "patch_size": 4,
}
T5 = {
    "vocab_size": 40,
    "d_model": 16,
    "d_kv": 4,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
END = {"bos_token_id": 1, "eos_token_id": 2}
SHORT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
GPT2 = {"vocab_size": 40, "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 4, **END}
DISTILBERT = {**TEXT, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24}
DEBERTA = {**BERT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
LOCAL = {"global_attn_every_n_layers": 2, "local_attention": 4, "cls_token_id": 1}
WHISPER = {"num_mel_bins": 4, "max_source_positions": 6, "max_target_positions": 32}
CAPPED = {"head_dim": 4, "sliding_window": 3, "attn_logit_softcapping": 2.0}
CLIP = {
    "text_config": {**BERT, "projection_dim": 8},
    "vision_config": {**IMAGE, "projection_dim": 8},
    "projection_dim": 8,
}
MODELS = {
    "Bert": (BERT, "text"),
    "Bert as a decoder": ({**BERT, "is_decoder": True}, "text"),
    "Roberta": (BERT, "text"),
    "XLMRoberta": (BERT, "text"),
    "Electra": ({**BERT, "embedding_size": 16}, "text"),
    "Albert": ({**BERT, "embedding_size": 8}, "text"),
    "DistilBert": (DISTILBERT, "text"),
    "DebertaV2": (DEBERTA, "text"),  # eager only
    "ModernBert": ({**BERT, **LOCAL, **END, "sep_token_id": 2}, "text"),
    "GPT2": (GPT2, "text"),
    "GPTNeoX": ({**BERT, **END}, "text"),
    "OPT": ({**TEXT, **SHORT, **END, "ffn_dim": 24, "word_embed_proj_dim": 16}, "text"),
    "Llama": (LLAMA, "text"),
    "Mistral": ({**LLAMA, "head_dim": 4, "sliding_window": 3}, "text"),
    "Qwen2": (LLAMA, "text"),
    "Qwen3": ({**LLAMA, "head_dim": 4}, "text"),
    "Gemma2": ({**LLAMA, **CAPPED}, "text"),  # eager only, because of its soft cap
    "T5": (T5, "texts"),
    "Bart": (BART, "texts"),
    "Marian": (BART, "texts"),
    "ViT": (IMAGE, "image"),
    "DeiT": (IMAGE, "image"),
    "CLIP": (CLIP, "both"),
    "Whisper": ({**BART, **WHISPER}, "sound"),
}


def theirs(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some use torch.jit
        return getattr(transformers, name)


def build(name, implementation="sdpa", *, scale=1, dtype=torch.float32):
    """Return a random model with its matrices times `scale`: 8 is far from uniform attention."""
    options, kind = MODELS[name]
    name = name.partition(" ")[0]
    if name in ("DebertaV2", "Gemma2"):
        implementation = "eager"
    torch.manual_seed(0)
    config = theirs(f"{name}Config")(**options, attn_implementation=implementation)
    model = theirs(f"{name}Model")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(scale)
    return model.eval().to(dtype), kind


def inputs_of(kind):
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, 40, (2, 6), generator=generator)
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    texts = {"input_ids": tokens, "attention_mask": mask}
    pixels = {"pixel_values": torch.randn(2, 3, 8, 8, generator=generator)}
    decoded = {"decoder_input_ids": tokens[:, :4]}
    return {
        "text": texts,
        "texts": {**texts, **decoded},
        "image": pixels,
        "both": {**texts, **pixels},
        "sound": {"input_features": torch.randn(2, 4, 12, generator=generator), **decoded},
    }[kind]


def attentions_of(output):
    """Return all attentions that an output holds, by their kind."""
    kinds = {}
    for key, value in output.items():
        if "attentions" in key and value:
            kinds[key] = list(value)
        elif key.endswith("_model_output"):
            kinds[key] = list(value.attentions)
    return kinds


def kind_of(name, kinds):
    """Return the kind of attention that the module with this name has."""
    if len(kinds) == 1:
        return next(iter(kinds))
    if "text_model_output" in kinds:
        return "text_model_output" if name.startswith("text") else "vision_model_output"
    if "encoder_attn" in name or "EncDec" in name:
        return "cross_attentions"
    return f"{name.partition('.')[0]}_attentions"


@pytest.mark.parametrize(("scale", "dtype"), [(1, torch.float32), (8, torch.float64)])
@pytest.mark.parametrize("name", MODELS)
def test_weights_equal_the_attentions_of_the_eager_model(name, scale, dtype):
    """Large weights amplify rounding between the two models, so they are compared in float64."""
    eager, kind = build(name, "eager", scale=scale, dtype=dtype)
    model, _ = build(name, scale=scale, dtype=dtype)
    inputs = {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs_of(kind).items()}
    with torch.no_grad():
        kinds = attentions_of(eager(**inputs, output_attentions=True))
        expected = model(**inputs)[0]
        with saccade.watch(model) as seen:
            output = model(**inputs)[0]
        with saccade.watch(eager) as seen_in_eager:
            eager(**inputs)
    assert torch.equal(output, expected)
    assert seen.unseen == []
    assert list(seen) == list(seen_in_eager)
    for layer, watched in seen.items():
        for one, twin in zip(watched.calls, seen_in_eager[layer].calls, strict=True):
            exact = kinds[kind_of(layer, kinds)].pop(0)  # in the order of the layers
            assert gap(one, exact, inputs) < 1e-6
            assert gap(twin, exact, inputs) < 1e-6
            assert scale == 1 or one.std() > 0.01
    assert not any(kinds.values())


def gap(one, other, inputs):
    """Return the largest difference; a padded query may attend to anything."""
    difference = (one - other).abs()
    mask = inputs.get("attention_mask")
    if mask is not None and mask.shape[1] == difference.shape[-2]:
        difference = difference * mask[:, None, :, None]
    return difference.max()


def test_names_are_those_of_the_modules():
    for name, expected in {
        "Bert": "encoder.layer.0.attention.self",
        "GPT2": "h.1.attn",
        "Llama": "layers.0.self_attn",
        "T5": "decoder.block.1.layer.1.EncDecAttention",
        "CLIP": "vision_model.encoder.layers.1.self_attn",
        "Marian": "decoder.layers.0.encoder_attn",
    }.items():
        model, kind = build(name)
        with saccade.watch(model) as seen, torch.no_grad():
            model(**inputs_of(kind))
        assert expected in seen
        model.get_submodule(expected)


def test_generation_with_a_cache_records_its_calls_in_order():
    config = transformers.LlamaConfig(**LLAMA, eos_token_id=None)
    model = transformers.LlamaForCausalLM(config).eval()
    tokens = torch.randint(3, 40, (1, 5))
    with saccade.watch(model, layers="*.1.self_attn") as seen:
        text = model.generate(tokens, max_new_tokens=4, do_sample=False)
    calls = seen["model.layers.1.self_attn"].calls
    assert [tuple(w.shape[2:]) for w in calls] == [(5, 5), (1, 6), (1, 7), (1, 8)]
    with saccade.watch(model, layers="*.1.self_attn") as whole, torch.no_grad():
        model(text[:, :-1])
    at_once = whole["model.layers.1.self_attn"].weights
    for row, weights in zip(range(5, 8), calls[1:], strict=True):
        torch.testing.assert_close(weights[:, :, 0], at_once[:, :, row, : row + 1])


def test_weights_during_training_are_those_before_dropout():
    options = {**BERT, "attention_probs_dropout_prob": 0.5}
    for implementation in ("eager", "sdpa"):
        model = transformers.BertModel(
            transformers.BertConfig(**options, attn_implementation=implementation)
        ).train()
        inputs = inputs_of("text")
        torch.manual_seed(1)
        expected = model(**inputs)[0]
        torch.manual_seed(1)
        with saccade.watch(model, detach=False) as seen:
            output = model(**inputs)[0]
        assert torch.equal(output, expected)
        weights = seen["encoder.layer.1.attention.self"].weights
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        assert weights.requires_grad


def test_other_kernels_of_transformers_are_switched_to_eager_and_back():
    model, kind = build("Bert")
    model.config._attn_implementation_internal = "flash_attention_2"
    with saccade.watch(model) as seen, torch.no_grad():
        assert model.config._attn_implementation == "eager"
        model(**inputs_of(kind))
    assert len(seen) == 2
    assert model.config._attn_implementation == "flash_attention_2"
    with pytest.raises(RuntimeError, match="on purpose"), saccade.watch(model):
        raise RuntimeError("on purpose")
    assert model.config._attn_implementation == "flash_attention_2"
