"""Freed memory is kept: a step that allocates what the previous step freed causes no page faults."""

import os
import subprocess
import sys

import pytest
import torch

from aiperf.data.opening import open_data
from aiperf.train import rank_context
from aiperf.train.collectives.collective import SingleRank
from aiperf.train.rank_context import MIOPEN, RankContext
from tests.builders.order import CONF, IMAGES, graph

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


@pytest.mark.parametrize(("hip", "own"), [("7.0", None), ("7.0", "NORMAL"), (None, None)])
def test_miopen_is_set_on_amd_unless_the_user_did(
    hip: str | None, own: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in MIOPEN:
        monkeypatch.setenv(name, "")  # restored at the end
        monkeypatch.delenv(name)
    if own is not None:
        monkeypatch.setenv("MIOPEN_FIND_MODE", own)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "AMD Instinct MI300X")
    monkeypatch.setattr(rank_context, "timeline_of", lambda device, waiting: None)
    monkeypatch.setattr(rank_context, "memory_of_rank", lambda *arguments: 0)

    with open_data(IMAGES) as images:
        RankContext.make(CONF, images, graph(), torch.device("cuda"), SingleRank(), None)

    wanted = {} if hip is None else MIOPEN | ({} if own is None else {"MIOPEN_FIND_MODE": own})
    assert {name: os.environ[name] for name in MIOPEN if name in os.environ} == wanted
