"""Deep encoder, shallow decoder: answers per second of `transformer-fast` and `transformer-small`.

    SACCADE_DATA=... python benchmarks/depth.py RUN_FAST RUN_SMALL [--rounds 5]

The runs can be those that `benchmarks/quality.py multi30k-transformer-fast
multi30k-transformer-small` trains. Inputs are test sentences of Multi30k, answered by `predict`
with the same engine, in batches of 64 (all sentences) or 1 (some, one after the other). The column
"ours / it" is fast / small.
"""

import os
import sys
import time
from pathlib import Path

import side_by_side
import torch
from quality import data_folder

from saccade.data.sources.text_files import read_lines

ENGINES = ("ctranslate2", "eager")
BEAMS = {"greedy": 1, "beam": 5}
TASKS = [f"{engine}-{kind}-{size}" for engine in ENGINES for kind in BEAMS for size in (64, 1)]
RUNS = "SACCADE_FAST_AND_SMALL"
TEST = "multi30k/tok/test_2016_flickr.lc.norm.tok.en.gz"
ALONE = 64


def prepare(folder: Path) -> None:
    """Link the runs under their names, build their engines, and write the inputs."""
    from saccade.engines import load

    for name, run in zip(("fast", "small"), os.environ[RUNS].split(os.pathsep), strict=True):
        (folder / name).symlink_to(Path(run).resolve())
        load(folder / name, engine="ctranslate2", notify=lambda text: print(text, file=sys.stderr))
    texts = sorted(read_lines(data_folder() / TEST), key=len)
    (folder / "inputs.txt").write_text("\n".join(texts), encoding="utf-8")


def measure(name: str, task: str, folder: Path) -> float:
    """Return the answers per second."""
    import saccade

    engine, kind, size = task.split("-")
    texts = (folder / "inputs.txt").read_text(encoding="utf-8").splitlines()
    run = saccade.load(folder / name, engine=engine)
    alone = size == "1"
    inputs = texts[:: len(texts) // ALONE] if alone else texts
    with torch.no_grad():
        run.predict(inputs[:64], beam=BEAMS[kind], batch_size=int(size))
        start = time.perf_counter()
        for batch in [[text] for text in inputs] if alone else [inputs]:
            run.predict(batch, beam=BEAMS[kind], batch_size=int(size))
    return len(inputs) / (time.perf_counter() - start)


if __name__ == "__main__":
    if "--measure" not in sys.argv:
        if len(sys.argv) < 3:
            sys.exit(__doc__)
        os.environ[RUNS] = os.pathsep.join((sys.argv.pop(1), sys.argv.pop(1)))
    side_by_side.main(
        __file__,
        __doc__ or "",
        {"fast": TASKS, "small": TASKS},
        measure,
        unit="answers",
        prepare=prepare,
        mine=lambda engine: "fast",
    )
