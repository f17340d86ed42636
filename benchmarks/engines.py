"""Answers per second of each engine by `predict`, and of CTranslate2 and Marian called directly.

    SACCADE_DATA=... python benchmarks/engines.py [--rounds 5] [--tasks greedy-64 beam-1 …]

All engines use one run: the "small" translator (3+3 layers of width 256, post-norm, sinusoids in
halves, so that Marian in transformers can load its weights), trained briefly so that answers end;
or `SACCADE_RUN=folder`, a run of that kind (of another kind, without Marian). A well-trained run is
better: answers that do not end run up to a limit, which differs between engines. Inputs are test
sentences of Multi30k, or of the built-in phrases without SACCADE_DATA.

"ours-eager", "ours-int8" and "ours-float32" are `task.predict`, text in and text out.
"ctranslate2-int8" and "ctranslate2-float32" are `Translator.translate_batch` with the same folder,
workers, limit and options, text in and text out by the same tokenizer. "marian" is
`MarianMTModel.generate` with the same weights, exported. Tasks are greedy or beam 5 with batches of
64 (all sentences) or 1 (some, one after the other).
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import side_by_side
import torch

TASKS = ["greedy-64", "beam-64", "greedy-1", "beam-1"]
ENGINES = {
    "ours-int8": TASKS,
    "ours-float32": TASKS,
    "ours-eager": TASKS,
    "ctranslate2-int8": TASKS,
    "ctranslate2-float32": TASKS,
    "marian": TASKS,
}
NAMES = {
    "ours-int8": "ctranslate2",
    "ours-float32": "ctranslate2-float32",
    "ours-eager": "eager",
}
SENTENCES, ALONE = 512, 48
STEPS = 300
CHANGES = [
    f"model.{side}.{key}={value}"
    for side in ("encoder", "decoder")
    for key, value in {
        "norm_order": "post",
        "position": '{ kind = "sinusoidal", layout = "halves" }',
    }.items()
]
Answer = Callable[[list[str], int, int], object]
"""A function of texts, beam size and batch size."""


def corpus() -> dict[str, Any]:
    """Return the source of the pairs as options of `train`."""
    folder = os.environ.get("SACCADE_DATA")
    if folder is None:
        return {"data": "builtin:phrases"}
    return {"data": Path(folder) / "multi30k" / "tok", "pair": "en-de"}


def prepare(folder: Path) -> None:
    """Prepare the run, its folders for CTranslate2 and transformers, and the inputs."""
    from saccade.data.sources import open_corpus
    from saccade.engines import load
    from saccade.errors import InteropError
    from saccade.interop import export_task
    from saccade.tasks.text_to_text import SOURCE, TARGET
    from saccade.training import session

    run = folder / "run"
    if trained := os.environ.get("SACCADE_RUN"):
        run.symlink_to(Path(trained).resolve())
    else:
        session.train(
            "transformer-small",
            out=run,
            changes=[*CHANGES, "training.validate_items=64"],
            max_steps=STEPS,
            cache=folder / "cache",
            **corpus(),
        )
    for engine in ("ctranslate2", "ctranslate2-float32"):
        load(run, engine=engine, notify=print)
    try:
        export_task(session.load(run), "huggingface", folder / "marian")
    except InteropError as error:
        print(f"without marian: {error}")
    where = corpus()
    splits = open_corpus(where["data"], (SOURCE, TARGET), pair=where.get("pair")).splits
    rows = splits.get("test", splits["valid"])
    texts = list(dict.fromkeys(row.values[0] for row in rows))[:SENTENCES]
    (folder / "inputs.txt").write_text("\n".join(texts), encoding="utf-8")


def ours(name: str, folder: Path) -> Answer:
    """Return `predict` with one of our engines."""
    import saccade

    task = saccade.load(folder / "run", engine=NAMES[name])

    def answer(texts: list[str], beam: int, size: int) -> object:
        return task.predict(texts, beam=beam, batch_size=size)

    return answer


def direct(name: str, folder: Path) -> Answer:
    """Return CTranslate2's own translator with the options that `predict` uses."""
    import ctranslate2

    import saccade

    task: Any = saccade.load(folder / "run")
    numbers = name.removeprefix("ctranslate2-")
    translator = ctranslate2.Translator(
        str(folder / "run" / "engines" / name),
        compute_type=numbers,
        inter_threads=torch.get_num_threads(),
        intra_threads=1,
    )
    from saccade.interop.ctranslate2.vocabulary import TokenNames

    names = TokenNames(task.target)
    longest = task.config.generation.longest(16)

    def answer(texts: list[str], beam: int, size: int) -> object:
        source = [names.of(ids) for ids in task.source.encode_batch(texts)]
        results = translator.translate_batch(
            source,
            max_batch_size=size,
            beam_size=beam,
            max_decoding_length=longest,
            min_decoding_length=0,
            return_scores=True,
            suppress_sequences=[[name] for name in names.of(task.limits(longest).forbidden)],
        )
        written = [[names.ids[token] for token in result.hypotheses[0]] for result in results]
        return task.target.decode_batch(written)

    return answer


def marian(folder: Path) -> Answer:
    """Return the model and tokenizer of transformers with the same weights."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "marian")
    model = transformers.MarianMTModel.from_pretrained(folder / "marian").eval()

    def answer(texts: list[str], beam: int, size: int) -> object:
        answers = []
        for at in range(0, len(texts), size):
            batch = tokenizer(texts[at : at + size], padding=True, return_tensors="pt")
            tokens = model.generate(
                **batch, num_beams=beam, do_sample=False, max_new_tokens=42, max_length=None
            )
            answers += tokenizer.batch_decode(tokens, skip_special_tokens=True)
        return answers

    return answer


def measure(name: str, task: str, folder: Path) -> float:
    """Return the answers per second."""
    texts = (folder / "inputs.txt").read_text(encoding="utf-8").splitlines()
    kind, size = task.split("-")
    beam = 1 if kind == "greedy" else 5
    if name in NAMES:
        answer = ours(name, folder)
    else:
        answer = marian(folder) if name == "marian" else direct(name, folder)
    inputs = sorted(texts, key=len)  # transformers does not sort them itself
    with torch.no_grad():
        if size == "64":
            answer(inputs[:64], beam, 64)
            start = time.perf_counter()
            answer(inputs, beam, 64)
            return len(inputs) / (time.perf_counter() - start)
        answer(inputs[:1], beam, 1)
        alone = inputs[:: max(1, len(inputs) // ALONE)]
        start = time.perf_counter()
        for text in alone:
            answer([text], beam, 1)
        return len(alone) / (time.perf_counter() - start)


if __name__ == "__main__":
    side_by_side.main(
        __file__,
        __doc__ or "",
        ENGINES,
        measure,
        unit="answers",
        prepare=prepare,
        mine=lambda engine: (
            f"ours-{engine.removeprefix('ctranslate2-')}"
            if engine.startswith("ctranslate2")
            else "ours-int8"
        ),
    )
