"""Calibration of a link whose bandwidth is known: the loopback of a network namespace, limited by tc."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiperf.hpl import system_file

MISSING = [name for name in ("mpicc", "mpirun", "ip", "tc") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (Debian: libopenmpi-dev, iproute2)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root"),
]
LAUNCH = "mpirun -np {ranks} --mca btl tcp,self --mca btl_tcp_if_include lo"


BYTES_PER_SECOND = 1.25e8
"""Limit of the loopback: 1 Gbit/s."""


@pytest.fixture
def limited() -> Iterator[str]:
    """Return the name of a namespace with a limited loopback."""
    name = f"hpl{os.getpid()}"
    inside = ("ip", "netns", "exec", name)
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        limit = ("rate", f"{8 * BYTES_PER_SECOND:.0f}bit", "burst", "256kb", "latency", "100ms")
        subprocess.run([*inside, "tc", "qdisc", "add", "dev", "lo", "root", "tbf", *limit], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_bandwidth_of_a_limited_link_is_measured(limited: str, tmp_path: Path) -> None:
    """The fit uses messages beyond the bucket of the limit. Other programs only slow messages down."""
    consent = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    words = ("hpl", "calibrate", "--ranks", "2", "--launch", LAUNCH, "--out", str(tmp_path / "here.yaml"))
    subprocess.run(
        ["ip", "netns", "exec", limited, sys.executable, "-m", "aiperf", *words],
        check=True,
        env=os.environ | consent,
    )
    node = system_file.read(tmp_path / "here.yaml").system.layers[-1]

    assert node.name == "node"
    assert 0.5 < node.bytes_per_second / BYTES_PER_SECOND < 1.05
