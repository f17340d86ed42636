"""The memory of this process: settings of the C library's allocator, and the peak so far."""

import ctypes
import platform
import sys
from functools import cache
from pathlib import Path

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


@cache
def keep_freed_memory() -> None:
    """Keep freed blocks for the next step instead of returning them to the operating system.

    Each step of training or generation frees and allocates the same large blocks. By default glibc
    returns them at once, and the system clears them again: about 10 % of the time of a small model.
    On other C libraries this does nothing.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(M_MMAP_THRESHOLD, 1 << 30)
    mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)


def peak_memory() -> int | None:
    """Return the peak main memory of this process in bytes; None where no system reports it.

    Linux also reports ru_maxrss, but there a process starts with its parent's value.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
