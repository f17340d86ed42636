"""From a user's data to rows: files, folders, archives, built-in and Hugging Face data sets.

open           open a folder, a file, parallel texts, `builtin:NAME` or `hf:NAME` as a corpus
layout         the files of each split
columns        the columns of a file that a task reads
formats        files of rows: TSV, CSV, JSON, Parquet, Excel and lines of text
json_arrays    the objects of a JSON array, one by one
plain_text     parallel text and documents
text_files     text files, plain or compressed, line by line
image_tables   tables of images: class folders, IDX files, columns of paths
images         decode, check and resize images
archives       images inside zip and IDX files
generated      rows that a function yields, and built-in data sets
huggingface    data sets of the Hugging Face hub
"""

from saccade.data.corpus import Corpus, Item, Row, Split, items
from saccade.data.sources.columns import Column
from saccade.data.sources.open import open_corpus

__all__ = ["Column", "Corpus", "Item", "Row", "Split", "items", "open_corpus"]
