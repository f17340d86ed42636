"""Other tools' formats.

ctranslate2    folders of translators and language models, written and run
huggingface    folders of bert, gpt2, vit, marian and more, read and written
onnx           graphs of every task, written, and run in onnxruntime
look           attention records of models of transformers
export         a task in any of these formats
advice         what could be exported instead of a task that cannot be
model_card     the README.md of an export
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saccade.interop.export import export_task

__all__ = ["export_task"]


def __getattr__(name: str) -> object:
    if name in __all__:  # loads every format
        from saccade.interop import export

        return getattr(export, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
