"""Rows encoded as memory-mapped arrays, cached by their content.

cache     encode a split once and find it again
ragged    sequences of different lengths in one file
stacked   arrays of one shape in one file
"""
