"""Word alignments from attention, and what they are used for.

align_by     the choice of the attention by which words are aligned
extraction   alignments from attention weights, symmetrisation, Pharaoh format
selection    which layer and head align words best, without gold alignments
gold         gold alignment files
error_rate   alignment error rate
markup       inline tags carried over to a translation
"""
