"""Preflight on separate hosts under a real Slurm.

One is broken on purpose. It is named and excluded, and the run continues.

With AIPERF_SLURM=required these fail without Slurm, instead of being skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiperf.journal.events import NodeChecked, RunEnded, RunStarted, WorkerJoined
from aiperf.journal.journal import read
from tests.rigs.namespaces import REPOSITORY
from tests.rigs.slurm import SlurmRig, missing, slurm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        missing() is not None and os.environ.get("AIPERF_SLURM") != "required", reason=f"no Slurm: {missing()}"
    ),
]
WORDS = (
    "schedule.duration_seconds=60",
    "schedule.warmup_seconds=5",
    "preflight.seconds=180",
    "cluster.join_seconds=300",
)
FULL = 200 * 2**20
"""Bytes of the broken host's /tmp: less than preflight.free_bytes."""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmRig]:
    """Three nodes. The last one's temporary folder is nearly full."""
    with slurm(tmp_path_factory.mktemp("flight"), nodes=3) as rig:
        asked = ["srun", "--nodelist", rig.names[-1], "mount", "-o", f"remount,size={FULL}", "/tmp"]
        subprocess.run(asked, env=rig.environment, check=True)
        yield rig


def aiperf(rig: SlurmRig, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["salloc", "--nodes=3", "--ntasks-per-node=1", "--exclusive", sys.executable, "-m", "aiperf", *words],
        cwd=rig.folder,
        env=rig.environment | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=1200,
    )


def test_a_broken_node_is_excluded_and_the_run_continues(rig: SlurmRig) -> None:
    done = aiperf(rig, "+cluster=slurm", *WORDS, "name=broken")

    (run,) = (rig.folder / "runs").glob("*-broken")
    events = list(read(run))
    assert isinstance(events[0], RunStarted)
    checks = events[1:4]
    assert all(isinstance(check, NodeChecked) for check in checks), done.stdout + done.stderr
    told = {check.host: check for check in checks if isinstance(check, NodeChecked)}
    assert {host for host, check in told.items() if check.excluded} == {rig.names[-1]}, told
    (fault,) = told[rig.names[-1]].faults
    assert fault.startswith("space: ")
    assert "are free in /tmp" in fault
    assert [event.host for event in events if isinstance(event, WorkerJoined)] == [rig.names[1]]
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reason == "duration"
    report = json.loads((run / "report.json").read_text())
    assert [node["host"] for node in report["nodes"] if node["excluded"]] == [rig.names[-1]]
    assert any("1 of 3 nodes excluded by preflight" in warning["text"] for warning in report["warnings"])
    assert any("1 of 3 were, by preflight" in breach["found"] for breach in report["breaches"])
    pairs = [check.readings["pairs"] for check in told.values()]
    assert all(len(reading["facts"]["with"]) == 2 and not reading["facts"]["failed_with"] for reading in pairs)
    assert all(check.readings["all nodes"]["facts"]["interface"] == "eth0" for check in told.values())


def test_preflight_alone_in_an_allocation_prints_all_nodes(rig: SlurmRig) -> None:
    done = aiperf(rig, "preflight", "--json", "+cluster=slurm", *WORDS, f"runs={rig.folder / 'none'}")

    assert done.returncode == 1, done.stdout + done.stderr
    told = {check["host"]: check for check in json.loads(done.stdout[done.stdout.index("{") :])["checks"]}
    assert {host for host, check in told.items() if check["faults"]} == {rig.names[-1]}
    assert set(told) == set(rig.names)
    assert not any(Path(rig.folder / "none").iterdir()), "nothing is left of it"
