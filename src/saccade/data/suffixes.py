"""Suffixes of the files that inputs may be."""

SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".gif", ".bmp", ".webp", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".pbm", ".pnm"),
)
"""Suffixes of image files."""
VECTOR_SUFFIXES = (".npy", ".npz")
"""Suffixes of vector files."""
