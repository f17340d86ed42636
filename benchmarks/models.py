"""Training and generation of our Translator against its peers, each in a separate process.

    SACCADE_DATA=... python benchmarks/models.py [--rounds 3] [--tasks train greedy-64 …]

The peers are `nn.Transformer` in a plain loop, Marian of Hugging Face in the same size (needs the
package `transformers`), and for the recurrent Translator a straightforward implementation that does
all of its work in each step. Transformers: "small" 3+3 layers, width 256, feed-forward 1 024,
"base" 6+6, 512, 2 048; 8 heads, 8 000 tokens, dropout 0.1 at the same places. Batches are those of
Multi30k en-de, sorted by length into 4 096 tokens of both sides together; `train-random` gives the
peers random batches of 128 pairs instead, as is common. Without SACCADE_DATA, lengths are sampled.
Training counts target tokens that are not padding; each engine computes its loss as it would in
practice. "ours-processes" is `saccade train --processes 2`: two processes of one thread, with
everything else that training does (clipping, averaging of weights, exchange of gradients); it needs
SACCADE_DATA. Generation is forced to 20 tokens; ours divides a batch among threads as `predict`
does, and "marian-divided" is Marian divided in the same way. Engines take turns, and the median of
the rounds counts.
"""

import json
import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import side_by_side
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from saccade.cli.processes import launch

VOCABULARY, DIM, HEADS, LAYERS, HIDDEN, DROPOUT = 8000, 256, 8, 3, 1024, 0.1
PAD, START, STOP, GENERATED = 0, 1, 2, 20
TASKS = ["train", "train-random", "train-base", "greedy-64", "greedy-1", "beam-64", "beam-1"]
SMALL = [task for task in TASKS if task != "train-base"]
ENGINES = {
    "ours": TASKS,
    "ours-processes": ["train", "train-base"],
    "torch": ["train", "train-random", "greedy-64", "greedy-1"],
    "marian": TASKS,
    "marian-divided": ["greedy-64", "beam-64"],
    "ours-rnn": [task for task in SMALL if task != "train-random"],
    "step-rnn": ["train"],
}
STEPS, WARM = 12, 3
REPEATS = 10


def pairs() -> list[tuple[list[int], list[int]]]:
    """Return the token ids of Multi30k, or random ones of similar lengths."""
    folder = os.environ.get("SACCADE_DATA")
    if not folder:
        generator = torch.Generator().manual_seed(0)
        lengths = (torch.randn(29000, generator=generator) * 4 + 14).clamp(4, 35).long().tolist()

        def ids(length: int) -> list[int]:
            return torch.randint(7, VOCABULARY, (length,), generator=generator).tolist()

        return [(ids(length), ids(length)) for length in lengths]
    from saccade.data.sources import open_corpus
    from saccade.tasks.text_to_text import SOURCE, TARGET
    from saccade.text import Tokenizer, VocabularyConfig

    where = Path(folder) / "multi30k" / "tok"
    corpus = open_corpus(where, (SOURCE, TARGET), pair="en-de")
    rows = [row.values for row in corpus.splits["train"]]
    both = (text for row in rows for text in row)
    tokenizer = Tokenizer.train(both, VocabularyConfig(size=VOCABULARY))
    sides = [tokenizer.encode_batch([row[side] for row in rows]) for side in (0, 1)]
    return list(zip(*sides, strict=True))


def prepare(folder: Path) -> None:
    """Write the batches of both kinds, which all engines share."""
    from saccade.data.batches.collate import pad
    from saccade.data.batches.plan import Plan

    examples = pairs()
    lengths = np.array([[len(source) + 1, len(target) + 1] for source, target in examples])
    plan = Plan(lengths=lengths, budget=4096, seed=0)
    order = np.random.default_rng(0).permutation(len(examples))
    kinds = {
        "sorted": [plan.update(step)[0].rows for step in range(STEPS)],
        "random": [order[128 * i : 128 * (i + 1)] for i in range(STEPS)],
    }
    arrays = {}
    for kind, chosen in kinds.items():
        for i, rows in enumerate(chosen):
            arrays[f"{kind}-source-{i}"] = pad([examples[j][0] for j in rows], end=STOP)[0].numpy()
            targets = pad([examples[j][1] for j in rows], start=START, end=STOP)[0]
            arrays[f"{kind}-target-{i}"] = targets.numpy()
    np.savez(folder / "batches.npz", allow_pickle=False, **arrays)


def batches(folder: Path, kind: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the batches that `prepare` wrote."""
    with np.load(folder / "batches.npz", allow_pickle=False) as arrays:
        for i in range(STEPS):
            yield (
                torch.from_numpy(arrays[f"{kind}-source-{i}"]),
                torch.from_numpy(arrays[f"{kind}-target-{i}"]),
            )


# ----------------------------------------------------------------------------------- the engines


class Ours:
    """Our Translator, Transformer or recurrent."""

    def __init__(self, *, recurrent: bool, base: bool) -> None:
        from saccade.decoders.recurrent import RecurrentDecoderConfig
        from saccade.decoders.transformer import TransformerDecoderConfig
        from saccade.encoders.recurrent import RecurrentEncoderConfig
        from saccade.encoders.transformer import TransformerEncoderConfig
        from saccade.models import TranslatorConfig

        dim, layers, hidden = (512, 6, 2048) if base else (DIM, LAYERS, HIDDEN)
        block: dict[str, Any] = {"num_layers": layers, "num_heads": HEADS, "hidden_dim": hidden}
        config = TranslatorConfig(
            encoder=RecurrentEncoderConfig(dim=DIM, dropout=DROPOUT)
            if recurrent
            else TransformerEncoderConfig(**block, dropout=DROPOUT),
            decoder=RecurrentDecoderConfig(dim=DIM, dropout=DROPOUT)
            if recurrent
            else TransformerDecoderConfig(**block, dropout=DROPOUT),
            dim=dim,
            share_embeddings=True,
        )
        self.model = config.build(VOCABULARY, VOCABULARY)
        self.layouts: Any = {}

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        from saccade.layers.cross_entropy import cross_entropy

        places = (target[:, 1:] != PAD).flatten().nonzero().squeeze(1)
        x = self.model.hidden(source, target[:, :-1], source != PAD).flatten(0, 1)
        labels = target[:, 1:].flatten().index_select(0, places)
        loss = cross_entropy(x.index_select(0, places), self.model.output, labels, smoothing=0.1)
        return loss.total / len(places)

    def generate(self, source: Tensor, beam: int) -> int:
        from saccade.decoders.fast_path import sharing
        from saccade.decoding import GenerationLimits, beam_search, greedy

        limits = GenerationLimits(stop=STOP, max_length=GENERATED, min_length=GENERATED)

        def write(source: Tensor) -> int:
            first = torch.full((len(source),), START)
            with sharing(self.layouts):  # as one call of `predict` does for all its batches
                state = self.model.start(source, source != PAD)
                hypotheses = (
                    greedy(self.model, state, first, limits)
                    if beam == 1
                    else beam_search(self.model, state, first, limits, beam=beam)
                )
            return sum(len(best[0].tokens) for best in hypotheses)

        return side_by_side.divided(write, source)


class Peer(ABC):
    """A peer that computes its loss over all positions at once, without padding."""

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            self.logits(source, target[:, :-1]).flatten(0, 1),
            target[:, 1:].flatten(),
            ignore_index=PAD,
            label_smoothing=0.1,
        )

    @abstractmethod
    def logits(self, source: Tensor, target: Tensor) -> Tensor: ...


class Torch(Peer):
    """`nn.Transformer` as its tutorial uses it."""

    def __init__(self) -> None:
        self.model = nn.ModuleDict(
            {
                "source": nn.Embedding(VOCABULARY, DIM),
                "target": nn.Embedding(VOCABULARY, DIM),
                "transformer": nn.Transformer(
                    DIM, HEADS, LAYERS, LAYERS, HIDDEN, DROPOUT, batch_first=True
                ),
            }
        )
        self.places = nn.Parameter(torch.randn(256, DIM))
        for module in self.model.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0

    def _embedded(self, side: str, tokens: Tensor) -> Tensor:
        x = self.model[side](tokens) * DIM**0.5 + self.places[: tokens.shape[1]]
        return F.dropout(x, DROPOUT, self.model.training)

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        hidden = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        padded = source == PAD
        x = self.model["transformer"](
            self._embedded("source", source),
            self._embedded("target", target),
            tgt_mask=hidden,
            tgt_is_causal=True,
            src_key_padding_mask=padded,
            memory_key_padding_mask=padded,
        )
        return x @ self.model["target"].weight.T

    def generate(self, source: Tensor, beam: int) -> int:
        transformer: Any = self.model["transformer"]
        memory = transformer.encoder(self._embedded("source", source))
        target = torch.full((len(source), 1), START)
        for _ in range(GENERATED):
            hidden = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
            x = transformer.decoder(self._embedded("target", target), memory, tgt_mask=hidden)
            logits = x[:, -1] @ self.model["target"].weight.T
            logits[:, STOP] = -torch.inf
            target = torch.cat((target, logits.argmax(-1, keepdim=True)), 1)
        return target[:, 1:].numel()


class Marian(Peer):
    """`MarianMTModel` of Hugging Face with its own `generate`."""

    def __init__(self, *, base: bool, divided: bool = False) -> None:
        import transformers

        self.divided = divided
        dim, layers, hidden = (512, 6, 2048) if base else (DIM, LAYERS, HIDDEN)
        self.model = transformers.MarianMTModel(
            transformers.MarianConfig(
                vocab_size=VOCABULARY,
                d_model=dim,
                encoder_layers=layers,
                decoder_layers=layers,
                encoder_attention_heads=HEADS,
                decoder_attention_heads=HEADS,
                encoder_ffn_dim=hidden,
                decoder_ffn_dim=hidden,
                dropout=DROPOUT,
                attention_dropout=0.0,
                activation_dropout=0.0,
                activation_function="relu",
                max_position_embeddings=256,
                pad_token_id=PAD,
                eos_token_id=STOP,
                decoder_start_token_id=START,
                forced_eos_token_id=None,
                scale_embedding=True,
            )
        )

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        return self.model(
            input_ids=source, attention_mask=source != PAD, decoder_input_ids=target
        ).logits

    def generate(self, source: Tensor, beam: int) -> int:
        def write(source: Tensor) -> int:
            return self._write(source, beam)

        return side_by_side.divided(write, source) if self.divided else write(source)

    def _write(self, source: Tensor, beam: int) -> int:
        tokens = self.model.generate(
            input_ids=source,
            attention_mask=source != PAD,
            num_beams=beam,
            do_sample=False,
            min_new_tokens=GENERATED,
            max_new_tokens=GENERATED,
        )
        return tokens[:, 1:].numel()


class StepRecurrent(Peer):
    """Bahdanau's model in a straightforward implementation: everything happens in each step."""

    def __init__(self) -> None:
        self.model = nn.ModuleDict(
            {
                "source": nn.Embedding(VOCABULARY, DIM),
                "target": nn.Embedding(VOCABULARY, DIM),
                "encoder": nn.GRU(DIM, DIM, batch_first=True, bidirectional=True),
                "cell": nn.GRUCell(3 * DIM, DIM),
                "first": nn.Linear(2 * DIM, DIM),
                "of_query": nn.Linear(DIM, 2 * DIM, bias=False),
                "of_keys": nn.Linear(2 * DIM, 2 * DIM, bias=False),
                "energy": nn.Linear(2 * DIM, 1, bias=False),
                "readout": nn.Linear(3 * DIM, DIM),
                "output": nn.Linear(DIM, VOCABULARY, bias=False),
            }
        )

    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        part, training = self.model, self.model.training
        mask = source != PAD
        packed = nn.utils.rnn.pack_padded_sequence(
            F.dropout(part["source"](source), DROPOUT, training),
            mask.sum(1),
            batch_first=True,
            enforce_sorted=False,
        )
        states, last = part["encoder"](packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
        state = torch.tanh(part["first"](torch.cat((last[0], last[1]), -1)))
        logits = []
        for tokens in target.unbind(1):
            x = F.dropout(part["target"](tokens), DROPOUT, training)
            query = part["of_query"](state).unsqueeze(1)
            scores = part["energy"](torch.tanh(query + part["of_keys"](states))).squeeze(-1)
            weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
            context = (weights.unsqueeze(1) @ states).squeeze(1)
            state = part["cell"](torch.cat((x, context), -1), state)
            read = torch.tanh(part["readout"](torch.cat((state, context), -1)))
            logits.append(part["output"](F.dropout(read, DROPOUT, training)))
        return torch.stack(logits, 1)

    def generate(self, source: Tensor, beam: int) -> int:
        raise SystemExit("step-rnn is a peer for training only")


def engine(name: str, *, base: bool) -> Any:
    builders: dict[str, Callable[[], Any]] = {
        "ours": lambda: Ours(recurrent=False, base=base),
        "torch": Torch,
        "marian": lambda: Marian(base=base),
        "marian-divided": lambda: Marian(base=base, divided=True),
        "ours-rnn": lambda: Ours(recurrent=True, base=base),
        "step-rnn": StepRecurrent,
    }
    torch.manual_seed(0)
    return builders[name]()


# ------------------------------------------------------------------------------- the measurement


def in_processes(task: str, folder: Path) -> float:
    """Return the tokens per second of a complete training in two processes, after warm-up."""
    data = Path(os.environ["SACCADE_DATA"]) / "multi30k" / "tok"
    out = Path(tempfile.mkdtemp(dir=folder)) / "run"
    recipe = "transformer-base" if task == "train-base" else "transformer-small"
    changes = {
        "text.source.size": VOCABULARY,
        "training.batch_tokens": 4096,
        "training.accumulate": 2,  # batches of an update, one per process
        "training.log_every": 1,
        "training.validate_items": 0,
        "training.select_by": "loss",
        "model.encoder.dropout": DROPOUT,
        "model.decoder.dropout": DROPOUT,
    }
    command = ["train", recipe, "--data", str(data), "--pair", "en-de", "--out", str(out)]
    command += ["--max-steps", str(STEPS + 1), "--cache", str(folder / "cache"), "--quiet"]
    command += ["--processes", "2", *(f"--set={key}={value}" for key, value in changes.items())]
    if code := launch(2, command):
        raise SystemExit(code)
    lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    updates = [record for record in map(json.loads, lines) if "tokens_per_second" in record]
    return float(updates[-1]["tokens_per_second"])


def measure(name: str, task: str, folder: Path) -> float:
    """Return the tokens per second of one engine at one task."""
    if name == "ours-processes":
        return in_processes(task, folder)
    subject = engine(name, base=task == "train-base")
    if task.startswith("train"):
        subject.model.train()
        optimizer = torch.optim.AdamW(subject.model.parameters(), lr=3e-4)
        tokens, start = 0, 0.0
        # ours never uses random batches; the peers get them as is common
        kind = "random" if task == "train-random" and name != "ours" else "sorted"
        for i, (source, target) in enumerate(batches(folder, kind)):
            if i == WARM:
                tokens, start = 0, time.perf_counter()
            loss = subject.loss(source, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            tokens += int((target[:, 1:] != PAD).sum())
        return tokens / (time.perf_counter() - start)
    kind, size = task.split("-")
    subject.model.eval()
    source = torch.randint(3, VOCABULARY, (int(size), 15))
    with torch.no_grad():
        for _ in range(3):
            subject.generate(source, 1 if kind == "greedy" else 5)
        start, tokens = time.perf_counter(), 0
        for _ in range(REPEATS):
            tokens += subject.generate(source, 1 if kind == "greedy" else 5)
    assert tokens == REPEATS * int(size) * GENERATED, (name, task, tokens)
    return tokens / (time.perf_counter() - start)


if __name__ == "__main__":
    side_by_side.main(
        __file__,
        __doc__ or "",
        ENGINES,
        measure,
        unit="tokens",
        prepare=prepare,
        mine=lambda engine: "ours-rnn" if engine.endswith("rnn") else "ours",
    )
