"""Figures of attention and positions: the public name of `saccade.lens.drawing.figures`."""

from saccade.lens.drawing.figures import heads, heatmap, overview, positions

__all__ = ["heads", "heatmap", "overview", "positions"]
