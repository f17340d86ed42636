"""The most memory a process ever held."""

import resource
import sys
from pathlib import Path


def peak_mib() -> float:
    """In MiB. Linux's own count of the process: `ru_maxrss` starts with its parent's there."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text(encoding="ascii").split("VmHWM:")[1].split()[0]) / 1024
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (2**20 if sys.platform == "darwin" else 2**10)
