"""The cost of attention records: `predict` with attention against `predict` without.

    SACCADE_DATA=... python benchmarks/looking.py RUN [--rounds 5] [--beam 5]

RUN is a translator trained on Multi30k. The eager engine answers all test sentences in batches of
64: without attention, with attention, and with alignments. The three take turns in one process. The
exit code is 1 if their answers differ.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

from quality import data_folder

import saccade
from saccade.data.sources.text_files import read_lines
from saccade.tasks import Answer

TEST = "multi30k/tok/test_2016_flickr.lc.norm.tok.en.gz"
WAYS = ("plain", "attention", "alignment")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beam", type=int, default=5)
    options = parser.parse_args()
    task = saccade.load(options.run)
    texts = list(read_lines(data_folder() / TEST))

    def answer(way: str, texts: list[str]) -> list[Answer]:
        answers: list[Answer] = task.predict(
            texts, beam=options.beam, batch_size=64, attention=way != "plain"
        )
        if way == "alignment":
            for result in answers:
                if result.attention is not None:
                    result.attention.alignment()
        return answers

    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    texts_of: dict[str, list[str]] = {}
    for way in WAYS:
        answer(way, texts[:128])
    for turn in range(options.rounds):
        for way in WAYS if turn % 2 == 0 else reversed(WAYS):
            start = time.perf_counter()
            texts_of[way] = [result.text for result in answer(way, texts)]
            taken[way].append(time.perf_counter() - start)
    for way in WAYS:
        ratios = [one / plain for one, plain in zip(taken[way], taken["plain"], strict=True)]
        rounds = ", ".join(f"{seconds:.1f}" for seconds in taken[way])
        print(f"{way}: {rounds} s; {statistics.median(ratios):.3f} x plain (median of the rounds)")
    same = all(texts_of[way] == texts_of["plain"] for way in WAYS)
    print(f"{len(texts)} answers, {'all equal' if same else 'NOT equal'}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
