"""Tasks as folders that CTranslate2's Translator or Generator loads.

model.bin  config.json  shared_vocabulary.json (or source_ and target_; or vocabulary.json)
tokenizer*.json (ours, for text in and out)
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from saccade.data.corpus import Item
from saccade.errors import InteropError
from saccade.interop.ctranslate2.checking import check, require_survival
from saccade.interop.ctranslate2.comparison import Check
from saccade.interop.ctranslate2.runnable import Runnable, open_engine, require_runnable
from saccade.interop.ctranslate2.specs import language_model_spec, translator_spec
from saccade.interop.ctranslate2.vocabulary import TokenNames
from saccade.models import LanguageModel, Translator
from saccade.models.language_models import LanguageModelConfig
from saccade.models.translator import TranslatorConfig
from saccade.tasks import Task

QUANTIZATIONS = ("int8", "float32")


def write_task(
    task: Task,
    folder: Path,
    quantization: str = "int8",
    items: Sequence[Item] = (),
    *,
    notify: Callable[[str], None] = lambda text: None,
) -> str:
    """Write a task, read it again, and compare its answers.

    Args:
        task: A translator or a language model.
        folder: An empty folder.
        quantization: "int8" or "float32".
        items: Inputs to compare answers on; random ones if there are none.
        notify: Called with a line before each comparison.

    Returns:
        A sentence about the comparison.

    Raises:
        InteropError: CTranslate2 cannot run the task, or its answers differ in float32.
    """
    if quantization not in QUANTIZATIONS:
        raise InteropError(
            f"a model cannot be written in {quantization!r}; it can be in: "
            f"{', '.join(QUANTIZATIONS)}"
        )
    require_runnable(task)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        exact = Path(name)
        notify("writing float32 weights and comparing their answers with the model's")
        comparison = _write_and_check(task, exact, "float32", items)
        if not comparison.exact:
            raise InteropError(
                f"what was written does not give the same answers: {comparison}; "
                "export to onnx instead, and please report this"
            )
        if quantization == "float32":
            shutil.copytree(exact, folder, dirs_exist_ok=True)
        else:
            notify(f"writing {quantization} weights and comparing their answers with the model's")
            comparison = _write_and_check(task, folder, quantization, items)
    return str(comparison)


def _write_and_check(task: Task, folder: Path, quantization: str, items: Sequence[Item]) -> Check:
    write_folder(task, folder, quantization)
    require_survival(task, folder, quantization)
    return check(task, open_engine(task, folder, quantization), items)


def write_folder(task: Task, folder: Path, quantization: str) -> None:
    """Write a task into an empty folder, its matrices in this quantization."""
    runnable = require_runnable(task)
    spec = _spec(runnable)
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))
    for name, tokenizer in task.describe().vocabularies.items():
        (folder / name).write_text(tokenizer.to_string(), encoding="utf-8")


def _spec(runnable: Runnable) -> Any:
    names = TokenNames(runnable.writes.tokenizer)
    match runnable.task.model, runnable.model:
        case Translator() as model, TranslatorConfig() as options:
            spec = translator_spec(model, options, runnable.places)
            _register_both(spec, TokenNames(runnable.reads.tokenizer), names)
        case LanguageModel() as model, LanguageModelConfig() as options:
            spec = language_model_spec(model, options, runnable.places)
            spec.register_vocabulary(names.all)
        case model, _:
            raise InteropError(
                f"CTranslate2 cannot run a {type(model).__name__}; export to onnx instead"
            )
    spec.config.unk_token, spec.config.bos_token = names.unknown, names.start
    spec.config.eos_token = names.stop
    return spec


def _register_both(spec: Any, source: TokenNames, target: TokenNames) -> None:
    """Register the vocabularies of a translator, whose sources end with the stop token."""
    if source.stop != target.stop:
        raise InteropError(
            f"the stop token is called {source.stop!r} in the source's vocabulary and "
            f"{target.stop!r} in the target's, and CTranslate2 has one name for both; "
            "export to onnx, or train both sides with one vocabulary"
        )
    spec.register_source_vocabulary(source.all)
    spec.register_target_vocabulary(target.all)
    spec.config.decoder_start_token = target.start
    spec.config.add_source_eos = True
