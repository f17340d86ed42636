"""Random changes to batches during training.

augment   augmentation of images
masking   masked tokens for masked language models
"""
