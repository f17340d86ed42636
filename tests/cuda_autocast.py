"""The autocast policy of CUDA on a CPU, and every recipe trained and evaluated with it.

`cuda_policy` makes `torch.autocast("cpu")` treat every operator like `torch.autocast("cuda")`. The
lists of operators are those of the installed torch, read from its C++ header. Products are computed
as on a GPU: inputs rounded to 16 bits, sums in float32, the result rounded to 16 bits. So no 16-bit
kernel of this machine is used, which may be missing or broken.

As a script it prints one line of JSON per recipe and dtype, with the error or the difference from
float32: `python -m tests.cuda_autocast recipes bfloat16`. The policy cannot be undone, so it needs
its own process.
"""

import json
import math
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_map

from saccade.attention import Attend
from saccade.training import trial
from saccade.training.precision import Precision
from tests.tiny_recipes import NAMES, Tiny, data, small, tiny

KEY = "AutocastCPU"
RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
"""cuDNN computes these as one operator, in 16 bits; cells are in torch's list."""

Kernel = Callable[..., Any]
VARIANTS = (
    "caption-attention loss.doubly_stochastic=1.0",
    "caption-transformer model.encoder.fine_tune=true",
    "bert-mini loss.consistency=0.5",
    "gpt-mini text.layout=packed",
    "vit-tiny model.encoder.position.kind=relative_2d",
    *(
        f"transformer-tiny {' '.join(f'model.{side}.{change}' for side in ('encoder', 'decoder'))}"
        for change in (
            "position.kind=relative",
            "position.kind=rotary",
            "position.kind=complex",
            "position.kind=learned",
            "score.kind=cosine",
            "score.kind=general",
            "score.kind=low_rank",
            "score.kind=additive",
        )
    ),
    "bert-mini model.encoder.position.kind=conditional",
)
"""Recipes with parts that no built-in recipe uses."""


def listed(macro: str) -> list[str]:
    """Return the operators of a list in ATen/autocast_mode.h, such as `softmax.int`."""
    header = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
    text = header.read_text().replace("\\\n", " ")
    [line] = re.findall(rf"#define {macro}\(_\)(.*)", text)
    operators = re.findall(r"_\((\w+)(?:,\s*(\w+))?\)", line)
    assert operators, macro
    return [f"{name}.{overload}" if overload else name for name, overload in operators]


def cuda_policy() -> None:
    """Use the autocast policy of CUDA on the CPU, from now on in this process."""
    library = torch.library.Library("aten", "IMPL")
    policy: dict[str, Kernel] = {}
    for name in listed("AT_FORALL_LOWER_PRECISION_FP"):
        policy[name] = lower(operator(name))
    for name in RECURRENT:
        policy |= {f"{name}.{way}": lower(operator(f"{name}.{way}")) for way in ("input", "data")}
    for name in listed("AT_FORALL_FP32"):
        policy[name] = in_float32(operator(name))
    for name in listed("AT_FORALL_FP32_SET_OPT_DTYPE"):
        policy[name] = into_float32(operator(name))
    for name in ("norm.Scalar", "norm.ScalarOpt_dim"):
        policy[name] = in_float32(operator(name))
    for name in listed("AT_FORALL_PROMOTE"):
        policy[name] = promoted(operator(name))
    policy["binary_cross_entropy"] = banned
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about replacing existing kernels
        for full in torch._C._dispatch_get_all_op_names():
            name = full.removeprefix("aten::")
            if torch._C._dispatch_has_kernel_for_dispatch_key(full, KEY) and full != name:
                library.impl(name, policy.pop(name, torch.library.fallthrough_kernel), KEY)
        for name, kernel in policy.items():
            library.impl(name, kernel, KEY)
    cuda_policy.kept = library  # the kernels are removed with it


def operator(name: str) -> Kernel:
    """Return the operator of this name, below autocast."""
    packet, _, overload = name.partition(".")
    call = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def below(*args: Any, **kwargs: Any) -> Any:
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, KEY))
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return call(*args, **kwargs)

    return below


def eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype != torch.float64
    )


def cast(values: Any, dtype: torch.dtype) -> Any:
    return tree_map(lambda value: value.to(dtype) if eligible(value) else value, values)


def lower(call: Kernel) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        low = torch.get_autocast_dtype("cpu")
        args, kwargs = cast(cast((args, kwargs), low), torch.float32)
        return cast(call(*args, **kwargs), low)

    return kernel


def in_float32(call: Kernel) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = cast((args, kwargs), torch.float32)
        return call(*args, **kwargs)

    return kernel


def into_float32(call: Kernel) -> Kernel:
    def kernel(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if eligible(x) and kwargs.get("dtype") is None and not has_dtype(args):
            kwargs["dtype"] = torch.float32
        return call(x, *args, **kwargs)

    return kernel


def has_dtype(args: Any) -> bool:
    return any(isinstance(value, torch.dtype) for value in args)


def promoted(call: Kernel) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        floats = [value for value in tree_flatten((args, kwargs))[0] if eligible(value)]
        wide = any(value.dtype == torch.float32 for value in floats)
        widest = torch.float32 if wide else torch.get_autocast_dtype("cpu")
        args, kwargs = cast((args, kwargs), widest)
        return call(*args, **kwargs)

    return kernel


def banned(*_: Any, **__: Any) -> Any:
    raise RuntimeError("binary_cross_entropy is unsafe to autocast; use it with logits")


# the checks of each recipe


def difference(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> float:
    """Return the distance as a fraction of the length of the second."""
    square = sum((a - b).double().square().sum().item() for a, b in zip(ours, theirs, strict=True))
    return math.sqrt(square / sum(b.double().square().sum().item() for b in theirs))


def autocast(dtype: torch.dtype) -> Any:
    return nullcontext() if dtype == torch.float32 else torch.autocast("cpu", dtype=dtype)


def learn(
    case: Tiny, dtype: torch.dtype, optimizer: torch.optim.Optimizer
) -> tuple[float, list[torch.Tensor]]:
    """Make one update; return its mean loss and its gradient.

    In float16 the gradient is scaled; the scale is halved as long as it overflows.
    """
    task = case.task
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
    before = [p.detach().clone() for p in task.model.parameters()]
    for _ in range(16):
        torch.manual_seed(0)
        with autocast(dtype):
            loss = task.train()(case.batch())
        assert loss.total.dtype == torch.float32
        optimizer.zero_grad()
        scaler.scale(loss.total).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaled_by = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() == scaled_by:
            break
    learned = [p for p in task.model.parameters() if p.grad is not None]
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in learned)
    assert all(p.isfinite().all() for p in learned)
    assert not all(map(torch.equal, before, task.model.parameters()))
    return loss.total.item() / loss.count, [p.grad for p in learned]


def validate(case: Tiny, dtype: torch.dtype) -> float:
    """Return the mean loss without dropout."""
    task = case.task.eval()
    with autocast(dtype), torch.no_grad():
        loss = task(case.batch())
    return loss.total.item() / loss.count


def answer(case: Tiny, dtype: torch.dtype) -> None:
    """Evaluate and predict in every way that the task supports."""
    task, inputs = case.task.eval(), case.questions()
    looks = any(isinstance(module, Attend) for module in task.model.modules())
    with autocast(dtype):
        scores = task.evaluate(case.items, quick=True).values()
        answers = task.predict(inputs, attention=looks)
        if task.generation is not None:
            answers += task.predict(inputs, beam=1, sample=False)
            answers += task.predict(inputs, beam=3, sample=False)
            answers += task.predict(inputs, beam=1, sample=True, top_p=0.9)
    numbers = [*scores.values(), *(getattr(answer, "score", 0.0) for answer in answers)]
    assert not any(map(math.isnan, numbers)), numbers
    for answer in answers[: len(inputs)] if looks else ():
        for weights in answer.attention.weights.values():
            assert weights.dtype == np.float32
            assert np.isfinite(weights).all()


def tried(name: str, dtypes: list[torch.dtype]) -> Iterator[dict[str, Any]]:
    """Yield the differences from float32 after one update, validation and prediction."""
    recipe, *changes = name.split()

    def learned(dtype: torch.dtype) -> tuple[Tiny, float, list[torch.Tensor], float]:
        torch.manual_seed(0)
        case = tiny(recipe, *changes)
        optimizer = small(recipe).training.optim.build(case.task.model, 1e-3)
        return case, *learn(case, dtype, optimizer), validate(case, dtype)

    _, loss, gradient, valid = learned(torch.float32)
    for dtype in dtypes:
        result = {"recipe": name, "dtype": str(dtype).removeprefix("torch.")}
        try:
            case, low_loss, low_gradient, low_valid = learned(dtype)
            answer(case, dtype)
        except Exception:
            yield {**result, "error": traceback.format_exc()}
        else:
            result["loss"] = abs(low_loss / loss - 1)
            result["gradient"] = difference(low_gradient, gradient)
            result["valid"] = abs(low_valid / valid - 1)
            yield result


def main(cases: str, *dtypes: str) -> None:
    """Try the cases of this kind in these dtypes, and the trial that training runs for bfloat16."""
    torch.set_num_threads(1)
    cuda_policy()
    data()
    trial.main(torch.device("cpu"), Precision("bfloat16", "cpu"))
    for name in {"recipes": NAMES, "variants": VARIANTS}[cases]:
        for line in tried(name, [getattr(torch, dtype) for dtype in dtypes]):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
