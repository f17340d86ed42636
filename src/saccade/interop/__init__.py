"""Other tools' formats.

huggingface    folders of bert, gpt2, vit and marian, read and written
"""
