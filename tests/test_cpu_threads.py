"""The number of threads, with and without torch."""

import os
import sys

import pytest
import torch

from saccade import cpu_threads


def test_it_is_that_of_torch():
    assert cpu_threads.thread_count() == torch.get_num_threads()


@pytest.mark.parametrize("name", cpu_threads.VARIABLES)
def test_without_torch_it_is_that_of_the_environment_or_the_number_of_cores(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for variable in cpu_threads.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    assert cpu_threads.thread_count() == cpu_threads.core_count() >= 1
    monkeypatch.setenv(name, "3")
    assert cpu_threads.thread_count() == 3
    monkeypatch.setenv(name, "many")
    assert cpu_threads.thread_count() == cpu_threads.core_count()


def test_a_number_is_kept_for_torch_if_it_is_imported_later(monkeypatch):
    for variable in cpu_threads.VARIABLES:
        monkeypatch.setenv(variable, "7")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", None)
        cpu_threads.set_thread_count(3)
        assert cpu_threads.thread_count() == 3
    assert [os.environ[variable] for variable in cpu_threads.VARIABLES] == ["3", "3"]


def test_torch_takes_a_number_at_once_if_it_is_imported():
    before = torch.get_num_threads()
    try:
        cpu_threads.set_thread_count(before + 1)
        assert torch.get_num_threads() == cpu_threads.thread_count() == before + 1
    finally:
        torch.set_num_threads(before)
