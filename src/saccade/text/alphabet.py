"""The 256 letters that stand for bytes.

Byte-level vocabularies (Radford et al. 2019) write each byte of the UTF-8 text as one visible
letter: printable Latin-1 characters stand for themselves, the other bytes for the characters from
U+0100 on, in order. A name that contains any other character can never result from text, which
keeps the control tokens separate.
"""

_VISIBLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_HIDDEN = [byte for byte in range(256) if byte not in _VISIBLE]

LETTERS = [chr(byte if byte in _VISIBLE else 0x100 + _HIDDEN.index(byte)) for byte in range(256)]
BYTES = {letter: byte for byte, letter in enumerate(LETTERS)}


def spell(text: str) -> str:
    """Return the text in letters, one for each byte of its UTF-8.

    Examples:
        >>> spell(" né")
        'ĠnÃ©'
    """
    return "".join(LETTERS[byte] for byte in text.encode())


def readable(piece: str) -> str:
    """Return a piece of letters as people read it: spaces as ▁, invisible characters escaped.

    Examples:
        >>> readable("ĠnÃ©"), readable("Ã"), readable("Ċ")
        ('▁né', '\\\\xc3', '\\\\n')
    """
    if not all(letter in BYTES for letter in piece):
        return piece
    text = unspell(piece).decode(errors="backslashreplace")
    return visible(text.replace(" ", "▁"))


def visible(text: str) -> str:
    """Return the text with control characters, line ends and the like escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def unspell(piece: str) -> bytes:
    """Return the bytes that a piece of letters stands for."""
    return bytes(BYTES[letter] for letter in piece)
