"""How much memory a process has needed."""

import sys
from pathlib import Path


def peak_memory() -> int | None:
    """The most main memory that this process has had, in bytes; None where no system tells it.

    Linux also has it as ru_maxrss, but a process begins there with what its parent has.
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
