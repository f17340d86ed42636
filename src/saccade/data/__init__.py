"""Data: from files to rows, from rows to numbers once and for all, and from there to batches.

sources      what a user points at becomes a corpus (lines, columns, formats, parallel, layout,
             documents, pictures, held_out, made and huggingface are its parts; corpus holds what
             comes out)
images       an image by its name, in RGB and in the size that is asked (archives: zips and others)
augment      batches of images changed at random
builtin      data sets that need no download
cache        rows encoded once, memory-mapped (ragged, stacked), found again by their content
batching     which rows go together, and which batch each update of each process reads
collate      sequences of different length become one tensor
"""
