"""An exported folder in onnxruntime: its graphs, and greedy search over them.

    model = load("onnx/en-de")
    memory = model.run("encoder", {"source": ids, "source_mask": mask})
    rows = model.write({"source_mask": mask, **memory}, start, longest=50)

Arrays in, arrays out, without torch; docs/how-to/onnx.md shows how texts and images become arrays.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from saccade.errors import InteropError
from saccade.files import read_json
from saccade.interop.onnx.packages import runtime

FACTS = "saccade.json"
Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


def load(folder: str | Path) -> "Exported":
    """Return the graphs of a folder that `saccade export --to onnx` wrote.

    Raises:
        InteropError: The folder has no readable `saccade.json`.
    """
    path = Path(folder) / FACTS
    try:
        facts = read_json(path)
        return Exported(Path(folder), {"graphs": facts["graphs"], **facts})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InteropError(
            f"{path} cannot be read ({error}); name a folder that saccade export --to onnx wrote"
        ) from None


class Exported:
    """The graphs of a folder.

    Attributes:
        folder: The folder.
        facts: The contents of its `saccade.json`.
    """

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        self.folder, self.facts = folder, facts

    @cached_property
    def sessions(self) -> dict[str, Any]:
        """The graphs, by their names, ready to run."""
        open_ = runtime().InferenceSession
        options = runtime().SessionOptions()
        options.log_severity_level = 3  # errors
        return {
            name: open_(self.folder / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
            for name in self.facts["graphs"]
        }

    def run(self, graph: str, values: Arrays) -> dict[str, Array]:
        """Return the outputs of a graph by their names; it takes from `values` what it needs."""
        about = self.facts["graphs"][graph]
        inputs = {name: values[name] for name in about["inputs"]}
        outputs = self.sessions[graph].run(about["outputs"], inputs)
        return dict(zip(about["outputs"], outputs, strict=True))

    def write(
        self, values: Arrays, tokens: npt.NDArray[np.int64], longest: int, *, cached: bool = True
    ) -> list[list[int]]:
        """Return the token ids that greedy search generates for each row, without the stop.

        Args:
            values: The inputs and outputs of the encoder.
            tokens: The first tokens (b, n).
            longest: Maximum number of tokens.
            cached: Whether a step reads the new tokens only, or all tokens so far. When a window
                is full, its last half is read again.
        """
        writing, window = self.facts["writing"], self.facts["writing"]["window"]
        follow = self._cached if cached else self._uncached
        written: list[Array] = []
        state: Arrays = self.begin(values, len(tokens))
        seen, new = tokens[:, :0], tokens
        for _ in range(longest):
            if window is not None and seen.shape[1] == window:
                new = np.concatenate((seen[:, window - window // 2 :], new), 1)
                seen, state = new[:, :0], self.begin(values, len(tokens))
            logits, state = follow(values, seen, new, state)
            logits[:, writing["never"]] = -np.inf
            seen, new = np.concatenate((seen, new), 1), logits.argmax(-1)[:, None]
            written.append(new)
            if all((np.concatenate(written, 1) == writing["stop"]).any(1)):
                break
        rows = np.concatenate(written, 1).tolist()
        return [_until(row, writing["stop"]) for row in rows]

    def begin(self, values: Arrays, rows: int) -> dict[str, Array]:
        """Return the state before the first token: the encoder's, or an empty one."""
        return {
            name: np.zeros([rows if axis == "batch" else axis for axis in about["empty"]], "f4")
            if "empty" in about
            else values[name]
            for name, about in self.facts["writing"]["state"].items()
        }

    def step(
        self, values: Arrays, new: npt.NDArray[np.int64], state: Arrays
    ) -> tuple[Array, dict[str, Array]]:
        """Return the logits of what follows the last of the new tokens, and the new state."""
        outputs = self.run("decoder_step", {**values, **state, "tokens": new})
        after = self.facts["writing"]["state"].items()
        return outputs["logits"], {name: outputs[about["becomes"]] for name, about in after}

    def _cached(
        self, values: Arrays, seen: Array, new: Array, state: Arrays
    ) -> tuple[Array, Arrays]:
        return self.step(values, new, state)

    def _uncached(
        self, values: Arrays, seen: Array, new: Array, state: Arrays
    ) -> tuple[Array, Arrays]:
        tokens = np.concatenate((seen, new), 1)
        return self.run("decoder", {**values, "tokens": tokens})["logits"][:, -1], state


def _until(row: list[int], stop: int) -> list[int]:
    return row[: row.index(stop)] if stop in row else row
