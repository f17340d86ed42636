"""saccade doctor: report what this machine supports."""

import os
import sys
import time

from saccade.cli.output import counted

EXTRAS = {
    "pocketsphinx": "demo: builtin:pronounce",
    "sklearn": "demo: builtin:digits",
    "pyarrow": "parquet: .parquet files",
    "python_calamine": "excel: .xlsx files",
    "datasets": "hf: Hugging Face data sets",
    "tensorboard": "track: TensorBoard",
    "ctranslate2": "fast: the engine ctranslate2",
    "fastapi": "serve: saccade serve",
    "uvicorn": "serve: saccade serve",
    "onnx": "onnx: saccade export --to onnx",
    "onnxscript": "onnx: saccade export --to onnx",
    "onnxruntime": "onnx: saccade export --to onnx",
}
DISTRIBUTIONS = {"python_calamine": "python-calamine", "sklearn": "scikit-learn"}
"""Names of distributions that differ from their modules."""


def run() -> None:
    """Report what this machine supports: devices, engines, extras.

    Prints versions, cores, the speed of a matrix product, and which precisions work.
    """
    import platform
    from importlib import util

    import torch

    from saccade import engines
    from saccade._version import __version__
    from saccade.training import precision
    from saccade.training.console import Console

    print(f"saccade {__version__}, Python {platform.python_version()}, {platform.platform()}")
    cores = counted(os.cpu_count() or 1, "core")
    threads = counted(torch.get_num_threads(), "thread")
    print(f"torch {torch.__version__}, {cores}, {threads}")
    device = precision.pick_device("auto")
    print(f"device: {device} (used by --device auto)")
    print(f"float32 matrix product: {_gigaflops(torch.float32, device):.0f} GFLOP/s")
    with Console().working("testing bfloat16 in a child process"):
        works = precision.works(str(device))
    if works:
        print("bfloat16: works (tested in a child process)")
    else:
        print("bfloat16: does NOT work here (a test in a child process failed); float32 is used")
    print(f"--precision auto uses {precision.choose('auto', device).name}")
    print(f"engines: {', '.join(engines.installed())}")
    print("extras:")
    for module, purpose in EXTRAS.items():
        installed = util.find_spec(module) is not None
        version = _version(module) if installed else "not installed"
        print(f"  {purpose:<32} {module} {version}")
    sys.stdout.flush()


def _gigaflops(dtype: object, device: object, size: int = 1024) -> float:
    import torch

    a = torch.randn(size, size, dtype=dtype, device=device)  # type: ignore[call-overload]
    times = []
    for _ in range(5):
        started = time.perf_counter()
        (a @ a).sum().item()
        times.append(time.perf_counter() - started)
    return float(2 * size**3 / min(times) / 1e9)


def _version(module: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(DISTRIBUTIONS.get(module, module))
    except metadata.PackageNotFoundError:
        return "installed"
