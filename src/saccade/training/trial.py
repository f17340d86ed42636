"""Try bfloat16 as training uses it: `python -m saccade.training.trial cuda:0`.

Small models of each kind make one update (forward pass, loss, backward pass, optimizer) and then
predict, on the given device. The exit code is 0 if every number is finite. It runs in a process of
its own, because a processor may advertise a precision and crash when it is used.
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F

from saccade.decoding import GenerationLimits, beam_search, greedy
from saccade.layers.cross_entropy import cross_entropy
from saccade.models import Translator
from saccade.shapes import Float, Tensor
from saccade.training import recipe as recipes
from saccade.training.precision import Precision

WRITERS = {
    "transformer-tiny": ("model.encoder.num_layers=1", "model.decoder.num_layers=1"),
    "rnn-attention": ("model.encoder.dim=64", "model.decoder.dim=64"),
    "luong": ("model.encoder.dim=64", "model.decoder.dim=64"),
}
"""Built-in recipes that differ in their operators, and the changes that make them small."""
ROWS, LENGTH, VOCABULARY, CLASSES, SIZE = 8, 8, 128, 10, 16


def main(device: torch.device, precision: Precision) -> None:
    """Try every model."""
    torch.manual_seed(0)
    for name, changes in WRITERS.items():
        config = recipes.load(name, ("model.dim=64", *changes))
        model = config.options.model.build(VOCABULARY, VOCABULARY)  # type: ignore[attr-defined]
        write(model.to(device), config.training.optim.build(model, 1e-3), device, precision)
    config = recipes.load("cnn-small", ("model.blocks=1",))
    model = config.options.model.build(CLASSES)  # type: ignore[attr-defined]
    label(model.to(device), config.training.optim.build(model, 1e-3), device, precision)


def write(
    model: Translator,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    precision: Precision,
) -> None:
    """Train a translator on random tokens for one update, then generate.

    Args:
        model: The translator.
        optimizer: Its optimizer.
        device: The device to compute on.
        precision: The precision of the forward pass.
    """
    source = torch.randint(1, VOCABULARY, (ROWS, LENGTH), device=device)
    mask = torch.ones_like(source, dtype=torch.bool)
    mask[0, LENGTH // 2 :] = False
    with precision.autocast():
        x = model.hidden(source, source, mask)
        loss = cross_entropy(x.flatten(0, 1), model.output, source.flatten(), smoothing=0.1).total
    update(model, optimizer, loss)
    limits, first = GenerationLimits(stop=0, max_length=4), source[:, 0]
    model.eval()
    with torch.no_grad():
        greedy(model, model.start(source, mask), first, limits)
        beam_search(model, model.start(source, mask), first, limits, beam=2)


def label(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    precision: Precision,
) -> None:
    """Train a classifier on random images for one update, then predict.

    Args:
        model: The classifier.
        optimizer: Its optimizer.
        device: The device to compute on.
        precision: The precision of the forward pass.
    """
    image = torch.rand(ROWS, 1, SIZE, SIZE, device=device)
    labels = torch.randint(CLASSES, (ROWS,), device=device)
    with precision.autocast():
        loss = F.cross_entropy(model(image).float(), labels, reduction="sum")
    update(model, optimizer, loss)
    model.eval()
    with torch.no_grad():
        require_finite(model(image))


def update(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Float[Tensor, ""]) -> None:
    """Make one update."""
    loss.backward()
    require_finite(loss, *(p.grad for p in model.parameters() if p.grad is not None))
    optimizer.step()
    require_finite(*model.parameters())


def require_finite(*tensors: Tensor) -> None:
    """Raise a FloatingPointError unless every number is finite."""
    if not all(bool(tensor.isfinite().all()) for tensor in tensors):
        raise FloatingPointError("a number of the trial is infinite or NaN")


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = torch.device(sys.argv[1])
    main(place, Precision("bfloat16", place.type))
