"""Rows as memory-mapped arrays, cached by their content.

cache     encode a split once, and read the result from the cache after that
ragged    sequences of different lengths in one file
stacked   arrays of one shape in one file
"""
