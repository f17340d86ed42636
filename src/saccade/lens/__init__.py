"""The lens: attention and positions drawn, aligned and measured.

record         AttentionRecord and its two sides
drawing        charts, attention maps, overlays
alignment      word alignments and markup
faithfulness   erasure, heads, pointing game
page           attention records as one HTML page
formatting     JSON and text tables
"""
