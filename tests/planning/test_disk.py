"""A plan looks whether its folder can be made and takes what the run will write: for real, on small file systems."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from aiperf.config import configure
from aiperf.errors import BadConfiguration
from aiperf.journal.events import EpochFinished
from aiperf.journal.journal import NAME, read
from aiperf.planning import disk
from aiperf.planning.disk import DiskNeeds, disk_needs, in_words, require_place, require_room
from aiperf.simulate.session import drive, open_run, world_of
from tests.cli.test_run_options import TINY
from tests.rigs.limits import small_file_system

SMALL = DiskNeeds(kept=33, checkpoints=2_640_000, grown=10_560_000, journal=350_000, telemetry=84_000, workers=1)


@pytest.fixture
def one_megabyte(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    with small_file_system(tmp_path / "disk", "size=1m") as folder:
        yield folder


def test_a_writable_place_stays_empty(one_megabyte: Path) -> None:
    assert require_place(str(one_megabyte / "not" / "yet")) == one_megabyte
    assert list(one_megabyte.iterdir()) == []


def test_a_read_only_or_full_place_is_refused_early(one_megabyte: Path) -> None:
    (one_megabyte / "file").write_bytes(bytes(2**20))
    with pytest.raises(BadConfiguration, match="No space left on device"):
        require_place(str(one_megabyte / "runs"))
    subprocess.run(["mount", "-o", "remount,ro", str(one_megabyte)], check=True)
    with pytest.raises(BadConfiguration, match="Read-only file system"):
        require_place(str(one_megabyte / "runs"))


def test_too_little_room_is_refused_with_the_estimate(one_megabyte: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"journal .* telemetry .* report .* checkpoints .*free space"):
        require_room(SMALL, one_megabyte)


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ("file", "is a file"),
        ("file/below", "is a file"),
        ("loop/x", "leads back"),
        ("gone", "dangling link"),
        ("x" * 300, "too long"),
    ],
)
def test_what_is_in_the_way_of_a_folder_is_named(tmp_path: Path, runs: str, message: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to("nowhere")

    with pytest.raises(BadConfiguration, match=message):
        require_place(str(tmp_path / runs))


def test_an_estimate_grows_with_each_of_its_causes() -> None:
    plan = open_run(configure(["+cluster=simulated", "schedule.duration_seconds=3600"])).plan
    conf, given = plan.conf, (plan.network, plan.dataset, 1, 2)
    longer = replace(conf, schedule=replace(conf.schedule, duration_seconds=7200.0))
    larger = replace(conf, budget=replace(conf.budget, factor=16.0))

    for more in (
        disk_needs(longer, *given),
        disk_needs(larger, *given),
        disk_needs(conf, plan.network, plan.dataset, 2, 2),
        disk_needs(conf, plan.network, plan.dataset, 1, 4),
    ):
        assert _total(more) > _total(disk_needs(conf, *given))


def test_a_run_of_one_trial_needs_room_for_its_epochs_and_one_checkpoint() -> None:
    plan = open_run(configure(["+cluster=simulated", "schedule.duration_seconds=2592000", "limits.trials=1"])).plan

    unlimited = replace(plan.conf, limits=replace(plan.conf.limits, trials=None))

    needs, others = (disk_needs(conf, plan.network, plan.dataset, 8, 1) for conf in (plan.conf, unlimited))

    assert needs.kept == 1 and needs.grown == needs.checkpoints
    assert needs.journal + needs.telemetry < (others.journal + others.telemetry) / 4
    assert "as networks grow" not in in_words(needs)


def _total(needs: DiskNeeds) -> int:
    return needs.grown + needs.journal + needs.telemetry


def test_a_small_network_on_accelerators_needs_little_room() -> None:
    plan = open_run(configure(list(TINY))).plan

    assert disk_needs(plan.conf, plan.network, plan.dataset, accelerators=8, workers=1).journal < 50e6


def test_bytes_of_lines_are_a_journals_within_a_factor_2(tmp_path: Path) -> None:
    opening = open_run(configure(list(TINY)))
    drive(world_of(opening), opening.first, tmp_path / NAME)
    epochs = sum(isinstance(event, EpochFinished) for event in read(tmp_path))

    lines = opening.conf.workers * opening.plan.conf.schedule.duration_seconds * 1.5 / disk.PROGRESS_SECONDS
    estimate = disk.BYTES_OF_FIRST_LINE + epochs * disk.BYTES_PER_EPOCH + lines * disk.BYTES_PER_PROGRESS

    assert epochs > 100
    assert 0.5 < estimate / (tmp_path / NAME).stat().st_size < 2
