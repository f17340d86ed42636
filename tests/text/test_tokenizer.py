"""Tests of the tokenizer: round trips, spans, files, and files of other tools."""

import copy
import functools
import hashlib
import json
import pickle
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from saccade.errors import TextError
from saccade.text import Controls, Tokenizer, VocabularyConfig
from tests.text.corpora import SENTENCES

KINDS = ("bpe", "unigram", "word", "character", "token")
LOSSLESS = ("bpe", "unigram")
LITERAL = (
    "<pad> <s> </s> <unk> [CLS] [SEP] [MASK] [PAD] <|endoftext|> <mask> ⟨pad⟩ ⟨start⟩ ⟨stop⟩ ⁇ "
    "⟨cls⟩ ⟨sep⟩ ⟨mask⟩"
)
# no unassigned characters: Python and the library may have different Unicode versions
ANY = st.text(st.characters(exclude_categories=["Cs", "Cn"]))
# Python treats U+001C to U+001F as white space, Unicode and the library do not
PLACED = st.text(
    st.characters(exclude_categories=["Cs", "Cn"], exclude_characters="\x1c\x1d\x1e\x1f")
)
SPACED = st.text(st.sampled_from("aM é\u0301\t\n\r \u00a0\u3000▁Ġ⁇⟨⟩<>/s[]🎉👩\u200dم中."))


@functools.cache
def trained(kind, *, lowercase=False, size=600):
    config = VocabularyConfig(kind=kind, size=size, lowercase=lowercase)
    return Tokenizer.train([*SENTENCES * 3, LITERAL, *[LITERAL.replace(" ", "")] * 9], config)


@functools.cache
def reloaded(kind):
    return Tokenizer.from_string(trained(kind).to_string())


@pytest.mark.parametrize("kind", LOSSLESS)
@settings(deadline=None)
@given(text=ANY | SPACED | st.lists(st.sampled_from([*LITERAL.split(), " "])).map("".join))
def test_any_text_round_trips(kind, text):
    tokenizer, normal = trained(kind), unicodedata.normalize("NFC", text)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == normal == tokenizer.normal(text)
    assert min(ids, default=7) >= 7
    assert reloaded(kind).encode(text) == ids
    assert tokenizer.encode_batch([text, "", text]) == [ids, [], ids]


@pytest.mark.parametrize("kind", LOSSLESS)
@settings(deadline=None)
@given(text=ANY)
def test_lower_case_round_trips_composed(kind, text):
    decoded = (tokenizer := trained(kind, lowercase=True)).decode(tokenizer.encode(text))
    lower = "".join(character.lower() for character in text)  # no special case for a final Σ
    assert decoded == unicodedata.normalize("NFC", lower)


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("word", ["the men's house, houses.", "nothing (for 2 hours)", "Ein Sofa auf Два 🎉"]),
        ("character", ["  men  at\thome ", "男が 話し", "schläft 🎉!"]),
        ("token", ["HH AH L OW", "a", "⟨pad⟩ </s> AH"]),
    ],
)
def test_known_pieces_round_trip(kind, texts):
    tokenizer = Tokenizer.train([*SENTENCES, *texts], VocabularyConfig(kind=kind, size=900))
    assert tokenizer.decode_batch(tokenizer.encode_batch(texts)) == texts
    assert all(min(ids) >= 7 for ids in tokenizer.encode_batch([*texts, *SENTENCES]))


def test_tokens_are_joined_with_single_spaces():
    tokenizer = Tokenizer.train(["HH AH L OW"], VocabularyConfig(kind="token", size=20))
    assert tokenizer.decode(tokenizer.encode("\tHH  AH\nOW ")) == "HH AH OW"


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(text=ANY | SPACED)
def test_no_text_becomes_a_control_token(kind, text):
    for tokenizer in (trained(kind), reloaded(kind)):
        ids = [*tokenizer.encode(text), *tokenizer.encode(LITERAL)]
        ids += [id for row in tokenizer.encode_batch([LITERAL, text]) for id in row]
        assert not {0, 1, 2, 4, 5, 6} & set(ids)
        if kind in LOSSLESS:
            assert 3 not in ids


@pytest.mark.parametrize("kind", KINDS)
def test_control_tokens_have_fixed_ids_and_are_not_decoded(kind):
    tokenizer = trained(kind)
    controls = [tokenizer.pad, tokenizer.start, tokenizer.stop, tokenizer.unknown]
    assert [*controls, tokenizer.cls, tokenizer.sep, tokenizer.mask] == [0, 1, 2, 3, 4, 5, 6]
    ids = tokenizer.encode("a man")
    assert tokenizer.decode([1, 4, *ids, 5, 6, 2, 0, 0]) == "a man"
    names = ["⟨pad⟩", "⟨start⟩", "⟨stop⟩", "⁇", "⟨cls⟩", "⟨sep⟩", "⟨mask⟩"]
    assert tokenizer.pieces(range(7)) == names
    assert tokenizer.decode([*ids, 3]) == ("a man ⁇" if kind in ("word", "token") else "a man⁇")
    assert tokenizer.decode([]) == ""


def test_an_incomplete_character_decodes_to_the_replacement_character():
    tokenizer = trained("bpe", size=263)
    ids = tokenizer.encode("€")
    assert tokenizer.pieces(ids) == ["▁", "\\xe2", "\\x82", "\\xac"]
    assert tokenizer.decode(ids[:3]) == "\N{REPLACEMENT CHARACTER}"


def test_raises_on_ids_beyond_the_vocabulary():
    beyond = len(trained("bpe"))
    with pytest.raises(TextError, match=f"no id {beyond}; its ids are 0 to {beyond - 1}"):
        trained("bpe").decode([8, beyond])
    with pytest.raises(TextError, match="no id -1"):
        trained("bpe").pieces([-1])


@pytest.mark.parametrize("kind", KINDS)
def test_raises_on_a_lone_surrogate_with_its_place(kind):
    for call in (trained(kind).encode, trained(kind).split, trained(kind).normal):
        with pytest.raises(TextError, match=r"U\+DC80 at character 2"):
            call("ab\udc80")
    with pytest.raises(TextError, match=r"text 2 of 3 .* U\+D800 at character 0"):
        trained(kind).encode_batch(["good", "\ud800", "good"])


def test_encode_batch_raises_on_one_string():
    with pytest.raises(TextError, match="use encode"):
        trained("bpe").encode_batch("man")
    assert trained("bpe").encode_batch([]) == []


@pytest.mark.parametrize("kind", LOSSLESS)
@pytest.mark.parametrize("text", ["a" * 50_000, "man " * 9_000, "🎉" * 5_000, "\n" * 9_000])
def test_long_texts_round_trip(kind, text):
    assert trained(kind).decode(trained(kind).encode(text)) == text


# spans and words


def test_spans_and_words_by_hand():
    tokenizer = Tokenizer.train(SENTENCES, VocabularyConfig(kind="word", size=900))
    pieces = tokenizer.split(" A  man's house.")
    shown = [(piece.text, piece.span, piece.word) for piece in pieces]
    assert shown == [
        ("⁇", (0, 1), None),  # the additional space, with which no training text begins
        ("▁A", (1, 2), 0),
        ("⁇", (2, 3), None),
        ("▁man", (4, 7), 1),
        ("'", (7, 8), 1),
        ("s", (8, 9), 1),
        ("▁house", (10, 15), 2),
        (".", (15, 16), 2),
    ]


def test_spans_refer_to_the_composed_text():
    for kind in LOSSLESS:
        pieces = trained(kind).split("e\u0301 men")
        assert [piece.span for piece in pieces if piece.word == 0] == [(0, 1)] * 2  # two bytes
        assert pieces[-1].span[1] == len("é men")
        assert {piece.word for piece in pieces if piece.span[0] >= 2} == {1}


def test_parts_of_a_character_have_its_span():
    pieces = trained("bpe", size=263).split("a€b")
    assert (pieces[0].text, pieces[0].span, pieces[0].word) == ("▁", (0, 0), None)
    assert [piece.span for piece in pieces[1:]] == [(0, 1), (1, 2), (1, 2), (1, 2), (2, 3)]


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(text=PLACED | SPACED)
def test_pieces_are_in_order_and_omit_white_space(kind, text):
    tokenizer = trained(kind)
    normal, pieces = tokenizer.normal(text), tokenizer.split(text)
    assert [piece.id for piece in pieces] == tokenizer.encode(text)
    assert [piece.text for piece in pieces] == tokenizer.pieces([piece.id for piece in pieces])
    spans = [piece.span for piece in pieces]
    assert spans == sorted(spans)
    assert all(0 <= start <= end <= len(normal) for start, end in spans)
    covered = {at for start, end in spans for at in range(start, end)}
    assert all(at in covered for at, character in enumerate(normal) if not character.isspace())
    words = normal.split()
    for piece in pieces:
        part = normal[slice(*piece.span)]
        if piece.word is None:
            assert not part.strip()
        else:
            assert part.split()[0] in words[piece.word]
    assert {piece.word for piece in pieces} - {None} == set(range(len(words)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_words_of_ids_by_hand(kind):
    tokenizer = trained(kind)
    pieces = tokenizer.split("a man's house")
    words, word_of = tokenizer.words([1, *(piece.id for piece in pieces), 2, 0])
    assert words == ["a", "man's", "house"]
    assert word_of == [None, *(piece.word for piece in pieces), None, None]


@pytest.mark.parametrize("kind", LOSSLESS)
@settings(deadline=None)
@given(text=PLACED | SPACED)
def test_ids_and_text_agree_on_the_words(kind, text):
    tokenizer = trained(kind)
    pieces = tokenizer.split(text)
    words, word_of = tokenizer.words([piece.id for piece in pieces])
    assert words == tokenizer.normal(text).split()
    assert word_of == [piece.word for piece in pieces]


# files


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_restores_everything(kind, tmp_path):
    tokenizer, path = trained(kind, lowercase=True), tmp_path / "tokenizer.json"
    tokenizer.save(path)
    loaded = Tokenizer.load(str(path))
    text = "A MAN’S E\u0301 </s>"
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.to_string() == tokenizer.to_string() == path.read_bytes().decode()
    assert loaded.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert len(loaded) == len(tokenizer)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]
    assert loaded.digest[:8] in repr(loaded)


def test_the_library_can_read_our_file(tmp_path):
    trained("unigram").save(tmp_path / "tokenizer.json")
    library = Backend.from_file(str(tmp_path / "tokenizer.json"))
    assert library.encode(LITERAL).ids == trained("unigram").encode(LITERAL)
    assert library.decode(library.encode(LITERAL).ids) == LITERAL


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    trained("bpe").save(path)

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("saccade.files.os.replace", full)
    with pytest.raises(OSError, match="the disk is full"):
        trained("word").save(path)
    assert path.read_bytes().decode() == trained("bpe").to_string()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not complete JSON"),
        (b'{"model": {"type": "BPE"', "not complete JSON"),
        (b"[" * 100_000, "not complete JSON"),
        (b"\xff\xfe\x00model", "byte 0 is not UTF-8"),
        (b"[1, 2]", 'no "model"'),
        (b'{"model_type": "bert"}', 'no "model"'),
        (b'{"model": {"type": "Nonsense", "vocab": {}}}', "not a valid tokenizer.json"),
        (
            b'{"model": {"type": "WordLevel", "vocab": {}, "unk_token": "?"}}',
            "has an empty vocabulary",
        ),
    ],
)
def test_raises_on_files_that_are_not_a_tokenizer(content, message, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(TextError, match=message) as caught:
        Tokenizer.load(path)
    assert str(path) in str(caught.value)


def test_raises_on_a_truncated_file_at_any_length(tmp_path):
    path, complete = tmp_path / "tokenizer.json", trained("bpe").to_string().encode()
    for length in range(0, len(complete), len(complete) // 50):
        path.write_bytes(complete[:length])
        with pytest.raises(TextError, match=r"tokenizer\.json"):
            Tokenizer.load(path)


def test_raises_on_files_that_cannot_be_read(tmp_path):
    with pytest.raises(TextError, match=r"nowhere\.json: No such file"):
        Tokenizer.load(tmp_path / "nowhere.json")
    with pytest.raises(TextError, match="cannot read the tokenizer"):
        Tokenizer.load(tmp_path)


# files of other tools


def _wordpiece():
    """Return a file like BERT's: other ids and names, truncation, padding, tokens added."""
    entries = [
        "[PAD]",
        "x",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "two",
        "men",
        "hou",
        "##se",
        "[",
        "]",
    ]
    entries += ["cls", "sep", "e", "##e"]
    backend = Backend(models.WordPiece({e: i for i, e in enumerate(entries)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.post_processor = processors.BertProcessing(("[SEP]", 4), ("[CLS]", 3))
    backend.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    backend.enable_truncation(3)
    backend.enable_padding(length=9)
    return backend.to_str()


def test_a_wordpiece_file_has_its_own_control_tokens():
    tokenizer = Tokenizer.from_string(_wordpiece())
    assert tokenizer.controls == Controls(
        pad=0, start=None, stop=None, unknown=2, cls=3, sep=4, mask=5
    )
    assert (tokenizer.pad, tokenizer.cls, len(tokenizer)) == (0, 3, 16)
    with pytest.raises(TextError, match=r"no stop token; .*controls=Controls\(stop="):
        _ = tokenizer.stop
    ids = tokenizer.encode("Two men house men é zebra")
    assert ids == [6, 7, 8, 9, 7, 14, 2]  # neither truncated, padded nor wrapped
    assert tokenizer.decode([3, *ids, 4, 0, 0]) == "two men house men e ⁇"
    assert tokenizer.pieces(ids) == ["two", "men", "hou", "##se", "men", "e", "[UNK]"]
    spans = [piece.span for piece in tokenizer.split("Two men\nhouse")]
    assert spans == [(0, 3), (4, 7), (8, 11), (11, 13)]
    assert [piece.word for piece in tokenizer.split("Two men\nhouse")] == [0, 1, 2, 2]


def _as_it_is(tokenizer):
    return tokenizer


def _in_another_process(tokenizer):  # as in the workers of a data loader
    return pickle.loads(pickle.dumps(tokenizer))


@pytest.mark.parametrize("again", [_as_it_is, copy.deepcopy, _in_another_process])
def test_literal_control_text_is_text_also_in_files_of_other_tools(again):
    tokenizer = again(Tokenizer.from_string(_wordpiece()))
    ids = tokenizer.encode("[CLS] men [SEP] [MASK]")
    assert ids == [10, 12, 11, 7, 10, 13, 11, 10, 2, 11]
    assert tokenizer.encode_batch(["[CLS]", "[PAD]"]) == [[10, 12, 11], [10, 2, 11]]


def test_entries_that_text_can_spell_do_not_become_control_tokens():
    # a unigram or word list has "</s>" as a plain entry, which encode_special_tokens misses
    vocabulary = {"<pad>": 0, "</s>": 1, "men": 2, "<unk>": 3}
    backend = Backend(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_tokens([AddedToken("</s>", special=False)])
    tokenizer = Tokenizer.from_string(backend.to_str())
    assert (tokenizer.stop, tokenizer.sep, tokenizer.unknown) == (1, 1, 3)
    assert tokenizer.encode("men </s> <pad> men") == [2, 3, 3, 2]
    assert [piece.span for piece in tokenizer.split("men </s>")] == [(0, 3), (4, 8)]
    assert tokenizer.decode([2, 3, 2, 1, 0]) == "men ⁇ men"


def test_a_byte_level_file_like_that_of_gpt2():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|endoftext|>"])
    tokenizer = Tokenizer.from_string(backend.to_str())
    assert tokenizer.start == tokenizer.stop == 256
    assert tokenizer.controls.pad is None
    assert tokenizer.controls.unknown is None
    text = "e\u0301 <|endoftext|>"
    ids = tokenizer.encode(text)
    assert 256 not in ids
    assert tokenizer.decode([256, *ids, 256]) == text  # unchanged: this file does not compose
    assert tokenizer.pieces(ids)[:4] == ["e", "\\xcc", "\\x81", "▁"]


def test_controls_can_be_passed(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(_wordpiece())
    controls = Controls(pad=0, start=3, stop=4, unknown=2, cls=None, sep=None, mask=5)
    tokenizer = Tokenizer.load(path, controls=controls)
    assert (tokenizer.start, tokenizer.stop) == (3, 4)
    assert copy.deepcopy(tokenizer).controls == controls


def test_raises_if_the_model_of_a_file_fails_on_a_text():
    content = json.loads(trained("word").to_string())
    content["model"]["unk_token"] = "not there"
    with pytest.raises(TextError, match="cannot encode this text"):
        Tokenizer.from_string(json.dumps(content)).encode("zebra")
