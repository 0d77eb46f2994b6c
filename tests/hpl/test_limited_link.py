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


@pytest.fixture(params=[1, 4], ids=lambda gigabits: f"{gigabits} Gbit/s")
def limited(request: pytest.FixtureRequest) -> Iterator[tuple[str, float]]:
    """Return the name of a namespace and the bandwidth of its loopback in bytes per second."""
    name = f"hpl{os.getpid()}"
    inside = ("ip", "netns", "exec", name)
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        limit = ("rate", f"{request.param}gbit", "burst", "256kb", "latency", "100ms")
        subprocess.run([*inside, "tc", "qdisc", "add", "dev", "lo", "root", "tbf", *limit], check=True)
        yield name, request.param * 1e9 / 8
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_bandwidth_of_a_limited_link_is_measured(limited: tuple[str, float], tmp_path: Path) -> None:
    """The fit uses messages beyond the bucket of the limit. Other programs slow messages down, but nothing makes them faster."""
    namespace, bytes_per_second = limited
    consent = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    words = ("hpl", "calibrate", "--ranks", "2", "--launch", LAUNCH, "--out", str(tmp_path / "here.yaml"))
    subprocess.run(
        ["ip", "netns", "exec", namespace, sys.executable, "-m", "aiperf", *words],
        check=True,
        env=os.environ | consent,
    )
    node = system_file.read(tmp_path / "here.yaml").system.layers[-1]

    assert node.name == "node"
    assert 0.7 < node.bytes_per_second / bytes_per_second < 1.05
