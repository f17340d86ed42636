"""T5 folders against transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from saccade.interop import huggingface
from saccade.models import Translator
from tests.interop.references import padding, randomised, read_back, tokens

SIZES = {
    "vocab_size": 31,
    "d_model": 21,
    "d_kv": 5,
    "d_ff": 19,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 3,
    "relative_attention_num_buckets": 10,
    "relative_attention_max_distance": 9,
    "layer_norm_epsilon": 1e-3,
    "decoder_start_token_id": 0,
}
CLOSE = {"rtol": 1e-4, "atol": 1e-4}  # scores are not scaled, so rounding counts for more


def reference(**options: Any) -> Any:
    return randomised(
        transformers.T5ForConditionalGeneration(transformers.T5Config(**{**SIZES, **options}))
    )


@pytest.mark.parametrize(
    "options", [{}, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}]
)
@torch.no_grad()
def test_loaded_and_saved_models_equal_transformers(
    options: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    theirs = reference(**options)
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    assert type(ours) is Translator
    source, target, mask = tokens(31, 2, 23), tokens(31, 2, 17), padding(13, 23)
    inputs = {"attention_mask": mask.long(), "decoder_input_ids": target}
    actual = ours(source, target, mask)
    torch.testing.assert_close(actual, theirs(source, **inputs).logits, **CLOSE)
    again = read_back(ours, tmp_path / "ours")
    torch.testing.assert_close(actual, again(source, **inputs).logits, **CLOSE)
    state = ours.start(source, mask)
    for place in range(target.shape[1]):
        logits, state = ours.step(target[:, place], state)
        torch.testing.assert_close(logits, actual[:, place], **CLOSE)
