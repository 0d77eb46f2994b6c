"""Settings that Horovod gets at the start of a rank, unless the user has set them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

hvd = pytest.importorskip("horovod.torch")
COMPLETION, CYCLE = "HOROVOD_ENABLE_ASYNC_COMPLETION", "HOROVOD_CYCLE_TIME"


def read_by_init(monkeypatch: pytest.MonkeyPatch, name: str, user: str | None, *, nccl: int) -> str | None:
    """Return the variable that `init` reads, with Horovod's build options replaced, because NCCL is not available."""
    import torch

    from aiperf.train.collectives.collective import Joining
    from aiperf.train.collectives.horovod_collective import Horovod

    found: list[str | None] = []
    for each in (COMPLETION, CYCLE):
        monkeypatch.setitem(os.environ, each, "")  # so that it is put back as it was
        del os.environ[each]
    if user is not None:
        monkeypatch.setenv(name, user)
    monkeypatch.setattr(hvd, "nccl_built", lambda: nccl)
    monkeypatch.setattr(hvd, "init", lambda: found.append(os.environ.get(name)))
    monkeypatch.setattr(hvd, "rank", lambda: 0)
    monkeypatch.setattr(hvd, "size", lambda: 1)

    device = torch.device("cuda" if nccl else "cpu")
    Horovod(Joining(0, 1, Path(), device, fp16_compression=False, meet=lambda: None))
    return found[0]


@pytest.mark.parametrize(
    ("nccl", "user", "expected"), [(1, None, "1"), (1, "0", "0"), (0, None, None)], ids=["nccl", "user says no", "gloo"]
)
def test_with_nccl_the_stream_waits_unless_the_user_objects(
    monkeypatch: pytest.MonkeyPatch, nccl: int, user: str | None, expected: str | None
) -> None:
    assert read_by_init(monkeypatch, COMPLETION, user, nccl=nccl) == expected


@pytest.mark.parametrize(
    ("nccl", "user", "expected"), [(0, None, "5"), (0, "1", "1"), (1, None, None)], ids=["cpu", "user", "nccl"]
)
def test_horovods_thread_is_slower_on_processors(
    monkeypatch: pytest.MonkeyPatch, nccl: int, user: str | None, expected: str | None
) -> None:
    assert read_by_init(monkeypatch, CYCLE, user, nccl=nccl) == expected


@pytest.mark.parametrize("name", [COMPLETION, CYCLE])
def test_horovods_library_reads_the_variable_by_this_name(name: str) -> None:
    torch_extension = pytest.importorskip("horovod.torch.mpi_lib_v2")

    assert name.encode() in Path(torch_extension.__file__).read_bytes()


def test_a_wait_on_processors_sleeps_until_all_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Horovod's own wait would call sched_yield until then."""
    from aiperf.train.collectives import horovod_collective

    looks = {1: 3, 2: 0, 3: 1}
    slept: list[float] = []

    def poll(handle: int) -> bool:
        looks[handle] -= 1
        return looks[handle] < 0

    monkeypatch.setattr(hvd, "poll", poll)
    monkeypatch.setattr(time, "sleep", slept.append)

    horovod_collective.sleep_until_exchanged([1, 2, 3])

    assert set(looks.values()) == {-1}
    assert slept == [horovod_collective.POLL_SECONDS] * 4
