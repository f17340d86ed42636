"""Attention records: the weights of one answer with the texts or the image they belong to.

attention_record   AttentionRecord
sides              Side (a text), ImageSide (an image in cells), StripSide (vectors over time)
rollout            attention multiplied through the layers
"""

from saccade.lens.record.attention_record import SUFFIXES, AttentionRecord
from saccade.lens.record.sides import ImageSide, Side, StripSide

__all__ = ["SUFFIXES", "AttentionRecord", "ImageSide", "Side", "StripSide"]
