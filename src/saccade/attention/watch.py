"""Record the exact weights of every attention below a module, for one block of code.

    with saccade.watch(model) as seen:
        model(source, target)
    seen["decoder.layers.0.cross"].weights        # (b, h, q, k)

The explicit softmax is computed only inside the block and only on the thread that opened it;
everything else runs on the fused kernel. Blocks may be nested.
"""

from collections import Counter
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
    """A mapping from dotted module names to the weights that `watch` recorded."""

    def __init__(self, entries: dict[str, Watched]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> Watched:
        if name not in self._entries:
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
) -> Iterator[Seen]:
    """Record the weights of every attention below `module` while the block runs.

    The records can be read inside the block and after it. Each has the dotted name of the module
    that owns the attention; the watched module itself has the name "".

    Args:
        module: Any module that contains attention of this package, however deep.
        detach: Cut the weights from the gradient. False keeps it, for a loss on the weights.
        device: Device to keep the weights on ("cpu" saves memory of an accelerator); None leaves
            them where they are.
        layers: Record only these: a dotted name, a pattern such as "decoder.*.cross", or several.
        heads: Keep only these heads, in this order.

    Yields:
        A mapping from names to `Watched` records.

    Raises:
        WatchError: If `module` contains no attention, or no layer or head matches.

    Examples:
        >>> import torch, saccade
        >>> from saccade.attention import MultiHeadAttention
        >>> attention = MultiHeadAttention(dim=8, num_heads=2)
        >>> with saccade.watch(attention) as seen:
        ...     context = attention(torch.randn(1, 5, 8))
        >>> list(seen), seen[""].weights.shape
        ([''], torch.Size([1, 2, 5, 5]))
    """
    named = _names(module)
    if not named:
        raise WatchError(
            f"{type(module).__name__} contains no attention to watch; pass a module that contains "
            "one"
        )
    if layers is not None:
        patterns = [layers] if isinstance(layers, str) else list(layers)
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in named.values()):
                raise WatchError(
                    f"no attention matches {pattern!r}; choose from: {_listed(named.values())}"
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


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
