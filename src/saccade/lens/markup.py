"""Inline markup: the public name of `saccade.lens.alignment.markup`."""

from saccade.lens.alignment.markup import Element, Marked, Tag, find_tags, read_markup

__all__ = ["Element", "Marked", "Tag", "find_tags", "read_markup"]
