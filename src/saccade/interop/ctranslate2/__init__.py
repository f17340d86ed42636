"""Folders of CTranslate2, which runs Transformers fast on a CPU.

    ctranslate2.write_task(task, folder, "int8")     # written, read again, compared
    ctranslate2.opened(task, folder, "int8")         # an engine: token numbers in, hypotheses out

`expressible` says which options of a recipe it can run, `specs` puts our weights where it looks for
them, `vocabulary` names our tokens, `running` asks it for answers, and `checking` compares them.
Nothing of the package `ctranslate2` is loaded before it is needed.
"""

from saccade.interop.ctranslate2.checking import Check, DiedError, check, require_survival
from saccade.interop.ctranslate2.package import installed, version
from saccade.interop.ctranslate2.running import Continuations, Translations, opened
from saccade.interop.ctranslate2.writing import (
    QUANTIZATIONS,
    require_writable,
    write_folder,
    write_task,
)

__all__ = [
    "QUANTIZATIONS",
    "Check",
    "Continuations",
    "DiedError",
    "Translations",
    "check",
    "installed",
    "opened",
    "require_survival",
    "require_writable",
    "version",
    "write_folder",
    "write_task",
]
