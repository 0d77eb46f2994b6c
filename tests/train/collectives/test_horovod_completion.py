"""Setting with which the host does not wait for Horovod's exchange between accelerators."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

hvd = pytest.importorskip("horovod.torch")


@pytest.mark.parametrize(
    ("nccl", "user", "expected"), [(1, None, "1"), (1, "0", "0"), (0, None, None)], ids=["nccl", "user says no", "gloo"]
)
def test_with_nccl_the_stream_waits_unless_the_user_objects(
    monkeypatch: pytest.MonkeyPatch, nccl: int, user: str | None, expected: str | None
) -> None:
    """Check the variable that `init` reads with Horovod's build options replaced, because NCCL is not available."""
    from aiperf.train.collectives.horovod_collective import Horovod

    name, found = "HOROVOD_ENABLE_ASYNC_COMPLETION", []
    monkeypatch.setitem(os.environ, name, "")  # so that it is put back as it was
    del os.environ[name]
    if user is not None:
        monkeypatch.setenv(name, user)
    monkeypatch.setattr(hvd, "nccl_built", lambda: nccl)
    monkeypatch.setattr(hvd, "init", lambda: found.append(os.environ.get(name)))
    monkeypatch.setattr(hvd, "rank", lambda: 0)
    monkeypatch.setattr(hvd, "size", lambda: 1)

    Horovod(fp16_compression=False, meet=lambda: None)

    assert found == [expected]


def test_horovods_library_reads_the_variable_by_this_name() -> None:
    torch_extension = pytest.importorskip("horovod.torch.mpi_lib_v2")

    assert b"HOROVOD_ENABLE_ASYNC_COMPLETION" in Path(torch_extension.__file__).read_bytes()
