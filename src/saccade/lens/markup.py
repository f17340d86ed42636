"""Inline markup, under the name that programs outside the package use."""

from saccade.lens.alignment.markup import Element, Marked, Tag, find_tags, read_markup

__all__ = ["Element", "Marked", "Tag", "find_tags", "read_markup"]
