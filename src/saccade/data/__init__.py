"""Data: files become rows, rows become memory-mapped arrays, arrays become batches.

corpus             the records that the other parts exchange: Row, Split, Corpus, Item
validation_split   the rows that are held out for validation
builtin            data sets that need no download
sources            files to rows
store              rows to memory-mapped arrays
batches            arrays to batches
transforms         random changes to batches
survey             facts about the rows of a corpus: lengths, labels, duplicates, leaks
threads            ordered work in threads
suffixes           the suffixes of the files that inputs may be

`sources` reads `builtin`, `survey` reads `sources`, and `batches` reads `store`; the parts are
otherwise independent.
"""
