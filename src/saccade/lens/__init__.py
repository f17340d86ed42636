"""The lens: attention and positions drawn and measured.

record      AttentionRecord: where each written token looked, with both sides
sides       what attention goes from and to: texts, and images in cells
rollout     attention multiplied through all layers
align       word alignments out of attention, of two directions joined, as Pharaoh's text
choosing    which layer and head align words best, found out without gold alignments
markup      inline tags of a text, carried over to its translation
measure     how far alignments are right: alignment error rate
gold        the right alignments, as files have them
erasure     whether answers change without what was attended to: comprehensiveness, sufficiency
heads       how widely heads look, how they differ, and what the model loses without one
pointing    how far attention over images is right: the pointing game
chart       figures without a display, which keep their numbers
letters     labels in every script: their fonts, their width, what cannot be drawn
figures     maps of attention: one, all heads of a layer, all layers; and of positions
maps        how they are laid out and coloured
overlays    attention over images
page        all of a record, or of several, on one page of HTML
parameters  what a network is made of, as a table
tables      tables as charts
written     JSON and tables of text, as all of them write them
"""
