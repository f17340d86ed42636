"""Record of a task beside the files of its engine, from which a run answers without torch."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.tasks import ready_record

if TYPE_CHECKING:
    from saccade.tasks import Task

ACCELERATORS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""Files of the drivers of GPUs; while none appears, torch finds no new device."""


def record_of(task: Task) -> dict[str, Any]:
    """Return the record of a task, from which `ready.open_ready` makes a predictor."""
    from saccade.training import precision

    record = ready_record(task)
    chosen = precision.pick_device("auto").type
    return {"predictor": record, "auto": chosen, "devices": devices()} if record else {}


def devices() -> list[str]:
    """Return what torch's choice of a device depends on."""
    drivers = [path for path in ACCELERATORS if Path(path).exists()]
    return [metadata.version("torch"), *drivers]
