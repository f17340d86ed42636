"""The lens: records of attention, drawn, aligned and measured.

record         AttentionRecord and its two sides
drawing        charts, attention maps, overlays on images
alignment      word alignments and inline markup
faithfulness   erasure, heads, the pointing game
page           attention records and reports as one HTML page
formatting     JSON and text tables

Imports inside the lens go one way: faithfulness > record > page > drawing, alignment > formatting.
"""
