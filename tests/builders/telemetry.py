"""Telemetry of a simulated run with planted faults: six workers with eight accelerators, one look a second at every device.

Most devices work healthily, with the noise of utilization, power and temperature that such devices have. The faults of PLANTED
are put into some.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec

from aiperf.config import configure
from aiperf.report.write import report_of, write
from aiperf.run_warning import RunWarning
from aiperf.simulate.session import open_run, simulate
from aiperf.system.log import Log, Session, path
from aiperf.system.sampler import Device, DeviceSample

WORKERS, ACCELERATORS = 6, 8
SECONDS, WARMUP = 2400, 600
MODEL = "NVIDIA A100-SXM4-80GB"
WALL = 1_795_264_000.0

Change = Callable[[DeviceSample, int, Random], DeviceSample]
"""Change of a healthy sample by the fault at a second of the run."""


def _at(first: float, last: float, **figures: object) -> Change:
    """Between two shares of the run the figures are these."""
    return lambda look, second, _: (
        msgspec.structs.replace(look, **figures) if first * SECONDS <= second < last * SECONDS else look
    )


def _counts(name: str, every_seconds: int) -> Change:
    return lambda look, second, _: msgspec.structs.replace(look, **{name: second // every_seconds})


def _vanishes(look: DeviceSample, second: int, _: Random) -> DeviceSample:
    return DeviceSample(device=look.device, gone="GPU is lost") if second > 0.7 * SECONDS else look


@dataclass(frozen=True, slots=True)
class Planted:
    """One fault."""

    what: str
    devices: tuple[tuple[int, int], ...]
    """(worker, index). Index −1 means the whole worker."""
    severity: str
    says: str
    """Regular expression for the warning. Its optional group 'count' is the number of devices."""
    change: Change | None = None


def _fault(what: str, devices: tuple[tuple[int, int], ...], severity: str, says: str, change: Change) -> Planted:
    return Planted(what, devices, severity, rf"(?P<count>\d+) of \d+ accelerators? {says}", change)


PLANTED = (
    _fault("hot slowdown for 10 % of the run", ((0, 1), (1, 4)), "warning", r"throttled \(hw_thermal_slowdown\)",
           _at(0.5, 0.6, throttle=("hw_thermal_slowdown",), clock_mhz=765.0)),
    _fault("power brake for 5 % of the run", ((2, 0),), "warning", r"throttled \(hw_power_brake_slowdown\)",
           _at(0.4, 0.45, throttle=("hw_power_brake_slowdown",), clock_mhz=345.0)),
    _fault("power limit reached all the time", ((0, 5), (0, 6), (1, 7)), "note", r"throttled \(sw_power_cap\)",
           _at(0.0, 1.0, throttle=("sw_power_cap",))),
    _fault("91 °C in one minute", ((1, 2),), "warning", "reached 85 °C", _at(0.6, 0.625, temperature_celsius=91.0)),
    _fault("uncorrected ECC errors", ((2, 3),), "critical", "had uncorrected memory errors", _counts("ecc_uncorrected", 900)),
    _fault("corrected ECC errors", ((1, 1), (2, 6)), "note", "had memory errors that were corrected",
           _counts("ecc_corrected", 60)),
    _fault("idle", ((2, 7),), "warning", "sat idle",
           lambda look, second, random: msgspec.structs.replace(
               look, utilisation=0.02 * random.random(), power_watts=60.0, energy_joules=60.0 * second)),
    _fault("lost in the middle", ((0, 3),), "critical", "vanished", _vanishes),
    Planted("power limit of 300 W, the others' 400 W", ((1, 0),), "warning", r"power limits .* differ: (?P<count>\d+) of \d+"),
    Planted("one accelerator of a worker never there", ((3, 7),), "critical",
            r"(?P<count>\d+) of 8 accelerators of worker 3 .* missing"),
    Planted("a worker without a sampler", ((4, -1),), "note", r"accelerators of (?P<count>\d+) of \d+ workers not measured"),
    Planted("recorder dead for a fifth of the run", tuple((5, index) for index in range(8)), "note",
            r"(?P<count>\d+) of \d+ accelerators not measured all the time"),
)  # fmt: skip


def _devices(worker: int) -> tuple[Device, ...]:
    there = ACCELERATORS - sum(
        device[0] == worker for fault in PLANTED if "never there" in fault.what for device in fault.devices
    )
    capped = {device for fault in PLANTED if "300 W" in fault.what for device in fault.devices}
    return tuple(
        Device(id=f"GPU-{worker}-{index}", kind="accelerator", index=index, vendor="NVIDIA", model=MODEL, variant="SXM",
               memory_bytes=80 << 30, power_cap_watts=300.0 if (worker, index) in capped else 400.0)
        for index in range(there)
    )  # fmt: skip


def _healthy(device: Device, second: int, random: Random) -> DeviceSample:
    warming = min(1.0, second / 120)
    return DeviceSample(
        device=device.id,
        utilisation=min(1.0, max(0.0, random.gauss(0.96, 0.03))),
        memory_used_bytes=61 << 30,
        power_watts=min(395.0, random.gauss(330.0, 25.0)),
        energy_joules=330.0 * second,
        clock_mhz=1410.0,
        memory_clock_mhz=1593.0,
        temperature_celsius=float(round(35 + 28 * warming + random.gauss(0, 1))),
        # a device between two trials is idle for a moment, which holds nothing back
        throttle=("gpu_idle",) if second % 97 == 0 else (),
        ecc_corrected=3,  # of a time before the run
        ecc_uncorrected=0,
    )


def record(folder: Path, worker: int, random: Random) -> None:
    """A worker's file, as its recorder would have written it."""
    is_blind = any((worker, -1) in fault.devices for fault in PLANTED)
    devices = () if is_blind else _devices(worker)
    is_interrupted = any("recorder dead" in fault.what and (worker, 0) in fault.devices for fault in PLANTED)
    log = Log(path(folder, worker))

    def begin(at: float) -> None:
        missing = {"nvidia": "the driver's library is not installed"} if is_blind else {}
        log.begin(
            Session(host=f"node{worker:02}", worker=worker, at=at, wall_unix=WALL + at, interval_seconds=1.0,
                    devices=(Device(id="host", kind="host", memory_bytes=1 << 40), *devices),
                    accelerators=ACCELERATORS, not_sampled=missing)
        )  # fmt: skip

    begin(0.0)
    for second in range(SECONDS + 1):
        if is_interrupted and 0.5 * SECONDS < second < 0.7 * SECONDS:
            continue
        if is_interrupted and second == round(0.7 * SECONDS):
            begin(float(second))
        looks = [DeviceSample(device="host", utilisation=0.2, memory_used_bytes=100 << 30)]
        for device in devices:
            look = _healthy(device, second, random)
            for fault in PLANTED:
                if fault.change is not None and (worker, device.index) in fault.devices:
                    look = fault.change(look, second, random)
            looks.append(look)
        log.append(float(second), WALL + second, looks)
    log.close()


def unanswered(found: list[RunWarning]) -> list[str]:
    """Planted faults without a correct warning, and warnings of telemetry without a planted fault."""
    problems, told = [], set[str]()
    for fault in PLANTED:
        matching = [(warning, match) for warning in found if (match := re.search(fault.says, warning.text))]
        if len(matching) != 1:
            problems.append(f"missed: {fault.what} (warnings that tell of it: {len(matching)})")
            continue
        warning, match = matching[0]
        told.add(warning.text)
        # where a warning names a device, it is the worst of those planted
        named = re.search(r"#(\d+) of worker (\d+)", warning.text)
        if int(match["count"]) != len(fault.devices):
            problems.append(f"miscounted: {fault.what}, planted in {len(fault.devices)}, found in {match['count']}")
        if named and (int(named[2]), int(named[1])) not in fault.devices:
            problems.append(f"blamed: a healthy accelerator, {named[0]}, for {fault.what}")
        if warning.severity != fault.severity:
            problems.append(f"weighed wrongly: {fault.what} is {warning.severity!r}, not {fault.severity!r}")
    strays = [warning.text for warning in found if warning.text not in told and "accelerator" in warning.text]
    return problems + [f"warned of without cause: {text}" for text in strays]


def warnings_of_a_run(runs: Path) -> list[RunWarning]:
    """Simulate a run, write its telemetry with what is planted, and read the warnings from its report."""
    conf = configure(
        ["+cluster=simulated", f"cluster.workers={WORKERS}", f"cluster.accelerators={ACCELERATORS}", "searcher=random",
         f"schedule.duration_seconds={SECONDS}", f"schedule.warmup_seconds={WARMUP}", f"runs={runs}"]
    )  # fmt: skip
    folder = simulate(open_run(conf), lambda driver: None)
    random = Random(0)
    for worker in range(WORKERS):
        record(folder, worker, random)
    report = msgspec.json.decode(write(report_of(folder), folder).facts.read_bytes())
    return [msgspec.convert(warning, RunWarning) for warning in report["warnings"]]
