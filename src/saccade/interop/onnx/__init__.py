"""ONNX graphs of tasks, for onnxruntime and other programs that run them.

    write_task(task, folder)       what `saccade export --to onnx` does
    load(folder)                   the graphs in onnxruntime, with greedy search over them

A folder holds `model.onnx` (models that answer in one pass) or `encoder.onnx`, `decoder.onnx` and
`decoder_step.onnx` (models that generate text; a language model has no encoder), the vocabularies,
and `saccade.json`, which describes their inputs and outputs.

`exports` derives what is written from the description of a task, so that a new task needs no edit
here. `twins` has the parts of our models that an exporter cannot follow as they are, `graphs` the
functions that are exported, `decoders` the graphs of decoders, `loop` the loop of a recurrent one,
`verifying` the comparison with our own model, `running` greedy search in onnxruntime.
"""

from saccade.interop.onnx.running import Exported, load
from saccade.interop.onnx.writing import write_task

__all__ = ["Exported", "load", "write_task"]
