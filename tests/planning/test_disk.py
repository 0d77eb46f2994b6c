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
from aiperf.planning.disk import DiskNeeds, disk_needs, require_place, require_room
from aiperf.simulate.drive import drive
from aiperf.simulate.session import open_run, world_of
from tests.cli.test_run_options import TINY
from tests.rigs.limits import small_file_system

SMALL = disk_needs(parameters=10_000, growth=4, kept=33, seconds=300, workers=1, devices=1, epoch_seconds=1)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB and 20 files."""
    with small_file_system(tmp_path / "disk", "size=1m,nr_inodes=20") as folder:
        yield folder


def test_a_writable_place_stays_empty(disk: Path) -> None:
    assert require_place(str(disk / "not" / "yet")) == disk
    assert list(disk.iterdir()) == []


def test_a_read_only_or_full_place_is_refused_early(disk: Path) -> None:
    (disk / "file").write_bytes(bytes(2**20))
    with pytest.raises(BadConfiguration, match="No space left on device"):
        require_place(str(disk / "runs"))
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(BadConfiguration, match="Read-only file system"):
        require_place(str(disk / "runs"))


def test_too_little_room_is_refused_with_the_estimate(disk: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"journal .* telemetry .* report .* checkpoints .*free space"):
        require_room(SMALL, disk)


def test_too_few_inodes_are_refused(tmp_path: Path) -> None:
    least = DiskNeeds(1, 1, 1, 1, workers=1, files=2, kept=1)
    with small_file_system(tmp_path / "disk", "size=16m,nr_inodes=20") as disk:
        require_room(least, disk)
        with pytest.raises(BadConfiguration, match="inodes"):
            require_room(replace(least, files=1000), disk)


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
    base = {
        "parameters": 1000,
        "growth": 4.0,
        "kept": 10,
        "seconds": 3600.0,
        "workers": 2,
        "devices": 2,
        "epoch_seconds": 60.0,
    }
    for cause in ("parameters", "growth", "kept", "seconds", "workers", "devices"):
        more = disk_needs(**(base | {cause: base[cause] * 2}))  # type: ignore[arg-type]
        assert _total(more) > _total(disk_needs(**base)), cause  # type: ignore[arg-type]


def _total(needs: DiskNeeds) -> int:
    return needs.grown + needs.journal + needs.telemetry


def test_journal_of_short_epochs_is_estimated_within_a_factor_2(tmp_path: Path) -> None:
    opening = open_run(configure(list(TINY)))
    drive(world_of(opening), opening.first, tmp_path / NAME)
    epochs = sum(isinstance(event, EpochFinished) for event in read(tmp_path))
    conf = opening.plan.conf
    seconds = conf.schedule.duration_seconds

    estimate = disk_needs(
        parameters=1, growth=1, kept=1, seconds=seconds, workers=8, devices=1, epoch_seconds=8 * seconds / epochs
    ).journal

    assert epochs > 100
    assert 0.5 < estimate / (tmp_path / NAME).stat().st_size < 2
