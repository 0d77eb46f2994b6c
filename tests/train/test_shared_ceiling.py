"""One measurement for all equal groups of a host, and one each for different groups."""

import errno
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from aiperf.train.memory_limits import CeilingKey, shared_ceiling
from aiperf.train.ranks.group import RankGroup
from aiperf.train.ranks.protocol import Recipe
from aiperf.train.trainer_config import TrainerConf
from morphism import cost, encode
from tests.builders.order import IMAGES, plain_graph

KIND = CeilingKey("host-a", "NVIDIA H200", "150 GB", "f00d", "bf16")


def test_groups_that_start_together_measure_once(tmp_path: Path) -> None:
    measured: list[int] = []
    found: list[int] = []

    def measure() -> int:
        measured.append(1)
        time.sleep(0.05)  # the others come meanwhile
        return 448

    threads = [threading.Thread(target=lambda: found.append(shared_ceiling(tmp_path, KIND, measure))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (found, measured) == ([448] * 8, [1])


@pytest.mark.parametrize("part", ["host", "device", "memory", "family", "precision"])
def test_each_host_accelerator_and_family_has_its_own_ceiling(tmp_path: Path, part: str) -> None:
    shared_ceiling(tmp_path, KIND, lambda: 448)

    assert shared_ceiling(tmp_path, replace(KIND, **{part: "another"}), lambda: 64) == 64
    assert shared_ceiling(tmp_path, KIND, lambda: 1) == 448


def test_who_fails_to_measure_leaves_it_to_the_next(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        shared_ceiling(tmp_path, KIND, lambda: 1 // 0)

    assert shared_ceiling(tmp_path, KIND, lambda: 448) == 448


@pytest.mark.slow
def test_a_second_group_of_a_host_takes_what_the_first_one_found(tmp_path: Path) -> None:
    limit = cost(plain_graph()).training_memory(64, 4)
    conf = TrainerConf(collective="none", threads=1, precision="fp32", memory_limit_bytes=limit, ceiling_share=1.0)

    def ceiling() -> int:
        group = RankGroup(Recipe(conf, IMAGES, encode(plain_graph()), tmp_path, 1), accelerators=0)
        try:
            return group.start().largest_batch
        finally:
            group.close()

    assert ceiling() == 64
    (file,) = (tmp_path / "ceilings").glob("*.json")
    file.write_text(file.read_text().replace('"batch_size": 64', '"batch_size": 40'))  # as if it had been another's
    assert ceiling() == 40


def test_a_ceiling_is_measured_without_file_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)

    assert shared_ceiling(tmp_path, KIND, lambda: 48) == 48
    assert shared_ceiling(tmp_path, KIND, lambda: 7) == 48, "those that come later read it"
