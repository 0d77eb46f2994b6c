"""Faults of nodes by their measurements: every fault is named, and no other node is blamed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.measure.probe import NodeReadings, ProbeReading
from aiperf.preflight import PreflightConf
from aiperf.preflight.node_faults import ALL, FAILED_WITH, PAIRS, judge
from tests.builders.node_readings import accelerators, data, node, off_by, reading, space, versions

LIMITS = PreflightConf()
WRONG: dict[str, tuple[dict[str, ProbeReading], str]] = {
    "another python": ({"versions": versions(python="3.12.1")}, "versions: python is 3.12.1, the head's 3.11.7"),
    "another package": ({"versions": versions(torch="2.12.0")}, "versions: torch is 2.12.0, the head's 2.13.0"),
    "a package more": ({"versions": versions(extra="1")}, "versions: extra is 1, the head's not there"),
    "other sources": ({"versions": versions(source="b" * 64)}, f"source is {'b' * 12}, the head's {'a' * 12}"),
    "another driver": (
        {"versions": versions(drivers=("530",))},
        "the accelerators' driver is 530, most nodes have 550.1",
    ),
    "other data": ({"data": data("0" * 64)}, f"the data set's fingerprint is {'0' * 12}, the head's {'f' * 12}"),
    "other images": (
        {"data": data("f" * 64, contents="0" * 64)},
        f"the data set's contents are {'0' * 12}, the head's {'c' * 12}",
    ),
    "changed images": (
        {"data": data("f" * 64, hashed=1000, changed=["/set/train/a/1.jpg"])},
        "data: other contents than in the index, 1 of 1000 files ('/set/train/a/1.jpg')",
    ),
    "no data": ({"data": reading("data", failed="there is no folder '/data'")}, "data: there is no folder '/data'"),
    "no space": ({"space": space(free=1e6)}, "are free in /tmp"),
    "a folder of its own": ({"space": space(is_shared=False)}, "/shared/runs is not the driver's folder"),
    "a slow disk": (
        {"disk_write": reading("disk write", {"run": [9e5, 8e5]})},
        "disk write: 900 kB/s to the run's folder",
    ),
    "a clock ahead": ({"clock": off_by(1.2)}, "clock: 1.200 s ahead of the head's"),
    "a clock behind": ({"clock": off_by(-60.0)}, "clock: 60.000 s behind the head's"),
    "a lost accelerator": (
        {"accelerators": accelerators(7, 8)},
        "accelerators: 7 of the 8 that Ray counts can be used",
    ),
    "a dead one": ({"accelerators": accelerators(gone="GPU is lost")}, "accelerators: H100 0: GPU is lost"),
    "bad memory": (
        {"accelerators": accelerators(ecc_uncorrected_since_boot=3)},
        "3 memory errors that were not corrected",
    ),
    "an Xid": ({"accelerators": accelerators(xids=[79])}, "H100 0: Xid 79"),
    "a hot one": (
        {"accelerators": accelerators(throttle=("hw_thermal_slowdown",))},
        "held down by hw_thermal_slowdown",
    ),
    "a slice too few": (
        {"accelerators": accelerators(0, 2, slices=["MIG-1"])},
        "accelerators: 1 of the 2 that Ray counts can be used",
    ),
    "none that a library can read": (
        {"accelerators": accelerators(0, 2, not_seen_by={"nvml": "no library", "amdsmi": "no driver"})},
        "0 of the 2 that Ray counts can be used (nvml: no library; amdsmi: no driver): start Ray with the right --num-gpus",
    ),
    "another's process": ({"accelerators": accelerators(processes=[4711])}, "1 other processes compute on it (4711)"),
    "slow arithmetic": (
        {"matrix_product": reading("matrix product", {"cuda:0": [5e14]})},
        "matrix product: 500 TFLOPS is 71.4 %",
    ),
    "one slow of two": (
        {"matrix_product": reading("matrix product", {"cuda:0": [7e14], "cuda:1": [3e14]})},
        "matrix product: 300 TFLOPS is 42.9 % of the median of 4 nodes",
    ),
    "slow memory": ({"memory": reading("memory", {"cuda:0": [2e12, 1e12]})}, "memory: 2.00 TB/s is 66.7 %"),
    "a slow network": ({"pairs": reading(PAIRS, {"a": [1e9], "b": [2e9]})}, "pairs: 2.00 GB/s is 10.0 %"),
    "a broken network": (
        {"pairs": reading(PAIRS, {"a": [2e10]}, facts={FAILED_WITH: {"n1": "connection refused"}})},
        "pairs: the all-reduce with n1 failed: connection refused",
    ),
    "a hang": (
        {"memory": reading("memory", failed="no answer in 60 s, and it was killed")},
        "memory: no answer in 60 s",
    ),
}


def three_well() -> list[NodeReadings]:
    pairs = reading(PAIRS, {"a": [2e10]})
    return [node("n0", is_head=True, pairs=pairs), node("n1", pairs=pairs), node("n2", pairs=pairs)]


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_of_a_node_is_named_and_no_other_node(name: str) -> None:
    planted, words = WRONG[name]
    well: dict[str, Any] = {"pairs": reading(PAIRS, {"a": [2e10]})}

    verdicts = judge([*three_well(), node("n3", **(well | planted))], LIMITS)

    assert [words in fault for fault in verdicts["n3"].faults] == [True], verdicts["n3"]
    assert all(not verdicts[name].faults for name in ("n0", "n1", "n2"))


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"xids": [74]}, "H100 0: Xid 74"),
        (
            {"processes": [4711], "process_names": {"4711": "nvidia-cuda-mps-server"}},
            "1 other processes compute on it (4711 nvidia-cuda-mps-server)",
        ),
    ],
)
def test_other_use_of_ones_own_machine_is_a_note(properties: dict[str, Any], words: str) -> None:
    verdict = judge([node("", accelerators=accelerators(**properties))], LIMITS)[""]

    assert not verdict.faults
    assert [words in note for note in verdict.notes].count(True) == 1


def test_nothing_is_wrong_with_nodes_that_are_alike() -> None:
    assert all(not verdict.faults and not verdict.notes for verdict in judge(three_well(), LIMITS).values())


def test_two_nodes_give_no_median_and_a_reason() -> None:
    slow = node("n1", matrix_product=reading("matrix product", {"cpu": [1.0]}), memory=None)

    verdict = judge([node("n0", is_head=True), slow], LIMITS)["n1"]

    assert not verdict.faults
    assert verdict.notes == (
        "matrix product: not judged, since a median needs at least 3 nodes of one kind; there are 2",
    )


def test_nodes_on_one_host_are_not_called_slow() -> None:
    speeds = (1e12, 1e13, 1e13, 1e13)
    nodes = [
        node(f"n{index}", boot_id="one", matrix_product=reading("matrix product", {"cpu": [speed]}), memory=None)
        for index, speed in enumerate(speeds)
    ]

    for verdict in judge(nodes, LIMITS).values():
        assert not verdict.slow
        assert verdict.notes == ("matrix product: not judged, since 4 nodes are on one host",)


def test_nodes_of_another_kind_are_no_measure() -> None:
    other = node("n3", kind="64 cores", matrix_product=reading("matrix product", {"cpu": [1e12]}))

    assert not judge([*three_well(), other], LIMITS)["n3"].faults


def test_without_the_heads_data_most_nodes_are_right() -> None:
    nodes = [
        node("n0", is_head=True, data=reading("data", failed="stale file handle")),
        node("n1"),
        node("n2"),
        node("n3", data=data("0" * 64)),
    ]

    verdicts = judge(nodes, LIMITS)

    assert "that of most nodes" in verdicts["n3"].faults[0]
    assert not verdicts["n1"].faults


def test_a_head_without_accelerators_needs_no_driver() -> None:
    head = node("n0", is_head=True, kind="head", versions=versions(drivers=()), accelerators=accelerators(0, 0))

    assert not any(verdict.faults for verdict in judge([head, node("n1"), node("n2")], LIMITS).values())


def test_a_failed_all_reduce_of_all_nodes_blames_none() -> None:
    nodes = [node(f"n{index}", all=reading(ALL, failed="connection reset")) for index in range(3)]

    for verdict in judge(nodes, LIMITS).values():
        assert not verdict.faults
        assert "the faulty node cannot be determined" in verdict.notes[0]


@given(st.lists(st.floats(1.0, 1e15), min_size=1, max_size=12), st.floats(0.0, 1.0))
def test_never_is_the_fastest_slow_nor_more_than_half_of_them(speeds: list[float], share: float) -> None:
    nodes = [
        node(f"n{index}", matrix_product=reading("matrix product", {"cpu": [speed]}), memory=None)
        for index, speed in enumerate(speeds)
    ]

    verdicts = judge(nodes, PreflightConf(slow_share=share))

    slow = [name for name, verdict in verdicts.items() if verdict.slow]
    assert f"n{speeds.index(max(speeds))}" not in slow
    assert len(slow) <= len(speeds) / 2
    assert bool(slow) <= (len(speeds) >= 3)


@pytest.mark.parametrize(
    ("count", "free", "is_noted"), [(2, 64 << 20, True), (2, 10**9, False), (2, None, False), (1, 64 << 20, False)]
)
def test_little_shared_memory_is_noted_for_several_gpus(count: int, free: int | None, is_noted: bool) -> None:
    reading = accelerators(count, count, shared_memory=free)
    verdict = judge([node("n1", is_head=True, accelerators=reading)], LIMITS)["n1"]

    assert not verdict.faults
    assert any("--shm-size" in note for note in verdict.notes) == is_noted
