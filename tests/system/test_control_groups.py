"""How many processors a process may use, in a real control group with a real quota, and what the trainer makes of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiperf.data.dataset_config import ImagesConf
from aiperf.system.control_groups import Limits, usable_processors
from aiperf.system.describe import describe
from aiperf.train.ranks.group import RankGroup
from aiperf.train.trainer_config import TrainerConf
from morphism import encode, start
from tests.data.folders import make
from tests.system.control_groups import group_with, inside


@pytest.fixture
def one_processor() -> Iterator[Path]:
    """A control group whose processes have the time of one and a half processors."""
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

    assert usable_processors(Limits(processors=quota)) == expected


@pytest.mark.parametrize(("cores", "ranks", "each"), [(8, 8, 1), (16, 2, 8), (7, 2, 3), (1, 2, 1), (512, 1, 64)])
def test_a_rank_decodes_and_computes_on_its_share_of_its_workers_cores_not_of_the_hosts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cores: int, ranks: int, each: int
) -> None:
    """Eight workers on a host of 64 have 8 cores each: together their threads are as many as the cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    started: list[tuple[int, int]] = []

    class Noting:
        def __init__(self, setup: object, environment: dict[str, str], log: Path) -> None:
            started.append((setup.threads, setup.cores))  # type: ignore[attr-defined]
            raise InterruptedError("noted")

    monkeypatch.setattr("aiperf.train.ranks.started_group.RankProcess", Noting)
    conf = TrainerConf(ranks=ranks)
    group = RankGroup(
        conf, ImagesConf(root=str(tmp_path)), encode(start("resnet20")), tmp_path, accelerators=0, cores=cores
    )

    with pytest.raises(InterruptedError):
        group._start_ranks()

    assert started == [(each, each)]
