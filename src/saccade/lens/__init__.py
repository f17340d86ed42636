"""The lens: attention and positions drawn and measured.

record    AttentionRecord: where each written token looked, with both sides
sides     what attention goes from and to: texts, and images in cells
rollout   attention multiplied through all layers
align     word alignments out of attention, of two directions joined, as Pharaoh's text
choosing  which layer and head align words best, found out without gold alignments
markup    inline tags of a text, carried over to its translation
measure   how far alignments are right: alignment error rate
gold      the right alignments, as files have them
erasure   whether answers change without what was attended to: comprehensiveness, sufficiency
heads     how widely heads look, how they differ, and what the model loses without one
pointing  how far attention over images is right: the pointing game
chart     figures without a display, which keep their numbers
figures   maps of attention and of positions
overlays  attention over images
written   JSON as all of them write it
"""
