"""Process for probes: its owner gets a reading within the limit and continues after every behaviour of a probe."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from aiperf.data.dataset_config import DigitsConf
from aiperf.measure.all_probes import Accelerators, Data, Versions
from aiperf.measure.all_reduce import AllReduce
from aiperf.measure.disk import DiskRead, DiskWrite, FreeSpace
from aiperf.measure.probe import MARK, ProbeReading, Setting
from aiperf.measure.prober import Prober
from aiperf.system import processes

PATIENCE = 60.0


@dataclass(frozen=True)
class Telling:
    """Record the process number, then act as configured."""

    do: str = ""
    name: ClassVar[str] = "telling"
    unit: ClassVar[str] = "count"

    def measure(self, setting: Setting) -> ProbeReading:
        match self.do:
            case "hang":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "leave":
                os._exit(3)
            case "raise":
                raise RuntimeError("planted:\n  two lines")
            case "sleep":
                time.sleep(600)
        return ProbeReading(probe=self.name, unit=self.unit, series={"pid": [float(os.getpid())]})


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    (tmp_path / MARK).write_text("seen")
    return Setting("127.0.0.1", tmp_path, "seen", tmp_path, 0, 1, DigitsConf(), "auto")


@pytest.fixture
def prober(setting: Setting) -> Iterator[Prober]:
    with closing(Prober(setting)) as made:
        yield made


def test_one_process_serves_them_all_and_ends_with_its_owner(prober: Prober) -> None:
    pids = {prober.measure(Telling(), PATIENCE).series["pid"][0] for _ in range(3)}
    assert len(pids) == 1
    (pid,) = pids

    prober.close()

    assert not processes.state(int(pid))


@pytest.mark.parametrize("how", ["hang", "sleep"])
def test_a_hanging_probe_is_killed_and_the_next_continues(prober: Prober, how: str) -> None:
    prober.measure(Telling(), PATIENCE)
    pid = prober.pid
    assert pid is not None

    reading = prober.measure(Telling(how), 0.5)

    assert (
        reading.failed == "no answer in 0.5 s, and it was killed: raise preflight.seconds, or check dmesg on the node"
    )
    assert not processes.state(pid), "nothing is left of it"
    assert prober.measure(Telling(), PATIENCE).failed is None


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("die", "its process was ended by SIGKILL"),
        ("leave", "its process ended with status 3"),
        ("raise", "RuntimeError: planted: two lines"),
    ],
)
def test_a_failed_probe_is_reported_and_the_next_continues(prober: Prober, how: str, words: str) -> None:
    assert prober.measure(Telling(how), PATIENCE).failed == words
    assert prober.measure(Telling(), PATIENCE).failed is None


def test_one_that_is_stopped_from_outside_is_killed_too(prober: Prober) -> None:
    pid = int(prober.measure(Telling(), PATIENCE).series["pid"][0])
    threading.Timer(0.2, os.kill, (pid, signal.SIGSTOP)).start()

    assert "no answer in 1.5 s" in str(prober.measure(Telling("sleep"), 1.5).failed)
    assert not processes.state(pid)


def test_quick_probes_report_every_repetition(prober: Prober, setting: Setting) -> None:
    readings = {
        probe.name: prober.measure(probe, PATIENCE)
        for probe in (Versions(), FreeSpace(), DiskWrite(2**20, 2**20), DiskRead(2**20, 2**20), Accelerators(), Data())
    }

    assert {name: reading.failed for name, reading in readings.items()} == dict.fromkeys(readings)
    assert all(reading.seconds > 0 for reading in readings.values())
    assert len(readings["versions"].facts["source"]) == 64
    assert readings["space"].facts["is_shared"] is True
    assert readings["space"].series["run"][0] > 0
    assert all(len(values) == 3 and min(values) > 0 for values in readings["disk write"].series.values())
    assert all(len(values) == 3 and min(values) > 0 for values in readings["disk read"].series.values())
    assert len(readings["data"].facts["fingerprint"]) == 64
    assert [file.name for file in setting.folder.iterdir()] == [MARK], "what was written is gone"


def test_a_folder_that_the_driver_did_not_mark_is_not_shared(setting: Setting, tmp_path: Path) -> None:
    (tmp_path / MARK).write_text("another run's")

    with closing(Prober(setting)) as prober:
        assert prober.measure(FreeSpace(), PATIENCE).facts["is_shared"] is False


def test_a_users_interface_of_nccl_is_kept(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "replaced")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "ib0")

    reading = AllReduce(rank=0, ranks=1, meeting="meeting", seconds=60).measure(setting)

    assert os.environ["GLOO_SOCKET_IFNAME"] == reading.facts["interface"] == "lo"
    assert os.environ["NCCL_SOCKET_IFNAME"] == "ib0"


def test_no_cheap_probe_loads_torch_or_ray(prober: Prober) -> None:
    for probe in (Versions(), FreeSpace(), DiskWrite(2**20, 2**20), DiskRead(2**20, 2**20), Accelerators(), Data()):
        prober.measure(probe, PATIENCE)
    maps = Path(f"/proc/{prober.pid}/maps").read_text()

    assert "/torch/" not in maps
    assert "/ray/" not in maps
