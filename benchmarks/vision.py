"""A training step of a Vision Transformer against that of Hugging Face, and against its matmuls.

    python benchmarks/vision.py [--rounds 3]

12 layers of width 192, 3 heads, feed-forward 768, images of 32 x 32 in patches of 4, a class token,
10 classes, batches of 64, no dropout: `ViTForImageClassification` of the same size. Ours trains as
`saccade train` does: freed memory is kept for the next step, and AdamW is fused. "products" is the
number of images per second if the machine did nothing but the matrix products of the step, at the
speed of a large square one: the last column is the fraction of that speed that our training step
reaches.
"""

import time
from pathlib import Path
from typing import Any

import side_by_side
import torch
from torch import Tensor
from torch.nn import functional as F

from saccade.allocator import keep_freed_memory

DIM, HEADS, LAYERS, HIDDEN = 192, 3, 12, 768
SIZE, PATCH, CLASSES, BATCH = 32, 4, 10, 64
TOKENS = (SIZE // PATCH) ** 2 + 1
STEPS, WARM = 12, 3
ENGINES = {name: ["step"] for name in ("ours", "transformers", "products")}


def ours() -> Any:
    from saccade.encoders.transformer import TransformerEncoderConfig
    from saccade.models import ImageClassifierConfig
    from saccade.positions import LearnedConfig

    encoder = TransformerEncoderConfig(
        num_layers=LAYERS,
        num_heads=HEADS,
        hidden_dim=HIDDEN,
        activation="gelu",
        dropout=0.0,
        position=LearnedConfig(),
    )
    config = ImageClassifierConfig(encoder=encoder, dim=DIM, patch_size=PATCH).sized(SIZE)
    return config.build(CLASSES)


def theirs() -> Any:
    import transformers

    config = transformers.ViTConfig(
        hidden_size=DIM,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=HIDDEN,
        image_size=SIZE,
        patch_size=PATCH,
        num_labels=CLASSES,
    )
    return transformers.ViTForImageClassification(config)


def work_of_an_image() -> float:
    """Return the floating-point operations of a training step on one image."""
    layer = 2 * TOKENS * (4 * DIM * DIM + 2 * DIM * HIDDEN) + 2 * 2 * TOKENS * TOKENS * DIM
    stem = 2 * (TOKENS - 1) * 3 * PATCH * PATCH * DIM
    return 3.0 * (LAYERS * layer + stem + 2 * DIM * CLASSES)


def fastest_product(size: int = 2048, repeats: int = 5) -> float:
    """Return the operations per second of a large square matrix product."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - start)
    return 2.0 * size**3 / best


def measure(name: str, task: str, folder: Path) -> float:
    torch.manual_seed(0)
    if name == "products":
        return fastest_product() / work_of_an_image()
    model = ours() if name == "ours" else theirs()
    if name == "ours":  # as our training does
        keep_freed_memory()

    def loss(images: Tensor, labels: Tensor) -> Tensor:
        output = model(images)
        return F.cross_entropy(output if name == "ours" else output.logits, labels)

    model.train()
    fused = True if name == "ours" else None  # as our training does; None lets torch choose
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused)
    images, labels = torch.randn(BATCH, 3, SIZE, SIZE), torch.randint(CLASSES, (BATCH,))
    start = 0.0
    for i in range(STEPS):
        if i == WARM:
            start = time.perf_counter()
        optimizer.zero_grad()
        loss(images, labels).backward()
        optimizer.step()
    return (STEPS - WARM) * BATCH / (time.perf_counter() - start)


if __name__ == "__main__":
    side_by_side.main(__file__, __doc__ or "", ENGINES, measure, unit="images")
