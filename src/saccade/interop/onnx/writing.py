"""A task becomes a folder of ONNX graphs, which is read again and compared."""

import json
from pathlib import Path

from saccade._version import __version__
from saccade.interop.onnx.drafts import draft_of
from saccade.interop.onnx.packages import require_exporter
from saccade.interop.onnx.running import FACTS, load
from saccade.interop.onnx.twins import OPSET
from saccade.interop.onnx.verifying import verify
from saccade.tasks import Task

FORMAT = 1
"""Counts up when `saccade.json` says the same otherwise."""


def write_task(task: Task, folder: str | Path) -> None:
    """Write a task as graphs, vocabularies and `saccade.json`, and see that they answer alike."""
    require_exporter()
    import onnx

    folder, task = Path(folder), task.eval()
    draft = draft_of(task)
    facts = {
        "format": FORMAT,
        "saccade": __version__,
        "opset": OPSET,
        "task": task.name,
        "graphs": {name: graph.facts() for name, graph in draft.graphs.items()},
        **draft.facts,
    }
    for name, graph in draft.graphs.items():
        onnx.save(graph.exported, folder / f"{name}.onnx")
    for name, content in draft.files.items():
        (folder / name).write_text(content, encoding="utf-8")
    text = json.dumps(facts, indent=2, ensure_ascii=False)
    (folder / FACTS).write_text(text + "\n", encoding="utf-8")
    verify(draft, load(folder))
