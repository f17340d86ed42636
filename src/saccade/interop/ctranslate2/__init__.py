"""CTranslate2, which runs Transformers fast on a CPU: its folders, written and run.

    ctranslate2.write_task(task, folder, "int8")     # write, read again, compare
    ctranslate2.open_engine(task, folder, "int8")    # an engine: token ids in, hypotheses out

`runnable` decides which tasks it can run, `specs` puts our weights where it looks for them,
`vocabulary` names our tokens, `running` asks it for answers, `pace` keeps its calls short, and
`checking` compares answers. The package `ctranslate2` is not imported before it is needed.
"""

from saccade.interop.ctranslate2.checking import Check, DiedError, check, require_survival
from saccade.interop.ctranslate2.package import installed, version
from saccade.interop.ctranslate2.runnable import Runnable, require_runnable
from saccade.interop.ctranslate2.running import FolderEngine, open_engine
from saccade.interop.ctranslate2.writing import QUANTIZATIONS, write_folder, write_task

__all__ = [
    "QUANTIZATIONS",
    "Check",
    "DiedError",
    "FolderEngine",
    "Runnable",
    "check",
    "installed",
    "open_engine",
    "require_runnable",
    "require_survival",
    "version",
    "write_folder",
    "write_task",
]
