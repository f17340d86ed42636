"""The number of threads, with and without torch."""

import subprocess
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


def test_torch_takes_a_number_that_was_set_before():
    code = """
from saccade.cpu_threads import set_thread_count, thread_count
set_thread_count(3)
print(thread_count())
import torch
print(torch.get_num_threads(), thread_count())
set_thread_count(2)
print(torch.get_num_threads(), thread_count())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "3", "3", "2", "2"]
