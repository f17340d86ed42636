"""Masking: how much is chosen, what never is, what stays whole, and what is read instead."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers

from saccade import config
from saccade.data.transforms.masking import Masking, MaskingConfig
from saccade.errors import RecipeError
from saccade.text import Tokenizer, VocabularyConfig

VOCABULARY, MASK, FIRST = 211, 6, 7
WHOLES = ("tokens", "words", "spans")
TEXTS = ["the cat sat on the mat.", "a well-known unbelievable cat", "the mats are on the cats"]


def masking(**options):
    """Of ids 7 to 210 those that divide by 3 go on with a word; 0 to 6 are control tokens."""
    begins = torch.arange(VOCABULARY) % 3 != 0
    return Masking(
        config=MaskingConfig(**options),
        mask=MASK,
        ordinary=torch.arange(FIRST, VOCABULARY),
        begins_word=begins,
    )


def texts(rows, width, seed=0):
    """Rows of different lengths between control tokens, padded."""
    chance = torch.Generator().manual_seed(seed)
    tokens = torch.randint(FIRST, VOCABULARY, (rows, width), generator=chance)
    lengths = torch.randint(width // 2, width + 1, (rows,), generator=chance)
    real = torch.arange(width) < lengths[:, None]
    tokens[~real] = 0
    tokens[:, 0] = 4
    tokens[torch.arange(rows), lengths - 1] = 5
    return tokens, real


def chosen_in(found, tokens):
    """Which places were chosen, as (b, s)."""
    chosen = torch.zeros(tokens.numel(), dtype=torch.bool)
    chosen[found.places] = True
    return chosen.view_as(tokens)


def words_of(tokens, maskable):
    """The places of each word of a row, found one by one."""
    found = []
    for at in range(len(tokens)):
        if not maskable[at]:
            continue
        goes_on = tokens[at] % 3 == 0 and at > 0 and maskable[at - 1]
        if goes_on:
            found[-1].append(at)
        else:
            found.append([at])
    return found


@pytest.mark.parametrize("whole", WHOLES)
@pytest.mark.parametrize("share", [0.15, 0.4])
def test_the_share_is_right_on_average(whole, share):
    tokens, real = texts(400, 61)
    mask = masking(whole=whole, share=share)
    maskable = real & (tokens >= FIRST)
    counts = torch.stack([chosen_in(mask(tokens, real), tokens).sum(1) for _ in range(8)]).double()
    shares = (counts / maskable.sum(1)).flatten()
    error = shares.std() / len(shares) ** 0.5
    assert abs(shares.mean() - share) < 4 * error + 0.003
    assert error < 0.004


def test_single_tokens_are_chosen_to_the_nearest_number():
    """15 % of 40 are 6, of 50 are 7 or 8."""
    for width, allowed in ((40, {6}), (50, {7, 8})):
        tokens = torch.full((300, width), 10)
        found = chosen_in(masking()(tokens, torch.ones_like(tokens).bool()), tokens)
        assert set(found.sum(1).tolist()) == allowed


def test_no_span_of_a_short_text_is_longer_than_the_share():
    tokens = torch.full((2000, 31), 10)
    counts = chosen_in(masking(whole="spans")(tokens, tokens > 0), tokens).sum(1)
    assert counts.double().mean().item() == pytest.approx(0.15 * 31, abs=0.15)
    assert int(counts.max()) <= 4 + 4  # the last of several may reach over the share
    assert int(counts.min()) >= 1


@pytest.mark.parametrize("whole", WHOLES)
def test_every_place_is_equally_likely(whole):
    tokens = torch.arange(FIRST, FIRST + 31).expand(4000, -1)
    found = chosen_in(masking(whole=whole)(tokens, torch.ones_like(tokens).bool()), tokens)
    shares = found.double().mean(0)
    error = (0.15 * 0.85 / len(tokens)) ** 0.5
    assert (shares - shares.mean()).abs().max() < 6 * error
    assert shares.mean() == pytest.approx(0.15, abs=0.02)


@pytest.mark.parametrize("whole", WHOLES)
def test_controls_padding_and_what_may_not_be_are_never_chosen(whole):
    tokens, real = texts(64, 37)
    tokens[:, 5] = 3  # unknown
    real[:, 9] = False  # may not be masked
    mask = masking(whole=whole, share=0.9)
    for _ in range(20):
        found = mask(tokens, real)
        chosen = chosen_in(found, tokens)
        assert not chosen[~real].any()
        assert not chosen[tokens < FIRST].any()
        assert torch.equal(found.tokens[~chosen], tokens[~chosen])
        assert torch.equal(found.targets, tokens.flatten()[found.places])
        assert (found.places.diff() > 0).all()


@pytest.mark.parametrize("whole", WHOLES)
def test_short_rows_have_one_unit_and_empty_ones_none(whole):
    tokens = torch.tensor([[4, 10, 5, 0], [4, 5, 0, 0], [4, 10, 11, 5]])
    real = tokens > 0
    for _ in range(20):
        rows = masking(whole=whole, share=0.01)(tokens, real).places // 4
        assert rows[0] == 0
        assert 1 not in rows
        assert set(rows.tolist()) == {0, 2}
    assert masking(whole=whole)(tokens[1:2], real[1:2]).places.tolist() == []
    nothing = masking(whole=whole)(tokens[:0], real[:0])
    assert nothing.tokens.shape == (0, 4)


@pytest.mark.parametrize("whole", ["words", "spans"])
def test_words_are_chosen_whole(whole):
    tokens, real = texts(200, 41)
    real[:, 20] = False  # which ends a word, too
    maskable = real & (tokens >= FIRST)
    chosen = chosen_in(masking(whole=whole)(tokens, real), tokens)
    several = 0
    for row in range(len(tokens)):
        for word in words_of(tokens[row].tolist(), maskable[row].tolist()):
            of_word = chosen[row, word]
            assert of_word.all() or not of_word.any()
            several += len(word) > 1 and bool(of_word.all())
    assert several > 100


def runs(chosen):
    """The lengths of the runs of chosen places that neither edge cuts off."""
    edges = torch.nn.functional.pad(chosen.int(), (1, 1)).diff(dim=1)
    return (edges == -1).nonzero()[:, 1] - (edges == 1).nonzero()[:, 1]


def test_spans_have_the_lengths_of_the_paper():
    """A mean of 3.8 words, at most 10, as Joshi et al. 2020 give it."""
    shape = torch.Size((500, 400))
    lengths = masking(whole="spans")._span_lengths(shape, None).flatten()
    wanted = 0.8 ** np.arange(10) * 0.2
    wanted /= wanted.sum()
    shares = torch.bincount(lengths, minlength=11)[1:] / len(lengths)
    np.testing.assert_allclose(shares, wanted, atol=0.004)
    assert int(lengths.max()) == 10
    assert lengths.double().mean().item() == pytest.approx(3.797, abs=0.03)


def test_spans_are_whole():
    """In a long text few are chosen next to each other, so their runs are the spans."""
    tokens = torch.full((50, 4000), 10)  # every token is a word
    chosen = chosen_in(
        masking(whole="spans", share=0.02)(tokens, torch.ones_like(tokens).bool()), tokens
    )
    found = runs(chosen)
    assert len(found) > 800
    assert found.double().mean().item() == pytest.approx(3.797, rel=0.06)
    single = runs(chosen_in(masking(share=0.02)(tokens, tokens > 0), tokens))
    assert single.double().mean() < 1.1
    two = masking(whole="spans", longest_span=2, span_end=0.5, share=0.02)(tokens, tokens > 0)
    assert runs(chosen_in(two, tokens)).double().mean().item() == pytest.approx(4 / 3, rel=0.06)


@pytest.mark.parametrize("whole", WHOLES)
@pytest.mark.parametrize(("replaced", "random"), [(0.8, 0.1), (1.0, 0.0), (0.0, 1.0), (0.3, 0.3)])
def test_what_is_read_instead(whole, replaced, random):
    tokens = torch.full((300, 200), 100)
    found = masking(whole=whole, replaced=replaced, random=random)(tokens, tokens > 0)
    read = found.tokens.flatten()[found.places]
    number = len(read) / (3.8 if whole == "spans" else 1)  # of independent draws
    most = 5 * (0.25 / number) ** 0.5
    others = (read != MASK) & (read != 100)
    assert ((read == MASK).double().mean().item()) == pytest.approx(replaced, abs=most)
    assert others.double().mean().item() == pytest.approx(random, abs=most + 0.01)
    assert read[others].min() >= FIRST if others.any() else random == 0
    if random:
        assert len(read[others].unique()) > 150


def test_a_span_is_read_as_one():
    tokens = torch.full((100, 500), 100)
    found = masking(whole="spans", share=0.02, random=0.0, replaced=0.5)(tokens, tokens > 0)
    masks, chosen = found.tokens == MASK, chosen_in(found, tokens)
    both = chosen[:, 1:] & chosen[:, :-1]
    within, mixed = both.sum(), (both & (masks[:, 1:] != masks[:, :-1])).sum()
    assert within > 300
    assert mixed < 0.05 * within  # only where two spans touch


@pytest.mark.parametrize("whole", WHOLES)
def test_the_seed_decides(whole):
    tokens, real = texts(16, 50)
    mask = masking(whole=whole)

    def drawn(seed):
        torch.manual_seed(seed)
        return mask(tokens, real)

    def same(one, other):
        return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))

    assert same(drawn(3), drawn(3))
    assert not same(drawn(3), drawn(4))
    state = torch.get_rng_state()
    own = [mask(tokens, real, torch.Generator().manual_seed(5)) for _ in range(2)]
    assert same(*own)
    assert torch.equal(torch.get_rng_state(), state)
    before = tokens.clone()
    mask(tokens, real)
    assert torch.equal(tokens, before)


def test_options_are_checked():
    for options, said in (
        ({"replaced": 0.8, "random": 0.3}, "together at most 1; got 0.8 and 0.3"),
        ({"share": 0.0}, "masking.share cannot be 0.0; it can be: number above 0 below 1"),
        ({"share": 1.0}, "masking.share cannot be 1.0"),
        ({"replaced": 1.1}, "masking.replaced cannot be 1.1"),
        ({"whole": "sentences"}, "it can be: tokens, words, spans"),
        ({"longest_span": 0}, "masking.longest_span cannot be 0"),
        ({"spans": 3}, "masking.spans is not known"),
    ):
        with pytest.raises(RecipeError, match=said):
            config.read(MaskingConfig, options, "masking")


def words_by(tokenizer, text):
    """The pieces of each word, as `begins_word` has it."""
    found = []
    for id, piece in zip(
        tokenizer.encode(text), tokenizer.pieces(tokenizer.encode(text)), strict=True
    ):
        if tokenizer.begins_word[id] or not found:
            found.append("")
        found[-1] += piece
    return found


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "character", "token"])
def test_which_pieces_begin_a_word(kind):
    tokenizer = Tokenizer.train(TEXTS, VocabularyConfig(kind=kind, size=300))
    text = "the cats sat on a well-known mat."
    joined = [word.removeprefix("▁") for word in words_by(tokenizer, text)]
    if kind in ("bpe", "unigram"):
        assert joined == text.split()
        assert words_by(tokenizer, "the cat\nsat") == ["▁the", "▁cat", "\\nsat"]
    if kind == "character":
        assert words_by(tokenizer, "the cat sat") == ["the", "▁cat", "▁sat"]
    if kind == "word":
        assert joined[-2:] == ["well-known", "mat."]
    if kind == "token":
        assert tokenizer.begins_word.all()
    assert tokenizer.begins_word[: len(tokenizer) - len(tokenizer.ordinary)].all()


def foreign(model, **parts):
    backend = Backend(model)
    for name, part in parts.items():
        setattr(backend, name, part)
    return Tokenizer(backend.to_str())


def test_which_pieces_of_other_tools_begin_a_word():
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##able", "##s", "able", "."]
    vocabulary = {name: i for i, name in enumerate(names)}
    pieces = foreign(
        models.WordPiece(vocabulary, unk_token="[UNK]"),
        normalizer=normalizers.BertNormalizer(),
        pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
        decoder=decoders.WordPiece(),
    )
    assert pieces.ordinary.tolist() == [5, 6, 7, 8, 9]
    begins = pieces.begins_word.tolist()
    assert begins == [True, True, True, True, True, True, False, False, True, True]
    letters = {"Ġ": 0, "t": 1, "Ġt": 2, "<mask>": 3, "Ċ": 4}
    spelled = foreign(
        models.BPE(letters, [("Ġ", "t")]),
        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoder=decoders.ByteLevel(),
    )
    assert spelled.begins_word.tolist() == [True, False, True, True, True]
    untold = foreign(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    assert untold.begins_word.tolist() == [True, True]
    assert untold.ordinary.tolist() == [1]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character"])
@pytest.mark.parametrize("text", ["the cats. né\n\n漢字 \U0001f600!", "a\tb  c ", "unbelievable"])
def test_a_part_goes_on_where_another_ended(kind, text):
    tokenizer = Tokenizer.train([*TEXTS, text], VocabularyConfig(kind=kind, size=320))
    for cut in range(1, len(text)):
        ids = [*tokenizer.encode(text[:cut]), *tokenizer.encode_part(text[cut:])]
        assert tokenizer.decode(ids) == text
    assert tokenizer.encode_part("") == []


def test_a_vocabulary_is_masked_by_its_own_tokens():
    tokenizer = Tokenizer.train(TEXTS, VocabularyConfig(size=300))
    mask = MaskingConfig(whole="words", share=0.5).build(tokenizer)
    ids = tokenizer.encode("the well-known unbelievable mat")
    tokens = torch.tensor([[tokenizer.cls, *ids, tokenizer.sep]])
    for _ in range(20):
        found = mask(tokens, torch.ones_like(tokens).bool())
        kept = [id for i, id in enumerate(tokens[0].tolist()) if i not in found.places.tolist()]
        assert set(tokenizer.decode(kept).split()) < {"the", "well-known", "unbelievable", "mat"}
        assert kept[0] == tokenizer.cls
        assert kept[-1] == tokenizer.sep
