"""Tokenizers: from text to token ids and back.

config      options of a vocabulary
tokenizer   encode, decode, and the pieces of a text; stored in one tokenizer.json
training    build a vocabulary from texts, the same file every time
counting    count the words of texts that are streamed once
unigram     the pieces of a unigram vocabulary, the same every time
words       the words of plain text, divided as those of a data set are
controls    the tokens that are not text: pad, start, stop, unknown, cls, sep, mask
alphabet    the 256 letters that stand for bytes, so that no text is ever unknown
"""

from saccade.text.config import VocabularyConfig
from saccade.text.controls import Controls
from saccade.text.tokenizer import Piece, Tokenizer
from saccade.text.words import WordSplitter

__all__ = ["Controls", "Piece", "Tokenizer", "VocabularyConfig", "WordSplitter"]
