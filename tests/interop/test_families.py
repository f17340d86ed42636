"""Families: discovery by file, and choice by model or by name."""

import doctest
from dataclasses import dataclass
from pathlib import Path
from pkgutil import iter_modules
from typing import ClassVar

import pytest

from saccade.decoders.transformer import TransformerDecoderConfig
from saccade.errors import InteropError
from saccade.interop import huggingface
from saccade.interop.huggingface import families as folder
from saccade.interop.huggingface import load_save
from saccade.interop.huggingface.families import families
from saccade.interop.huggingface.families.gpt2 import Gpt2
from saccade.interop.huggingface.family import Architecture
from saccade.interop.huggingface.task_import import PLANS
from saccade.models import LanguageModel, LanguageModelConfig
from saccade.positions import LearnedConfig
from saccade.tasks import names as task_names


@dataclass(frozen=True, kw_only=True)
class Lookalike(Gpt2):
    """A second family with the models of GPT-2."""

    model_type: ClassVar = "lookalike"
    architectures: ClassVar = {"LookalikeLMHeadModel": Architecture(LanguageModel)}


@pytest.fixture
def lookalike(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {**families(), "lookalike": Lookalike}
    monkeypatch.setattr(load_save, "families", lambda: both)


def model(activation: str = "gelu_tanh", norm_order: str = "pre") -> LanguageModel:
    decoder = TransformerDecoderConfig(
        num_layers=1,
        num_heads=3,
        hidden_dim=19,
        activation=activation,
        norm_order=norm_order,
        position=LearnedConfig(length=23),
    )
    return LanguageModelConfig(decoder=decoder, dim=21).build(31)


def test_every_file_holds_one_family() -> None:
    names = [module.name for module in iter_modules(folder.__path__)]
    assert [name.replace("-", "_") for name in sorted(families())] == names
    assert {"bert", "gpt2", "marian", "vit"} < set(names)


def test_every_family_names_known_tasks_and_a_known_default() -> None:
    for family in families().values():
        tasks = {architecture.task for architecture in family.architectures.values()}
        assert tasks <= {None, *PLANS}
        assert set(PLANS) <= set(task_names())
        assert family.unnamed is None or family.unnamed in family.architectures


@pytest.mark.usefixtures("lookalike")
def test_save_writes_the_given_family(tmp_path: Path) -> None:
    for family, architecture in (
        ("gpt2", "GPT2LMHeadModel"),
        ("lookalike", "LookalikeLMHeadModel"),
    ):
        huggingface.save(model(), tmp_path, family=family)
        config = huggingface.read_config(tmp_path)
        assert (config["model_type"], config["architectures"]) == (family, [architecture])
        assert type(huggingface.load(tmp_path)) is LanguageModel


@pytest.mark.usefixtures("lookalike")
def test_save_raises_if_several_families_fit(tmp_path: Path) -> None:
    with pytest.raises(InteropError, match=r"fits several families: gpt2, lookalike; choose one"):
        huggingface.save(model(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("lookalike")
def test_save_raises_with_the_reasons_of_each_family(tmp_path: Path) -> None:
    with pytest.raises(InteropError, match=r"fits no family\. gpt2: .*Identity.*; lookalike: "):
        huggingface.save(model(norm_order="post"), tmp_path / "out")


def test_save_takes_the_only_family_that_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lookalike: None
) -> None:
    def fail(cls: type[Lookalike], architecture: str, model: LanguageModel) -> Lookalike:
        raise InteropError("not a lookalike")

    monkeypatch.setattr(Lookalike, "of", classmethod(fail))
    huggingface.save(model(), tmp_path)
    assert huggingface.read_config(tmp_path)["model_type"] == "gpt2"


@pytest.mark.parametrize(
    ("family", "message"),
    [
        ("gpt3", r"'gpt3' is not a known family; known are: bert, .*, vit"),
        ("bert", r"a LanguageModel has no counterpart .*of the family bert; these .*TextEncoder"),
    ],
)
def test_save_raises_on_invalid_family(family: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InteropError, match=message):
        huggingface.save(model(), tmp_path / "out", family=family)


def test_described_is_an_alias() -> None:
    assert huggingface.Described is huggingface.FolderDescription


def test_examples_in_docstrings_run() -> None:
    results = doctest.testmod(load_save)
    assert results.attempted > 0
    assert results.failed == 0
