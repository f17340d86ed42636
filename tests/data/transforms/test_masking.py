"""Masking: the masked fraction, the maskable tokens, complete words and spans, replacements."""

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
    """Build a masking: ids 0 to 6 are control tokens, multiples of 3 continue a word."""
    begins = torch.arange(VOCABULARY) % 3 != 0
    return Masking(
        config=MaskingConfig(**options),
        mask=MASK,
        ordinary=torch.arange(FIRST, VOCABULARY),
        begins_word=begins,
    )


def texts(rows, width, seed=0):
    """Return padded rows of different lengths between control tokens."""
    chance = torch.Generator().manual_seed(seed)
    tokens = torch.randint(FIRST, VOCABULARY, (rows, width), generator=chance)
    lengths = torch.randint(width // 2, width + 1, (rows,), generator=chance)
    real = torch.arange(width) < lengths[:, None]
    tokens[~real] = 0
    tokens[:, 0] = 4
    tokens[torch.arange(rows), lengths - 1] = 5
    return tokens, real


def chosen_in(masked, tokens):
    """Return the chosen places as a mask (b, s)."""
    chosen = torch.zeros(tokens.numel(), dtype=torch.bool)
    chosen[masked.places] = True
    return chosen.view_as(tokens)


def words_of(tokens, maskable):
    """Return the places of each word of a row, one at a time."""
    masked = []
    for at in range(len(tokens)):
        if not maskable[at]:
            continue
        goes_on = tokens[at] % 3 == 0 and at > 0 and maskable[at - 1]
        if goes_on:
            masked[-1].append(at)
        else:
            masked.append([at])
    return masked


@pytest.mark.parametrize("whole", WHOLES)
@pytest.mark.parametrize("share", [0.15, 0.4])
def test_the_masked_fraction_is_exact_on_average(whole, share):
    tokens, real = texts(400, 61)
    mask = masking(whole=whole, share=share)
    maskable = real & (tokens >= FIRST)
    counts = torch.stack([chosen_in(mask(tokens, real), tokens).sum(1) for _ in range(8)]).double()
    fractions = (counts / maskable.sum(1)).flatten()
    error = fractions.std() / len(fractions) ** 0.5
    assert abs(fractions.mean() - share) < 4 * error + 0.003
    assert error < 0.004


def test_the_number_of_masked_tokens_is_nearly_exact():
    """15 % of 40 are 6, of 50 are 7 or 8."""
    for width, allowed in ((40, {6}), (50, {7, 8})):
        tokens = torch.full((300, width), 10)
        masked = chosen_in(masking()(tokens, torch.ones_like(tokens).bool()), tokens)
        assert set(masked.sum(1).tolist()) == allowed


def test_spans_of_short_texts_stay_within_the_fraction():
    tokens = torch.full((2000, 31), 10)
    counts = chosen_in(masking(whole="spans")(tokens, tokens > 0), tokens).sum(1)
    assert counts.double().mean().item() == pytest.approx(0.15 * 31, abs=0.15)
    assert int(counts.max()) <= 4 + 4  # the last span may exceed the fraction
    assert int(counts.min()) >= 1


@pytest.mark.parametrize("whole", WHOLES)
def test_every_place_is_equally_likely(whole):
    tokens = torch.arange(FIRST, FIRST + 31).expand(4000, -1)
    masked = chosen_in(masking(whole=whole)(tokens, torch.ones_like(tokens).bool()), tokens)
    fractions = masked.double().mean(0)
    error = (0.15 * 0.85 / len(tokens)) ** 0.5
    assert (fractions - fractions.mean()).abs().max() < 6 * error
    assert fractions.mean() == pytest.approx(0.15, abs=0.02)


@pytest.mark.parametrize("whole", WHOLES)
def test_control_tokens_and_padding_are_never_masked(whole):
    tokens, real = texts(64, 37)
    tokens[:, 5] = 3  # unknown
    real[:, 9] = False  # not maskable
    mask = masking(whole=whole, share=0.9)
    for _ in range(20):
        masked = mask(tokens, real)
        chosen = chosen_in(masked, tokens)
        assert not chosen[~real].any()
        assert not chosen[tokens < FIRST].any()
        assert torch.equal(masked.tokens[~chosen], tokens[~chosen])
        assert torch.equal(masked.targets, tokens.flatten()[masked.places])
        assert (masked.places.diff() > 0).all()


@pytest.mark.parametrize("whole", WHOLES)
def test_short_rows_have_one_masked_unit_and_empty_rows_none(whole):
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
def test_complete_words_are_masked(whole):
    tokens, real = texts(200, 41)
    real[:, 20] = False  # it also ends a word
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
    """Return the lengths of runs of chosen places that do not touch an edge."""
    edges = torch.nn.functional.pad(chosen.int(), (1, 1)).diff(dim=1)
    return (edges == -1).nonzero()[:, 1] - (edges == 1).nonzero()[:, 1]


def test_spans_have_the_lengths_of_the_paper():
    """The mean is 3.8 words and the maximum 10, as in Joshi et al. 2020."""
    shape = torch.Size((500, 400))
    lengths = masking(whole="spans")._span_lengths(shape, None).flatten()
    expected = 0.8 ** np.arange(10) * 0.2
    expected /= expected.sum()
    fractions = torch.bincount(lengths, minlength=11)[1:] / len(lengths)
    np.testing.assert_allclose(fractions, expected, atol=0.004)
    assert int(lengths.max()) == 10
    assert lengths.double().mean().item() == pytest.approx(3.797, abs=0.03)


def test_spans_consist_of_complete_words():
    """In a long text few chosen spans touch, so the runs are the spans."""
    tokens = torch.full((50, 4000), 10)  # every token is a word
    chosen = chosen_in(
        masking(whole="spans", share=0.02)(tokens, torch.ones_like(tokens).bool()), tokens
    )
    masked = runs(chosen)
    assert len(masked) > 800
    assert masked.double().mean().item() == pytest.approx(3.797, rel=0.06)
    single = runs(chosen_in(masking(share=0.02)(tokens, tokens > 0), tokens))
    assert single.double().mean() < 1.1
    two = masking(whole="spans", longest_span=2, span_end=0.5, share=0.02)(tokens, tokens > 0)
    assert runs(chosen_in(two, tokens)).double().mean().item() == pytest.approx(4 / 3, rel=0.06)


@pytest.mark.parametrize("whole", WHOLES)
@pytest.mark.parametrize(("replaced", "random"), [(0.8, 0.1), (1.0, 0.0), (0.0, 1.0), (0.3, 0.3)])
def test_masked_tokens_are_replaced_at_the_given_rates(whole, replaced, random):
    tokens = torch.full((300, 200), 100)
    masked = masking(whole=whole, replaced=replaced, random=random)(tokens, tokens > 0)
    read = masked.tokens.flatten()[masked.places]
    number = len(read) / (3.8 if whole == "spans" else 1)  # independent samples
    most = 5 * (0.25 / number) ** 0.5
    others = (read != MASK) & (read != 100)
    assert ((read == MASK).double().mean().item()) == pytest.approx(replaced, abs=most)
    assert others.double().mean().item() == pytest.approx(random, abs=most + 0.01)
    assert read[others].min() >= FIRST if others.any() else random == 0
    if random:
        assert len(read[others].unique()) > 150


def test_all_tokens_of_a_span_are_replaced_alike():
    tokens = torch.full((100, 500), 100)
    masked = masking(whole="spans", share=0.02, random=0.0, replaced=0.5)(tokens, tokens > 0)
    masks, chosen = masked.tokens == MASK, chosen_in(masked, tokens)
    both = chosen[:, 1:] & chosen[:, :-1]
    within, mixed = both.sum(), (both & (masks[:, 1:] != masks[:, :-1])).sum()
    assert within > 300
    assert mixed < 0.05 * within  # only where two spans touch


@pytest.mark.parametrize("whole", WHOLES)
def test_the_seed_decides_the_result(whole):
    tokens, real = texts(16, 50)
    mask = masking(whole=whole)

    def sampled(seed):
        torch.manual_seed(seed)
        return mask(tokens, real)

    def same(one, other):
        return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))

    assert same(sampled(3), sampled(3))
    assert not same(sampled(3), sampled(4))
    state = torch.get_rng_state()
    own = [mask(tokens, real, torch.Generator().manual_seed(5)) for _ in range(2)]
    assert same(*own)
    assert torch.equal(torch.get_rng_state(), state)
    before = tokens.clone()
    mask(tokens, real)
    assert torch.equal(tokens, before)


def test_raises_on_invalid_masking_options():
    for options, message in (
        ({"replaced": 0.8, "random": 0.3}, "together at most 1; got 0.8 and 0.3"),
        ({"share": 0.0}, "masking.share cannot be 0.0; it can be: number above 0 below 1"),
        ({"share": 1.0}, "masking.share cannot be 1.0"),
        ({"replaced": 1.1}, "masking.replaced cannot be 1.1"),
        ({"whole": "sentences"}, "it can be: tokens, words, spans"),
        ({"longest_span": 0}, "masking.longest_span cannot be 0"),
        ({"spans": 3}, "masking.spans is not known"),
    ):
        with pytest.raises(RecipeError, match=message):
            config.read(MaskingConfig, options, "masking")


def words_by(tokenizer, text):
    """Return the pieces of each word according to `begins_word`."""
    masked = []
    for id, piece in zip(
        tokenizer.encode(text), tokenizer.pieces(tokenizer.encode(text)), strict=True
    ):
        if tokenizer.begins_word[id] or not masked:
            masked.append("")
        masked[-1] += piece
    return masked


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
    plain = foreign(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    assert plain.begins_word.tolist() == [True, True]
    assert plain.ordinary.tolist() == [1]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character"])
@pytest.mark.parametrize("text", ["the cats. né\n\n漢字 \U0001f600!", "a\tb  c ", "unbelievable"])
def test_encoded_parts_decode_to_the_complete_text(kind, text):
    tokenizer = Tokenizer.train([*TEXTS, text], VocabularyConfig(kind=kind, size=320))
    for cut in range(1, len(text)):
        ids = [*tokenizer.encode(text[:cut]), *tokenizer.encode_part(text[cut:])]
        assert tokenizer.decode(ids) == text
    assert tokenizer.encode_part("") == []


def test_masking_of_a_trained_vocabulary_masks_complete_words():
    tokenizer = Tokenizer.train(TEXTS, VocabularyConfig(size=300))
    mask = MaskingConfig(whole="words", share=0.5).build(tokenizer)
    ids = tokenizer.encode("the well-known unbelievable mat")
    tokens = torch.tensor([[tokenizer.cls, *ids, tokenizer.sep]])
    for _ in range(20):
        masked = mask(tokens, torch.ones_like(tokens).bool())
        unmasked = [
            id for i, id in enumerate(tokens[0].tolist()) if i not in masked.places.tolist()
        ]
        assert set(tokenizer.decode(unmasked).split()) < {
            "the",
            "well-known",
            "unbelievable",
            "mat",
        }
        assert unmasked[0] == tokenizer.cls
        assert unmasked[-1] == tokenizer.sep
