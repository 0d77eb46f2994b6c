"""The host's own figures: from /proc and RAPL, or not measured."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from aiperf.system.host import HostSampler, RaplCounter


def test_disk_waits_are_idle_and_guests_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    (tmp_path / "meminfo").write_text(Path("/proc/meminfo").read_text())
    (tmp_path / "stat").write_text("cpu  0 0 0 0 0 0 0 0 0 0\n")
    sampler = HostSampler()

    (tmp_path / "stat").write_text("cpu  10 2 3 100 50 1 4 5 7 0\n")

    (sample,) = sampler.sample()
    assert sample.utilisation == pytest.approx(25 / 175)

    (tmp_path / "stat").write_text("cpu  103 2 3 99 50 1 4 5 7 0\n")
    (sample,) = sampler.sample()
    assert sample.utilisation == 1.0, "idle time that the kernel counts backwards is none"


def test_this_host_can_be_sampled() -> None:
    sampler = HostSampler()
    for _ in range(3):
        sum(range(1_000_000))  # some ticks pass
        (sample,) = sampler.sample()

    (device,) = sampler.devices()
    assert sample.utilisation is None or 0 <= sample.utilisation <= 1
    assert sample.memory_used_bytes is not None and device.memory_bytes is not None
    assert 0 < sample.memory_used_bytes < device.memory_bytes


def zone(folder: Path, name: str, microjoules: int, wrap: int = 1_000_000) -> Path:
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "max_energy_range_uj").write_text(f"{wrap}\n")
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    return folder


def test_energy_sums_packages_over_counter_overflow(tmp_path: Path) -> None:
    first = zone(tmp_path / "intel-rapl:0", "package-0", 900_000)
    second = zone(tmp_path / "intel-rapl:1", "package-1", 100)
    zone(tmp_path / "intel-rapl:0:0", "core", 500)
    zone(tmp_path / "intel-rapl:2", "psys", 10)
    counter = RaplCounter(tmp_path)

    (first / "energy_uj").write_text("100000\n")
    (second / "energy_uj").write_text("300100\n")

    assert counter.joules() == pytest.approx(0.5)  # 0.2 over the end, and 0.3
    assert counter.joules() == pytest.approx(0.5)


def test_energy_that_cannot_be_read_is_not_measured(tmp_path: Path) -> None:
    (zone(tmp_path / "intel-rapl:0", "package-0", 5) / "energy_uj").unlink()

    assert RaplCounter(tmp_path).joules() is None
    assert RaplCounter(tmp_path / "none").joules() is None


def test_power_is_the_energy_between_two_looks_over_their_time(tmp_path: Path) -> None:
    package = zone(tmp_path / "intel-rapl:0", "package-0", 0, wrap=10**12)
    clock = iter([0.0, 2.0])
    sampler = HostSampler(powercap=tmp_path, clock=lambda: next(clock))

    (package / "energy_uj").write_text("240000000\n")

    (sample,) = sampler.sample()
    assert (sample.power_watts, sample.energy_joules) == (120.0, 240.0)
