"""The map between their tensors and ours: one entry serves reading and writing.

An entry is one of our parameters, the tensors of a file that hold it, and a `Form`: how they are
joined into it and how it is parted into them. Names of files are written without the prefix that
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


class Form(ABC):
    """How tensors of a file and a parameter of ours are made of each other."""

    @abstractmethod
    def join(self, theirs: tuple[Tensor, ...]) -> Tensor:
        """Ours, out of theirs."""

    @abstractmethod
    def part(self, ours: Tensor, count: int) -> tuple[Tensor, ...]:
        """Theirs, `count` of them, out of ours."""


class Same(Form):
    """The tensor itself; where theirs has several names, the first counts."""

    def join(self, theirs: tuple[Tensor, ...]) -> Tensor:
        """Ours, out of theirs."""
        return theirs[0]

    def part(self, ours: Tensor, count: int) -> tuple[Tensor, ...]:
        """The same under each of their names."""
        return (ours, *(ours.clone() for _ in range(count - 1)))


SAME = Same()


class Transposed(Form):
    """A matrix that multiplies from the other side, as GPT-2 has it."""

    def join(self, theirs: tuple[Tensor, ...]) -> Tensor:
        """Ours, out of theirs."""
        return theirs[0].t().contiguous()

    def part(self, ours: Tensor, count: int) -> tuple[Tensor, ...]:
        """Theirs, out of ours."""
        return (ours.t(),)


class Stacked(Form):
    """Queries, keys and values one below the other in ours, each alone in theirs."""

    def join(self, theirs: tuple[Tensor, ...]) -> Tensor:
        """Ours, out of theirs."""
        return torch.cat(theirs)

    def part(self, ours: Tensor, count: int) -> tuple[Tensor, ...]:
        """Theirs, out of ours."""
        return ours.chunk(count)


class Batched(Form):
    """Theirs has one more axis, of length 1, in front."""

    def join(self, theirs: tuple[Tensor, ...]) -> Tensor:
        """Ours, out of theirs."""
        return theirs[0].squeeze(0)

    def part(self, ours: Tensor, count: int) -> tuple[Tensor, ...]:
        """Theirs, out of ours."""
        return (ours.unsqueeze(0),)


@dataclass(frozen=True)
class Entry:
    """One of our parameters and where a file keeps it; an optional one is zero where it is not."""

    ours: str
    theirs: tuple[str, ...]
    form: Form = SAME
    optional: bool = False

    def below(self, ours: str, theirs: str) -> "Entry":
        """The same entry inside of a larger module."""
        names = tuple(f"{theirs}.{name}" for name in self.theirs)
        return Entry(f"{ours}.{self.ours}", names, self.form, self.optional)


def tensor(ours: str, theirs: str, form: Form = SAME, *, optional: bool = False) -> Entry:
    """A single tensor."""
    return Entry(ours, (theirs,), form, optional)


def layer(ours: str, *theirs: str, form: Form = SAME) -> tuple[Entry, Entry]:
    """The weight and the bias of a linear layer or a norm; several of theirs are one of ours."""
    form, of_bias = (Stacked(), Stacked()) if len(theirs) > 1 else (form, SAME)
    return (
        Entry(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), form),
        Entry(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs), of_bias),
    )


def repeated(count: int, ours: str, theirs: str, entries: tuple[Entry, ...]) -> Iterator[Entry]:
    """The entries of a block, for each block of a stack."""
    for i in range(count):
        for entry in entries:
            yield entry.below(f"{ours}.{i}", f"{theirs}.{i}")


@dataclass(frozen=True)
class Names:
    """All entries of a model, and what else may stand in its file.

    copies     a tensor that a file may hold once more or instead: its name, and whose copy it is
    ignored    beginnings or ends of names that no answer of the model depends on
    renamed    ends of names in older files, and what they are called today
    prefix     what stands before the names of the body in models that have a `head` as well,
               which may be missing or stand there all the same in a file that is read
    """

    entries: tuple[Entry, ...]
    copies: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    head: tuple[str, ...] = ()

    def of(self, model: nn.Module) -> list[tuple[Entry, nn.Parameter]]:
        """The entries that this model has, with their parameters; a shared one appears once."""
        parameters = dict(model.named_parameters())
        found = [(x, parameters[x.ours]) for x in self.entries if x.ours in parameters]
        assert {entry.ours for entry, _ in found} == set(parameters), "a parameter has no name"
        return found

    def in_file(self, name: str) -> str:
        """The name as it is written."""
        return self.prefix + name if self.head and not name.startswith(self.head) else name

    def plain(self, name: str) -> str:
        """A name found in a file as the entries have it."""
        name = name.removeprefix(self.prefix)
        for old, new in self.renamed.items():
            if name.endswith(old):
                return name.removesuffix(old) + new
        return name

    def ignores(self, name: str) -> bool:
        """Does no answer depend on it?"""
        return name.startswith(self.ignored) or name.endswith(self.ignored)


def fill(model: nn.Module, names: Names, weights: Weights) -> None:
    """Put the tensors of a folder in place of all parameters of a model, which may be on `meta`."""
    assert not list(model.buffers()), "buffers are not filled"
    entries = names.of(model)
    file_names = _locate(names, entries, weights)
    tensors = weights.read(file_names.values())
    _require_equal_copies(names, file_names, tensors, weights)
    dtype = next(iter(tensors.values())).dtype
    filled = {}
    for entry, parameter in entries:
        if all(name in file_names for name in entry.theirs):
            value = entry.form.join(tuple(tensors[file_names[name]] for name in entry.theirs))
        else:
            value = torch.zeros(parameter.shape, dtype=dtype)
        filled[parameter] = nn.Parameter(value)
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, filled[parameter])


def parted(model: nn.Module, names: Names) -> dict[str, Tensor]:
    """The parameters of a model as a file holds them."""
    return {
        names.in_file(name): part
        for entry, parameter in names.of(model)
        for name, part in zip(
            entry.theirs, entry.form.part(parameter.detach(), len(entry.theirs)), strict=True
        )
    }


def _locate(
    names: Names, entries: list[tuple[Entry, nn.Parameter]], weights: Weights
) -> dict[str, str]:
    """Where each tensor of the model stands in the files; all that does not fit is one error."""
    found: dict[str, str] = {}
    mistakes = []
    for name in weights.shapes:
        plain = names.plain(name)
        if plain in found:
            mistakes.append(f"{name} and {found[plain]} are the same tensor")
        found[plain] = name
    located: dict[str, str] = {}
    missing, misshapen = [], []
    for entry, parameter in entries:
        shapes = (tuple(x.shape) for x in entry.form.part(parameter, len(entry.theirs)))
        for name, shape in zip(entry.theirs, shapes, strict=True):
            places = (name, *(copy for copy, of in names.copies.items() if of == name))
            place = next((found[x] for x in places if x in found), None)
            if place is not None:
                located[name] = place
                type_ = weights.types[place]
                if weights.shapes[place] != shape or type_ not in READABLE:
                    misshapen.append(
                        f"{place} is {type_} {_sizes(weights.shapes[place])}, "
                        f"expected floats {_sizes(shape)}"
                    )
            elif not entry.optional:
                missing.append(f"{names.in_file(name)} {_sizes(shape)} is missing")
    unexpected = [
        f"{name} is not part of this model"
        for plain, name in found.items()
        if plain not in located and plain not in names.copies and not names.ignores(plain)
    ]
    mistakes = [*misshapen, *missing, *unexpected, *mistakes]
    if mistakes:
        more = f"; and {len(mistakes) - 3} more" if len(mistakes) > 3 else ""
        raise WeightsError(
            f"the weights in {weights.folder} are not those of the model that its config.json "
            f"describes: {'; '.join(mistakes[:3])}{more}"
        )
    return located


def _require_equal_copies(
    names: Names, file_names: Mapping[str, str], tensors: Mapping[str, Tensor], weights: Weights
) -> None:
    """A copy that differs would be a weight of its own, which the config denies."""
    plain = {names.plain(name): name for name in weights.shapes}
    for name, of in names.copies.items():
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
