"""Runs as ONNX graphs, for onnxruntime and whatever else reads them.

    write_task(task, folder)       what `saccade export --to onnx` does
    load(folder)                   the graphs in onnxruntime, with greedy search over them

A folder holds `model.onnx` (classifiers and masked language models) or `encoder.onnx`,
`decoder.onnx` and `decoder_step.onnx` (writers; a language model has no encoder), the vocabularies,
and `saccade.json`, which says what they take and give.

`twins` has the parts of our models that an exporter cannot follow as they are, `graphs` what is
exported of a model, `decoders` the graphs of writers, `loop` the loop of a recurrent one, `drafts`
what is written of each task, `verifying` the comparison, `running` what onnxruntime does. To add
a task write its draft.
"""

from saccade.interop.onnx.running import Exported, load
from saccade.interop.onnx.writing import write_task

__all__ = ["Exported", "load", "write_task"]
