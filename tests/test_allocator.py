"""Tests of the allocator settings: freed memory stays with the process."""

import platform
import subprocess
import sys

import pytest

PAGES = """
import resource, torch
from saccade.allocator import keep_freed_memory

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(12 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print([pages() for _ in range(3)][-1])
keep_freed_memory()
keep_freed_memory()
print([pages() for _ in range(5)][-1])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="an option of this C library")
def test_a_block_that_is_allocated_again_reuses_its_pages():
    done = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 1000
    assert after < before / 10
