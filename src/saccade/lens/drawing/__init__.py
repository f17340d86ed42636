"""Charts and figures, drawn with matplotlib and without a display.

chart         Chart: a figure that keeps the numbers it shows
figures       attention maps of a head, a layer or all layers; positional encodings
maps          layout and colours of the maps
overlays      attention over an image
parameters    the parameters of a network, as a table and as a chart
fonts         fonts and text widths for every script
"""
