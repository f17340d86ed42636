"""From what a user points at to rows: files, folders, archives, built-in and Hugging Face data.

open            open a folder, a file, parallel texts, `builtin:NAME` or `hf:NAME` as a corpus
layout          which files of a folder belong to which split
formats         tables in TSV, CSV, JSON Lines, Parquet and plain text
columns         which columns of a table are the ones a task needs
text_files      text files, plain or compressed, line by line
parallel_text   two files whose lines are pairs
documents       plain text as documents
image_tables    tables of images: class folders, IDX files, columns of paths
images          decode, check and resize images
archives        images inside zip and IDX files
generated       tables produced by a function
huggingface     data sets of the Hugging Face hub
"""

from saccade.data.corpus import Item, items
from saccade.data.sources.columns import Column
from saccade.data.sources.open import open_corpus

__all__ = ["Column", "Item", "items", "open_corpus"]
