"""Figures of attention, under the name that programs outside the package use."""

from saccade.lens.drawing.figures import heads, heatmap, overview, positions

__all__ = ["heads", "heatmap", "overview", "positions"]
