"""Tasks as folders of ONNX graphs, which are read again and compared."""

import json
from collections.abc import Callable
from pathlib import Path

from saccade._version import __version__
from saccade.interop.onnx.exports import export_of
from saccade.interop.onnx.packages import require_exporter
from saccade.interop.onnx.running import FACTS, load
from saccade.interop.onnx.twins import OPSET
from saccade.interop.onnx.verifying import verify
from saccade.tasks import Task

FORMAT = 1
"""The version of the layout of `saccade.json`."""


def write_task(
    task: Task, folder: str | Path, *, notify: Callable[[str], None] = lambda text: None
) -> None:
    """Write a task as graphs, vocabularies and `saccade.json`, and compare their answers.

    Args:
        task: Any task that reads texts or images.
        folder: An empty folder.
        notify: Called with a line about each graph, since tracing a large model takes minutes.

    Raises:
        InteropError: A package is missing, torch cannot export the model, or the graphs give other
            answers than the task.
    """
    require_exporter()
    import onnx

    folder, task = Path(folder), task.eval()
    export = export_of(task)
    facts = {
        "format": FORMAT,
        "saccade": __version__,
        "opset": OPSET,
        "task": task.name,
        "graphs": {name: graph.facts() for name, graph in export.graphs.items()},
        **export.facts,
    }
    for number, (name, graph) in enumerate(export.graphs.items(), 1):
        notify(f"tracing {name}.onnx, graph {number} of {len(export.graphs)}")
        onnx.save(graph.exported, folder / f"{name}.onnx")
    for name, content in export.files.items():
        (folder / name).write_text(content, encoding="utf-8")
    text = json.dumps(facts, indent=2, ensure_ascii=False)
    (folder / FACTS).write_text(text + "\n", encoding="utf-8")
    notify("comparing the graphs with the model")
    verify(export, load(folder))
