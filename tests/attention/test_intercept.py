"""Tests of watch on modules of torch: exact weights, the same output, restored afterwards."""

import gc
import threading
import warnings
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.profiler import ProfilerActivity, profile

import saccade
from saccade.attention import MultiHeadAttention
from saccade.attention.intercept import dot_product_weights
from saccade.attention.watch import WatchWarning
from saccade.errors import WatchError

B, H, Q, K, D = 2, 4, 5, 7, 8
CLOSE = {"atol": 1e-6, "rtol": 1e-5}


class Kernel(nn.Module):
    """An attention of somebody else: options of the fused kernel, and nothing else."""

    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, query, key, value):
        return F.scaled_dot_product_attention(query, key, value, **self.options)


class ByHand(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.softmax, self.dropout = nn.Softmax(-1), nn.Dropout(dropout)

    def forward(self, query, key, value):
        return self.dropout(self.softmax(query @ key.mT)) @ value


class CustomAttention(nn.Module):
    """A kernel that no torch function shows: each query takes the value of its best key."""

    def forward(self, query, key, value):
        return value.gather(-2, (query @ key.mT).argmax(-1, keepdim=True).expand(*query.shape))


class Several(nn.ModuleDict):
    """Modules that are called one after the other, except those with a name that begins with _."""

    def forward(self, *inputs):
        return [part(*inputs) for name, part in self.items() if not name.startswith("_")]


def watched(module, *inputs, **options):
    with saccade.watch(module, **options) as seen:
        module(*inputs)
    return seen


def qkv(q=Q, k=K, heads=H, kv_heads=H, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    shapes = [(B, heads, q, D), (B, kv_heads, k, D), (B, kv_heads, k, D)]
    return [torch.randn(*shape, generator=generator).to(dtype) for shape in shapes]


def with_values_as_weights(query, key, **options):
    """Return the exact weights of the kernel: its output where the values are unit vectors."""
    eye = torch.eye(key.shape[-2], dtype=key.dtype).expand(*key.shape[:-1], -1)
    return F.scaled_dot_product_attention(query, key, eye, **options)


random_mask = torch.rand(B, 1, Q, K, generator=torch.Generator().manual_seed(1)) > 0.4
OPTIONS = {
    "plain": {},
    "scale": {"scale": 0.7},
    "causal": {"is_causal": True},
    "boolean": {"attn_mask": random_mask},
    "boolean (q, k)": {"attn_mask": random_mask[0, 0]},
    "additive": {"attn_mask": torch.randn(H, Q, K)},
    "additive with -inf": {
        "attn_mask": torch.zeros(B, 1, Q, K).masked_fill(~random_mask, -torch.inf)
    },
    "upper left": {"attn_mask": causal_upper_left(Q, K)},
    "lower right": {"attn_mask": causal_lower_right(Q, K)},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_weights_of_the_kernel_are_exact_and_its_output_is_the_same(options):
    query, key, value = qkv()
    module = Kernel(**options)
    expected = module(query, key, value)
    with saccade.watch(module) as seen:
        output = module(query, key, value)
    assert torch.equal(output, expected)
    exact = with_values_as_weights(query, key, **options)
    torch.testing.assert_close(seen[""].weights, exact, **CLOSE)


def test_grouped_heads_are_expanded():
    query, key, value = qkv(kv_heads=2)
    module = Kernel(enable_gqa=True)
    with saccade.watch(module) as seen:
        module(query, key, value)
    exact = with_values_as_weights(query, key.repeat_interleave(2, 1))
    torch.testing.assert_close(seen[""].weights, exact, **CLOSE)


@pytest.mark.parametrize("kind", ["boolean", "additive"])
def test_a_query_that_sees_no_key_has_weights_of_zero(kind):
    visible = torch.ones(Q, K, dtype=torch.bool)
    visible[2] = False
    mask = visible if kind == "boolean" else torch.zeros(Q, K).masked_fill(~visible, -torch.inf)
    module = Kernel(attn_mask=mask)
    query, key, value = (x.requires_grad_() for x in qkv())
    with saccade.watch(module, detach=False) as seen:
        module(query, key, value)
    weights = seen[""].weights
    assert torch.equal(weights[:, :, 2], torch.zeros(B, H, K))
    torch.testing.assert_close(weights.sum(-1)[:, :, 3], torch.ones(B, H))
    weights.pow(2).sum().backward()
    assert query.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_precisions_are_kept_and_half_ones_are_computed_in_float32(dtype):
    query, key, value = qkv(dtype=dtype)
    module = Kernel()
    with saccade.watch(module) as seen:
        module(query, key, value)
    exact = dot_product_weights(query.double(), key.double())
    assert seen[""].weights.dtype == dtype
    torch.testing.assert_close(
        seen[""].weights.double(), exact, rtol=2 * torch.finfo(dtype).eps, atol=1e-7
    )


def test_weights_are_those_before_dropout_and_random_numbers_do_not_change():
    query, key, value = qkv()
    for module in (Kernel(dropout_p=0.5), nn.MultiheadAttention(D, 2, dropout=0.5).train()):
        inputs = (query, key, value) if isinstance(module, Kernel) else (query[0, 0],) * 3
        torch.manual_seed(1)
        expected, after = module(*inputs), torch.rand(1)
        torch.manual_seed(1)
        with saccade.watch(module) as seen:
            output = module(*inputs)
        assert torch.equal(torch.rand(1), after)
        torch.testing.assert_close(output, expected, atol=0, rtol=0)
        torch.testing.assert_close(
            seen[""].weights.sum(-1), torch.ones(seen[""].weights.shape[:-1])
        )


def test_the_gradient_is_kept_if_requested_only():
    query, key, value = (x.requires_grad_() for x in qkv())
    for module, by_hand in ((Kernel(), False), (ByHand(), True)):
        with saccade.watch(module, by_hand=by_hand) as cut:
            module(query, key, value)
        assert not cut[""].weights.requires_grad
        with saccade.watch(module, by_hand=by_hand, detach=False) as kept:
            module(query, key, value)
        (gradient,) = torch.autograd.grad(kept[""].weights[..., 0].sum(), key)
        assert gradient.abs().sum() > 0


def test_only_chosen_layers_and_heads_are_recorded():
    model = Several({"a": Kernel(), "b": Kernel()})
    inputs = qkv()
    exact = with_values_as_weights(*inputs[:2])
    seen = watched(model, *inputs, layers="b", heads=[3, 0], device="cpu")
    assert list(seen) == ["b"]
    torch.testing.assert_close(seen["b"].weights, exact[:, [3, 0]], **CLOSE)
    with pytest.raises(WatchError, match=r"heads=\[9\] do not exist in 'a'"):
        watched(model, *inputs, heads=[9])
    with pytest.raises(WatchError, match=r"'c'; choose from: '', 'a', 'b'"):
        watched(model, *inputs, layers="c")
    with pytest.raises(WatchError, match=r"no attention matches ''; choose from: 'a', 'b'"):
        watched(model, *inputs, layers="")


# nn.MultiheadAttention and nn.Transformer


def exact_multihead(attention, *inputs, **masks):
    """Return the weights that nn.MultiheadAttention itself gives, in evaluation mode."""
    training = attention.training
    with torch.no_grad():
        weights = attention.eval()(
            *inputs, **{**masks, "need_weights": True, "average_attn_weights": False}
        )[1]
    attention.train(training)
    return weights if weights.ndim == 4 else weights[None]


keys_hidden = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
MASKS = {
    "none": {},
    "key padding": {"key_padding_mask": keys_hidden},
    "key padding, float": {
        "key_padding_mask": torch.zeros(2, 7).masked_fill(keys_hidden, -torch.inf)
    },
    "attention mask": {"attn_mask": ~random_mask[0, 0]},
    "attention mask, float": {"attn_mask": torch.randn(Q, K)},
    "attention mask of each head": {"attn_mask": torch.randn(B * H, Q, K)},
    "both": {"attn_mask": torch.triu(torch.ones(Q, K), 3).bool(), "key_padding_mask": keys_hidden},
    "causal": {"attn_mask": torch.triu(torch.ones(Q, K), 1).bool(), "is_causal": True},
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_multihead_attention_with_every_mask(mask, need_weights, training):
    attention = nn.MultiheadAttention(16, H, batch_first=True).train(training)
    query, memory = torch.randn(B, Q, 16), torch.randn(B, K, 16)
    call = {**mask, "need_weights": need_weights}
    expected = attention(query, memory, memory, **call)
    with saccade.watch(attention) as seen:
        output = attention(query, memory, memory, **call)
    exact = exact_multihead(attention, query, memory, memory, **mask)
    torch.testing.assert_close(seen[""].weights, exact, **CLOSE)
    torch.testing.assert_close(output, expected, **CLOSE)


VARIANTS = {
    "bias_kv": {"add_bias_kv": True},
    "zero_attn": {"add_zero_attn": True},
    "no bias": {"bias": False},
    "widths": {"kdim": 6, "vdim": 10},
    "length first": {"batch_first": False},
}


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())
def test_multihead_attention_of_every_kind(options):
    attention = nn.MultiheadAttention(16, H, **{"batch_first": True, **options}).eval()
    inputs = [
        torch.randn(B, Q, 16),
        torch.randn(B, K, attention.kdim),
        torch.randn(B, K, attention.vdim),
    ]
    if not attention.batch_first:
        inputs = [x.transpose(0, 1) for x in inputs]
    with torch.no_grad():
        expected, _ = attention(*inputs)
        with saccade.watch(attention) as seen:
            output, _ = attention(*inputs)
    torch.testing.assert_close(output, expected, **CLOSE)
    torch.testing.assert_close(seen[""].weights, exact_multihead(attention, *inputs), **CLOSE)


def test_multihead_attention_with_a_fully_masked_query_and_without_a_batch():
    attention = nn.MultiheadAttention(16, H).eval()
    x = torch.randn(Q, 16)
    mask = torch.zeros(Q, Q, dtype=torch.bool)
    mask[1] = True
    for need_weights in (True, False):
        with saccade.watch(attention) as seen:
            attention(x, x, x, attn_mask=mask, need_weights=need_weights)
        assert seen[""].weights.shape == (1, H, Q, Q)
        assert torch.equal(seen[""].weights[0, :, 1], torch.zeros(H, Q))
        torch.testing.assert_close(seen[""].weights[0, :, 2].sum(-1), torch.ones(H))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("training", [True, False])
def test_torch_transformer(training):
    model = nn.Transformer(16, H, 2, 2, 32, dropout=0.0, batch_first=True).train(training)
    source, target = torch.randn(B, K, 16), torch.randn(B, Q, 16)
    masks = {
        "tgt_mask": nn.Transformer.generate_square_subsequent_mask(Q),
        "src_key_padding_mask": torch.zeros(B, K).masked_fill(keys_hidden, -torch.inf),
        "memory_key_padding_mask": torch.zeros(B, K).masked_fill(keys_hidden, -torch.inf),
    }
    with torch.set_grad_enabled(training):
        expected = model(source, target, **masks)
        with saccade.watch(model) as seen:
            output = model(source, target, **masks)
    torch.testing.assert_close(output, expected, **CLOSE)
    assert list(seen) == [
        "encoder.layers.0.self_attn",
        "encoder.layers.1.self_attn",
        "decoder.layers.0.self_attn",
        "decoder.layers.0.multihead_attn",
        "decoder.layers.1.self_attn",
        "decoder.layers.1.multihead_attn",
    ]
    first = exact_multihead(
        model.encoder.layers[0].self_attn, source, source, source, key_padding_mask=keys_hidden
    )
    torch.testing.assert_close(seen["encoder.layers.0.self_attn"].weights, first, **CLOSE)
    assert seen["decoder.layers.1.multihead_attn"].weights.shape == (B, H, Q, K)
    assert seen["decoder.layers.0.self_attn"].weights.triu(1).sum() == 0


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("norm", [None, nn.LayerNorm(16)])
def test_padding_that_the_fast_path_leaves_out_stays_left_out(norm):
    layer = nn.TransformerEncoderLayer(16, H, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, norm).eval()
    x = torch.randn(B, K, 16)
    with torch.no_grad():
        if norm is not None:
            norm.bias.fill_(0.5)
        expected = model(x, src_key_padding_mask=keys_hidden)
        with saccade.watch(model) as seen:
            output = model(x, src_key_padding_mask=keys_hidden)
        after = model(x, src_key_padding_mask=keys_hidden)
    assert expected[1, 4:].unique().numel() == 1  # the fast path was taken
    torch.testing.assert_close(output, expected, **CLOSE)
    assert torch.equal(after, expected)
    assert seen["layers.1.self_attn"].weights[1, :, :, 4:].abs().sum() == 0


# everything else


def test_attention_written_by_hand_is_listed_or_recorded():
    model, inputs = Several({"fused": Kernel(), "hand": ByHand(0.5)}), qkv()
    with pytest.warns(WatchWarning, match=r"'hand' could not be seen; pass by_hand=True"):
        seen = watched(model, *inputs)
    assert (list(seen), seen.unseen) == (["fused"], ["hand"])
    with saccade.watch(model, by_hand=True) as seen:
        model(*inputs)
    assert (list(seen), seen.unseen) == (["fused", "hand"], [])
    exact = with_values_as_weights(*inputs[:2], scale=1.0)
    torch.testing.assert_close(seen["hand"].weights, exact, **CLOSE)
    with pytest.raises(WatchError, match=r"no attention of ByHand was seen: '' .*by_hand=True"):
        watched(ByHand(), *inputs)


@pytest.mark.parametrize("write", [
    lambda w, v: torch.einsum("bhqk,bhkd->bhqd", w, v),
    lambda w, v: torch.bmm(w.flatten(0, 1), v.flatten(0, 1)).unflatten(0, (B, H)),
    lambda w, v: torch.matmul(F.dropout(w.to(torch.float64), 0.5).float(), v),
    lambda w, v: w[..., :-1] @ v[..., :-1, :],
])  # fmt: skip
def test_usual_ways_to_write_attention_by_hand(write):
    class Attention(nn.Module):
        def forward(self, query, key, value):
            return write(torch.softmax(query @ key.mT, dim=-1), value)

    query, key, value = qkv()
    module = Attention()
    with saccade.watch(module, by_hand=True) as seen:
        module(query, key, value)
    weights = seen[""].weights
    exact = with_values_as_weights(query, key, scale=1.0)[..., : weights.shape[-1]]
    torch.testing.assert_close(weights.reshape(exact.shape), exact, **CLOSE)


def test_a_softmax_that_is_not_attention_is_ignored():
    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.codes, self.fused = nn.Parameter(torch.randn(D, D)), Kernel()

        def forward(self, query, key, value):
            return self.fused(query.softmax(-1) @ self.codes, key, value) * query.softmax(-1)

    model = Mixture()
    with saccade.watch(model, by_hand=True) as seen:
        model(*qkv())
    assert (list(seen), seen.unseen) == (["fused"], [])


def test_kernels_that_show_no_weights_are_listed():
    model = Several({"a": Kernel(), "b": CustomAttention(), "_uncalled": CustomAttention()})
    query, key, value = qkv(q=K)
    with pytest.warns(WatchWarning, match="the attention of 'b' could not be seen"):
        seen = watched(model, query, key, value)
    assert seen.unseen == ["b"]

    class Direct(nn.Module):
        def forward(self, *qkv):
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*qkv)[0]

    with pytest.raises(WatchError, match="no attention of Direct was seen: '' cannot be watched"):
        watched(Direct(), query, key, value)


def test_raises_if_nothing_is_seen():
    class Plain(nn.Module):
        def forward(self, x):
            return x.tanh()

    with pytest.raises(WatchError, match="no attention of Plain was seen: it contains none"):
        watched(Plain(), torch.ones(2))
    for module in (nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.GRU(2, 2)):
        with pytest.raises(WatchError, match="contains no attention to watch"):
            watched(module)
    with pytest.raises(WatchError, match="none was called"), saccade.watch(Kernel()) as seen:
        _ = seen[""]


def test_exceptions_leave_nothing_behind():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, H, batch_first=True), 1).eval()
    custom = nn.ModuleDict({"encoder": model, "custom": CustomAttention()})
    with pytest.raises(RuntimeError, match="on purpose"), saccade.watch(custom):
        raise RuntimeError("on purpose")
    hooks = [h for m in custom.modules() for h in (*m._forward_hooks, *m._forward_pre_hooks)]
    assert hooks == []
    assert not torch.overrides.has_torch_function((torch.ones(1),))


def test_records_do_not_keep_the_model_alive():
    model = Several({"fused": Kernel(), "custom": CustomAttention()})
    with pytest.warns(WatchWarning):
        seen = watched(model, *qkv(q=K))
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None
    assert seen.unseen == ["custom"]


def test_an_unwatched_model_runs_the_same_operators_as_before():
    layer = nn.TransformerEncoderLayer(16, H, 32, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2)).eval()
    x = torch.randn(B, K, 16)

    def operators():
        with profile(activities=[ProfilerActivity.CPU]) as record, torch.no_grad():
            model(x)
        return [event.name for event in record.events()]

    before = operators()
    with saccade.watch(model), torch.no_grad():
        model(x)
    assert operators() == before
    assert "aten::_transformer_encoder_layer_fwd" in before


def test_other_threads_and_other_models_are_not_recorded():
    module, other, inputs = Kernel(), Kernel(), qkv()
    with saccade.watch(module) as seen:
        other(*inputs)
        thread = threading.Thread(target=module, args=inputs)
        thread.start()
        thread.join()
        assert list(seen) == []
        module(*inputs)
    assert len(seen[""].calls) == 1


def test_nested_blocks_of_foreign_modules_record_separately():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, H, 32, batch_first=True), 2).eval()
    x = torch.randn(B, K, 16)
    with saccade.watch(model) as outer:
        model(x)
        with saccade.watch(model.layers[1]) as inner:
            model(x)
    assert list(inner) == ["self_attn"]
    assert len(inner["self_attn"].calls) == 1
    assert len(outer["layers.1.self_attn"].calls) == 2
    assert torch.equal(outer["layers.1.self_attn"].weights, inner["self_attn"].weights)


def test_modules_of_saccade_and_torch_in_one_model():
    model = nn.ModuleDict(
        {"ours": MultiHeadAttention(16, 2), "theirs": nn.MultiheadAttention(16, 4)}
    )
    x = torch.randn(Q, 16)
    with saccade.watch(model) as seen:
        assert list(seen) == ["ours"]
        model["ours"](x)
        model["theirs"](x, x, x)
    assert {name: watched.weights.shape[1] for name, watched in seen.items()} == {
        "ours": 2,
        "theirs": 4,
    }
    with saccade.watch(model, layers="theirs") as seen:
        model["ours"](x)
        model["theirs"](x, x, x)
    assert list(seen) == ["theirs"]


def test_a_shared_module_has_one_name_and_calls_in_order():
    shared = Kernel()
    model = nn.ModuleList([shared, shared])
    with saccade.watch(model) as seen:
        for part, k in zip(model, (3, 4), strict=True):
            part(*qkv(k=k))
    assert list(seen) == ["0"]
    assert [w.shape[-1] for w in seen["0"].calls] == [3, 4]


def test_data_parallel_and_compiled_models_keep_the_names():
    inputs = qkv()
    for wrapped, names in (
        (nn.DataParallel(nn.ModuleList([Kernel()])), ["module.0"]),
        (torch.compile(nn.Sequential(Kernel()), backend="eager"), ["0"]),
    ):
        with saccade.watch(wrapped) as seen:
            inner = getattr(wrapped, "_orig_mod", getattr(wrapped, "module", wrapped))
            inner[0](*inputs)
        assert list(seen) == names


def test_a_compiled_model_is_watched_and_compiled_again_afterwards():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Kernel()

        def forward(self, query, key, value):
            return self.inner(query, key, value) * 2

    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    compiled, inputs = torch.compile(Model(), backend=backend), qkv()
    with saccade.watch(compiled) as seen:
        output = compiled(*inputs)
    assert graphs == []
    assert list(seen) == ["inner"]
    torch.testing.assert_close(compiled(*inputs), output)
    assert len(graphs) == 1
    with saccade.watch(compiled) as seen:
        compiled(*inputs)
    assert len(seen["inner"].calls) == 1


def test_recomputation_for_the_backward_pass_is_not_recorded():
    module = Kernel()
    inputs = [x.requires_grad_() for x in qkv()]
    with saccade.watch(module) as seen:
        output = torch.utils.checkpoint.checkpoint(module, *inputs, use_reentrant=False)
        output.sum().backward()
    assert len(seen[""].calls) == 1


def test_nested_tensors_are_padded_with_zeros():
    lengths = (3, 5)
    parts = [torch.randn(n, H, D) for n in lengths]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged).transpose(1, 2)
    seen = watched(Kernel(), nested, nested, nested)
    weights = seen[""].weights
    assert weights.shape == (2, H, 5, 5)
    for row, (part, n) in enumerate(zip(parts, lengths, strict=True)):
        alone = part.transpose(0, 1)[None]
        exact = with_values_as_weights(alone, alone)
        torch.testing.assert_close(weights[row : row + 1, :, :n, :n], exact, **CLOSE)
    assert weights[0, :, 3:].abs().sum() == weights[0, :, :, 3:].abs().sum() == 0


def test_flex_attention():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")

    class Flex(nn.Module):
        def forward(self, query, key, value):
            block = flex.create_block_mask(lambda b, h, i, j: i >= j, B, H, Q, K, device="cpu")
            return flex.flex_attention(
                query, key, value, lambda s, b, h, i, j: s + (i - j), block, enable_gqa=True
            )

    query, key, value = qkv(kv_heads=2)
    with saccade.watch(module := Flex()) as seen, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        output = module(query, key, value)
    key, value = (x.repeat_interleave(2, 1) for x in (key, value))
    distance = (torch.arange(Q)[:, None] - torch.arange(K)).float()
    mask = distance.masked_fill(distance < 0, -torch.inf)
    exact = with_values_as_weights(query, key, attn_mask=mask)
    torch.testing.assert_close(seen[""].weights, exact, **CLOSE)
    torch.testing.assert_close(output, exact @ value, **CLOSE)
