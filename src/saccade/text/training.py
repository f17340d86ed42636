"""Build a vocabulary from texts with the tokenizers library, the same file every time.

Every kind writes its pieces in the byte alphabet, and the control tokens are plain entries whose
names are not in that alphabet: no text can become one, and this needs no setting that a file could
lose.
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

# words, numbers and punctuation, each with one space before it; then the remaining white space;
# marks belong to words, as the scripts of India need
_WORDS = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"

_PACK = 4096  # copies of a word that are passed to the library at a time


def train(
    texts: Iterable[str], config: VocabularyConfig, *, progress: Callable[[int], None] | None
) -> Backend:
    """Return the tokenizer of the texts.

    Args:
        texts: The texts to learn from.
        config: The options of the vocabulary.
        progress: Called with the number of texts read so far.

    Raises:
        TextError: If the texts are empty, or an item is not valid text.
    """
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
            "a vocabulary cannot be built without text: there are no texts, or all are empty or "
            "white space; check the data"
        )
    backend = Backend(_model(counts, config))
    # a space at the start, which decoding removes: a word is the same piece everywhere
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
    # compose last: J̌ has no single character, but its lower case ǰ has
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
    """Return a vocabulary of the most frequent pieces."""
    names = [unknown if name == OURS[3] else name for name in OURS]
    frequent = [piece for piece, count in counts.items() if count >= config.min_count]
    if not frequent:
        raise TextError(
            f"no {config.kind} occurs min_count = {config.min_count} times, the most frequent "
            f"{max(counts.values())} times; lower min_count, else all would be unknown"
        )
    frequent.sort(key=lambda piece: (-counts[piece], piece))
    entries = [*names, *frequent[: config.size - len(names)]]
    return models.WordLevel({entry: i for i, entry in enumerate(entries)}, unk_token=unknown)


def _bpe(counts: Counter[str], size: int, least: int) -> models.Model:
    """Return byte-level merges of the most frequent pairs (Sennrich et al. 2016).

    The library breaks ties by the ids of a pair. Without a prefix or suffix that marks parts of
    words they come from the sorted alphabet and the order of merges; with one, they would come from
    a hash map and differ from run to run.
    """
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Split("\n", "removed")  # no piece contains it
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
    """Return the likeliest pieces, always of complete characters, and every byte."""
    words = {unspell(word).decode(): count for word, count in counts.items()}
    ascii_count = sum(ord(character) < 128 for character in set().union(*words))
    room = size - len(OURS) - len(LETTERS)
    scores = {
        spell(piece): score
        for piece, score in unigram_pieces(words, room + ascii_count, min_count=least)
    }
    floor = min(scores.values()) - 1
    letters = [(letter, scores.pop(letter, floor)) for letter in LETTERS]
    controls = [(name, 0.0) for name in OURS]
    entries = [*controls, *letters, *list(scores.items())[:room]]
    return models.Unigram(entries, unk_id=3, byte_fallback=False)
