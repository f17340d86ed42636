"""Alignment error rate: the public name of `saccade.lens.alignment.error_rate`."""

from saccade.lens.alignment.error_rate import alignment_counts, alignment_error_rate

__all__ = ["alignment_counts", "alignment_error_rate"]
