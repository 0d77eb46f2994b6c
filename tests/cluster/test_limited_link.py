"""One real worker over two hosts in namespaces, with the link between them limited to three rates by tc's tbf.

`make test-long ARGS=tests/cluster/test_limited_link.py`.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from aiperf.journal.events import RunEnded
from aiperf.scaling.point import Point, point_of
from cluster.topology import LinkConf, exchange_seconds
from tests.cluster.test_worker_over_hosts import SpanningRun
from tests.rigs.namespaces import hosts, missing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        missing("tc") is not None and os.environ.get("AIPERF_SLURM") != "required", reason=f"no hosts: {missing('tc')}"
    ),
]
RATES = (20e6, 10e6, 2.5e6)
"""Bytes per second. The gradients have 2.8 MB."""
TOLERANCE = 0.15


def measured(folder: Path, rate: float) -> Point:
    """Run one trial of the starting network on two ranks over a link of this rate in each direction."""
    folder.mkdir()
    with hosts(folder, 3) as rig:
        for name in rig.names[1:]:
            limit = f"tc -n {name} qdisc add dev eth0 root tbf rate {8 * rate:.0f}bit burst 64kb latency 400ms"
            subprocess.run(limit.split(), check=True)
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
