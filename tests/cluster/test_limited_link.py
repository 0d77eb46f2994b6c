"""One real worker, and preflight, over two hosts in namespaces, with the link between them limited by tc's tbf.

`make test-long ARGS=tests/cluster/test_limited_link.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from aiperf.journal.events import RunEnded
from aiperf.scaling.point import Point, point_of
from cluster.topology import LinkConf, exchange_seconds
from tests.cluster.test_worker_over_hosts import SpanningRun
from tests.rigs.namespaces import HostsRig, begin, hosts, missing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        missing("tc") is not None and os.environ.get("AIPERF_SLURM") != "required", reason=f"no hosts: {missing('tc')}"
    ),
]
RATES = (20e6, 10e6, 2.5e6)
"""Bytes per second. The gradients have 2.8 MB."""
TOLERANCE = 0.15


def limit(rig: HostsRig, names: Sequence[str], rate: float) -> None:
    """Limit what these hosts send, in bytes per second."""
    for name in names:
        words = f"tc -n {name} qdisc add dev eth0 root tbf rate {8 * rate:.0f}bit burst 64kb latency 400ms"
        subprocess.run(words.split(), check=True)


def measured(folder: Path, rate: float) -> Point:
    """Run one trial of the starting network on two ranks over a link of this rate in each direction."""
    folder.mkdir()
    with hosts(folder, 3) as rig:
        limit(rig, rig.names[1:], rate)
        words = ("trainer.ranks=2", "trainer.threads=1", "trainer.collective=torch", "limits.trials=1")
        with closing(SpanningRun(rig, *words)) as run:
            events = run.until(lambda events: isinstance(events[-1], RunEnded), f"the run at {rate:g} B/s ends")
            assert isinstance(events[-1], RunEnded) and events[-1].reason == "trials", run.logs()
            return point_of(run.folder)


def test_communication_follows_the_limited_link(tmp_path: Path) -> None:
    """The backward pass hides at most its own time, which is less than all arithmetic of a step. Waiting has no upper bound."""
    for rate in RATES:
        point = measured(tmp_path / f"{rate:g}", rate)
        steps = Fraction(point.images, point.global_batch) * point.accelerators
        lines = {name: float(seconds / steps) for name, seconds in point.line_seconds.items()}
        model = exchange_seconds(4 * point.proposal.parameters, 2, [LinkConf(2, 0.0, rate)])
        print(f"{rate:g} B/s: bus {point.machine.bus_bytes_per_second:g} B/s, model {model:.3f} s a step, {lines}")
        assert point.machine.bus_bytes_per_second == pytest.approx(rate, rel=TOLERANCE)
        assert (1 - TOLERANCE) * model - lines["arithmetic"] <= lines["exchange"] <= (1 + TOLERANCE) * model
    assert max(lines, key=lambda name: lines[name]) == "exchange"


def test_preflight_gives_up_a_slow_link_after_one_exchange(tmp_path: Path) -> None:
    """4 Mbit/s. All exchanges would take seven minutes."""
    with hosts(tmp_path, 2) as rig:
        limit(rig, rig.names, 0.5e6)
        folder = tmp_path / "flight"
        folder.mkdir()
        head, other = rig.names
        driver = begin(rig, folder, head, "preflight", "--folder", str(folder), "+cluster=slurm", "cluster.nodes=2")
        joined = begin(rig, folder, other, "join", str(folder))
        status = driver.wait(900.0)
        joined.wait(60.0)
        output = (folder / f"{head}.log").read_text()

    assert status == 1, output
    assert "checking nodes: all-reduce of pairs, round 1 of 1 …" in output
    assert "all-reduce of all nodes" not in output
    faults = re.findall(r"an exchange of 1048576 bytes took ([\d.]+) s, so all exchanges would take \d+ s", output)
    assert len(faults) == 2 and min(map(float, faults)) > 1.5, output
