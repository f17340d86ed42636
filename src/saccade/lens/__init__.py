"""The lens: attention and positions drawn and measured.

record      AttentionRecord: where each written token looked, with both sides
sides       what attention goes from and to: texts, and images in cells
rollout     attention multiplied through all layers
align       word alignments out of attention, of two directions joined, as Pharaoh's text
measure     how far they are right: alignment error rate
pointing    how far attention over images is right: the pointing game
chart       figures without a display, which keep their numbers
letters     labels in every script: their fonts, their width, what cannot be drawn
figures     maps of attention: one, all heads of a layer, all layers; and of positions
maps        how they are laid out and coloured
overlays    attention over images
page        all of a record, or of several, on one page of HTML
parameters  what a network is made of, as a table
tables      tables as charts
written     JSON as all of them write it
"""
