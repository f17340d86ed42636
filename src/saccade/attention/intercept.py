"""Record attention weights of any module by observing calls of torch functions.

A `TorchFunctionMode` sees every torch function called on the thread. Three kinds are attention:

    scaled_dot_product_attention, flex_attention    weights from their query, key, mask and scale
    multi_head_attention_forward                    torch's code, run so that calls in it are seen
    softmax(…) multiplied with a matrix             handwritten attention

The functions themselves run unchanged, so the output of the model is the same to the last bit, with
the same random numbers. While a mode is active, torch does not take the fast paths of
nn.TransformerEncoder and nn.MultiheadAttention. A call belongs to the innermost watched module on
the call stack, so no module has to be changed.
"""

import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType, FunctionType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from saccade.attention.attend import Attend, masked_softmax
from saccade.errors import WatchError
from saccade.shapes import Bool, Float, Tensor

LIKE_ATTENTION = re.compile(r"(?i:attention|attn)|MHA")
_PARTS = re.compile(
    r"(output|projection|norm|bias|loss|map|mlp|mask|dropout|adapterlayer|structure|embeddings?)\d*$",
    re.I,
)
BY_HAND = "its softmax is written by hand"
_UNWATCHABLE = re.compile(r"flash|flex|paged|/")  # attn_implementation of transformers


@runtime_checkable
class Sink(Protocol):
    """Receiver of the weights that an `Interceptor` sees."""

    detach: bool

    def wants_named(self, name: str) -> bool:
        """Return whether to record the attention of the module with this name."""
        ...

    def record_named(self, name: str, weights: Float[Tensor, "*b q k"]) -> None:
        """Record the weights of one call, before dropout, with all heads."""
        ...

    def changed(self, name: str, context: Float[Tensor, "*b q d"], heads: int) -> Tensor:
        """Return what the queries of one call read, as it is or changed.

        Args:
            name: The name of the module.
            context: What they read, (b, heads, q, d) if the heads could be told apart.
            heads: The number of heads; 0 if they could not be told apart.
        """
        ...


class _Owner(NamedTuple):
    """The module that called an attention function."""

    name: str
    module: nn.Module
    num_heads: int | None  # within multi_head_attention_forward


def dot_product_weights(
    query: Float[Tensor, "*b q d"],
    key: Float[Tensor, "*c k d"],
    attn_mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> Float[Tensor, "*a q k"]:
    """Return the weights of `F.scaled_dot_product_attention`, in the precision of its query.

        a = softmax(scale · query · keyᵀ + mask),    scale = 1/√d unless given

    Half precision is computed in float32, as in the fused kernels. A query without visible keys has
    weights of 0. Grouped key heads are expanded.

    Args:
        query: Queries (..., q, d).
        key: Keys (..., k, d), with as many heads as the queries or a divisor of them.
        attn_mask: Boolean (True = visible), or numbers to add to the scores.
        is_causal: Query i sees keys 0 to i, aligned at the start.
        scale: Factor of the scores. Default: 1/√d.
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    precise = torch.promote_types(query.dtype, torch.float32)
    if query.ndim > 2 and key.shape[-3] not in (1, query.shape[-3]):
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    with torch.autocast(query.device.type, enabled=False):
        scores = (query.to(precise) * scale) @ key.to(precise).mT
        visible: Bool[Tensor, ...] | None = None
        if is_causal:
            visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            visible = attn_mask if visible is None else visible & attn_mask
        elif attn_mask is not None:
            open_ = attn_mask != -torch.inf
            scores = scores + attn_mask.masked_fill(~open_, 0.0)
            visible = open_ if visible is None else visible & open_
        weights = scores.softmax(-1) if visible is None else masked_softmax(scores, visible)
    return weights.to(query.dtype)


class Interceptor(TorchFunctionMode):
    """Mode that records the attention of the modules below one module.

    Args:
        module: The module to watch; modules of this package record through `Attend` instead.
        sink: Receiver of the weights.
        by_hand: Also record softmax that is multiplied with a matrix outside of torch and
            transformers. If False, `unseen` lists the modules that do so.
    """

    def __init__(self, module: nn.Module, sink: Sink, *, by_hand: bool) -> None:
        super().__init__()
        self.names = names_of(module)
        self.by_hand = by_hand
        self.visible: set[str] = set()
        """Names of modules whose attention was seen."""
        self.hidden: dict[str, str] = {}
        """Reasons why attention could not be seen, by the name of the module."""
        self._sink = sink
        self._thread = threading.get_ident()
        self._called: dict[nn.Module, None] = {}
        self._softmaxes: WeakIdKeyDictionary = WeakIdKeyDictionary()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Intercept calls on this thread, with compilation and unwatchable kernels switched off."""
        with ExitStack() as stack:
            if "torch._dynamo" in sys.modules:
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(_eager_transformers(self.names))
            for part in self.names:
                handle = None
                if isinstance(part, nn.TransformerEncoder):
                    handle = part.register_forward_hook(self._blank_padding, with_kwargs=True)
                elif _root(part) not in ("torch", "saccade") and looks_like_attention(part):
                    handle = part.register_forward_pre_hook(self._mark_called)
                if handle is not None:
                    stack.callback(handle.remove)
            stack.enter_context(self)
            yield

    def unseen(self) -> list[str]:
        """Return the names of called modules that look like attention but could not be seen."""
        suspects = {name: None for name in self.hidden if self._sink.wants_named(name)}
        ours = (name for module, name in self.names.items() if isinstance(module, Attend))
        known = {*self.visible, *self.hidden, *ours}
        for module in self._called:
            name = self.names[module]
            prefix = f"{name}." if name else ""
            if self._sink.wants_named(name) and not any(
                other == name or other.startswith(prefix) for other in known
            ):
                suspects[name] = None
        return list(suspects)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        observe = _OBSERVERS.get(name)
        if observe is not None:
            return observe(self, func, args, kwargs)
        if LIKE_ATTENTION.search(name):
            self._hide(f"it calls {name}")
        return func(*args, **kwargs)

    def _kernel(self, func: Any, args: Any, kwargs: Any) -> Any:
        output = func(*args, **kwargs)
        owner = self._owner()
        if owner is not None and self._sees(owner):
            with torch.set_grad_enabled(torch.is_grad_enabled() and not self._sink.detach):
                weights = _KERNELS[func.__name__](*args, **kwargs)
            self._sink.record_named(owner.name, weights)
            context, *rest = output if isinstance(output, tuple) else (output,)
            heads = context.shape[1] if context.ndim == 4 else 0
            changed = self._sink.changed(owner.name, context, heads)
            return (changed, *rest) if isinstance(output, tuple) else changed
        return output

    def _multi_head(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the code of multi_head_attention_forward such that its calls are seen."""
        if not isinstance(func, FunctionType):
            return func(*args, **kwargs)
        values = {**func.__globals__, "has_torch_function": lambda _: False}
        copy = FunctionType(func.__code__, values, func.__name__, func.__defaults__)
        with self:
            return copy(*args, **kwargs)

    def _softmax(self, func: Any, args: Any, kwargs: Any) -> Any:
        output = func(*args, **kwargs)
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if dim in (-1, output.ndim - 1) and output.ndim > 1:
            self._softmaxes[output] = None  # None: the tensor itself
        return output

    def _dropout(self, func: Any, args: Any, kwargs: Any) -> Any:
        output = func(*args, **kwargs)
        source = args[0] if args else kwargs.get("input")
        if source in self._softmaxes and output is not source:
            weights = self._softmaxes[source]
            self._softmaxes[output] = source if weights is None else weights
        return output

    def _reshape(self, func: Any, args: Any, kwargs: Any) -> Any:
        output = func(*args, **kwargs)
        source: Any = args[0] if args else None
        if source in self._softmaxes and output is not source and isinstance(output, Tensor):
            weights = self._softmaxes[source]
            before = source if weights is None else weights
            if before.ndim == 4 != output.ndim and before.shape[-2:] == output.shape[-2:]:
                weights = before  # (b, h, q, k), before heads were joined with the batch
            elif weights is not None:
                weights = func(weights, *args[1:], **kwargs)
            self._softmaxes[output] = weights
        return output

    def _matmul(self, func: Any, args: Any, kwargs: Any) -> Any:
        output = func(*args, **kwargs)
        operands = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, Tensor)]
        return self._multiplied(operands[:1], operands[1:], output)

    def _einsum(self, func: Any, args: Any, kwargs: Any) -> Any:
        output = func(*args, **kwargs)
        operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
        operands = [operand for operand in operands if isinstance(operand, Tensor)]
        return self._multiplied(operands, operands, output, in_order=False)

    def _multiplied(
        self,
        left: Sequence[Tensor],
        right: Sequence[Tensor],
        product: Tensor,
        *,
        in_order: bool = True,
    ) -> Tensor:
        """Record the softmax among the left factors, unless it selects from parameters.

        Return the product, which the sink may change. `in_order` says whether its axes are those of
        the left factor.
        """
        for factor in left:
            if factor not in self._softmaxes or any(isinstance(r, nn.Parameter) for r in right):
                continue
            owner = self._owner()
            if owner is None or _ours(owner.module):
                continue
            by_hand = owner.num_heads is None and _root(owner.module) != "transformers"
            if by_hand and not self.by_hand:
                self.hidden[owner.name] = BY_HAND
            elif self._sees(owner):
                weights = self._softmaxes[factor]
                weights = factor if weights is None else weights
                if owner.num_heads is not None:
                    weights = weights.unflatten(0, (-1, owner.num_heads))
                blind = weights.isnan().all(-1, keepdim=True)
                self._sink.record_named(owner.name, weights.masked_fill(blind, 0.0))
                heads = weights.shape[1] if weights.ndim == 4 and in_order else 0
                if heads and product.ndim == 3:  # heads were joined with the batch
                    apart = product.unflatten(0, (-1, heads))
                    changed = self._sink.changed(owner.name, apart, heads)
                    return product if changed is apart else changed.flatten(0, 1)
                return self._sink.changed(owner.name, product, heads)
        return product

    def _sees(self, owner: _Owner) -> bool:
        """Return whether to record the attention of `owner`, which counts as visible."""
        if _ours(owner.module) or torch._C._current_graph_task_id() != -1:
            return False  # left to `Attend`; computed again for the backward pass
        self.visible.add(owner.name)
        return self._sink.wants_named(owner.name)

    def _hide(self, reason: str) -> None:
        owner = self._owner()
        if owner is not None and not _ours(owner.module):
            self.hidden[owner.name] = reason

    def _owner(self) -> _Owner | None:
        """Return the innermost watched module on the call stack."""
        frame: FrameType | None = sys._getframe(1)
        num_heads = None
        while frame is not None:
            code = frame.f_code
            if code is F.multi_head_attention_forward.__code__:
                num_heads = frame.f_locals["num_heads"]
            elif code.co_argcount and code.co_varnames[0] == "self":
                module = frame.f_locals.get("self")
                if isinstance(module, nn.Module) and module in self.names:
                    return _Owner(self.names[module], module, num_heads)
            frame = frame.f_back
        return None

    def _mark_called(self, module: nn.Module, args: Any) -> None:
        if threading.get_ident() == self._thread:
            self._called[module] = None

    def _blank_padding(
        self, encoder: nn.TransformerEncoder, args: Any, kwargs: Any, output: Tensor
    ) -> Tensor | None:
        """Return the output with the zeros that the fast path writes at padding."""
        if threading.get_ident() != self._thread:
            return None
        padding = _blanked(encoder, *args, **kwargs)
        if padding is None:
            return None
        blank = output.new_zeros(output.shape[-1])
        if encoder.norm is not None:
            blank = encoder.norm(blank)
        return torch.where(padding[..., None], blank, output)


class _Ablation:
    """Sink that removes a head: what it reads becomes zero."""

    detach = True

    def __init__(self, layer: str, head: int) -> None:
        self.layer, self.head = layer, head
        self.called = False

    def wants_named(self, name: str) -> bool:
        return name == self.layer

    def record_named(self, name: str, weights: Tensor) -> None:
        """Keep nothing."""

    def changed(self, name: str, context: Tensor, heads: int) -> Tensor:
        if not heads:
            raise WatchError(
                f"the heads of {name!r} cannot be told apart, because its context has the shape "
                f"{tuple(context.shape)}; measure without the model, which leaves out their "
                "importance"
            )
        if not 0 <= self.head < heads:
            raise WatchError(f"attention {name!r} has no head {self.head}; heads count from 0")
        self.called = True
        context = context.clone()
        context[:, self.head] = 0.0
        return context


@contextmanager
def ablated(module: nn.Module, layer: str, head: int) -> Iterator[None]:
    """Ablate a head of a module that is not ours, inside a `with` block.

    Args:
        module: The module that holds the attention.
        layer: The dotted name of the attention, as `watch` gives it.
        head: The index of the head.

    Raises:
        WatchError: If the attention was not called in the block, or its heads cannot be told apart.
    """
    sink = _Ablation(layer, head)
    with Interceptor(module, sink, by_hand=True).active():
        yield
    if not sink.called:
        raise WatchError(
            f"no attention named {layer!r} of {type(module).__name__} was called; choose a layer "
            "that saccade.watch shows"
        )


def names_of(module: nn.Module) -> dict[nn.Module, str]:
    """Return the dotted name of every module, without the prefixes of compiled modules."""
    names: dict[nn.Module, str] = {}
    for name, part in module.named_modules():
        names[part] = ".".join(piece for piece in name.split(".") if piece != "_orig_mod")
    return names


def may_attend(module: nn.Module) -> bool:
    """Return whether `module` contains possible attention from outside this package."""
    return any(
        _root(part) not in ("torch", "saccade")
        or (_root(part) == "torch" and looks_like_attention(part))
        for part in module.modules()
    )


def looks_like_attention(module: nn.Module) -> bool:
    """Return whether the name of the module's class sounds like attention."""
    name = getattr(module, "original_name", type(module).__name__)
    return bool(LIKE_ATTENTION.search(name)) and not _PARTS.search(name)


def _ours(module: nn.Module) -> bool:
    return isinstance(module, Attend) or _root(module) == "saccade"


def _root(module: nn.Module) -> str:
    return type(module).__module__.partition(".")[0]


def _dot_product_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,  # noqa: FBT001, FBT002
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return the weights of a call of scaled_dot_product_attention, from its arguments."""
    del value, dropout_p, enable_gqa
    materialize = getattr(attn_mask, "_materialize", None)  # CausalBias of torch.nn.attention.bias
    if materialize is not None:
        attn_mask = materialize(query.device)
    if not query.is_nested:
        return dot_product_weights(query, key, attn_mask, is_causal=is_causal, scale=scale)
    rows = [
        dot_product_weights(q, k, is_causal=is_causal, scale=scale)
        for q, k in zip(query.unbind(), key.unbind(), strict=True)
    ]
    most = [max(row.shape[axis] for row in rows) for axis in (-1, -2)]
    pads = [(0, most[0] - row.shape[-1], 0, most[1] - row.shape[-2]) for row in rows]
    return torch.stack([F.pad(row, pad) for row, pad in zip(rows, pads, strict=True)])


def _flex_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Any,
    block_mask: Any,
    *rest: Any,
) -> Tensor:
    """Return the weights of a call of the higher-order operator behind flex_attention."""
    from torch._higher_order_ops.flex_attention import _math_attention_inner

    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    _, scores = _math_attention_inner(query, key, value, score_mod, block_mask, *rest)
    return masked_softmax(scores, scores != -torch.inf).to(query.dtype)


def _blanked(
    encoder: nn.TransformerEncoder,
    src: Tensor,
    mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None,
    is_causal: object = None,
) -> Bool[Tensor, "b s"] | None:
    """Return the padding that the fast path on nested tensors would skip; None if not taken."""
    del is_causal
    if (
        src_key_padding_mask is None
        or mask is not None
        or src.dim() != 3
        or not encoder.use_nested_tensor
        or encoder.layers[0].training
        or not torch.backends.mha.get_fastpath_enabled()
        or torch.is_autocast_enabled()
        or (torch.is_grad_enabled() and any(t.requires_grad for t in (src, *encoder.parameters())))
    ):
        return None
    padding = src_key_padding_mask
    padding = padding if padding.dtype == torch.bool else padding == -torch.inf
    aligned = not bool((padding[:, :-1] & ~padding[:, 1:]).any())
    return padding if aligned or not encoder.mask_check else None


@contextmanager
def _eager_transformers(modules: Mapping[nn.Module, str]) -> Iterator[None]:
    """Switch models of transformers from flash and flex kernels to plain attention."""
    configs = {id(c): c for m in modules if (c := getattr(m, "config", None)) is not None}
    before = [
        (config, name)
        for config in configs.values()
        if isinstance(name := getattr(config, "_attn_implementation", None), str)
    ]
    try:
        for config, name in before:
            if _UNWATCHABLE.search(name):
                config._attn_implementation = "eager"
        yield
    finally:
        for config, name in before:
            if config._attn_implementation != name:
                config._attn_implementation = name


_KERNELS: dict[str, Callable[..., Tensor]] = {
    "scaled_dot_product_attention": _dot_product_call,
    "scaled_dot_product_attention.default": _dot_product_call,
    "flex_attention": _flex_call,
}
_RESHAPES = (
    "bfloat16 clone contiguous double expand flatten float half masked_fill nan_to_num reshape "
    "squeeze to type type_as unflatten unsqueeze view __getitem__"
)
_OBSERVERS: dict[str, Callable[[Interceptor, Any, Any, Any], Any]] = {
    **dict.fromkeys(_KERNELS, Interceptor._kernel),
    "multi_head_attention_forward": Interceptor._multi_head,
    "softmax": Interceptor._softmax,
    "dropout": Interceptor._dropout,
    **dict.fromkeys(_RESHAPES.split(), Interceptor._reshape),
    **dict.fromkeys(("matmul", "__matmul__", "bmm"), Interceptor._matmul),
    "einsum": Interceptor._einsum,
}
"""Observers of torch functions by name, which torch, Tensor and F share."""
