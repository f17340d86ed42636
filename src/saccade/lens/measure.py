"""Alignment error rate, under the name that programs outside the package use."""

from saccade.lens.alignment.error_rate import alignment_counts, alignment_error_rate

__all__ = ["alignment_counts", "alignment_error_rate"]
