"""The map between the tensors of a file and our parameters; one entry serves both directions.

An entry is one of our parameters, the tensors of a file that hold it, and a `TensorForm`: how they
are joined into it and how it is split into them. File names are written without the prefix that
models with a head put before their body (`bert.`, `transformer.`, `model.`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from saccade.errors import WeightsError
from saccade.interop.huggingface.folder import READABLE, Weights
from saccade.shapes import Tensor

SHOWN = 3
"""Mistakes that an error names."""


class TensorForm(ABC):
    """The conversion between the tensors of a file and one of our parameters."""

    @abstractmethod
    def join(self, theirs: tuple[Tensor, ...]) -> Tensor:
        """Return our parameter."""

    @abstractmethod
    def split(self, ours: Tensor, count: int) -> tuple[Tensor, ...]:
        """Return the `count` tensors of the file."""


class SameTensor(TensorForm):
    """The tensor itself; if the file has it under several names, the first is read."""

    def join(self, theirs: tuple[Tensor, ...]) -> Tensor:
        """Return the first."""
        return theirs[0]

    def split(self, ours: Tensor, count: int) -> tuple[Tensor, ...]:
        """Return a copy for each name."""
        return (ours, *(ours.clone() for _ in range(count - 1)))


SAME = SameTensor()


class TransposedMatrix(TensorForm):
    """A matrix that multiplies from the other side, as in GPT-2."""

    def join(self, theirs: tuple[Tensor, ...]) -> Tensor:
        """Transpose."""
        return theirs[0].t().contiguous()

    def split(self, ours: Tensor, count: int) -> tuple[Tensor, ...]:
        """Transpose."""
        return (ours.t(),)


@dataclass(frozen=True)
class StackedTensors(TensorForm):
    """Queries, keys and values, stacked in our parameter and separate in the file.

    `sizes` are their numbers of rows, if they differ.
    """

    sizes: tuple[int, ...] = ()

    def join(self, theirs: tuple[Tensor, ...]) -> Tensor:
        """Stack."""
        return torch.cat(theirs)

    def split(self, ours: Tensor, count: int) -> tuple[Tensor, ...]:
        """Separate."""
        return ours.split(self.sizes) if self.sizes else ours.chunk(count)


class LeadingAxis(TensorForm):
    """A tensor that has one more axis, of length 1, in front in the file."""

    def join(self, theirs: tuple[Tensor, ...]) -> Tensor:
        """Remove the axis."""
        return theirs[0].squeeze(0)

    def split(self, ours: Tensor, count: int) -> tuple[Tensor, ...]:
        """Add the axis."""
        return (ours.unsqueeze(0),)


@dataclass(frozen=True)
class UnusedRows(TensorForm):
    """A table that has rows in front in the file which are never read."""

    count: int

    def join(self, theirs: tuple[Tensor, ...]) -> Tensor:
        """Remove the rows."""
        return theirs[0][self.count :].clone()

    def split(self, ours: Tensor, count: int) -> tuple[Tensor, ...]:
        """Put rows of zeros in front."""
        return (torch.cat((ours.new_zeros(self.count, *ours.shape[1:]), ours)),)


@dataclass(frozen=True)
class Entry:
    """One of our parameters, and the tensors of a file that hold it.

    An optional one is zero if the file does not have it. `also` names tensors of other entries
    that are needed to read it.
    """

    ours: str
    theirs: tuple[str, ...]
    form: TensorForm = SAME
    optional: bool = False
    also: tuple[str, ...] = ()

    def below(self, ours: str, theirs: str) -> "Entry":
        """Return the entry inside a larger module."""
        names = tuple(f"{theirs}.{name}" for name in self.theirs)
        return Entry(f"{ours}.{self.ours}", names, self.form, self.optional)


def tensor(ours: str, theirs: str, form: TensorForm = SAME, *, optional: bool = False) -> Entry:
    """Return the entry of a single tensor.

    Args:
        ours: The name of our parameter.
        theirs: The name of the tensor in the file.
        form: The conversion between the two.
        optional: Whether a file may lack the tensor; the parameter is then zero.
    """
    return Entry(ours, (theirs,), form, optional)


def layer(ours: str, *theirs: str, form: TensorForm = SAME) -> tuple[Entry, Entry]:
    """Return weight and bias of a linear layer or a norm; several of theirs are stacked in ours."""
    form, of_bias = (StackedTensors(), StackedTensors()) if len(theirs) > 1 else (form, SAME)
    return (
        Entry(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), form),
        Entry(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs), of_bias),
    )


def repeated(count: int, ours: str, theirs: str, entries: tuple[Entry, ...]) -> Iterator[Entry]:
    """Yield the entries of a block for each block of a stack.

    Args:
        count: The number of blocks.
        ours: The name of our stack of blocks.
        theirs: The name of the stack in the file.
        entries: The entries of one block.
    """
    for i in range(count):
        for entry in entries:
            yield entry.below(f"{ours}.{i}", f"{theirs}.{i}")


@dataclass(frozen=True)
class TensorMap:
    """All entries of a model, and what else its file may contain.

    copies     name of a tensor that a file may hold in addition or instead: the tensor it copies
    ignored    beginnings or ends of names on which no prediction depends
    renamed    ends of names in older files: their names today
    prefix     prefix of the body's names in models that also have a `head`; a file that is read
               may lack it, or have it without a head
    head       beginnings of the names of the head
    """

    entries: tuple[Entry, ...]
    copies: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    head: tuple[str, ...] = ()

    def entries_of(self, model: nn.Module) -> list[tuple[Entry, nn.Parameter]]:
        """Return the entries that a model has, with their parameters; a shared one once."""
        parameters = dict(model.named_parameters())
        present = [(x, parameters[x.ours]) for x in self.entries if x.ours in parameters]
        assert {entry.ours for entry, _ in present} == set(parameters), "a parameter has no name"
        return present

    def in_file(self, name: str) -> str:
        """Return a name as it is written."""
        return self.prefix + name if self.head and not name.startswith(self.head) else name

    def plain(self, name: str) -> str:
        """Return a name of a file as the entries have it."""
        name = name.removeprefix(self.prefix)
        for old, new in self.renamed.items():
            if name.endswith(old):
                return name.removesuffix(old) + new
        return name

    def ignores(self, name: str) -> bool:
        """Return whether no prediction depends on a tensor."""
        return name.startswith(self.ignored) or name.endswith(self.ignored)


def fill_parameters(model: nn.Module, tensor_map: TensorMap, weights: Weights) -> None:
    """Replace all parameters of a model, which may be on `meta`, by the tensors of a folder."""
    assert not list(model.buffers()), "buffers are not filled"
    entries = tensor_map.entries_of(model)
    file_names = _locate(tensor_map, entries, weights)
    tensors = weights.read(file_names.values())
    _require_equal_copies(tensor_map, file_names, tensors, weights)
    dtype = next(iter(tensors.values())).dtype
    filled = {}
    for entry, parameter in entries:
        if all(name in file_names for name in entry.theirs):
            names = (*entry.theirs, *entry.also)
            value = entry.form.join(tuple(tensors[file_names[name]] for name in names))
        else:
            value = torch.zeros(parameter.shape, dtype=dtype)
        filled[parameter] = nn.Parameter(value)
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, filled[parameter])


def split_parameters(model: nn.Module, tensor_map: TensorMap) -> dict[str, Tensor]:
    """Return the parameters of a model as a file holds them."""
    return {
        tensor_map.in_file(name): part
        for entry, parameter in tensor_map.entries_of(model)
        for name, part in zip(
            entry.theirs, entry.form.split(parameter.detach(), len(entry.theirs)), strict=True
        )
    }


def _locate(
    tensor_map: TensorMap, entries: list[tuple[Entry, nn.Parameter]], weights: Weights
) -> dict[str, str]:
    """Return the name in the files of each tensor; one error names everything that does not fit."""
    in_files: dict[str, str] = {}
    duplicates = []
    for name in weights.shapes:
        plain = tensor_map.plain(name)
        if plain in in_files:
            duplicates.append(f"{name} and {in_files[plain]} are the same tensor")
        in_files[plain] = name
    located: dict[str, str] = {}
    missing, misshapen = [], []
    for entry, parameter in entries:
        shapes = (tuple(x.shape) for x in entry.form.split(parameter, len(entry.theirs)))
        for name, shape in zip(entry.theirs, shapes, strict=True):
            names = (name, *(copy for copy, of in tensor_map.copies.items() if of == name))
            stored = next((in_files[x] for x in names if x in in_files), None)
            if stored is not None:
                located[name] = stored
                type_ = weights.types[stored]
                if weights.shapes[stored] != shape or type_ not in READABLE:
                    misshapen.append(
                        f"{stored} is {type_} {_sizes(weights.shapes[stored])}, "
                        f"expected floats {_sizes(shape)}"
                    )
            elif not entry.optional:
                missing.append(f"{tensor_map.in_file(name)} {_sizes(shape)} is missing")
    unexpected = [
        f"{name} is not part of this model"
        for plain, name in in_files.items()
        if plain not in located and plain not in tensor_map.copies and not tensor_map.ignores(plain)
    ]
    mistakes = [*misshapen, *missing, *unexpected, *duplicates]
    if mistakes:
        more = f"; and {len(mistakes) - SHOWN} more" if len(mistakes) > SHOWN else ""
        raise WeightsError(
            f"the weights in {weights.folder} do not match the model that its config.json "
            f"describes: {'; '.join(mistakes[:SHOWN])}{more}"
        )
    return located


def _require_equal_copies(
    tensor_map: TensorMap,
    file_names: Mapping[str, str],
    tensors: Mapping[str, Tensor],
    weights: Weights,
) -> None:
    """Raise if a copy differs: it would be a weight of its own, which the config denies."""
    plain = {tensor_map.plain(name): name for name in weights.shapes}
    for name, of in tensor_map.copies.items():
        if name not in plain or of not in file_names or file_names[of] == plain[name]:
            continue
        copy, original = plain[name], file_names[of]
        readable = weights.types[copy] in READABLE
        if not readable or not torch.equal(weights.read([copy])[copy], tensors[original]):
            raise WeightsError(
                f"{weights.folder}: {copy} and {original} should be one shared tensor and differ; "
                "if they are not shared, set tie_word_embeddings to false in config.json"
            )


def _sizes(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"
