"""CTranslate2, which runs Transformers fast on a CPU: its folders, written and run.

    ctranslate2.write_task(task, folder, "int8")     # write, read again, compare
    ctranslate2.open_engine(task, folder, "int8")    # an engine: token ids in, hypotheses out

`runnable` decides which tasks it can run, `specs` puts our weights where it looks for them,
`vocabulary` names our tokens, `running` asks it for answers, `pace` keeps its calls short, and
`checking` compares answers. The package `ctranslate2` is not imported before it is needed, and
torch only to write and check folders: `running` needs the two `sides` of a task, not the task.
"""

from typing import TYPE_CHECKING

from saccade.interop.ctranslate2.comparison import Check
from saccade.interop.ctranslate2.package import installed, version
from saccade.interop.ctranslate2.running import FolderEngine, open_folder
from saccade.interop.ctranslate2.sides import Sides
from saccade.lazy_exports import lazily

if TYPE_CHECKING:
    from saccade.interop.ctranslate2.checking import DiedError, check, require_survival
    from saccade.interop.ctranslate2.runnable import Runnable, open_engine, require_runnable
    from saccade.interop.ctranslate2.writing import QUANTIZATIONS, write_folder, write_task

__all__ = [
    "QUANTIZATIONS",
    "Check",
    "DiedError",
    "FolderEngine",
    "Runnable",
    "Sides",
    "check",
    "installed",
    "open_engine",
    "open_folder",
    "require_runnable",
    "require_survival",
    "version",
    "write_folder",
    "write_task",
]

__getattr__ = lazily(
    __name__,
    {
        "saccade.interop.ctranslate2.checking": ["DiedError", "check", "require_survival"],
        "saccade.interop.ctranslate2.runnable": ["Runnable", "open_engine", "require_runnable"],
        "saccade.interop.ctranslate2.writing": ["QUANTIZATIONS", "write_folder", "write_task"],
    },
)
