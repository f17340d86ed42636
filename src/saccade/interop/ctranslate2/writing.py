"""A task becomes a folder that CTranslate2's Translator or Generator loads.

model.bin  config.json  shared_vocabulary.json (or source_ and target_; or vocabulary.json)
tokenizer*.json (ours, for text in and out)
"""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saccade.data.corpus import Item
from saccade.errors import InteropError
from saccade.interop.ctranslate2.checking import check, require_survival
from saccade.interop.ctranslate2.expressible import require_expressible
from saccade.interop.ctranslate2.running import opened, places_of
from saccade.interop.ctranslate2.specs import language_model_spec, translator_spec
from saccade.interop.ctranslate2.vocabulary import TokenNames
from saccade.tasks import Task
from saccade.tasks.language_modeling import LanguageModeling
from saccade.tasks.text_to_text import TextToText

QUANTIZATIONS = ("int8", "float32")


def require_writable(task: Task) -> TextToText | LanguageModeling:
    """The task, if CTranslate2 can run it; else an error says why not."""
    if not isinstance(task, TextToText | LanguageModeling):
        raise InteropError(
            f"CTranslate2 runs translators and language models, and this is {task.name}"
        )
    require_expressible(task.config.model)
    return task


def write_task(
    task: Task, folder: Path, quantization: str = "int8", items: Sequence[Item] = ()
) -> str:
    """Write a task, read it again and compare its answers; what there is to say of them.

    In float32 they must be the same, which is seen to first. `items` are what is compared by.
    """
    if quantization not in QUANTIZATIONS:
        raise InteropError(
            f"a model cannot be written in {quantization!r}; it can be in: "
            f"{', '.join(QUANTIZATIONS)}"
        )
    ours = require_writable(task)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        exact = Path(name)
        write_folder(ours, exact, "float32")
        require_survival(ours, exact, "float32")
        found = check(ours, opened(ours, exact, "float32"), items)
        if not found.exact:
            raise InteropError(f"what was written does not give the same answers: {found}")
        if quantization == "float32":
            shutil.copytree(exact, folder, dirs_exist_ok=True)
            return str(found)
    write_folder(ours, folder, quantization)
    require_survival(ours, folder, quantization)
    return str(check(ours, opened(ours, folder, quantization), items))


def write_folder(task: TextToText | LanguageModeling, folder: Path, quantization: str) -> None:
    """Write a task into an empty folder, its matrices as numbers of this kind."""
    spec = _translator(task) if isinstance(task, TextToText) else _language_model(task)
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))
    for name, content in task.vocabularies().items():
        (folder / name).write_text(content, encoding="utf-8")


def _translator(task: TextToText) -> Any:
    """Sources end with the stop, targets begin with the start."""
    spec = translator_spec(task.model, task.config.model, places_of(task))
    source, target = TokenNames(task.source), TokenNames(task.target)
    if source.stop != target.stop:
        raise InteropError(
            f"the stop is called {source.stop!r} in the source's vocabulary and {target.stop!r} in "
            "the target's, and CTranslate2 has one name for both"
        )
    spec.register_source_vocabulary(source.all)
    spec.register_target_vocabulary(target.all)
    _name_controls(spec.config, target)
    spec.config.decoder_start_token = target.start
    spec.config.add_source_eos = True
    return spec


def _language_model(task: LanguageModeling) -> Any:
    spec = language_model_spec(task.model, task.config.model, places_of(task))
    names = TokenNames(task.tokenizer)
    spec.register_vocabulary(names.all)
    _name_controls(spec.config, names)
    return spec


def _name_controls(config: Any, names: TokenNames) -> None:
    config.unk_token, config.bos_token = names.unknown, names.start
    config.eos_token = names.stop
