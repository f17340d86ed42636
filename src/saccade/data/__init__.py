"""Data: files become rows, rows become memory-mapped arrays, arrays become batches.

corpus       the records that the other parts exchange: Row, Split, Corpus, Item
validation_split   which rows are held out for validation
sources      files to rows
store        rows to memory-mapped arrays
batches      arrays to batches
transforms   random changes to batches
builtin      data sets that need no download
threads      ordered work in threads
"""
