"""Charts and figures, drawn with matplotlib and without a display.

chart         Chart: a figure that keeps the numbers it shows
figures       attention maps: one head, a layer, all layers; positions
maps          layout and colours of the maps
overlays      attention over an image
line_chart    lines and points
table_chart   tables as charts
parameters    the parameters of a network
fonts         fonts and text width for every script
"""
