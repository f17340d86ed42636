"""Text: from characters to token ids and back.

config      which vocabulary is asked for
tokenizer   encode, decode, pieces and their places; one tokenizer.json holds all of it
training    a vocabulary from texts, the same file every time
counting    the distinct words of texts that are streamed once
unigram     the pieces of a unigram vocabulary (the library's own trainer differs from run to run)
controls    the tokens that are not text: pad, start, stop, unknown, cls, sep, mask
alphabet    the 256 letters that stand for bytes, so that no text is ever unknown
"""

from saccade.text.config import VocabularyConfig
from saccade.text.controls import Controls
from saccade.text.tokenizer import Piece, Tokenizer

__all__ = ["Controls", "Piece", "Tokenizer", "VocabularyConfig"]
