"""Preflight of real Ray nodes: a node that dies, hangs or is faulty is named, and the others continue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import ray

from aiperf.data.dataset_config import DigitsConf
from aiperf.drive.ray import inspection as inspection_module
from aiperf.drive.ray.inspection import Inspector, NodeInspection, introduced
from aiperf.drive.ray.node_admission import CLOSE_SECONDS, NodeAdmission, checked_by
from aiperf.drive.ray.slots import slots
from aiperf.errors import NoWorkers
from aiperf.journal.events import NodeChecked
from aiperf.measure.probe import ProbeReading
from aiperf.preflight import PreflightConf
from aiperf.preflight.node_faults import ALL, FAILED_WITH, PAIRS, judge
from aiperf.train.trainer_config import TrainerConf
from tests.rigs import faulty_probes as planted
from tests.rigs.ray_cluster import SmallCluster, small_cluster

PATIENCE = 300.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[SmallCluster]:
    """A head at 127.0.0.10. Hosts are added from 127.0.0.11 on, as `planted` names them."""
    with small_cluster() as made:
        yield made


def as_hosts_of_their_own(inspectors: Sequence[Inspector], seconds: float) -> dict[str, ProbeReading]:
    """Nodes of one machine that pass for several: else none is compared with another."""
    missing = introduced(inspectors, seconds)
    for one in inspectors:
        one.boot_id = one.address
    return missing


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def inspection(folder: Path, probes: Callable[[], Any], *, is_full: bool, seconds: float = 120.0) -> NodeInspection:
    conf = PreflightConf(seconds=seconds, free_bytes=0)
    head = ray.get_runtime_context().get_node_id()
    return NodeInspection(conf, DigitsConf(), TrainerConf(), folder, head, is_full, probes, planted.clock)


@pytest.mark.slow
def test_dead_and_wrong_nodes_are_named_and_late_ones_checked(cluster: SmallCluster, tmp_path: Path) -> None:
    dies, well, fast = cluster.add(), cluster.add(), cluster.add()
    how = inspection(tmp_path, planted.without_hangs, is_full=False)

    checked = checked_by(how.of, nodes(), how.conf, None)

    assert checked.excluded == {dies, fast}
    told = {event.address: event for event in checked.events}
    assert told[planted.DIES].faults == ["planted: its process was ended by SIGKILL"]
    (fault,) = told[planted.IS_FAST].faults
    assert "s ahead of the head's" in fault
    offset, error = told[planted.IS_FAST].clock_offset_seconds, told[planted.IS_FAST].clock_error_seconds
    assert offset is not None and error is not None
    assert abs(offset - planted.AHEAD_SECONDS) <= error
    assert len(told[planted.IS_FAST].readings["clock"]["series"]["offset"]) == 8, "all round trips are kept"
    assert told[cluster.address(well)].faults == []
    assert not list(tmp_path.iterdir()), "the folder that they met in is gone"

    assert isinstance(checked.gate, NodeAdmission)
    other, late = cluster.add(), cluster.add()
    there, said = checked.gate.look(nodes(), slots(nodes(), None))
    assert {slot.node for slot in there.wanted} == {well}, "those that joined are no places yet"
    deadline = time.monotonic() + PATIENCE
    while not said:
        assert time.monotonic() < deadline
        time.sleep(0.2)
        there, said = checked.gate.look(nodes(), slots(nodes(), None))
    assert {word.address: word.excluded for word in said} == {planted.OTHER: True, cluster.address(late): False}
    assert {slot.node for slot in there.wanted} == {well, late}
    assert other not in {slot.node for slot in checked.gate.look(nodes(), slots(nodes(), None))[0].wanted}


@pytest.mark.slow
def test_a_run_without_a_node_or_with_broken_stop_is_refused(cluster: SmallCluster, tmp_path: Path) -> None:
    while planted.DIES not in {
        node["NodeManagerAddress"] for node in nodes()
    }:  # it may be the module's first that is run
        cluster.add()
    how = inspection(tmp_path, planted.without_hangs, is_full=False)
    bad = [node for node in nodes() if node["NodeManagerAddress"] in ("127.0.0.10", planted.DIES)]

    with pytest.raises(NoWorkers, match=r"preflight excludes all 1 nodes that could hold one.*ended by SIGKILL"):
        checked_by(how.of, bad, how.conf, None)
    with pytest.raises(NoWorkers, match=r"with preflight\.broken=stop no run begins"):
        checked_by(how.of, nodes(), PreflightConf(broken="stop"), None)
    kept = checked_by(how.of, bad, PreflightConf(broken="keep"), None)
    assert not kept.excluded
    assert [bool(event.faults) for event in kept.events] == [event.address == planted.DIES for event in kept.events]


@pytest.mark.slow
def test_the_end_of_a_run_ends_the_check_of_a_new_node(cluster: SmallCluster, tmp_path: Path) -> None:
    how = inspection(tmp_path, planted.endless, is_full=False, seconds=3600.0)
    gate = NodeAdmission(how.of, how.conf, {}, frozenset(), how.stop)
    if len(nodes()) < 2:
        cluster.add()
    gate.look(nodes(), slots(nodes(), None))
    wait_for(lambda: (tmp_path / "begun").exists())

    began = time.monotonic()
    gate.close()

    assert time.monotonic() - began < CLOSE_SECONDS
    assert [thread.name for thread in threading.enumerate() if thread.name == "preflight"] == []
    assert ray.is_initialized()


def test_a_node_whose_check_fails_holds_no_worker(cluster: SmallCluster, tmp_path: Path) -> None:
    """Raise an error as if the disk of the shared folder were full."""
    (tmp_path / "file").write_text("")
    how = inspection(tmp_path / "file", planted.without_hangs, is_full=False)
    gate = NodeAdmission(how.of, how.conf, {}, frozenset(), how.stop)
    if len(nodes()) < 2:
        cluster.add()
    there = slots(nodes(), None)

    told: list[NodeChecked] = []

    def has_printed() -> bool:
        told.extend(gate.look(nodes(), there)[1])
        return bool(told)

    wait_for(has_printed)

    assert {word.address for word in told} == {slot.address for slot in there.wanted}
    assert all("preflight itself failed" in word.faults[0] and word.excluded for word in told)
    assert gate.look(nodes(), there)[0].wanted == ()


@pytest.mark.slow
def test_few_nodes_measure_the_shared_folder_at_a_time(
    cluster: SmallCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection_module, "AT_ONCE", 2)
    while len(nodes()) < 4:
        cluster.add()
    shown: list[str] = []

    measured = inspection(tmp_path, planted.crowded, is_full=False).of(nodes(), shown.append)

    crowds = [one.readings["disk write"].series["run"][0] for one in measured]
    assert len(crowds) == len(nodes())
    assert max(crowds) <= 2
    assert shown == ["space", "disk write"]


@pytest.mark.slow
def test_a_hanging_node_is_named_and_the_others_exchange(
    cluster: SmallCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection_module, "GRACE_SECONDS", 5.0)
    monkeypatch.setattr(inspection_module, "introduced", as_hosts_of_their_own)
    how = inspection(tmp_path, planted.with_hangs, is_full=True, seconds=90.0)

    while len(nodes()) < 6:  # it may be the only test of the module that is run
        cluster.add()

    measured = {one.address: one for one in how.of(nodes())}

    hung = measured[planted.HANGS].readings["planted"].failed
    assert hung == f"no answer from {planted.HANGS} in 95 s: the node hangs, or cannot be reached"
    others = {address: one for address, one in measured.items() if address != planted.HANGS}
    for address, one in others.items():
        pairs = one.readings[PAIRS]
        assert pairs.facts["with"] == sorted(others.keys() - {address})
        assert pairs.facts[FAILED_WITH] == {}
        assert pairs.facts["over"] == "gloo"
        assert all(len(values) == 5 and min(values) > 0 for values in pairs.series.values())
        assert len(one.readings[ALL].series["33554432"]) == 5
        assert one.readings[ALL].facts["ranks"] == len(others)
    assert PAIRS not in measured[planted.HANGS].readings
    verdicts = judge(list(measured.values()), how.conf)
    assert verdicts[measured[planted.SLOW].node].slow == ("matrix product",)
    tries = {address: len(one.readings["matrix product"].series["cpu"]) for address, one in measured.items()}
    assert {address for address, count in tries.items() if count == 2} == {planted.SLOW}, "it was given another chance"
