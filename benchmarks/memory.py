"""Peak memory of a training step with a large vocabulary, against computing all logits at once.

    python benchmarks/memory.py

transformer-small (3+3 layers, width 256) over 32 000 tokens, batches of 4 096 tokens of both sides.
Each way runs in a separate process; the result is the most memory that the process held (VmHWM)
minus what it held before the first step. All logits of such a batch would take 250 MiB, and their
log-probabilities and gradients as much again each.
"""

import json
import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor

VOCABULARY, PAIRS, LENGTH = 32_000, 128, 16


def peak_mib() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure(way: str) -> float:
    from saccade.layers.cross_entropy import cross_entropy, plain_cross_entropy
    from saccade.training import recipe

    torch.manual_seed(0)
    config = recipe.load("transformer-small").options.model  # type: ignore[attr-defined]
    model = config.build(VOCABULARY, VOCABULARY).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loss = {"in parts": cross_entropy, "all at once": plain_cross_entropy}[way]
    tokens: Tensor = torch.randint(7, VOCABULARY, (2, PAIRS, LENGTH))
    for (
        parameter
    ) in model.parameters():  # allocate the gradients and the optimizer, which both ways need
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    before = peak_mib()
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        x = model.hidden(tokens[0], tokens[1]).flatten(0, 1)
        loss(x, model.output, tokens[1].flatten(), smoothing=0.1).total.backward()
        optimizer.step()
    return peak_mib() - before


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return
    print("| loss | MiB above the model, its gradients and the optimizer |\n|---|---|")
    for way in ("in parts", "all at once"):
        done = subprocess.run(
            [sys.executable, __file__, way], check=True, capture_output=True, text=True
        )
        print(f"| {way} | {float(done.stdout):,.0f} |")


if __name__ == "__main__":
    main()
