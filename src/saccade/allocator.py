"""Settings of the C library's memory allocator for work that repeats the same allocations."""

import ctypes
import platform
from functools import cache

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
