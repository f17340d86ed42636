"""A vocabulary from texts: the library's own tokenizer, built the same way every time.

Every kind writes its pieces in the byte alphabet, and the control tokens are plain entries whose
names are not in that alphabet: nothing in a text, whatever it says, can become one, and no setting
that a file might lose is needed for it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from saccade.errors import TextError
from saccade.text.alphabet import LETTERS, spell, unspell
from saccade.text.config import Kind, VocabularyConfig
from saccade.text.controls import OURS
from saccade.text.counting import count_pieces
from saccade.text.unigram import unigram_pieces

# Words, numbers and punctuation, each with the one space before it; then what white space is left.
# Marks belong to words, or the scripts of India would fall apart.
_WORDS = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"

_PACK = 4096  # copies of a word that the library is fed at a time


def train(
    texts: Iterable[str], config: VocabularyConfig, *, progress: Callable[[int], None] | None
) -> Backend:
    """The tokenizer of the texts, with everything it needs inside."""
    steps = _normalizers(config)
    normalizer, splitter = normalizers.Sequence(steps), _splitter(config.kind)

    def split(chunk: str) -> list[str]:
        return [
            piece
            for piece, _ in splitter.pre_tokenize_str(normalizer.normalize_str(chunk))
            if piece
        ]

    prefix = " " if _begins_with_space(config.kind) else ""
    counts = count_pieces(texts, split, prefix=prefix, progress=progress)
    if not counts:
        raise TextError(
            "a vocabulary cannot be made of no text: the texts are none, empty or white space"
        )
    backend = Backend(_model(counts, config))
    # always one space more at the start, taken off again: a word is the same piece everywhere
    backend.normalizer = normalizers.Sequence(
        [*steps, normalizers.Prepend(" ")] if prefix else steps
    )
    backend.pre_tokenizer = splitter
    backend.decoder = decoders.Sequence(
        [decoders.ByteLevel(), decoders.Strip(" ", 1, 0)]
        if prefix or config.kind == "token"
        else [decoders.ByteLevel()]
    )
    return backend


def _begins_with_space(kind: Kind) -> bool:
    return kind in ("bpe", "unigram", "word")


def _normalizers(config: VocabularyConfig) -> list[normalizers.Normalizer]:
    # composed last: J̌ has no single character, its lower case ǰ has
    return [*([normalizers.Lowercase()] if config.lowercase else []), normalizers.NFC()]


def _splitter(kind: Kind) -> pre_tokenizers.PreTokenizer:
    letters = pre_tokenizers.ByteLevel(add_prefix_space=kind == "token", use_regex=False)
    match kind:
        case "token":
            first: pre_tokenizers.PreTokenizer = pre_tokenizers.WhitespaceSplit()
        case "character":
            first = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        case _:
            first = pre_tokenizers.Split(Regex(_WORDS), "isolated")
    return pre_tokenizers.Sequence([first, letters])


def _model(counts: Counter[str], config: VocabularyConfig) -> models.Model:
    least = max(2, config.min_count)
    match config.kind:
        case "bpe":
            return _bpe(counts, config.size, least)
        case "unigram":
            return _unigram(counts, config.size, least)
        case "character":
            return _list(counts, config, unknown=OURS[3])
        case _:
            return _list(counts, config, unknown=f" {OURS[3]}")


def _list(counts: Counter[str], config: VocabularyConfig, *, unknown: str) -> models.Model:
    """The most frequent pieces, as they are."""
    names = [unknown if name == OURS[3] else name for name in OURS]
    frequent = [piece for piece, count in counts.items() if count >= config.min_count]
    if not frequent:
        raise TextError(
            f"nothing occurs min_count = {config.min_count} times, at most "
            f"{max(counts.values())}; every {config.kind} would be unknown"
        )
    frequent.sort(key=lambda piece: (-counts[piece], piece))
    entries = [*names, *frequent[: config.size - len(names)]]
    return models.WordLevel({entry: i for i, entry in enumerate(entries)}, unk_token=unknown)


def _bpe(counts: Counter[str], size: int, least: int) -> models.Model:
    """Merges of the most frequent pairs (Sennrich et al. 2016), of bytes.

    The library breaks ties by the ids of a pair. These come from the sorted alphabet and the order
    of merges, as long as no prefix or suffix marks parts of words: then they would come from a
    hash map, and differ from run to run.
    """
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Split("\n", "removed")  # which no piece holds
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=least,
        special_tokens=list(OURS),
        initial_alphabet=LETTERS,
        show_progress=False,
    )
    backend.train_from_iterator(_repeated(counts), trainer)
    return backend.model


def _repeated(counts: Counter[str]) -> Iterator[str]:
    for word in sorted(counts):
        for done in range(0, counts[word], _PACK):
            yield "\n".join([word] * min(_PACK, counts[word] - done))


def _unigram(counts: Counter[str], size: int, least: int) -> models.Model:
    """The likeliest pieces, always of whole characters, and every byte for all other text."""
    words = {unspell(word).decode(): count for word, count in counts.items()}
    ascii_too = sum(ord(character) < 128 for character in set().union(*words))
    room = size - len(OURS) - len(LETTERS)
    found = {
        spell(piece): score
        for piece, score in unigram_pieces(words, room + ascii_too, min_count=least)
    }
    floor = min(found.values()) - 1
    letters = [(letter, found.pop(letter, floor)) for letter in LETTERS]
    controls = [(name, 0.0) for name in OURS]
    entries = [*controls, *letters, *list(found.items())[:room]]
    return models.Unigram(entries, unk_id=3, byte_fallback=False)
