"""Tests of KeyValueCache: it grows by doubling, and rows can be selected."""

import torch

from saccade.attention import KeyValueCache

B, H, D = 3, 2, 5


def test_appends_and_doubles():
    cache, parts = KeyValueCache(capacity=2), []
    for n in (1, 3, 5):
        parts.append(torch.randn(B, H, n, D))
        keys, values = cache.append(parts[-1], 2 * parts[-1])
        assert torch.equal(keys, torch.cat(parts, 2))
        assert torch.equal(values, 2 * torch.cat(parts, 2))
    assert cache.length == 9
    assert cache._keys.shape[2] == 16


def test_select_copies_rows_and_keeps_the_original():
    cache = KeyValueCache()
    first = torch.randn(B, H, 4, D)
    cache.append(first, first)
    chosen = cache.select(torch.tensor([2, 2, 0, 1]))
    new = torch.randn(4, H, 1, D)
    keys, _ = chosen.append(new, new)
    assert torch.equal(keys, torch.cat((first[[2, 2, 0, 1]], new), 2))
    assert cache.length == 4
    again, _ = cache.append(first[:, :, :1], first[:, :, :1])
    assert torch.equal(again[:, :, :4], first)


def test_select_works_on_an_empty_cache():
    assert KeyValueCache().select(torch.tensor([0])).length == 0
