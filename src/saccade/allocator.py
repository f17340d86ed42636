"""What the C library's memory allocator should know of work that goes in steps."""

import ctypes
import platform
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


@cache
def keep_freed_memory() -> None:
    """Keep freed blocks for the next step instead of giving them back to the system.

    Each step of a training, or of writing an answer, frees and asks for the same large blocks.
    glibc returns such blocks at once, and the system clears them anew: a tenth of the time of a
    small model. Elsewhere than on glibc nothing happens.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(M_MMAP_THRESHOLD, 1 << 30)
    mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
