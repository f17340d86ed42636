"""A race: quality against minutes, Saccade by its plain command, others as users set them up.

    SACCADE_DATA=... python benchmarks/race.py [TASK ...] [--minutes 20] [--out runs/race] [--test]
        [--picture FILE]

Every contestant trains on the same data for the same minutes on the same cores, in a process of its
own, with nothing else running. Saccade runs as `saccade train RECIPE --data DATA --minutes M`; its
clock starts with the command and includes preparation, validation and report. The clock of the
others counts training steps only: preparation and validation are free. All models have the same
shape, and all curves are measured on the same validation data.

- huggingface: `Trainer` and `Seq2SeqTrainer` with Marian, GPT-2, BERT or ViT, as documented
- huggingface-grouped: the same with batches of texts of similar length
- torch: `nn.Transformer` in a plain loop
- joeynmt: the command of JoeyNMT, whose start and validations are in its time
- nanogpt: a plain GPT with the settings of nanoGPT's character model for CPUs; nanogpt-large: the
  same with the shape of ours

Finished contestants are kept under --out and not trained again. The table shows the minute at which
ours reaches what each of the others reaches at the end. --test shows the results on test data, with
a beam of 5: use it once, at the end. Hugging Face's contestants need `pip install accelerate`.
JoeyNMT needs `pip install --no-deps joeynmt` and the packages that it imports; without it, it is
left out.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from quality import data_folder
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from saccade.data.sources.text_files import read_lines

VALIDATED = 300
POINTS = 20
PAD, START, STOP = 0, 1, 2


# ------------------------------------------------------------------------------------------ clock


@dataclass
class Curve:
    """Quality against the seconds of training; the clock stands still while quality is measured."""

    minutes: float
    quality: Callable[[], float]
    test: Callable[[], float] | None = None
    points: list[tuple[float, float]] = field(default_factory=list)
    spent: float = 0.0

    def __post_init__(self) -> None:
        self.since = time.monotonic()

    @contextmanager
    def free(self) -> Iterator[None]:
        """Stop the clock inside the block."""
        self.spent += time.monotonic() - self.since
        try:
            yield
        finally:
            self.since = time.monotonic()

    @property
    def seconds(self) -> float:
        return self.spent + time.monotonic() - self.since

    @property
    def over(self) -> bool:
        """Whether the time is up. Measures the quality when a part of the time has passed."""
        due = 60 * self.minutes * (len(self.points) + 1) / POINTS
        seconds = self.seconds
        if seconds >= due:
            with self.free():
                self.points.append((seconds, self.quality()))
                print(f"{self.points[-1][0]:7.0f} s  {self.points[-1][1]:.4f}", flush=True)
        return len(self.points) >= POINTS

    @property
    def progress(self) -> float:
        return min(1.0, self.seconds / (60 * self.minutes))


# ----------------------------------------------------------------------------------- translations


@dataclass
class Pairs:
    """Multi30k en-de, lower-cased and tokenised, as ids of one vocabulary of 10 000."""

    tokenizer: Any
    train: list[tuple[list[int], list[int]]]
    valid: list[tuple[str, str]]
    test: list[tuple[str, str]]

    def bleu(
        self, write: Callable[[Sequence[list[int]]], list[list[int]]], pairs: list[tuple[str, str]]
    ) -> float:
        """Return the BLEU of what a model writes for the sources."""
        sources = [self.tokenizer.encode(source).ids for source, _ in pairs]
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        answers = [""] * len(sources)
        for first in range(0, len(order), 50):
            rows = order[first : first + 50]
            written = write([sources[i] for i in rows])
            for i, ids in zip(rows, written, strict=True):
                answers[i] = self.tokenizer.decode(ids)
        return self.bleu_of(answers, pairs)

    def bleu_of(self, answers: Sequence[str], pairs: list[tuple[str, str]]) -> float:
        """Return the BLEU of one answer per pair."""
        import sacrebleu

        references = [[target for _, target in pairs]]
        return sacrebleu.corpus_bleu(answers, references, tokenize="none", force=True).score


def pairs(out: Path) -> Pairs:
    """Return Multi30k; write the folder that ours reads."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder = data_folder() / "multi30k" / "tok"
    texts: dict[str, list[tuple[str, str]]] = {}
    for split, stem in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr")):
        sides = [
            list(read_lines(folder / f"{stem}.lc.norm.tok.{language}.gz"))
            for language in ("en", "de")
        ]
        texts[split] = list(zip(*sides, strict=True))
    texts["valid"] = texts["valid"][:VALIDATED]
    ours = out / "data" / "translation"
    ours.mkdir(parents=True, exist_ok=True)
    for split, rows in texts.items():
        with (ours / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("source", "target"), *rows])
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=10_000, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([text for row in texts["train"] for text in row], trainer)
    encoded = [
        [item.ids for item in tokenizer.encode_batch([row[side] for row in texts["train"]])]
        for side in (0, 1)
    ]
    return Pairs(tokenizer, list(zip(*encoded, strict=True)), texts["valid"], texts["test"])


def padded(rows: Sequence[list[int]], *, start: bool = False) -> Tensor:
    """Return ids with an end, padded to the longest row."""
    longest = max(map(len, rows)) + 1 + start
    ids = torch.full((len(rows), longest), PAD)
    for i, row in enumerate(rows):
        whole = [START] * start + row + [STOP]
        ids[i, : len(whole)] = torch.tensor(whole)
    return ids


def cut(ids: list[int]) -> list[int]:
    """Return the ids before the end."""
    return ids[: ids.index(STOP)] if STOP in ids else ids


class PlainTransformer(nn.Module):
    """`nn.Transformer` as torch's tutorial on translation has it, with tied embeddings."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 128, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=128**-0.5)
        self.network = nn.Transformer(128, 4, 4, 4, 256, dropout=0.1, batch_first=True)
        places = torch.arange(512)[:, None] / 10_000 ** (torch.arange(0, 128, 2) / 128)
        table = torch.stack((places.sin(), places.cos()), -1).flatten(1)
        self.register_buffer("places", table, persistent=False)

    def embed(self, ids: Tensor) -> Tensor:
        places: Any = self.places
        return F.dropout(
            self.embedding(ids) * 128**0.5 + places[: ids.shape[1]], 0.1, self.training
        )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        hidden = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.bool)
        x = self.network(
            self.embed(source),
            self.embed(target),
            tgt_mask=hidden,
            tgt_is_causal=True,
            src_key_padding_mask=source == PAD,
            memory_key_padding_mask=source == PAD,
        )
        return x @ self.embedding.weight.T

    @torch.no_grad()
    def write(self, sources: Sequence[list[int]]) -> list[list[int]]:
        self.eval()
        source = padded(sources)
        target = torch.full((len(source), 1), START)
        for _ in range(min(60, 2 * source.shape[1] + 10)):
            following = self(source, target)[:, -1].argmax(-1, keepdim=True)
            target = torch.cat((target, following), 1)
            if bool((target == STOP).any(1).all()):
                break
        self.train()
        return [cut(row) for row in target[:, 1:].tolist()]


def torch_translation(data: Pairs, minutes: float, out: Path) -> Curve:
    """Train `nn.Transformer`: AdamW, inverse square root, random batches of 64 pairs."""
    model = PlainTransformer(data.tokenizer.get_vocab_size())
    curve = Curve(minutes, lambda: data.bleu(model.write, data.valid))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, betas=(0.9, 0.98), fused=True)
    generator, step = torch.Generator().manual_seed(0), 0
    while not curve.over:
        rows = torch.randint(len(data.train), (64,), generator=generator).tolist()
        source = padded([data.train[i][0] for i in rows])
        target = padded([data.train[i][1] for i in rows], start=True)
        logits = model(source, target[:, :-1])
        loss = F.cross_entropy(
            logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=0.1
        )
        step += 1
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(step / 1000, math.sqrt(1000 / step))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    save_file(model.state_dict(), out / "model.safetensors")
    return curve


def joeynmt_translation(data: Pairs, minutes: float, out: Path) -> Curve:
    """Train by the command of JoeyNMT, with the options of its recipes for small data.

    The clock includes its own start and validations. The texts are divided into pieces already.
    """
    special = ["<unk>", "<pad>", "<s>", "</s>"]
    symbols: dict[str, Any] = {}
    for i, name in enumerate(("unk", "pad", "bos", "eos")):
        symbols |= {f"{name}_token": special[i], f"{name}_id": i}
    known = {piece: i for piece, i in data.tokenizer.get_vocab().items() if piece not in special}
    pieces = sorted(known, key=lambda piece: known[piece])
    (out / "vocabulary.txt").write_text("\n".join([*special, *pieces]) + "\n", "utf-8")
    names = {i: piece for piece, i in known.items()}
    rows: dict[str, list[tuple[list[int], list[int]]]] = {"train": data.train}
    rows["dev"] = [
        (data.tokenizer.encode(source).ids, data.tokenizer.encode(target).ids)
        for source, target in data.valid
    ]
    for split, some in rows.items():
        for side, language in enumerate(("en", "de")):
            lines = [" ".join(names.get(i, "<unk>") for i in row[side]) for row in some]
            (out / f"{split}.{language}").write_text("\n".join(lines) + "\n", "utf-8")
    pieces_of: dict[str, Any] = {
        "level": "word",
        "lowercase": False,
        "voc_file": str(out / "vocabulary.txt"),
    }
    stack = {
        "type": "transformer",
        "num_layers": 4,
        "num_heads": 4,
        "embeddings": {"embedding_dim": 128, "scale": True, "dropout": 0.1},
        "hidden_size": 128,
        "ff_size": 256,
        "dropout": 0.1,
        "layer_norm": "pre",
    }
    config = {
        "name": "race",
        "model_dir": str(out / "model"),
        "use_cuda": False,
        "random_seed": 0,
        "data": {
            "train": str(out / "train"),
            "dev": str(out / "dev"),
            "dataset_type": "plain",
            "src": {"lang": "en", **pieces_of},
            "trg": {"lang": "de", **pieces_of},
            "special_symbols": symbols,
        },
        "testing": {"beam_size": 1, "batch_size": 64, "eval_metrics": ["bleu"]},
        "training": {
            "optimizer": "adamw",
            "adam_betas": [0.9, 0.98],
            "scheduling": "warmupinversesquareroot",
            "learning_rate": 1e-3,
            "learning_rate_warmup": 1000,
            "clip_grad_norm": 1.0,
            "label_smoothing": 0.1,
            "normalization": "tokens",
            "batch_size": 4096,
            "batch_type": "token",
            "epochs": 10_000,
            "validation_freq": 50,
            "early_stopping_metric": "bleu",
            "keep_best_ckpts": 1,
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": stack,
            "decoder": stack,
        },
    }
    (out / "config.yaml").write_text(json.dumps(config, indent=1), "utf-8")  # JSON is YAML
    command = [sys.executable, "-m", "joeynmt", "train", str(out / "config.yaml"), "--skip-test"]
    joined = {piece: i for i, piece in names.items()}
    curve = Curve(minutes, lambda: 0.0)
    with subprocess.Popen(command, start_new_session=True) as process:
        seen: set[Path] = set()
        while curve.seconds < 60 * minutes and process.poll() is None:
            time.sleep(1)
            for path in sorted(set((out / "model").glob("*.hyps")) - seen):
                lines = path.read_text("utf-8").splitlines()
                if len(lines) < len(data.valid):  # not written completely yet
                    continue
                seen.add(path)
                ids = [
                    [joined[piece] for piece in line.split() if piece in joined] for line in lines
                ]
                answers = [data.tokenizer.decode(one) for one in ids]
                curve.points.append((curve.seconds, data.bleu_of(answers, data.valid)))
                print(f"{curve.points[-1][0]:7.0f} s  {curve.points[-1][1]:.4f}", flush=True)
        process.terminate()
    return curve


# ----------------------------------------------------------------------------------- Hugging Face


def trainer_of(
    model: nn.Module,
    rows: Any,
    collate: Callable[..., Any],
    curve: Curve,
    out: Path,
    *,
    rate: float,
    grouped: bool,
    sequences: bool = False,
) -> Any:
    """Return a `Trainer` that ends with the curve; a linear schedule falls with the clock."""
    import transformers

    class Clock(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            training = model.training
            control.should_training_stop = curve.over
            model.train(training)
            return control

    kind: Any = (
        transformers.Seq2SeqTrainingArguments if sequences else transformers.TrainingArguments
    )
    arguments = kind(
        output_dir=str(out / "trainer"),
        per_device_train_batch_size=32,
        max_steps=10_000_000,
        learning_rate=rate,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        seed=0,
        remove_unused_columns=False,
        **({"train_sampling_strategy": "group_by_length"} if grouped else {}),
    )
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 500) * max(0.01, 1 - curve.progress)
    )
    engine: Any = transformers.Seq2SeqTrainer if sequences else transformers.Trainer
    return engine(
        model=model,
        args=arguments,
        train_dataset=rows,
        data_collator=collate,
        callbacks=[Clock()],
        optimizers=(optimizer, schedule),
    )


def huggingface_translation(data: Pairs, minutes: float, out: Path, *, grouped: bool) -> Curve:
    """Train Marian by `Seq2SeqTrainer`."""
    import transformers

    config = transformers.MarianConfig(
        vocab_size=data.tokenizer.get_vocab_size(),
        d_model=128,
        encoder_layers=4,
        decoder_layers=4,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        max_position_embeddings=512,
        pad_token_id=PAD,
        eos_token_id=STOP,
        bos_token_id=START,
        decoder_start_token_id=START,
        forced_eos_token_id=None,
        scale_embedding=True,
        dropout=0.1,
    )
    model: Any = transformers.MarianMTModel(config)

    def write(sources: Sequence[list[int]], beams: int = 1) -> list[list[int]]:
        model.eval()
        ids = padded(sources)
        with torch.no_grad():
            written = model.generate(
                ids,
                attention_mask=(ids != PAD).long(),
                num_beams=beams,
                max_new_tokens=min(60, 2 * ids.shape[1] + 10),
                do_sample=False,
            )
        return [cut(row) for row in written[:, 1:].tolist()]

    def collate(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        source = padded([row["input_ids"] for row in rows])
        target = padded([row["labels"] for row in rows])
        labels = target.masked_fill(target == PAD, -100)
        return {"input_ids": source, "attention_mask": (source != PAD).long(), "labels": labels}

    rows = [{"input_ids": source, "labels": target} for source, target in data.train]
    curve = Curve(
        minutes,
        lambda: data.bleu(write, data.valid),
        lambda: data.bleu(lambda sources: write(sources, 5), data.test),
    )
    trainer_of(model, rows, collate, curve, out, rate=1e-3, grouped=grouped, sequences=True).train()
    model.save_pretrained(out / "model")
    return curve


# -------------------------------------------------------------------------------- language models


def characters(out: Path) -> tuple[Tensor, Tensor]:
    """Return the characters of Tiny Shakespeare as numbers: nine tenths, and the last tenth."""
    text = (data_folder() / "tinyshakespeare" / "input.txt").read_text("utf-8")
    known = {character: i for i, character in enumerate(sorted(set(text)))}
    ids = torch.tensor([known[character] for character in text])
    edge = len(text) * 9 // 10
    folder = out / "data" / "language"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.txt").write_text(text[:edge], "utf-8")
    (folder / "valid.txt").write_text(text[edge:], "utf-8")
    return ids[:edge], ids[edge:]


def loss_in_blocks(logits: Callable[[Tensor], Tensor], valid: Tensor) -> float:
    """Return the mean loss of a character in blocks of 256 over all validation text."""
    blocks = valid[: (len(valid) - 1) // 256 * 256].view(-1, 256)
    following = valid[1 : blocks.numel() + 1].view(-1, 256)
    total = 0.0
    with torch.no_grad():
        for some, answers in zip(blocks.split(32), following.split(32), strict=True):
            scores = logits(some).flatten(0, 1)
            total += float(F.cross_entropy(scores, answers.flatten(), reduction="sum"))
    return total / blocks.numel()


class PlainGPT(nn.Module):
    """A GPT of pre-norm blocks with learned positions, as nanoGPT has it."""

    def __init__(self, vocabulary: int, dim: int, layers: int, heads: int, block: int) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(vocabulary, dim), nn.Embedding(block, dim)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, 0.0, F.gelu, batch_first=True, norm_first=True, bias=False
        )
        self.layers = nn.TransformerEncoder(
            layer, layers, nn.LayerNorm(dim, bias=False), enable_nested_tensor=False
        )
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        x = self.embedding(ids) + self.places(torch.arange(length))
        hidden = nn.Transformer.generate_square_subsequent_mask(length)
        return self.layers(x, mask=hidden, is_causal=True) @ self.embedding.weight.T


def nanogpt_language(
    data: tuple[Tensor, Tensor], minutes: float, out: Path, *, small: bool
) -> Curve:
    """Train a plain GPT: nanoGPT's settings for characters on a CPU, or in the shape of ours."""
    train, valid = data
    block, count = (64, 12) if small else (256, 4)
    model = PlainGPT(int(train.max()) + 1, 128, 4 if small else 6, 4, 256)
    curve = Curve(minutes, lambda: loss_in_blocks(model, valid))
    optimizer = torch.optim.AdamW(
        model.parameters(), 1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True
    )
    generator, step = torch.Generator().manual_seed(0), 0
    while not curve.over:
        places = torch.randint(len(train) - block - 1, (count, 1), generator=generator)
        window = train[places + torch.arange(block + 1)]
        logits = model(window[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        step += 1
        falling = 0.1 + 0.9 * (1 + math.cos(math.pi * curve.progress)) / 2
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(step / 100, falling)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    save_file(model.state_dict(), out / "model.safetensors")
    return curve


def huggingface_language(data: tuple[Tensor, Tensor], minutes: float, out: Path) -> Curve:
    """Train GPT-2 by `Trainer` on blocks of 256 characters."""
    import transformers

    train, valid = data
    config = transformers.GPT2Config(
        vocab_size=int(train.max()) + 1,
        n_positions=256,
        n_embd=128,
        n_layer=6,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
    )
    model: Any = transformers.GPT2LMHeadModel(config)

    def logits(ids: Tensor) -> Tensor:
        model.eval()
        return model(ids).logits

    blocks = train[: len(train) // 256 * 256].view(-1, 256)
    rows = [{"input_ids": block, "labels": block} for block in blocks]

    def collate(some: list[dict[str, Any]]) -> dict[str, Tensor]:
        return {name: torch.stack([row[name] for row in some]) for name in some[0]}

    curve = Curve(minutes, lambda: loss_in_blocks(logits, valid))
    trainer_of(model, rows, collate, curve, out, rate=1e-3, grouped=False).train()
    model.save_pretrained(out / "model")
    return curve


# ------------------------------------------------------------------------------ sentences, images


@dataclass
class Labelled:
    """Inputs with labels."""

    train: list[tuple[Any, int]]
    valid: list[tuple[Any, int]]
    test: list[tuple[Any, int]]


def accuracy(guess: Callable[[list[Any]], Tensor], rows: Sequence[tuple[Any, int]]) -> float:
    """Return the fraction of inputs whose label a model guesses."""
    right = 0
    with torch.no_grad():
        for first in range(0, len(rows), 100):
            some = rows[first : first + 100]
            guesses = guess([value for value, _ in some])
            right += int((guesses == torch.tensor([label for _, label in some])).sum())
    return right / len(rows)


def phrases(text: str, shortest: int = 1) -> Iterator[str]:
    """Yield the phrases of a text that are shorter than the text."""
    words = text.split()
    for length in range(shortest, len(words)):
        for start in range(len(words) - length + 1):
            yield " ".join(words[start : start + length])


def sentences(out: Path) -> Labelled:
    """Return SST-2 with 1 000 sentences of its training set for validation, as ids of 8 000 pieces.

    The training set also has the phrases of its sentences. Those of the validation sentences are
    left out of the training, so that validation is as hard as the dev set.
    """
    from tokenizers import BertWordPieceTokenizer

    folder = data_folder() / "sst2" / "glue"
    rows = {
        split: [tuple(line.rsplit("\t", 1)) for line in list(read_lines(folder / file))[1:]]
        for split, file in (("train", "train.tsv.gz"), ("test", "dev.tsv"))
    }
    smaller = {phrase for text, _ in rows["train"] for phrase in phrases(text)}
    complete = [row for row in rows["train"] if " ".join(row[0].split()) not in smaller]
    order = np.random.default_rng(0).permutation(len(complete)).tolist()
    valid = [complete[i] for i in order[:1000]]
    seen = {" ".join(text.split()) for text, _ in valid}
    seen |= {phrase for text, _ in valid for phrase in phrases(text, shortest=4)}
    train = [row for row in rows["train"] if " ".join(row[0].split()) not in seen]
    parts = {"valid": valid, "train": train, "test": rows["test"]}
    ours = out / "data" / "sentences"
    ours.mkdir(parents=True, exist_ok=True)
    for split, some in parts.items():
        lines = ["text\tlabel\n", *(f"{text}\t{label}\n" for text, label in some)]
        (ours / f"{split}.tsv").write_text("".join(lines), "utf-8")
    tokenizer = BertWordPieceTokenizer()
    texts = [text for text, _ in parts["train"]]
    tokenizer.train_from_iterator(texts, vocab_size=8000, show_progress=False)
    return Labelled(
        **{
            split: [(tokenizer.encode(text).ids[:128], int(label)) for text, label in some]
            for split, some in parts.items()
        }
    )


def huggingface_sentences(data: Labelled, minutes: float, out: Path, *, grouped: bool) -> Curve:
    """Train BERT by `Trainer`."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=8000,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        num_labels=2,
    )
    model: Any = transformers.BertForSequenceClassification(config)

    def inputs(texts: Sequence[list[int]]) -> dict[str, Tensor]:
        longest = max(map(len, texts))
        ids = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
        return {"input_ids": ids, "attention_mask": (ids != 0).long()}

    def guess(texts: list[Any]) -> Tensor:
        model.eval()
        return model(**inputs(texts)).logits.argmax(-1)

    def collate(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        labels = torch.tensor([row["labels"] for row in rows])
        return {**inputs([row["input_ids"] for row in rows]), "labels": labels}

    rows = [{"input_ids": text, "labels": label} for text, label in data.train]
    curve = Curve(minutes, lambda: accuracy(guess, data.valid), lambda: accuracy(guess, data.test))
    trainer_of(model, rows, collate, curve, out, rate=2e-4, grouped=grouped).train()
    model.save_pretrained(out / "model")
    return curve


def images(out: Path) -> Labelled:
    """Return Fashion-MNIST with 1 000 of its training images for validation."""
    from saccade.data.sources.archives import read_idx

    folder = (data_folder() / "fashion_mnist").resolve()
    names = {"train": "train-{}-ubyte.gz", "test": "t10k-{}-ubyte.gz"}
    pixels = {s: read_idx(folder / f.format("images-idx3"), 3) for s, f in names.items()}
    labels = {s: read_idx(folder / f.format("labels-idx1"), 1).tolist() for s, f in names.items()}
    order = np.random.default_rng(0).permutation(len(labels["train"])).tolist()
    places = {
        "valid": ("train", order[:1000]),
        "train": ("train", sorted(order[1000:])),
        "test": ("test", list(range(len(labels["test"])))),
    }
    ours = out / "data" / "images"
    ours.mkdir(parents=True, exist_ok=True)
    for split, (source, rows) in places.items():
        path = folder / names[source].format("images-idx3")
        lines = [f"{path}/{i}\t{labels[source][i]}\n" for i in rows]
        (ours / f"{split}.tsv").write_text("".join(["image\tlabel\n", *lines]), "utf-8")
    return Labelled(
        **{
            split: [(pixels[source][i], labels[source][i]) for i in rows]
            for split, (source, rows) in places.items()
        }
    )


def huggingface_images(data: Labelled, minutes: float, out: Path) -> Curve:
    """Train ViT by `Trainer`, with random flips."""
    import transformers

    config = transformers.ViTConfig(
        hidden_size=96,
        num_hidden_layers=6,
        num_attention_heads=4,
        intermediate_size=192,
        image_size=28,
        patch_size=4,
        num_channels=1,
        num_labels=10,
    )
    model: Any = transformers.ViTForImageClassification(config)

    def inputs(some: Sequence[Any]) -> Tensor:
        return (torch.from_numpy(np.stack(some))[:, None].float() / 255 - 0.5) / 0.5

    def guess(some: list[Any]) -> Tensor:
        model.eval()
        return model(inputs(some)).logits.argmax(-1)

    def collate(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        pixels = inputs([row["pixel_values"] for row in rows])
        flipped = torch.rand(len(pixels)) < 0.5
        pixels[flipped] = pixels[flipped].flip(-1)
        return {"pixel_values": pixels, "labels": torch.tensor([row["labels"] for row in rows])}

    rows = [{"pixel_values": image, "labels": label} for image, label in data.train]
    curve = Curve(minutes, lambda: accuracy(guess, data.valid), lambda: accuracy(guess, data.test))
    trainer_of(model, rows, collate, curve, out, rate=1e-3, grouped=False).train()
    model.save_pretrained(out / "model")
    return curve


# ------------------------------------------------------------------------------------------- race


@dataclass(frozen=True)
class Race:
    """A task: our recipe, its metric, its data, and the other contestants."""

    recipe: str
    metric: str
    data: Callable[[Path], Any]
    others: dict[str, Callable[..., Curve]]
    scale: float = 1.0

    @property
    def lower_is_better(self) -> bool:
        return self.metric == "valid_loss"


def _with(function: Callable[..., Curve], **options: Any) -> Callable[..., Curve]:
    return lambda data, minutes, out: function(data, minutes, out, **options)


RACES = {
    "translation": Race(
        "transformer-tiny",
        "bleu",
        pairs,
        {
            "huggingface": _with(huggingface_translation, grouped=False),
            "huggingface-grouped": _with(huggingface_translation, grouped=True),
            "torch": torch_translation,
            "joeynmt": joeynmt_translation,
        },
    ),
    "language": Race(
        "gpt-char",
        "valid_loss",
        characters,
        {
            "huggingface": huggingface_language,
            "nanogpt": _with(nanogpt_language, small=True),
            "nanogpt-large": _with(nanogpt_language, small=False),
        },
    ),
    "sentences": Race(
        "bert-mini",
        "accuracy",
        sentences,
        {
            "huggingface": _with(huggingface_sentences, grouped=False),
            "huggingface-grouped": _with(huggingface_sentences, grouped=True),
        },
    ),
    "images": Race("vit-tiny", "accuracy", images, {"huggingface": huggingface_images}),
}


def run_ours(race: Race, name: str, minutes: float, out: Path) -> list[tuple[float, float]]:
    """Train by the plain command; return the curve that its log has."""
    folder = out / name / "ours" / "run"
    command = [sys.executable, "-m", "saccade", "train", race.recipe]
    command += ["--data", str(out / "data" / name), "--minutes", str(minutes), "--out", str(folder)]
    started, prepared, log = time.monotonic(), None, folder / "metrics.jsonl"
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            if prepared is None and log.exists():  # updates begin
                prepared = time.monotonic() - started
            time.sleep(0.05)
    if process.returncode or prepared is None:
        raise SystemExit(f"the command failed: {' '.join(command)}")
    seconds = time.monotonic() - started
    print(f"preparation took {prepared:.0f} s, the complete command {seconds:.0f} s")
    records = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    points = [(prepared + r["seconds"], r[race.metric]) for r in records if race.metric in r]
    if race.metric != "valid_loss":
        command = [sys.executable, "-m", "saccade", "evaluate", str(folder), "--json"]
        command += ["--data", str(out / "data" / name), "--split", "test"]
        command += ["--beam", "5"] if race.metric == "bleu" else []
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        result = json.loads(done.stdout)[race.metric]
        (out / name / "ours" / "test.json").write_text(json.dumps(result), "utf-8")
    return points


def contest(name: str, contestant: str, minutes: float, out: Path) -> None:
    """Train a contestant in this process and write its curve."""
    race, folder = RACES[name], out / name / contestant
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    data = race.data(out)
    if contestant == "ours":
        points = run_ours(race, name, minutes, out)
    else:
        curve = race.others[contestant](data, minutes, folder)
        points = curve.points
        if curve.test is not None:
            (folder / "test.json").write_text(json.dumps(curve.test()), "utf-8")
    if not points:
        raise SystemExit(f"{contestant} was not validated within {minutes} minutes; give it more")
    (folder / "curve.json").write_text(json.dumps(points), "utf-8")


def reached(points: Sequence[tuple[float, float]], quality: float, *, lower: bool) -> float | None:
    """Return the minute at which a curve first has a quality; None if it never has."""
    sign = -1 if lower else 1
    minutes = [seconds / 60 for seconds, value in points if sign * value >= sign * quality]
    return min(minutes, default=None)


def table(out: Path, *, test: bool) -> str:
    """Return the table of all finished contestants."""
    lines = ["| task | contestant | minutes | final | ours reaches it after | ratio | test |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name, race in RACES.items():
        curves = {
            path.parent.name: [tuple(point) for point in json.loads(path.read_text("utf-8"))]
            for path in sorted((out / name).glob("*/curve.json"))
        }
        for contestant, points in curves.items():
            seconds, final = points[-1]
            best = (min if race.lower_is_better else max)(value for _, value in points)
            cells = [name, contestant, f"{seconds / 60:.1f}", f"{final:.4g} (best {best:.4g})"]
            ours = reached(curves.get("ours", []), best, lower=race.lower_is_better)
            if contestant != "ours":
                cells += ["never" if ours is None else f"{ours:.1f} min"]
                cells += ["" if ours is None else f"{seconds / 60 / ours:.1f}"]
            result = out / name / contestant / "test.json"
            shown = f"{json.loads(result.read_text()):.4g}" if test and result.exists() else ""
            lines.append("| " + " | ".join([*[*cells, "", ""][:6], shown]) + " |")
    return "\n".join(lines)


def draw(out: Path, path: Path) -> None:
    """Draw the curves of all finished contestants, one chart per task."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    names = [name for name in RACES if any((out / name).glob("*/curve.json"))]
    figure, every = plt.subplots(1, len(names), figsize=(5 * len(names), 4), squeeze=False)
    for axes, name in zip(every[0], names, strict=True):
        for curve in sorted((out / name).glob("*/curve.json")):
            points = json.loads(curve.read_text("utf-8"))
            ours = curve.parent.name == "ours"
            label = f"saccade train {RACES[name].recipe}" if ours else curve.parent.name
            minutes, values = zip(*((s / 60, value) for s, value in points), strict=True)
            axes.plot(minutes, values, label=label, linewidth=2.5 if ours else 1.2)
        if RACES[name].lower_is_better:
            lowest = min(line.get_ydata().min() for line in axes.lines)
            axes.set_ylim(lowest - 0.05, lowest + 0.8)
        axes.set(title=name, xlabel="minutes", ylabel=RACES[name].metric.replace("_", " "))
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tasks", nargs="*", help=f"default: all of {', '.join(RACES)}")
    parser.add_argument("--minutes", type=float, default=20.0, help="of training (default: 20)")
    parser.add_argument("--out", type=Path, default=Path("runs/race"))
    parser.add_argument("--only", nargs="+", help="contestants (default: all)")
    parser.add_argument("--test", action="store_true", help="show the results on the test data")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the curves")
    parser.add_argument("--contest", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contest:
        name, contestant = options.contest
        contest(name, contestant, options.minutes, options.out)
        return
    for name in options.tasks or RACES:
        for contestant in ("ours", *RACES[name].others):
            done = (options.out / name / contestant / "curve.json").exists()
            if contestant == "joeynmt" and find_spec("joeynmt") is None:
                print("joeynmt: not installed, left out")
                continue
            if done or (options.only and contestant not in options.only):
                continue
            print(f"{name}: {contestant}", flush=True)
            command = [sys.executable, __file__, "--contest", name, contestant]
            command += ["--minutes", str(options.minutes), "--out", str(options.out)]
            subprocess.run(command, check=True)
    print(table(options.out, test=options.test))
    if options.picture:
        draw(options.out, options.picture)


if __name__ == "__main__":
    main()
