"""The lens: attention and positions drawn and measured.

record    AttentionRecord: where each written token looked, with both texts
align     word alignments out of attention, of two directions joined, as Pharaoh's text
measure   how far they are right: alignment error rate
figures   maps of attention and of positions
written   JSON as all of them write it
"""
