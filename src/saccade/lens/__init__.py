"""The lens: attention and positions drawn and measured.

record    AttentionRecord: where each written token looked, with both sides
sides     what attention goes from and to: texts, and images in cells
rollout   attention multiplied through all layers
align     word alignments out of attention, of two directions joined, as Pharaoh's text
measure   how far they are right: alignment error rate
pointing  how far attention over images is right: the pointing game
chart     figures without a display, which keep their numbers
figures   maps of attention and of positions
overlays  attention over images
page      all of a record, or of several, on one page of HTML
written   JSON as all of them write it
"""
