"""What a network is made of: its parameters by name, kind and shape, as a table and as a chart.

table = parameters(model)            any torch module
print(table)
parameters(model, depth=2).figure().save("parameters.png")
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.nn.parameter import UninitializedParameter

from saccade.errors import FigureError
from saccade.lens.formatting import in_columns, readable_json

if TYPE_CHECKING:
    from saccade.lens.drawing.chart import Chart

_NUMBERS = (3, 4)  # columns


@dataclass(frozen=True, kw_only=True)
class ParameterRow:
    """A row of the table: a parameter, or several below one module.

    `kind` is the class of the module that owns it. `shape` is None where there are `tensors` of
    several shapes. What is the `same_as` one before it is counted there, and 0 here.
    """

    name: str
    kind: str
    shape: tuple[int, ...] | None
    tensors: int
    parameters: int
    trained: int
    same_as: str | None = None

    @property
    def shown_shape(self) -> str:
        """As a table has it."""
        if self.shape is None:
            return f"{self.tensors} tensors"
        return " × ".join(map(str, self.shape)) or "1"


@dataclass(frozen=True)
class ParameterTable:
    """The parameters of a network in its own order; `print` shows them."""

    rows: tuple[ParameterRow, ...]

    @property
    def total(self) -> int:
        """How many numbers the network has learned or holds fast; shared ones count once."""
        return sum(row.parameters for row in self.rows)

    @property
    def trained(self) -> int:
        """Those of them that training changes."""
        return sum(row.trained for row in self.rows)

    def share(self, row: ParameterRow) -> float:
        """The part of the whole that a row has, from 0 to 1."""
        return row.parameters / self.total if self.total else 0.0

    def cells(self) -> list[tuple[str, ...]]:
        """The table as texts, its head first and the sum last."""
        head = ("name", "kind", "shape", "parameters", "share")
        body = [
            (
                row.name,
                row.kind,
                row.shown_shape,
                f"= {row.same_as}" if row.same_as else f"{row.parameters:,}",
                f"{self.share(row):.1%}",
            )
            for row in self.rows
        ]
        trained = "all trained" if self.trained == self.total else f"{self.trained:,} trained"
        return [head, *body, ("all", trained, "", f"{self.total:,}", f"{bool(self.total):.0%}")]

    def numbers(self) -> dict[str, Any]:
        """The table as JSON has it."""
        rows = [{**asdict(row), "share": self.share(row)} for row in self.rows]
        return {"rows": rows, "parameters": self.total, "trained": self.trained}

    def to_json(self) -> str:
        """The rows, with whole names and exact shares, and the sums."""
        return readable_json(self.numbers())

    def figure(self, *, title: str = "") -> "Chart":
        """The table, with a bar for each share."""
        from saccade.lens.drawing.table_chart import table_chart

        shares = [self.share(row) for row in self.rows]
        return table_chart(self.numbers(), self.cells(), shares, right=_NUMBERS, title=title)

    def __str__(self) -> str:
        return in_columns(self.cells(), right=_NUMBERS)


def parameters(module: nn.Module, *, depth: int | None = None) -> ParameterTable:
    """The parameters of any module; with a `depth`, those whose names begin with the same so many
    parts are one row.
    """
    if depth is not None and depth < 1:
        raise FigureError(f"a table of parameters is at least 1 name deep, got depth={depth}")
    rows = tuple(_each(module))
    if depth is None:
        return ParameterTable(rows)
    groups: dict[str, list[ParameterRow]] = {}
    for row in rows:
        groups.setdefault(".".join(row.name.split(".")[:depth]), []).append(row)
    return ParameterTable(tuple(_joined(module, name, group) for name, group in groups.items()))


def _each(module: nn.Module) -> Iterator[ParameterRow]:
    names: dict[int, str] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if isinstance(parameter, UninitializedParameter):
            raise FigureError(
                f"parameter {name!r} has no shape yet: call the module once with an input first"
            )
        first = names.setdefault(id(parameter), name)
        number = parameter.numel() if first == name else 0
        yield ParameterRow(
            name=name,
            kind=type(module.get_submodule(name.rpartition(".")[0])).__name__,
            shape=tuple(parameter.shape),
            tensors=1,
            parameters=number,
            trained=number if parameter.requires_grad else 0,
            same_as=None if first == name else first,
        )


def _joined(module: nn.Module, name: str, group: list[ParameterRow]) -> ParameterRow:
    if len(group) == 1:
        return group[0]
    return ParameterRow(
        name=name,
        kind=type(module.get_submodule(name)).__name__,
        shape=None,
        tensors=len(group),
        parameters=sum(row.parameters for row in group),
        trained=sum(row.trained for row in group),
    )
