"""watch: the exact weights of every attention below a module, for one block of code.

    with saccade.watch(model) as seen:
        model(source, target)
    seen["decoder.layers.0.cross"].weights        # (b, h, q, k)

Only inside the block, and only on the thread that opened it, is the explicit softmax computed;
outside, everything runs fused. Blocks may be nested.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import torch
from torch import nn

from saccade.attention.attend import Attend, watchers
from saccade.errors import WatchError
from saccade.shapes import Float, Tensor


@dataclass
class Watched:
    """What one attention looked at: `calls` in order, each (b, h, q, k); `weights` is the last.

    h is 1 where there are no heads. The weights are those before dropout: each row sums to 1
    (or to 0, where a query may see no key).
    """

    name: str
    calls: list[Float[Tensor, "b h q k"]] = field(default_factory=list)

    @property
    def weights(self) -> Float[Tensor, "b h q k"]:
        if not self.calls:
            raise WatchError(f"the attention {self.name!r} was not called while it was watched")
        return self.calls[-1]


class Seen(Mapping[str, Watched]):
    """What a watched block saw, by the dotted name of the module that owns the attention."""

    def __init__(self, entries: dict[str, Watched]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> Watched:
        if name not in self._entries:
            raise WatchError(
                f"no attention named {name!r} is watched; there are: {_listed(self._entries)}"
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
) -> Iterator[Seen]:
    """Record the weights of every attention below `module` while the block runs.

    detach   cut the weights from the gradient; False keeps it, for a loss on the weights
    device   where to keep them ("cpu" spares an accelerator's memory)
    layers   only these: dotted names or patterns such as "decoder.*.cross"
    heads    keep only these heads, in this order
    """
    named = _names(module)
    if not named:
        raise WatchError(f"there is no attention to watch below {type(module).__name__}")
    if layers is not None:
        patterns = [layers] if isinstance(layers, str) else list(layers)
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in named.values()):
                raise WatchError(
                    f"no attention matches {pattern!r}; there are: {_listed(named.values())}"
                )
        named = {
            attend: name
            for attend, name in named.items()
            if any(fnmatchcase(name, pattern) for pattern in patterns)
        }
    entries = {name: Watched(name) for name in named.values()}
    recorder = _Recorder(
        {attend: entries[name] for attend, name in named.items()},
        detach=detach,
        device=None if device is None else torch.device(device),
        heads=None if heads is None else list(heads),
    )
    token = watchers.set((*watchers.get(), recorder))
    try:
        yield Seen(entries)
    finally:
        watchers.reset(token)


def count_heads(module: nn.Module, layers: Collection[str] | None = None) -> int:
    """Heads of all attentions below `module`, or of those with these names.

    `watch` records as many weights for each pair of a query and a key.
    """
    named = _names(module)
    owners = (
        module.get_submodule(name.rpartition(".")[0])
        for name, part in module.named_modules()
        if isinstance(part, Attend) and (layers is None or named[part] in layers)
    )
    return sum(getattr(owner, "num_heads", 1) for owner in owners)


class _Recorder:
    def __init__(
        self,
        entries: dict[Attend, Watched],
        *,
        detach: bool,
        device: torch.device | None,
        heads: list[int] | None,
    ) -> None:
        self.entries = entries
        self.detach = detach
        self.device = device
        self.heads = heads

    def wants(self, attend: Attend) -> bool:
        return attend in self.entries

    def record(self, attend: Attend, weights: Float[Tensor, "*b q k"]) -> None:
        entry = self.entries[attend]
        if self.detach:
            weights = weights.detach()
        weights = _with_heads(weights)
        if self.heads is not None:
            if any(not 0 <= head < weights.shape[1] for head in self.heads):
                raise WatchError(
                    f"heads {self.heads} were asked for, {entry.name!r} has {weights.shape[1]}"
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
    """(..., q, k) as (b, h, q, k), with h = 1 where there are no heads."""
    if weights.ndim > 4:
        return weights.flatten(0, -4)
    if weights.ndim == 3:
        return weights.unsqueeze(1)
    return weights if weights.ndim == 4 else weights[None, None]


def _names(module: nn.Module) -> dict[Attend, str]:
    """Each Attend below `module` with the dotted name of its owner (its own, if that has two)."""
    found = {part: name for name, part in module.named_modules() if isinstance(part, Attend)}
    owners = {part: name.rpartition(".")[0] for part, name in found.items()}
    owned = list(owners.values())
    return {part: o if owned.count(o) == 1 else found[part] for part, o in owners.items()}


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
