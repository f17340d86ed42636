"""Random changes of sequences of vectors in training (SpecAugment, Park et al. 2019)."""

from dataclasses import dataclass

import torch

from saccade.config import Fraction, NotNegative
from saccade.shapes import Bool, Float, Tensor


@dataclass(frozen=True, kw_only=True)
class VectorAugmentConfig:
    """The random changes of sequences of vectors in training.

    mask_steps     longest stretch of steps to hide, as a fraction of the sequence; hidden steps
                   become the mean of the training data. 0 hides none; 0.2 is usual
    mask_numbers   longest stretch of neighbouring numbers to hide in all vectors of a sequence, as
                   a fraction of their width; 0 hides none; 0.2 is usual for spectra
    noise          standard deviation of added noise, in units of that of the training data; raise
                   it (0.1) if the model overfits
    """

    mask_steps: Fraction = 0.0
    mask_numbers: Fraction = 0.0
    noise: NotNegative = 0.0


def augment_vectors(
    vectors: Float[Tensor, "b n w"], mask: Bool[Tensor, "b n"], config: VectorAugmentConfig
) -> Float[Tensor, "b n w"]:
    """Return scaled vectors with random changes; padding stays 0.

    Args:
        vectors: The vectors, scaled.
        mask: True at real steps.
        config: The options of the augmentation.
    """
    if config.noise:
        vectors = vectors + config.noise * torch.randn_like(vectors)
    if config.mask_steps:
        stretch = _stretch(mask.sum(1), vectors.shape[1], config.mask_steps)
        vectors = vectors.masked_fill(stretch.unsqueeze(2), 0.0)
    if config.mask_numbers:
        width = vectors.shape[2]
        widths = torch.full((len(vectors),), width, device=vectors.device)
        stretch = _stretch(widths, width, config.mask_numbers)
        vectors = vectors.masked_fill(stretch.unsqueeze(1), 0.0)
    return vectors * mask.unsqueeze(2)


def _stretch(lengths: Tensor, longest: int, fraction: float) -> Bool[Tensor, "b n"]:
    """Return a mask of one stretch per row, of at most this fraction of its length."""
    sizes = (torch.rand(len(lengths), device=lengths.device) * fraction * lengths).round()
    starts = (torch.rand(len(lengths), device=lengths.device) * (lengths - sizes)).floor()
    places = torch.arange(longest, device=lengths.device)
    return (places >= starts.unsqueeze(1)) & (places < (starts + sizes).unsqueeze(1))
