"""The parameters of a network, by name, kind and shape, as a table and as a chart."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from matplotlib.patches import Rectangle
from torch import nn
from torch.nn.parameter import UninitializedParameter

from saccade.errors import FigureError
from saccade.lens.drawing.chart import COLOURS, Chart
from saccade.lens.drawing.fonts import families, inches, short, wrapped
from saccade.lens.formatting import in_columns, readable_json

MOST_ROWS = 400  # of a chart
_RIGHT = (3, 4)  # columns of numbers, aligned at their right end
_EDGE, _LINE, _BETWEEN, _BAR = 0.15, 0.2, 0.25, 1.5  # inches
_SIZE, _TITLE = 9.0, 10.0  # points
_LONGEST_CELL = 60  # letters


@dataclass(frozen=True, kw_only=True)
class ParameterRow:
    """A row of the table: one parameter, or all parameters below one module.

    Args:
        name: the dotted name of the parameter or module.
        kind: the class of the module, or of the module that owns the parameter.
        shape: the shape of the parameter; None for several parameters.
        tensors: the number of parameters.
        parameters: the number of values; 0 if they are counted in an earlier row.
        trained: the number of values that training changes.
        same_as: the name of an earlier parameter that this one is shared with.
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
        """The shape as the table shows it."""
        if self.shape is None:
            return f"{self.tensors} tensors"
        return " × ".join(map(str, self.shape)) or "1"


@dataclass(frozen=True)
class ParameterTable:
    """The parameters of a network in the order of its modules; `print` shows them."""

    rows: tuple[ParameterRow, ...]

    @property
    def total(self) -> int:
        """The number of values, trained or not; shared ones count once."""
        return sum(row.parameters for row in self.rows)

    @property
    def trained(self) -> int:
        """The number of values that training changes."""
        return sum(row.trained for row in self.rows)

    def fraction(self, row: ParameterRow) -> float:
        """Return the fraction of all values that a row has."""
        return row.parameters / self.total if self.total else 0.0

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as texts, with its head first and the total last."""
        head = ("name", "kind", "shape", "parameters", "fraction")
        body = [
            (
                row.name,
                row.kind,
                row.shown_shape,
                f"= {row.same_as}" if row.same_as else f"{row.parameters:,}",
                f"{self.fraction(row):.1%}",
            )
            for row in self.rows
        ]
        trained = "all trained" if self.trained == self.total else f"{self.trained:,} trained"
        return [head, *body, ("all", trained, "", f"{self.total:,}", f"{bool(self.total):.0%}")]

    def numbers(self) -> dict[str, object]:
        """Return the table as JSON has it: complete names, exact fractions, and the totals."""
        rows = [{**asdict(row), "share": self.fraction(row)} for row in self.rows]
        return {"rows": rows, "parameters": self.total, "trained": self.trained}

    def to_json(self) -> str:
        """Return `numbers` as JSON."""
        return readable_json(self.numbers())

    def figure(self, *, title: str = "") -> Chart:
        """Draw the table, with a bar for the fraction of each row.

        Raises:
            FigureError: if there are more than 400 rows.
        """
        if len(self.rows) > MOST_ROWS - 2:
            raise FigureError(
                f"a chart shows tables of up to {MOST_ROWS} rows, and this one has "
                f"{len(self.rows) + 2}. Join rows with parameters(..., depth=2) or print the table."
            )
        cells = [[short(cell, _LONGEST_CELL) for cell in row] for row in self.cells()]
        widths = [
            max(inches(cell, _SIZE) for cell in column) for column in zip(*cells, strict=True)
        ]
        starts = [_EDGE + sum(widths[:i]) + i * _BETWEEN for i in range(len(widths) + 1)]
        wide = starts[-1] + _BAR + _EDGE
        head = wrapped(title, wide - 2 * _EDGE, _TITLE)
        top = _EDGE + _LINE * (len(head.splitlines()) + bool(head) / 2)
        high = top + _LINE * len(cells) + _EDGE
        chart = Chart(self.numbers(), figsize=(wide, high), layout="none")
        for line, row in enumerate(cells):
            y = 1 - (top + _LINE * (line + 0.7)) / high
            for i, cell in enumerate(row):
                x, side = (starts[i] + widths[i], "right") if i in _RIGHT else (starts[i], "left")
                chart.text(x / wide, y, cell, ha=side, size=_SIZE, family=families([cell]))
        axes = chart.add_axes((0, 0, 1, 1), xlim=(0, wide), ylim=(high, 0))
        axes.set_axis_off()
        fractions = [self.fraction(row) for row in self.rows]
        longest = max(fractions, default=0.0) or 1.0
        for line, fraction in enumerate(fractions, start=1):
            corner, length = (starts[-1], top + _LINE * (line + 0.2)), _BAR * fraction / longest
            axes.add_patch(Rectangle(corner, length, 0.6 * _LINE, color=COLOURS[0], linewidth=0))
        for y in (top + _LINE, high - _EDGE - _LINE):
            axes.plot([_EDGE, wide - _EDGE], [y, y], color="0.5", linewidth=0.6)
        if head:
            chart.suptitle(head, y=1 - _EDGE / high, va="top", size=_TITLE, family=families([head]))
        return chart

    def __str__(self) -> str:
        return in_columns(self.cells(), right=_RIGHT)


def parameters(module: nn.Module, *, depth: int | None = None) -> ParameterTable:
    """Return a table of the parameters of any module.

    Args:
        module: the network.
        depth: join the parameters whose dotted names have the same first parts, this many; by
            default each parameter has its own row.

    Raises:
        FigureError: if a parameter of a lazy module has no shape yet, or the depth is below 1.

    Example:
        >>> print(parameters(nn.Linear(3, 2)))
        name    kind         shape  parameters  fraction
        weight  Linear       2 × 3           6     75.0%
        bias    Linear       2               2     25.0%
        all     all trained                  8      100%
    """
    if depth is not None and depth < 1:
        raise FigureError(
            f"the depth of a table of parameters is at least 1, got depth={depth}; "
            "1 shows the direct parts"
        )
    rows = tuple(_rows(module))
    if depth is None:
        return ParameterTable(rows)
    groups: dict[str, list[ParameterRow]] = {}
    for row in rows:
        groups.setdefault(".".join(row.name.split(".")[:depth]), []).append(row)
    return ParameterTable(tuple(_joined(module, name, group) for name, group in groups.items()))


def _rows(module: nn.Module) -> Iterator[ParameterRow]:
    names: dict[int, str] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if isinstance(parameter, UninitializedParameter):
            raise FigureError(
                f"parameter {name!r} has no shape yet; call the module once with an input first"
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
