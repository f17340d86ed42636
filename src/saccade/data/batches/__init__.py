"""From arrays to batches.

plan      which rows form a batch, and which batch each update of each process reads
blocks    text as blocks of tokens for language models
collate   pad sequences of different lengths into one tensor
"""
