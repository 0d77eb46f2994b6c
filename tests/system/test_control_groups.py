"""Limits of a process: in trees of files, and in a real control group with a real quota, and their use by the trainer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiperf.data.dataset_config import ImagesConf
from aiperf.system.control_groups import ControlGroupLimits, control_group_limits, usable_processors
from aiperf.system.describe import describe
from aiperf.train.ranks.group import RankGroup
from aiperf.train.ranks.protocol import Recipe
from aiperf.train.trainer_config import TrainerConf
from morphism import encode, start
from tests.builders.data_set import make
from tests.rigs.limits import group_with, inside


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def version_1(folder: Path) -> str:
    """Its mounts: processors in one tree, memory in another."""
    return (
        f"31 24 0:28 / {folder}/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        f"32 24 0:29 / {folder}/memory rw - cgroup cgroup rw,memory"
    )


def test_the_tightest_limit_of_version_2_groups_holds(tmp_path: Path) -> None:
    write(tmp_path / "slurm", cpu__max="max 100000", memory__max="8589934592")
    write(tmp_path / "slurm/job", cpu__max="250000 100000", memory__max="max")
    mounts = f"30 24 0:27 / {tmp_path} rw,nosuid - cgroup2 cgroup2 rw"

    assert control_group_limits("0::/slurm/job\n", mounts) == ControlGroupLimits(processors=2.5, memory_bytes=8 << 30)


def test_a_container_has_its_group_at_the_root_of_the_mount(tmp_path: Path) -> None:
    write(tmp_path, cpu__max="400000 100000", memory__max="1073741824")
    inside = f"30 24 0:27 / {tmp_path} ro - cgroup2 cgroup ro"
    bound = f"30 24 0:27 /docker/abc {tmp_path} ro - cgroup2 cgroup ro"

    assert control_group_limits("0::/\n", inside) == ControlGroupLimits(processors=4.0, memory_bytes=1 << 30)
    assert control_group_limits("0::/docker/abc\n", bound) == ControlGroupLimits(processors=4.0, memory_bytes=1 << 30)


def test_the_limits_of_version_1_groups_hold_too(tmp_path: Path) -> None:
    write(tmp_path / "cpu/a", cpu__cfs_quota_us="150000", cpu__cfs_period_us="100000")
    write(tmp_path / "memory/b", memory__limit_in_bytes="2147483648")

    found = control_group_limits("5:cpu,cpuacct:/a\n4:memory:/b\n", version_1(tmp_path))

    assert found == ControlGroupLimits(processors=1.5, memory_bytes=2 << 30)


def test_no_limit_is_none_and_not_a_large_number(tmp_path: Path) -> None:
    write(tmp_path / "cpu", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    write(tmp_path / "memory", memory__limit_in_bytes="9223372036854771712")

    assert control_group_limits("5:cpu,cpuacct:/\n4:memory:/\n", version_1(tmp_path)) == ControlGroupLimits()


@pytest.fixture
def one_processor() -> Iterator[Path]:
    """A control group with a quota of one and a half processors."""
    first = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"}
    with group_with("cpu", first, {"cpu.max": "150000 100000"}) as group:
        yield group


ALL_PLACES = """
from pathlib import Path
from aiperf.system.control_groups import usable_processors
from aiperf.system.describe import describe
from aiperf.data.dataset_config import ImagesConf
from aiperf.data.opening import open_data
from aiperf.train.ranks.group import RankGroup

with open_data(ImagesConf(root={root!r}, image=16, crop="resized", cache="none")) as data:
    print(usable_processors(), describe().usable_processors, data.how)
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a quota of one and a half processors binds two or more")
def test_a_quota_binds_every_place_that_asks_for_processors(one_processor: Path, tmp_path: Path) -> None:
    root = make(tmp_path / "set")

    assert inside(one_processor, ALL_PLACES.format(root=str(root))).startswith("1 1 libjpeg-turbo, 1 decoding threads")
    assert usable_processors() == describe().usable_processors


@pytest.mark.parametrize(("quota", "expected"), [(None, 2), (0.4, 1), (1.9, 1), (2.0, 2), (64.0, 2)])
def test_affinity_and_quota_both_hold_and_one_is_the_least(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5})

    assert usable_processors(ControlGroupLimits(processors=quota)) == expected


@pytest.mark.parametrize(("cores", "ranks", "each"), [(8, 8, 1), (16, 2, 8), (7, 2, 3), (1, 2, 1), (512, 1, 64)])
def test_a_rank_uses_its_share_of_its_workers_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cores: int, ranks: int, each: int
) -> None:
    """Eight workers on a host of 64 have 8 cores each: together their threads are as many as the cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    started: list[tuple[int, int]] = []

    class Noting:
        def __init__(self, setup: object, environment: dict[str, str], log: Path) -> None:
            started.append((setup.threads, setup.cores))  # type: ignore[attr-defined]
            raise InterruptedError("noted")

    monkeypatch.setattr("aiperf.train.ranks.host_ranks.RankProcess", Noting)
    conf = TrainerConf(ranks=ranks)
    group = RankGroup(
        Recipe(conf, ImagesConf(root=str(tmp_path)), encode(start("resnet20")), tmp_path, cores), accelerators=0
    )

    with pytest.raises(InterruptedError):
        group._start_ranks()

    assert started == [(each, each)]
