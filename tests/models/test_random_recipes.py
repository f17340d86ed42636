"""Random recipes are either rejected with the key at fault, or work in every respect.

A recipe that builds must train with a gradient for every parameter (else distributed training
fails), give every item the same output alone and in a padded batch, see no future token, and
generate step by step what it computes at once.
"""

import random
from dataclasses import fields

import pytest
import torch
from torch.nn import functional as F

from saccade import config
from saccade.attention import ScoreConfig
from saccade.errors import SaccadeError
from saccade.positions import PositionConfig
from saccade.training import recipe

V, B, S, T, STEPS = 23, 3, 7, 5, 3
LENGTHS = torch.tensor([7, 4, 1])
REAL = torch.arange(S) < LENGTHS[:, None]


def names_of(options):
    return [field.name for field in fields(options)]


class RecipeSampler:
    """Random changes to a recipe, as "key=value"."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.changes = []

    def set(self, key, value):
        if value is not None:
            shown = str(value).lower() if isinstance(value, bool) else value
            self.changes.append(f"{key}={shown}")

    def one_of(self, key, *values):
        value = self.random.choice(values)
        self.set(key, value)
        return value

    def rarely(self, key, *values, chance=0.08):
        """Mostly leave a key alone: most combinations of keys exclude each other."""
        if self.random.random() < chance:
            self.one_of(key, *values)

    def position(self, key, kinds):
        kind = self.one_of(f"{key}.kind", *kinds, *("none", "sinusoidal", "learned") * 2)
        if kind in ("sinusoidal", "learned") and self.random.random() < 0.25:
            self.set(f"{key}.fuse", "concat")
            self.one_of(f"{key}.width", 4, 6, 8, 30)
        self.options(key, config.kinds(PositionConfig), kind)

    def score(self, key):
        scores = config.kinds(ScoreConfig)
        self.options(key, scores, self.one_of(f"{key}.kind", *scores))

    def options(self, key, classes, kind):
        """Yield options of a kind, and sometimes one of another kind, which must be rejected."""
        for name, values in VALUES.items():
            if name in names_of(classes[kind]):
                self.one_of(f"{key}.{name}", None, *values)
            elif any(name in names_of(other) for other in classes.values()):
                self.rarely(f"{key}.{name}", *values, chance=0.02)

    def block(self, key, kinds):
        self.set(f"{key}.kind", "transformer")
        self.set(f"{key}.num_layers", 2)
        self.one_of(f"{key}.num_heads", 1, 2, 2, 4, 4, 5)
        self.rarely(f"{key}.num_kv_heads", 1, 2, 3)
        self.set(f"{key}.hidden_dim", 13)
        self.one_of(f"{key}.norm_order", "pre", "post")
        self.one_of(
            f"{key}.activation", "relu", "relu_squared", "gelu", "gelu_tanh", "silu", "tanh"
        )
        if self.random.random() < 0.4:
            self.one_of(f"{key}.norm", "rms", "rms", "batch")
        self.one_of(f"{key}.feed_forward", None, None, "gated")
        self.one_of(f"{key}.bias", None, None, False)
        self.one_of(f"{key}.qk_norm", None, None, True)
        self.one_of(f"{key}.zero_outputs", None, None, True)
        if self.random.random() < 0.2:
            self.set(f"{key}.head", "full")
            self.rarely(f"{key}.head_dim", 4)
        else:
            self.one_of(f"{key}.head_dim", None, None, 4, 6)
        self.rarely(f"{key}.attention_dropout", 0.1)
        self.rarely(f"{key}.activation_dropout", 0.1)
        self.one_of(f"{key}.dropout", 0.0, 0.1)
        self.score(f"{key}.score")
        self.position(f"{key}.position", kinds)

    def encoder(self, key, dim, kinds):
        if self.random.random() < 0.3:
            self.set(f"{key}.kind", "recurrent")
            self.one_of(f"{key}.cell", "rnn", "gru", "lstm")
            self.one_of(f"{key}.dim", dim, 6)
            self.one_of(f"{key}.num_layers", 1, 2)
            self.one_of(f"{key}.bidirectional", True, False)
            self.position(f"{key}.position", kinds)
        else:
            self.block(key, kinds)
            self.rarely(f"{key}.stem_norm", True)
            self.rarely(f"{key}.stochastic_depth", 0.2)

    def decoder(self, key, dim, kinds):
        if self.random.random() < 0.4:
            self.set(f"{key}.kind", "recurrent")
            attention = self.one_of(f"{key}.attention", "none", "before", "after")
            self.one_of(f"{key}.cell", "rnn", "gru", "lstm")
            self.one_of(f"{key}.dim", dim, 2 * dim, 6)
            self.one_of(f"{key}.num_layers", 1, 2)
            if attention != "none":
                self.score(f"{key}.score")
                self.one_of(f"{key}.feed_context", True, False)
            self.rarely(f"{key}.attention_dropout", 0.1)
            self.rarely(f"{key}.feed_context", False)
        else:
            self.block(key, kinds)


ALL = list(config.kinds(PositionConfig))
VALUES = {
    "base": (100.0,),
    "layout": ("halves",),
    "length": (3, 30),
    "grid": ("[2, 2]",),
    "max_distance": (1, 3),
    "num_buckets": (4, 8),
    "kernel_size": (1, 2, 5),
    "hidden_dim": (2, 3),
}
"""Values for the options of scores and positions; a test checks that none is missing."""


def text_to_text(sampler):
    dim = sampler.one_of("model.dim", 12, 16, 20)
    sampler.encoder("model.encoder", dim, ALL)
    sampler.decoder("model.decoder", dim, ALL)
    sampler.one_of("model.share_embeddings", True, False)
    sampler.one_of("model.tie_output", True, False, False)
    sampler.rarely("model.scale_embedding", False)
    sampler.rarely("model.output_bias", True)
    return "transformer-tiny", lambda options: options.model.build(V, V)


def language_modeling(sampler):
    sampler.one_of("model.dim", 12, 16, 20)
    sampler.block("model.decoder", ALL)
    sampler.one_of("model.tie_output", True, False)
    sampler.rarely("model.embedding_dropout", 0.2)
    sampler.set("text.block", 16)
    return "gpt-mini", lambda options: options.model.build(V)


def masked_language_modeling(sampler):
    dim = sampler.one_of("model.dim", 12, 16, 20)
    sampler.encoder("model.encoder", dim, ALL)
    sampler.one_of("model.tie_output", True, False)
    sampler.one_of("model.scale_embedding", True, True, False)
    sampler.set("text.max_length", 16)
    return "bert-mini-masked", lambda options: options.model.build(V)


def text_classification(sampler):
    dim = sampler.one_of("model.dim", 12, 16, 20)
    sampler.encoder("model.encoder", dim, ALL)
    sampler.one_of("model.pooling", "first", "mean", "summary")
    sampler.one_of("model.pooler", True, False)
    sampler.one_of("model.scale_embedding", True, True, False)
    sampler.rarely("model.num_segments", 2)
    sampler.set("text.max_length", 16)
    return "bert-mini", lambda options: options.model.build(V, 4)


def image_classification(sampler):
    sampler.set("model.kind", "vit")
    sampler.set("model.channels", 3)
    sampler.one_of("model.dim", 12, 16, 20)
    sampler.set("model.patch_size", 4)
    sampler.set("image.size", 8)
    sampler.one_of("model.stem", "linear", "convolutional")
    sampler.one_of("model.pooling", "first", "mean")
    sampler.block("model.encoder", ALL)
    return "vit-tiny", lambda options: options.model.sized(8).build(4)


def image_to_text(sampler):
    dim = sampler.one_of("model.dim", 12, 16, 20)
    sampler.set("model.encoder.kind", "resnet")
    sampler.set("model.encoder.widths", "[4, 6]")
    sampler.set("image.size", 8)
    sampler.one_of("model.encoder.dim", None, dim)
    sampler.position("model.encoder.position", ALL)
    sampler.decoder("model.decoder", dim, ALL)
    sampler.one_of("model.tie_output", True, False)

    def build(options):
        from dataclasses import replace

        model = options.model
        return replace(model, encoder=model.encoder.sized(8)).build(V)

    return "caption-attention", build


TASKS = [
    text_to_text,
    text_to_text,
    text_to_text,
    language_modeling,
    masked_language_modeling,
    text_classification,
    image_classification,
    image_to_text,
]


def inputs_of(task, seed):
    numbers = torch.Generator().manual_seed(seed)
    target = torch.randint(3, V, (B, T), generator=numbers)
    tokens = torch.randint(3, V, (B, S), generator=numbers)
    image = torch.randn(B, 3, 8, 8, generator=numbers)
    return {
        text_to_text: (tokens, target, REAL),
        language_modeling: (target,),
        masked_language_modeling: (tokens, REAL),
        text_classification: (tokens, REAL),
        image_classification: (image,),
        image_to_text: (image, target),
    }[task]


def train(model, inputs):
    """Make three updates and assert that every parameter has a finite gradient."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    for _ in range(STEPS):
        logits = model.train()(*inputs)
        labels = torch.arange(logits[..., 0].numel()) % logits.shape[-1]
        loss = F.cross_entropy(logits.flatten(0, -2), labels)
        assert loss.isfinite()
        optimizer.zero_grad()
        loss.backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, f"{name} has no gradient"
            assert parameter.grad.isfinite().all(), name
        optimizer.step()
    model.eval()


def close(a, b):
    torch.testing.assert_close(a, b, atol=2e-4, rtol=2e-4)


@torch.no_grad()
def check_batch_invariance(task, model, inputs):
    together = model(*inputs)
    for i in range(B):
        alone = [part[i : i + 1] for part in inputs]
        n = int(LENGTHS[i])
        if task in (text_to_text, masked_language_modeling, text_classification):
            alone[0] = alone[0][:, :n]
            alone[-1] = None
        expected = together[i : i + 1]
        close(model(*alone), expected[:, :n] if task is masked_language_modeling else expected)


@torch.no_grad()
def check_writing(task, model, inputs):
    place = {text_to_text: 1, language_modeling: 0, image_to_text: 1}[task]
    target = inputs[place]
    whole = model(*inputs)
    changed = target.clone()
    changed[:, -2:] = (changed[:, -2:] + 1) % V
    other = model(*inputs[:place], changed, *inputs[place + 1 :])
    close(other[:, :-2], whole[:, :-2])
    state = model.start(*inputs[:place], *inputs[place + 1 :])
    steps = []
    for tokens in target.unbind(1):
        logits, state = model.step(tokens, state)
        steps.append(logits)
    close(torch.stack(steps, 1), whole)


def leaf(change):
    """Return the part of a key that an error must contain."""
    *_, owner, name = change.partition("=")[0].split(".")
    return f"{owner}.{name}" if name == "kind" else name


def check(seed):
    """Return whether the recipe of this seed was built."""
    sampler = RecipeSampler(seed)
    task = TASKS[seed % len(TASKS)]
    name, build = task(sampler)
    torch.manual_seed(seed)
    try:
        model = build(recipe.load(name, sampler.changes).options)
    except SaccadeError as rejected:
        message = str(rejected)
    else:
        message = None
    if message is not None:
        assert any(leaf(change) in message for change in sampler.changes), (
            message,
            sampler.changes,
        )
        return False
    try:
        inputs = inputs_of(task, seed)
        train(model, inputs)
        check_batch_invariance(task, model, inputs)
        if task in (text_to_text, language_modeling, image_to_text):
            check_writing(task, model, inputs)
    except Exception as error:
        error.add_note(f"seed {seed}: saccade train {name} " + " ".join(sampler.changes))
        raise
    return True


def test_every_option_of_scores_and_positions_is_sampled():
    every = [*config.kinds(PositionConfig).values(), *config.kinds(ScoreConfig).values()]
    names = {name for options in every for name in names_of(options)}
    assert names == {"kind", "fuse", "width", *VALUES}


def test_some_random_recipes_work_or_are_rejected_with_the_key():
    built = [check(seed) for seed in range(40)]
    assert 10 <= sum(built) < 40


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_random_recipes_work_or_are_rejected_with_the_key(part):
    built = [check(seed) for seed in range(40 + 40 * part, 80 + 40 * part)]
    assert 10 <= sum(built) < 40
