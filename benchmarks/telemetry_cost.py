"""What telemetry costs: the recorder's processor time and memory beside a run, and the speed at which its files are read.

    python benchmarks/telemetry_cost.py [seconds]

No driver of an accelerator is asked where there is none, so that here it is the cost of the host's sampler alone.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from aiperf.system.describe import describe
from aiperf.system.log import Log
from aiperf.system.recorder import Recorder
from aiperf.system.sampler import Device, DeviceSample
from aiperf.system.telemetry import Session, path, read, summarise


def recorder_cost(folder: Path, seconds: float) -> tuple[float, int]:
    """Processor seconds an hour after start-up, and resident bytes."""
    with Recorder(path(folder, 0), host="here", worker=0, epoch_unix=time.time()) as recorder:
        time.sleep(2.0)
        before = processor_seconds(recorder.pid)
        time.sleep(seconds)
        used = processor_seconds(recorder.pid) - before
        pages = int(Path(f"/proc/{recorder.pid}/statm").read_text().split()[1])
    return used / seconds * 3600, pages * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(pid: int | None) -> float:
    """From the scheduler's nanoseconds: clock ticks of 10 ms are too coarse for a process this idle."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def reading(folder: Path, seconds: int) -> tuple[float, float]:
    """Lines a second through read and summarise, and bytes a line, of eight accelerators."""
    devices = tuple(Device(id=f"GPU-{index:036}", kind="accelerator", index=index) for index in range(8))
    log = Log(path(folder, 1))
    log.begin(Session(host="here", worker=1, at=0.0, wall_unix=1.8e9, interval_seconds=1.0, devices=devices))
    for at in range(seconds):
        log.append(at, 1.8e9 + at, [DeviceSample(
            device=device.id, utilisation=0.97, memory_used_bytes=60 << 30, power_watts=612.345, energy_joules=1e9 + at,
            clock_mhz=1755.0, memory_clock_mhz=2619.0, temperature_celsius=61.0, throttle=("sw_power_cap",),
            ecc_corrected=0, ecc_uncorrected=0,
        ) for device in devices])  # fmt: skip
    log.close()
    size = path(folder, 1).stat().st_size
    began = time.perf_counter()
    summarise(read(folder / "telemetry"), (0.0, float(seconds)))
    return 8 * seconds / (time.perf_counter() - began), size / (8 * seconds)


def main(seconds: float = 20.0) -> None:
    system = describe()
    began = time.perf_counter()
    describe()
    described = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as folder:
        hourly, resident = recorder_cost(Path(folder) / "cost", seconds)
        lines, size = reading(Path(folder) / "reading", 10_000)
    print(f"machine         {system.processors}-processor {system.cpu_model}, {len(system.accelerators)} accelerators")
    print(f"describe        {1000 * described:.1f} ms, once its modules are loaded")
    print(f"recorder        {hourly:.2f} processor seconds an hour at 1 Hz, {resident / 2**20:.0f} MiB resident")
    print(f"a line          {size:.0f} bytes: 12 h of 8 accelerators at 1 Hz are {size * 8 * 43200 / 1e6:.0f} MB")
    print(f"read, summarise {lines:,.0f} lines/s: those 12 h take {8 * 43200 / lines:.1f} s")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
