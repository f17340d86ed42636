"""The peak memory of a process."""

import resource
import sys
from pathlib import Path


def peak_mib() -> float:
    """Return the peak memory in MiB; on Linux from /proc, since `ru_maxrss` includes the parent."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text(encoding="ascii").split("VmHWM:")[1].split()[0]) / 1024
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (2**20 if sys.platform == "darwin" else 2**10)
