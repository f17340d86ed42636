"""Record the exact weights of every attention below a module, for one block of code.

    with saccade.watch(model) as seen:
        model(source, target)
    seen["decoder.layers.0.cross"].weights        # (b, h, q, k)

Attention of this package hands over its weights; that of other modules, such as nn.Transformer or
models of transformers and timm, is seen by `saccade.attention.intercept`. The explicit softmax is
computed only inside the block and only on the thread that opened it; everything else runs on the
fused kernel. Blocks may be nested.
"""

import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import torch
from torch import nn

from saccade.attention.attend import Attend, watchers
from saccade.attention.intercept import (
    BY_HAND,
    Interceptor,
    looks_like_attention,
    may_attend,
    names_of,
)
from saccade.errors import WatchError
from saccade.shapes import Float, Tensor


class WatchWarning(UserWarning):
    """Warning that attention of some modules could not be seen."""


@dataclass
class Watched:
    """The recorded weights of one attention.

    Weights are always (b, h, q, k), with h = 1 if there are no heads. They are those before
    dropout: each row sums to 1, or to 0 if a query may see no key.

    Attributes:
        name: Dotted name of the module that owns the attention.
        calls: The weights of every call, in order. A teacher-forced pass of a recurrent decoder is
            one call with q = t.
    """

    name: str
    calls: list[Float[Tensor, "b h q k"]] = field(default_factory=list)

    @property
    def weights(self) -> Float[Tensor, "b h q k"]:
        """The weights of the last call.

        Raises:
            WatchError: If the attention was not called while it was watched.
        """
        if not self.calls:
            raise WatchError(
                f"the attention {self.name!r} was not called while it was watched; call the model "
                "inside the `with` block"
            )
        return self.calls[-1]


class Seen(Mapping[str, Watched]):
    """A mapping from dotted module names to the weights that `watch` recorded.

    Attention of this package is listed from the start, that of other modules from its first call.
    """

    def __init__(self, entries: dict[str, Watched], interceptor: Interceptor | None = None) -> None:
        self._entries = entries
        self._interceptor = interceptor
        self._unseen: list[str] = []

    @property
    def unseen(self) -> list[str]:
        """Names of modules that were called and look like attention, but could not be seen.

        Such a module runs a kernel that gives no weights, or a softmax written by hand, which
        `watch(..., by_hand=True)` records.
        """
        return self._unseen if self._interceptor is None else self._interceptor.unseen()

    def close(self) -> None:
        """Keep the records, and let go of the model."""
        self._unseen, self._interceptor = self.unseen, None

    def __getitem__(self, name: str) -> Watched:
        if name not in self._entries:
            if not self._entries:
                raise WatchError(
                    f"no attention named {name!r} was recorded, because none was called; call the "
                    "model inside the `with` block"
                )
            raise WatchError(
                f"no attention named {name!r} is watched; choose one of: {_listed(self._entries)}"
            )
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@contextmanager
def watch(
    module: nn.Module,
    *,
    detach: bool = True,
    device: torch.device | str | None = None,
    layers: str | Collection[str] | None = None,
    heads: Collection[int] | None = None,
    by_hand: bool = False,
) -> Iterator[Seen]:
    """Record the weights of every attention below `module` while the block runs.

    Works for models of this package, for nn.MultiheadAttention and nn.Transformer, and for every
    module that calls `F.scaled_dot_product_attention` or flex_attention, such as models of
    transformers and timm. The output of the model does not change. The records can be read inside
    the block and after it. Each has the dotted name of the module that owns the attention; the
    watched module itself has the name "".

    Modules that look like attention but could not be seen are listed in `seen.unseen` and in a
    `WatchWarning` at the end of the block.

    Args:
        module: Any module that contains attention, however deep.
        detach: Cut the weights from the gradient. False keeps it, for a loss on the weights.
        device: Device to keep the weights on ("cpu" saves memory of an accelerator); None leaves
            them where they are.
        layers: Record only these: a dotted name, a pattern such as "decoder.*.cross", or several.
        heads: Keep only these heads, in this order.
        by_hand: Also record attention written by hand: a softmax over the last axis whose result is
            multiplied with a matrix. False lists it in `seen.unseen`, because such a product may be
            something else. Models of transformers need no `by_hand`.

    Yields:
        A mapping from names to `Watched` records.

    Raises:
        WatchError: If `module` contains no attention, no layer or head matches, or, at the end of
            the block, no attention was seen.

    Examples:
        >>> import torch, saccade
        >>> from saccade.attention import MultiHeadAttention
        >>> attention = MultiHeadAttention(dim=8, num_heads=2)
        >>> with saccade.watch(attention) as seen:
        ...     context = attention(torch.randn(1, 5, 8))
        >>> list(seen), seen[""].weights.shape
        ([''], torch.Size([1, 2, 5, 5]))
        >>> encoder = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True)
        >>> with saccade.watch(encoder) as seen:
        ...     states = encoder(torch.randn(1, 5, 8))
        >>> list(seen), seen["self_attn"].weights.shape
        (['self_attn'], torch.Size([1, 2, 5, 5]))
    """
    named = _names(module)
    foreign = may_attend(module)
    if not named and not foreign:
        raise WatchError(
            f"{type(module).__name__} contains no attention to watch; pass a module that contains "
            "one"
        )
    patterns = None if layers is None else [layers] if isinstance(layers, str) else list(layers)
    if patterns is not None:
        _check_patterns(patterns, module, list(named.values()), foreign=foreign)
        named = {attend: name for attend, name in named.items() if _matches(name, patterns)}
    entries = {name: Watched(name) for name in named.values()}
    recorder = _Recorder(
        entries,
        {attend: entries[name] for attend, name in named.items()},
        detach=detach,
        device=None if device is None else torch.device(device),
        heads=None if heads is None else list(heads),
        patterns=patterns,
    )
    interceptor = Interceptor(module, recorder, by_hand=by_hand) if foreign else None
    seen = Seen(entries, interceptor)
    token = watchers.set((*watchers.get(), recorder))
    try:
        with nullcontext() if interceptor is None else interceptor.active():
            yield seen
    finally:
        watchers.reset(token)
        seen.close()
    if interceptor is not None:
        _report(module, interceptor, entries, patterns or ())


def _check_patterns(
    patterns: list[str], module: nn.Module, attends: list[str], *, foreign: bool
) -> None:
    """Raise if a pattern matches no attention; modules that are not ours are known by name only."""
    candidates = [*attends, *(names_of(module).values() if foreign else ())]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in candidates):
            likely = [n for m, n in names_of(module).items() if looks_like_attention(m)]
            raise WatchError(
                f"no attention matches {pattern!r}; choose from: "
                f"{_listed(attends or likely or candidates)}"
            )


def _report(
    module: nn.Module,
    interceptor: Interceptor,
    entries: Mapping[str, Watched],
    patterns: Collection[str],
) -> None:
    """Raise if nothing was seen, and warn of what looks like attention and was not."""
    unseen = interceptor.unseen()
    by_hand = any(interceptor.hidden.get(name) == BY_HAND for name in unseen)
    advice = "; pass by_hand=True to record softmax written by hand" if by_hand else ""
    if not entries and interceptor.visible:
        raise WatchError(
            f"no attention matches {', '.join(map(repr, patterns))}; choose from: "
            f"{_listed(sorted(interceptor.visible))}"
        )
    if not entries:
        why = (
            f"{_listed(unseen)} cannot be watched, because of a kernel or a softmax of their own"
            if unseen
            else "it contains none, or was not called inside the `with` block on the same thread"
        )
        raise WatchError(f"no attention of {type(module).__name__} was seen: {why}{advice}")
    if unseen:
        warnings.warn(
            f"the attention of {_listed(unseen)} could not be seen{advice}",
            WatchWarning,
            stacklevel=4,
        )


def count_heads(module: nn.Module, layers: Collection[str] | None = None) -> int:
    """Return the number of heads of all attentions below `module`, or of those named in `layers`.

    `watch` records as many weights for each pair of a query and a key.
    """
    named = _names(module)
    owners = (
        module.get_submodule(name.rpartition(".")[0])
        for name, part in module.named_modules()
        if isinstance(part, Attend) and (layers is None or named[part] in layers)
    )
    return sum(getattr(owner, "num_heads", 1) for owner in owners)


@contextmanager
def weights_in_graph(module: nn.Module) -> Iterator[Mapping[str, Tensor]]:
    """Keep the weights of each attention of Saccade's below `module` in the graph of gradients.

    What the module computes in this block depends on these very tensors, so that
    `torch.autograd.grad` gives the effect of each weight. `watch(detach=False)` is for losses on
    the weights; it may return views of them, on which the output does not depend.

    Returns:
        The weights of the last call of each attention, (b, h, q, k) or without h, by its name.
    """
    graph = _Graph(_names(module))
    token = watchers.set((*watchers.get(), graph))
    try:
        yield graph.weights
    finally:
        watchers.reset(token)


class _Graph:
    """A watcher that keeps the weights of the last call of each attention as they are."""

    def __init__(self, names: Mapping[Attend, str]) -> None:
        self._names = names
        self.weights: dict[str, Tensor] = {}

    def wants(self, attend: Attend) -> bool:
        return attend in self._names

    def record(self, attend: Attend, weights: Float[Tensor, "*b q k"]) -> None:
        # weights that no parameter precedes, as in a frozen model, begin the graph
        self.weights[self._names[attend]] = weights.requires_grad_()

    def count(self, attend: Attend) -> int:
        return 0

    def join(self, attend: Attend, since: int) -> None:
        pass  # the steps of a recurrent decoder: the last one is kept


class _Recorder:
    def __init__(
        self,
        named: dict[str, Watched],
        entries: dict[Attend, Watched],
        *,
        detach: bool,
        device: torch.device | None,
        heads: list[int] | None,
        patterns: list[str] | None,
    ) -> None:
        self.named = named
        self.entries = entries
        self.patterns = patterns
        self.detach = detach
        self.device = device
        self.heads = heads

    def wants(self, attend: Attend) -> bool:
        return attend in self.entries

    def record(self, attend: Attend, weights: Float[Tensor, "*b q k"]) -> None:
        self._keep(self.entries[attend], weights)

    def wants_named(self, name: str) -> bool:
        return self.patterns is None or _matches(name, self.patterns)

    def record_named(self, name: str, weights: Float[Tensor, "*b q k"]) -> None:
        self._keep(self.named.setdefault(name, Watched(name)), weights)

    def changed(self, name: str, context: Tensor, heads: int) -> Tensor:
        return context

    def _keep(self, entry: Watched, weights: Float[Tensor, "*b q k"]) -> None:
        if self.detach:
            weights = weights.detach()
        weights = _with_heads(weights)
        if self.heads is not None:
            if any(not 0 <= head < weights.shape[1] for head in self.heads):
                raise WatchError(
                    f"heads={self.heads} do not exist in {entry.name!r}, which has "
                    f"{weights.shape[1]}; heads count from 0"
                )
            weights = weights[:, self.heads]
        entry.calls.append(weights if self.device is None else weights.to(self.device))

    def count(self, attend: Attend) -> int:
        return len(self.entries[attend].calls)

    def join(self, attend: Attend, since: int) -> None:
        calls = self.entries[attend].calls
        if calls[since:]:
            calls[since:] = [torch.cat(calls[since:], 2)]


def _with_heads(weights: Tensor) -> Tensor:
    """Return (..., q, k) as (b, h, q, k), with h = 1 if there are no heads."""
    if weights.ndim > 4:
        return weights.flatten(0, -4)
    if weights.ndim == 3:
        return weights.unsqueeze(1)
    return weights if weights.ndim == 4 else weights[None, None]


def _names(module: nn.Module) -> dict[Attend, str]:
    """Return the name of each Attend: that of its owner, or its own if the owner has several."""
    own = {part: name for name, part in module.named_modules() if isinstance(part, Attend)}
    owners = {part: name.rpartition(".")[0] for part, name in own.items()}
    times = Counter(owners.values())
    return {part: name if times[name] == 1 else own[part] for part, name in owners.items()}


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
