"""The number of threads of this process, which torch need not be imported for."""

import os
import sys
from pathlib import Path

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""The variables by which torch chooses its number of threads when it is imported."""
_TOPOLOGY = Path("/sys/devices/system/cpu")


def thread_count() -> int:
    """Return torch's number of threads or, while it is not imported, the number it will choose."""
    if sys.modules.get("torch"):
        import torch

        return torch.get_num_threads()
    for name in VARIABLES:
        if (value := os.environ.get(name, "")).isdecimal() and int(value) > 0:
            return int(value)
    return core_count()


def set_thread_count(count: int) -> None:
    """Set torch's number of threads, also if it is imported later."""
    if sys.modules.get("torch"):
        import torch

        torch.set_num_threads(count)
    else:
        os.environ.update(dict.fromkeys(VARIABLES, str(count)))


def core_count() -> int:
    """Return the number of processor cores that this process may use; two threads may share one."""
    try:
        threads = os.sched_getaffinity(0)
    except AttributeError:  # not Linux
        return os.cpu_count() or 1
    files = (_TOPOLOGY / f"cpu{number}/topology/thread_siblings_list" for number in threads)
    try:
        return len({file.read_text() for file in files})
    except OSError:
        return len(threads)
