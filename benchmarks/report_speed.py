"""Time of the report of a run with many workers of eight accelerators: journal and telemetry of 12 hours, made from a model.

    python -m benchmarks.report_speed [--workers 100] [--hours 12]

The real writer records the telemetry of one worker. Its minutes are copied for the others, because a report of more than 64
accelerators reads no seconds. The time of the telemetry is proportional to the workers, the journal's is not.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from random import Random
from typing import TypeVar

from aiperf.config import configure
from aiperf.journal.journal import read
from aiperf.report.gather import gather
from aiperf.report.write import report_of, write
from aiperf.simulate.session import open_run, simulate
from aiperf.system.log import Log, Session, minutes_path, path
from aiperf.system.sampler import Device, DeviceSample, ProcessorTime
from benchmarks.pairs import describe_machine

ACCELERATORS = 8
_T = TypeVar("_T")


def simulated(folder: Path, workers: int, hours: float) -> Path:
    """Return the folder of a simulated run with telemetry of each worker."""
    words = ["+cluster=simulated", "schedule=ranking", "searcher=random", "hpo=off", "schedule.warmup_seconds=600"]
    conf = configure(
        [*words, f"cluster.workers={workers}", f"schedule.duration_seconds={hours * 3600}", f"runs={folder}"]
    )
    with redirect_stdout(StringIO()):
        run = simulate(open_run(conf), lambda driver: None)
    record(run, 0, round(hours * 3600))
    first, name = minutes_path(path(run, 0)).read_bytes(), b'"host":"n0","worker":0,'
    assert first.count(name) == 1, "the session line names host and worker"
    for worker in range(workers):
        path(run, worker).write_bytes(b"")
        minutes_path(path(run, worker)).write_bytes(
            first.replace(name, b'"host":"n%d","worker":%d,' % (worker, worker))
        )
    return run


def record(run: Path, worker: int, seconds: int) -> None:
    """Write the telemetry of one worker, a sample of each device per second."""
    random = Random(worker)
    devices = [
        Device(id=f"GPU-{index}", kind="accelerator", index=index, model="A100") for index in range(ACCELERATORS)
    ]
    log = Log(path(run, worker))
    log.begin(
        Session(
            host=f"n{worker}", worker=worker, at=0.0, wall_unix=0.0, interval_seconds=1.0, accelerators=ACCELERATORS,
            devices=(Device(id="host", kind="host", memory_bytes=1 << 40), *devices),
        )
    )  # fmt: skip
    joules = 0.0
    for second in range(seconds):
        watts = 300 + 100 * random.random()
        joules += watts
        processors = ProcessorTime(passed=64.0 * second, programs=20.0 * second, own=19.0 * second, kernel=0, stolen=0)
        samples = [DeviceSample(device="host", utilisation=0.3, processors=processors if second % 5 == 0 else None)]
        samples += [
            DeviceSample(
                device=device.id, utilisation=random.random(), memory_used_bytes=1 << 36, power_watts=watts,
                energy_joules=joules, clock_mhz=1400.0, temperature_celsius=60.0, throttle=(), ecc_uncorrected=0,
            )
            for device in devices
        ]  # fmt: skip
        log.append(float(second), float(second), samples)
    log.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--hours", type=float, default=12.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="report-speed-") as folder:
        run = simulated(Path(folder), arguments.workers, arguments.hours)
        print(
            f"{describe_machine()}; {arguments.workers} workers × {ACCELERATORS} accelerators × {arguments.hours:g} h"
        )
        timed("figures without telemetry", lambda: gather(read(run / "journal.jsonl")))
        report = timed("figures with telemetry", lambda: report_of(run))
        assert report.telemetry is not None and len(report.telemetry.accelerators) == ACCELERATORS * arguments.workers
        assert report.telemetry.is_by_minute == (len(report.telemetry.accelerators) > 64)
        timed("report.html, report.json, plots", lambda: write(report, run))


def timed(what: str, do: Callable[[], _T]) -> _T:
    who = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    began, before = time.monotonic(), [resource.getrusage(each) for each in who]
    result = do()
    used = [
        after.ru_utime + after.ru_stime - earlier.ru_utime - earlier.ru_stime
        for after, earlier in zip(map(resource.getrusage, who), before, strict=True)
    ]
    print(f"{what:32} {time.monotonic() - began:7.1f} s, processor {used[0]:.1f} + {used[1]:.1f} s", flush=True)
    return result


if __name__ == "__main__":
    main()
