"""Freed memory is kept: a step that allocates what the previous step freed causes no page faults."""

import subprocess
import sys

import pytest

STEPS = """
import resource, sys
from aiperf.train.rank_context import keep_freed_memory

if sys.argv[1] == "kept":
    assert keep_freed_memory()

def step():
    for megabytes in (40, 3, 70):  # above and below the size that glibc maps for itself
        bytearray(megabytes << 20)

for _ in range(5):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages(how: str) -> int:
    ran = subprocess.run([sys.executable, "-c", STEPS, how], capture_output=True, text=True, check=True)
    return int(ran.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_a_step_in_kept_memory_has_no_page_given_to_it() -> None:
    assert pages("kept") < 100
    assert pages("given back") > 10_000
