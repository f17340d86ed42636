"""Masked language models, fine-tuning and generation against transformers of Hugging Face.

    python benchmarks/language.py [--rounds 3] [--tasks masked finetune generate-1 generate-16]

    masked        a training step of a masked language model, 6 layers of width 384, feed-forward
                  1 536, 12 heads, 30 522 tokens: BertForMaskedLM. Batches of 32 x 128 tokens, 15 %
                  of them masked. `masked-all` also has dropout on the attention weights.
    finetune      a training step of a classifier of the same size on sentences of the lengths of
                  SST-2 (from SACCADE_DATA, otherwise sampled): BertForSequenceClassification on
                  random batches of 32 padded to their longest, as is common, ours on batches by
                  length of as many tokens.
    generate-N    gpt-mini (6 layers of width 192, 8 000 tokens), 96 tokens after a prompt of 16,
                  for N prompts at once, greedily: GPT2LMHeadModel.generate. Ours divides the
                  prompts among threads as `predict` does.

Dropout is 0.1 at the same places. Training counts real tokens, generation the tokens generated.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import side_by_side
import torch
from torch import Tensor

VOCABULARY, DIM, HEADS, LAYERS, HIDDEN = 30522, 384, 12, 6, 1536
GPT_VOCABULARY, GPT_DIM, GPT_HEADS, GPT_LAYERS = 8000, 192, 6, 6
ROWS, LENGTH, MASKED = 32, 128, 0.15
PROMPT, GENERATED = 16, 96
STEPS, WARM = 7, 2
TASKS = ["masked", "masked-all", "finetune", "generate-1", "generate-16"]
ENGINES = {"ours": TASKS, "transformers": TASKS}


def encoder_options(attention_dropout: float) -> dict[str, Any]:
    from saccade.encoders.transformer import TransformerEncoderConfig
    from saccade.positions import LearnedConfig

    encoder = TransformerEncoderConfig(
        num_layers=LAYERS,
        num_heads=HEADS,
        hidden_dim=HIDDEN,
        norm_order="post",
        activation="gelu",
        attention_dropout=attention_dropout,
        stem_norm=True,
        position=LearnedConfig(length=512),
    )
    return {"encoder": encoder, "dim": DIM, "num_segments": 2, "scale_embedding": False}


def bert_options(attention_dropout: float) -> Any:
    import transformers

    return transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=DIM,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=HIDDEN,
        attention_probs_dropout_prob=attention_dropout,
    )


def masked(name: str, attention_dropout: float) -> float:
    """Return the tokens per second of training a masked language model."""
    if name == "ours":
        from saccade.layers.cross_entropy import cross_entropy
        from saccade.models import MaskedLanguageModelConfig

        config = MaskedLanguageModelConfig(**encoder_options(attention_dropout))
        model: Any = config.build(VOCABULARY)

        def loss(tokens: Tensor, places: Tensor) -> Tensor:
            states = model.read(tokens).states.flatten(0, 1)
            x = model.transform(states.index_select(0, places))
            targets = tokens.flatten().index_select(0, places)
            return cross_entropy(x, model.output, targets).total / len(places)
    else:
        import transformers

        model = transformers.BertForMaskedLM(bert_options(attention_dropout))

        def loss(tokens: Tensor, places: Tensor) -> Tensor:
            labels = torch.full_like(tokens.flatten(), -100)
            labels[places] = tokens.flatten()[places]
            return model(input_ids=tokens, labels=labels.view_as(tokens)).loss

    generator = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(STEPS):
        tokens = torch.randint(999, VOCABULARY, (ROWS, LENGTH), generator=generator)
        chosen = torch.rand(ROWS * LENGTH, generator=generator) < MASKED
        batches.append((tokens, chosen.nonzero().squeeze(1)))
    return trained(model, loss, batches, [ROWS * LENGTH] * STEPS)


def finetune(name: str) -> float:
    """Return the real tokens per second of training a classifier."""
    lengths = sentence_lengths()
    rows = list(by_length(lengths) if name == "ours" else at_random(lengths))
    if name == "ours":
        from saccade.models import TextClassifierConfig

        config = TextClassifierConfig(**encoder_options(0.0), dropout=0.1)
        model: Any = config.build(VOCABULARY, 2)

        def loss(tokens: Tensor, mask: Tensor) -> Tensor:
            logits = model(tokens, mask, torch.zeros_like(tokens))
            return torch.nn.functional.cross_entropy(logits, tokens[:, 0] % 2)
    else:
        import transformers

        model = transformers.BertForSequenceClassification(bert_options(0.0))

        def loss(tokens: Tensor, mask: Tensor) -> Tensor:
            return model(input_ids=tokens, attention_mask=mask.long(), labels=tokens[:, 0] % 2).loss

    batches = []
    for chosen in rows:
        of_batch = torch.from_numpy(lengths[chosen])
        mask = torch.arange(int(of_batch.max())) < of_batch.unsqueeze(1)
        batches.append((torch.randint(999, VOCABULARY, mask.shape) * mask, mask))
    return trained(model, loss, batches, [int(mask.sum()) for _, mask in batches])


def sentence_lengths() -> np.ndarray:
    """Return the lengths of the sentences of SST-2 with two control tokens, or sampled ones."""
    folder = os.environ.get("SACCADE_DATA")
    if not folder:
        sampled = np.random.default_rng(0).gamma(1.6, 8.0, 20_000)
        return np.clip(sampled, 3, 64).astype(np.int64)
    from saccade.data.sources import open_corpus
    from saccade.tasks._shared.classifier import LABEL
    from saccade.tasks.text_classification import PAIR, TEXT

    train = open_corpus(Path(folder) / "sst2" / "glue", (TEXT, PAIR, LABEL)).splits["train"]
    return np.array([len(row.values[0].split()) + 2 for row in train])


def by_length(lengths: np.ndarray) -> Iterator[np.ndarray]:
    from saccade.data.batches.plan import Plan

    plan = Plan(lengths=lengths[:, None], budget=ROWS * int(lengths.mean()), seed=0)
    for step in range(8 * STEPS):
        yield plan.update(step)[0].rows


def at_random(lengths: np.ndarray) -> Iterator[np.ndarray]:
    order = np.random.default_rng(0).permutation(len(lengths))
    for i in range(8 * STEPS):
        yield order[ROWS * i : ROWS * (i + 1)]


def trained(model: Any, loss: Any, batches: list[Any], tokens: list[int]) -> float:
    """Train on all batches and return the tokens per second of all but the first."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    start = 0.0
    for i, batch in enumerate(batches):
        if i == WARM:
            start = time.perf_counter()
        value = loss(*batch)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return sum(tokens[WARM:]) / (time.perf_counter() - start)


def generate(name: str, rows: int) -> float:
    """Return the tokens per second of continuing prompts."""
    prompt = torch.randint(
        9, GPT_VOCABULARY, (rows, PROMPT), generator=torch.Generator().manual_seed(0)
    )
    if name == "ours":
        from saccade.decoding import GenerationLimits, greedy
        from saccade.training import recipe

        config = recipe.load("gpt-mini").options.model  # type: ignore[attr-defined]
        model = config.build(GPT_VOCABULARY).eval()
        limits = GenerationLimits(stop=2, max_length=GENERATED, min_length=GENERATED)

        def write_rows(prompt: Tensor) -> int:
            hypotheses = greedy(model, model.start(prompt), prompt[:, -1], limits)
            return sum(len(best[0].tokens) for best in hypotheses)

        def write() -> None:
            assert side_by_side.divided(write_rows, prompt) == rows * GENERATED
    else:
        import transformers

        options = transformers.GPT2Config(
            vocab_size=GPT_VOCABULARY,
            n_positions=128,
            n_embd=GPT_DIM,
            n_layer=GPT_LAYERS,
            n_head=GPT_HEADS,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
        model = transformers.GPT2LMHeadModel(options).eval()
        mask = torch.ones_like(prompt)

        def write() -> None:
            tokens = model.generate(
                prompt,
                attention_mask=mask,
                do_sample=False,
                min_new_tokens=GENERATED,
                max_new_tokens=GENERATED,
            )
            assert tokens.shape[1] == PROMPT + GENERATED

    with torch.no_grad():
        write()
        start = time.perf_counter()
        for _ in range(3):
            write()
    return 3 * rows * GENERATED / (time.perf_counter() - start)


def measure(name: str, task: str, folder: Path) -> float:
    torch.manual_seed(0)
    kind, _, rest = task.partition("-")
    if kind == "masked":
        return masked(name, 0.1 if rest else 0.0)
    return finetune(name) if kind == "finetune" else generate(name, int(rest))


if __name__ == "__main__":
    side_by_side.main(__file__, __doc__ or "", ENGINES, measure, unit="tokens")
