"""Tests of models: shapes, parity with torch, generation (B1 to B8, C1 to C3, H3)."""

import pytest
import torch
from torch import nn

import saccade
from saccade.config import kinds
from saccade.decoders.recurrent import RecurrentDecoderConfig
from saccade.decoders.transformer import TransformerDecoderConfig
from saccade.decoding import GenerationLimits, beam_search, greedy, sample
from saccade.encoders.convolutional import GridEncoder, ResNet, ResNetConfig
from saccade.encoders.recurrent import RecurrentEncoderConfig
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.errors import ShapeError
from saccade.layers.block import BlockConfig
from saccade.models import (
    Captioner,
    CaptionerConfig,
    ImageClassifier,
    ImageClassifierConfig,
    ImageEncoder,
    LanguageModelConfig,
    MaskedLanguageModelConfig,
    Tagger,
    TextClassifierConfig,
    Transformer,
    TranslatorConfig,
)
from saccade.positions import LearnedConfig, PositionConfig
from tests.encoders.test_encoders import randomised

B, S, T, V, C = 3, 7, 5, 23, 4
START, STOP = 1, 2
BLOCK = {"num_layers": 2, "num_heads": 2, "hidden_dim": 24, "dropout": 0.0}
REAL = torch.arange(S) < torch.tensor([7, 4, 2])[:, None]

ENCODERS = {
    "transformer": TransformerEncoderConfig(**BLOCK),
    "recurrent": RecurrentEncoderConfig(dim=9, dropout=0.0),
}
DECODERS = {
    "transformer": TransformerDecoderConfig(**BLOCK),
    "plain": RecurrentDecoderConfig(attention="none", dim=10, dropout=0.0),
    "bahdanau": RecurrentDecoderConfig(dim=10, dropout=0.0),
    "luong": RecurrentDecoderConfig(attention="after", cell="lstm", dim=10, dropout=0.0),
}


def translator(encoder, decoder, **options):
    config = TranslatorConfig(
        encoder=ENCODERS[encoder], decoder=DECODERS[decoder], dim=16, **options
    )
    model = config.build(V, V).eval()
    with torch.no_grad():
        model.output.weight.mul_(3)
    return model


def captioner(decoder):
    encoder = ResNetConfig(widths=(8, 12), blocks=1, dim=16)
    return CaptionerConfig(encoder=encoder, decoder=DECODERS[decoder], dim=16).build(V).eval()


def language_model(**options):
    return (
        LanguageModelConfig(decoder=TransformerDecoderConfig(**BLOCK), dim=16, **options)
        .build(V)
        .eval()
    )


WRITERS = {
    **{f"{e}-{d}": (lambda e=e, d=d: translator(e, d)) for e in ENCODERS for d in DECODERS},
    **{f"image-{d}": (lambda d=d: captioner(d)) for d in DECODERS},
    "language_model": language_model,
}


def inputs_of(name, rows=B):
    if name == "language_model":
        return (torch.full((rows, 1), START),)
    if name.startswith("image"):
        return (torch.randn(rows, 3, 8, 12),)
    return torch.randint(3, V, (rows, S)), REAL[:rows]


def forced(model, inputs, target):
    """Return the teacher-forced logits of a target, for each kind of model."""
    if len(inputs) == 2:
        return model(inputs[0], target, inputs[1])
    if inputs[0].is_floating_point():
        return model(inputs[0], target)
    return model(target)


@pytest.mark.parametrize("name", WRITERS)
def test_teacher_forcing_reproduces_the_generated_answer_B5(name):
    model, inputs = WRITERS[name](), inputs_of(name)
    first, limits = (
        torch.full((B,), START),
        GenerationLimits(stop=STOP, max_length=9, forbidden=(0, START)),
    )
    with torch.no_grad():
        answers = greedy(model, model.start(*inputs), first, limits)
        for i, (answer,) in enumerate(answers):
            target = torch.tensor([[START, *answer.tokens]])
            logits = forced(model, [x[i : i + 1] for x in inputs], target)[0]
            logits[:, [0, START]] = -torch.inf
            chosen = logits.argmax(-1).tolist()
            expected = [*answer.tokens, STOP] if answer.finished else list(answer.tokens)
            assert chosen[: len(expected)] == expected


@pytest.mark.parametrize("name", WRITERS)
def test_a_batch_equals_its_rows_alone_for_every_decoding(name):
    model, inputs = WRITERS[name](), inputs_of(name)
    limits = GenerationLimits(stop=STOP, max_length=8, forbidden=(0, START))

    def decode(rows, way):
        chosen = [x[rows] for x in inputs]
        state, first = model.start(*chosen), torch.full((len(rows),), START)
        if way == "greedy":
            return greedy(model, state, first, limits)
        if way == "sample":
            return sample(model, state, first, limits, seeds=[100 + r for r in rows])
        return beam_search(model, state, first, limits, beam=3, num_best=2)

    with torch.no_grad():
        for way in ("greedy", "sample", "beam"):
            together = decode(list(range(B)), way)
            for i in range(B):
                (alone,) = decode([i], way)
                assert [h.tokens for h in alone] == [h.tokens for h in together[i]]
                for single, batched in zip(alone, together[i], strict=True):
                    assert single.score == pytest.approx(batched.score, abs=1e-4)


@pytest.mark.parametrize("name", WRITERS)
def test_a_beam_of_one_is_greedy_and_the_score_is_that_of_the_model(name):
    model, inputs = WRITERS[name](), inputs_of(name)
    first, limits = torch.full((B,), START), GenerationLimits(stop=STOP, max_length=8)
    with torch.no_grad():
        by_beam = beam_search(model, model.start(*inputs), first, limits, beam=1)
        by_greed = greedy(model, model.start(*inputs), first, limits)
        for i in range(B):
            assert by_beam[i][0].tokens == by_greed[i][0].tokens
            answer = by_greed[i][0]
            written = [*answer.tokens, STOP] if answer.finished else list(answer.tokens)
            target = torch.tensor([[START, *written[:-1]]])
            logs = forced(model, [x[i : i + 1] for x in inputs], target)[0].log_softmax(-1)
            total = sum(logs[t, token].item() for t, token in enumerate(written))
            assert answer.log_probability == pytest.approx(total, abs=1e-3)


@pytest.mark.parametrize("name", WRITERS)
def test_hidden_and_output_give_the_logits(name):
    model, inputs, target = WRITERS[name](), inputs_of(name), torch.randint(3, V, (B, T))
    if len(inputs) == 2:
        hidden = model.hidden(inputs[0], target, inputs[1])
    else:
        hidden = model.hidden(*([*inputs, target] if "image" in name else [target]))
    torch.testing.assert_close(model.output(hidden), forced(model, inputs, target))


def test_names_recorded_by_watch():
    model, (source, mask) = translator("transformer", "transformer"), inputs_of("transformer")
    with saccade.watch(model) as seen:
        model(source, torch.randint(3, V, (B, T)), mask)
    assert seen["decoder.layers.0.cross"].weights.shape == (B, 2, T, S)
    assert seen["encoder.layers.1.self_attention"].weights.shape == (B, 2, S, S)
    model = translator("recurrent", "bahdanau")
    with saccade.watch(model) as seen:
        model(source, torch.randint(3, V, (B, T)), mask)
    assert seen["decoder"].weights.shape == (B, 1, T, S)


def test_tied_and_shared_embeddings():
    model = translator("transformer", "transformer", share_embeddings=True)
    assert model.output.weight is model.decoder.embedding.weight
    assert model.decoder.embedding is model.encoder.stem.embedding
    apart = translator("transformer", "transformer", tie_output=False)
    assert apart.output.weight is not apart.decoder.embedding.weight
    config = TranslatorConfig(decoder=DECODERS["transformer"], dim=16, share_embeddings=True)
    with pytest.raises(ShapeError, match="23 source and 24 target"):
        config.build(23, 24)


def test_attention_over_a_grid_sums_to_one_C3():
    model, image = captioner("bahdanau"), torch.randn(B, 3, 8, 12)
    assert isinstance(model, Captioner)
    with saccade.watch(model) as seen:
        logits = model(image, torch.randint(3, V, (B, T)))
    assert logits.shape == (B, T, V)
    weights = seen["decoder"].weights
    assert weights.shape[:3] == (B, 1, T)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, 1, T))


def test_without_attention_a_caption_depends_on_one_vector_C2():
    model = captioner("plain")
    memory = model.read(torch.randn(B, 3, 8, 12))
    target = torch.randint(3, V, (B, T))
    shuffled = type(memory)(memory.states.flip(1), memory.mask, memory.summary)
    assert torch.equal(model.decoder(target, memory), model.decoder(target, shuffled))


def test_complete_transformer_equals_torch_H3():
    twin = nn.Transformer(batch_first=True).eval()
    twin.encoder.use_nested_tensor = False
    ours = Transformer.from_torch(twin)
    assert sum(p.numel() for p in ours.parameters()) == 44_140_544
    assert sum(p.numel() for p in Transformer().parameters()) == 44_140_544
    assert sum(p.numel() for p in ours.encoder.layers[0].parameters()) == 3_152_384
    assert sum(p.numel() for p in ours.decoder.layers[0].parameters()) == 4_204_032
    source, target = torch.randn(2, S, 512), torch.randn(2, T, 512)
    hidden = nn.Transformer.generate_square_subsequent_mask(T)
    padded = ~REAL[:2]
    with torch.no_grad():
        expected = twin(
            source,
            target,
            tgt_mask=hidden,
            src_key_padding_mask=padded,
            memory_key_padding_mask=padded,
        )
        got = ours(source, target, REAL[:2])
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True])
def test_small_transformer_equals_torch_with_gradients(norm_first):
    twin = randomised(nn.Transformer(16, 2, 2, 3, 24, norm_first=norm_first, batch_first=True))
    ours = Transformer.from_torch(twin.eval())
    source, target = torch.randn(B, S, 16, requires_grad=True), torch.randn(B, T, 16)
    hidden = nn.Transformer.generate_square_subsequent_mask(T)
    expected, got = twin(source, target, tgt_mask=hidden), ours(source, target)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-4)
    direction = torch.randn_like(got)
    (gradient,) = torch.autograd.grad(got, source, direction)
    (other,) = torch.autograd.grad(expected, source, direction)
    torch.testing.assert_close(gradient, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("pooling", ["first", "mean", "summary"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_many_to_one_and_many_to_many_B8(encoder, pooling):
    config = TextClassifierConfig(
        encoder=ENCODERS[encoder], dim=16, num_segments=2, pooling=pooling
    )
    classifier = config.build(V, C).eval()
    tokens, segments = torch.randint(0, V, (B, S)), torch.randint(0, 2, (B, S))
    logits = classifier(tokens, REAL, segments)
    assert logits.shape == (B, C)
    alone = classifier(tokens[1:2, :4], None, segments[1:2, :4])
    torch.testing.assert_close(logits[1:2], alone, atol=1e-5, rtol=1e-5)
    assert (classifier(tokens, REAL, 1 - segments) - logits).abs().max() > 1e-6
    tagger = Tagger(classifier.encoder, nn.Linear(config.memory_dim, C)).eval()
    assert tagger(tokens, REAL).shape == (B, S, C)


TEXT_POSITIONS = ["none", "sinusoidal", "learned", "relative", "rotary", "complex"]
IMAGE_POSITIONS = ["none", "sinusoidal", "learned", "relative_2d", "rotary", "conditional"]


@pytest.mark.parametrize("norm_order", ["pre", "post"])
@pytest.mark.parametrize(
    ("what", "position"),
    [("text", kind) for kind in TEXT_POSITIONS] + [("image", kind) for kind in IMAGE_POSITIONS],
)
def test_computing_only_the_first_state_gives_the_same_result(what, position, norm_order):
    encoder = TransformerEncoderConfig(
        **BLOCK, norm_order=norm_order, position=kinds(PositionConfig)[position]()
    )
    if what == "text":
        config = TextClassifierConfig(encoder=encoder, dim=16, dropout=0.0)
        model = randomised(config.build(V, C))
        arguments, options = (torch.randint(1, V, (B, S)), REAL), {"mask": REAL}
        inputs = (arguments[0], None)
    else:
        config = ImageClassifierConfig(encoder=encoder, dim=16, patch_size=4).sized(8)
        model = randomised(config.build(C))
        model.pooler = nn.Identity()
        inputs = arguments = (torch.randn(B, 3, 8, 8),)
        options = {}
    widths = []
    model.encoder.layers[-1].feed_forward.register_forward_pre_hook(
        lambda part, inputs: widths.append(inputs[0].shape[1])
    )
    logits = model(*arguments)
    model.head(model.pooler(model.encoder(*inputs, **options).states[:, 0])).sum().backward()
    whole = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    with saccade.watch(model) as seen:
        assert torch.allclose(model(*arguments), logits, atol=1e-5)
    logits.sum().backward()
    assert widths[0] == 1 < widths[1] == widths[2], "short, whole, and whole for who watches"
    assert all(watched.weights.shape[2] == widths[1] for watched in seen.values())
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter.grad, whole[name], atol=1e-5), name


def test_masked_language_model_shapes_and_tying():
    config = MaskedLanguageModelConfig(encoder=ENCODERS["transformer"], dim=16)
    model = config.build(V).eval()
    tokens = torch.randint(0, V, (B, S))
    assert model(tokens, REAL).shape == (B, S, V)
    assert model.output.weight is model.encoder.stem.embedding.weight
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % V
    assert (model(changed)[:, 0] - model(tokens)[:, 0]).abs().max() > 1e-6


def test_language_model_continues_a_prompt():
    model, prompt = language_model(), torch.randint(3, V, (B, 4))
    with torch.no_grad():
        logits, _ = model.step(prompt[:, -1], model.start(prompt))
        torch.testing.assert_close(logits, model(prompt)[:, -1], atol=1e-5, rtol=1e-5)
        logits, _ = model.step(prompt[:, 0], model.start())
        torch.testing.assert_close(logits, model(prompt[:, :1])[:, 0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_vit_shapes_and_class_token_I5(pooling):
    config = ImageClassifierConfig(
        encoder=TransformerEncoderConfig(**BLOCK, position=LearnedConfig(grid=(4, 4))),
        dim=16,
        patch_size=2,
        channels=1,
        pooling=pooling,
    )
    model = config.build(C).eval()
    assert model(torch.randn(B, 1, 8, 8)).shape == (B, C)
    encoder = ImageEncoder(config.make_encoder(class_token=config.class_token))
    assert encoder(torch.randn(B, 1, 8, 8)).shape == (B, 16 + (pooling == "first"), 16)


def test_a_convolutional_classifier_is_the_same_model_with_another_encoder():
    encoder = GridEncoder(ResNet(channels=1, widths=(8, 12), blocks=1), dim=16)
    model = ImageClassifier(encoder, nn.Linear(16, C), pooling="summary").eval()
    assert model(torch.randn(B, 1, 8, 8)).shape == (B, C)


def test_batch_norm_and_options_reach_the_blocks():
    config = BlockConfig(num_heads=2, hidden_dim=8, norm="batch", activation="silu")
    model = Transformer(16, 1, 1, config)
    assert "BatchNorm" in repr(model)
    assert "SiLU" in repr(model)


def test_generation_always_ends_B6():
    for name, build in WRITERS.items():
        model, inputs = build(), inputs_of(name)
        limits = GenerationLimits(stop=STOP, max_length=4, min_length=4, forbidden=(0, START))
        with torch.no_grad():
            answers = greedy(model, model.start(*inputs), torch.full((B,), START), limits)
        assert all(len(answer.tokens) <= 4 for (answer,) in answers)
