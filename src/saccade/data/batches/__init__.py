"""Batches of arrays.

plan      the rows of each batch, and the batches of each update of each process
cut       rows cut into batches of similar lengths
blocks    text as blocks of tokens for language models
collate   pad sequences of different lengths into one tensor
"""
