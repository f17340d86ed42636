"""x-transformers with fused kernels: its weights equal those of its own explicit attention."""

import pytest
import torch

import saccade

x_transformers = pytest.importorskip(
    "x_transformers",
    reason="needs x-transformers: pip install --no-deps x-transformers einops "
    "einx loguru frozendict torch-einops-utils",
)


def model(*, flash: bool, **options):
    torch.manual_seed(0)
    layers = x_transformers.Decoder(
        dim=16, depth=2, heads=4, attn_dim_head=4, attn_flash=flash, **options
    )
    return x_transformers.TransformerWrapper(
        num_tokens=30, max_seq_len=16, attn_layers=layers
    ).eval()


@pytest.mark.parametrize("options", [{}, {"rotary_pos_emb": True}, {"attn_kv_heads": 2}])
@torch.no_grad()
def test_weights_equal_those_of_its_own_explicit_attention(options) -> None:
    fused, explicit = model(flash=True, **options), model(flash=False, **options)
    explicit.load_state_dict(fused.state_dict())
    tokens = torch.randint(30, (2, 11))
    expected, maps = explicit(tokens, return_attn=True)
    plain = fused(tokens)
    with saccade.watch(fused) as seen:
        output = fused(tokens)
    assert torch.equal(output, plain)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)
    assert len(seen) == len(maps) == 2
    for entry, weights in zip(seen.values(), maps, strict=True):
        torch.testing.assert_close(entry.weights, weights, rtol=1e-5, atol=1e-6)
