"""Processor time of a machine by user: measured, summed over a window, and the resulting warnings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiperf.system.host import HOST
from aiperf.system.load import HostLoad, LoadWatch, OwnProcesses
from aiperf.system.log import RecordedSample, Sample, Session, parse
from aiperf.system.processes import everybody
from aiperf.system.sampler import Device, ProcessorTime
from aiperf.system.summary import Telemetry, summarise
from aiperf.system.warnings import telemetry_warnings
from tests.rigs.processes import comes_true
from tests.system.test_own_processes import a_process

PROCESSORS = 4
TICKS = os.sysconf("SC_CLK_TCK")


def session(worker: int = 0, host: str = "n1", boot: str | None = "boot", space: str = "pid:[1]") -> Session:
    devices = (Device(id=HOST, kind="host"),)
    return Session(
        host=host,
        worker=worker,
        at=0.0,
        wall_unix=0.0,
        interval_seconds=1.0,
        devices=devices,
        boot_id=boot,
        process_space=space,
    )


def looks(
    of: Session, *, own: float, others: float, stolen: float = 0.0, until: int = 100
) -> Iterator[Session | Sample]:
    """Yield a sample every five seconds, with constant shares of all processor time."""
    yield of
    for at in range(0, until + 1, 5):
        passed = float(at * PROCESSORS)
        processors = ProcessorTime(
            passed=1000 + passed,
            programs=200 + (own + others) * passed,
            own=own * passed,
            kernel=5.0,
            stolen=7 + stolen * passed,
            stalled=0.5 * at,
        )
        yield Sample(
            of,
            of.devices[0],
            RecordedSample(device=HOST, at=float(at), wall_unix=float(at), utilisation=0.5, processors=processors),
        )


def loads(*records: Session | Sample, window: tuple[float, float] = (10.0, 90.0)) -> tuple[HostLoad, ...]:
    return summarise(records, window).loads


def warned(*records: Session | Sample) -> list[str]:
    found = telemetry_warnings(summarise(records, (10.0, 90.0)))
    return [warning.text for warning in found if warning.severity == "warning"]


def test_two_recorders_of_one_machine_report_it_once() -> None:
    one = loads(*looks(session(), own=0.6, others=0.2, stolen=0.1))
    two = loads(
        *looks(session(), own=0.6, others=0.2, stolen=0.1), *looks(session(1, "n1b"), own=0.6, others=0.2, stolen=0.1)
    )

    (load,) = one
    assert (load.own, load.others, load.stolen, load.kernel) == pytest.approx((0.6, 0.2, 0.1, 0.0))
    assert load.stalled == pytest.approx(0.5)
    assert load.seconds == pytest.approx(80.0)
    assert [one.host for one in two] == ["n1, n1b"]
    assert (two[0].own, two[0].others) == pytest.approx((0.6, 0.2))


def test_containers_of_one_machine_are_not_other_programs() -> None:
    """Each sees its own 30 % alone: to each of them the other's would be foreign."""
    (load,) = loads(
        *looks(session(0, "pod-a", space="pid:[1]"), own=0.3, others=0.3),
        *looks(session(1, "pod-b", space="pid:[2]"), own=0.3, others=0.3),
    )

    assert load.own == pytest.approx(0.6)
    assert load.others == pytest.approx(0.0, abs=1e-9)


def test_gaps_of_the_record_have_no_load() -> None:
    """Two sessions: quiet until 40 s, and other programs alone from 60 to 70 s."""
    busy = session()
    at_work = [
        Sample(
            busy,
            busy.devices[0],
            RecordedSample(
                device=HOST,
                at=at,
                wall_unix=at,
                processors=ProcessorTime(passed=4 * at, programs=4 * at, own=0.0, kernel=0.0, stolen=0.0),
            ),
        )
        for at in (60.0, 65.0, 70.0)
    ]

    (load,) = loads(*looks(session(), own=0.5, others=0.0, until=40), busy, *at_work, window=(0.0, 100.0))

    assert load.others == pytest.approx(0.2)  # 10 of the 50 seconds that were measured
    assert load.seconds == pytest.approx(50.0)
    assert load.stalled is None


def test_more_than_5_percent_of_others_or_steal_is_warned_of() -> None:
    assert warned(*looks(session(), own=0.9, others=0.04, stolen=0.04)) == []

    (beside,) = warned(*looks(session(), own=0.5, others=0.31), *looks(session(1, "n2", "boot2"), own=0.9, others=0.0))
    assert beside.startswith(
        "other programs ran beside this run on 1 of 2 hosts; worst 'n1', 31 % of its processor time"
    )
    assert beside.endswith("(this run 50 %)")

    (stolen,) = warned(*looks(session(), own=0.5, others=0.0, stolen=0.07))
    assert stolen == (
        "the hypervisor gave processor time of 1 of 1 host to other machines (steal); worst 'n1', 7.0 % of it in the window"
    )


def test_telemetry_of_older_releases_has_no_other_programs() -> None:
    old = Session(
        host="n1", worker=0, at=0.0, wall_unix=0.0, interval_seconds=1.0, devices=(Device(id=HOST, kind="host"),)
    )
    samples = [Sample(old, old.devices[0], RecordedSample(device=HOST, at=at, wall_unix=at)) for at in (0.0, 1.0, 2.0)]

    assert loads(old, *samples) == ()


def test_interrupts_kernel_threads_and_steal_are_separate(tmp_path: Path) -> None:
    def stand(own: int, foreign: int, thread: int, irq: int, steal: int) -> None:
        a_process(tmp_path, 1, 0, "ours", ticks=own)
        a_process(tmp_path, 2, 0, "theirs", ticks=foreign)
        a_process(tmp_path, 3, 0, ticks=thread, flags=0x00200000)
        worked = own + foreign + thread
        (tmp_path / "stat").write_text(f"cpu  {worked} 0 0 1000 0 {irq} 0 {steal} 0 0\ncpu0 …\n")

    stand(100, 50, 10, 5, 0)
    watch = LoadWatch(OwnProcesses({1}, proc=tmp_path), proc=tmp_path)
    before = watch.look()
    stand(300, 150, 60, 35, 20)
    after = watch.look()

    assert after.own - before.own == pytest.approx(2.0)
    assert after.programs - before.programs == pytest.approx(3.0)
    assert after.kernel - before.kernel == pytest.approx(0.8)
    assert after.stolen - before.stolen == pytest.approx(0.2)
    assert after.passed - before.passed == pytest.approx(4.0)
    assert after.stalled is None  # there is no pressure file


SPIN = "import time\nprint(1, flush=True)\nwhile True: pass"


def test_a_recorder_separates_a_foreign_program_from_its_run(invented_driver: Path, tmp_path: Path) -> None:
    """The loop and the recorder's run are two children of this test: two families."""
    out = tmp_path / "0.jsonl"
    run = (
        "import time\n"
        "from aiperf.system.recorder import Recorder, Recording\n"
        f"recording = Recording(out={str(out)!r}, host='n1', worker=0, interval_seconds=0.05, accelerators=2)\n"
        "Recorder(recording).start()\n"
        "began = time.process_time()\nwhile time.process_time() - began < 600: pass\n"
    )
    spinning = subprocess.Popen([sys.executable, "-S", "-c", SPIN], stdout=subprocess.PIPE)
    assert spinning.stdout is not None and spinning.stdout.readline()
    own: subprocess.Popen[bytes] | None = None
    try:
        own = subprocess.Popen(
            [sys.executable, "-c", run],
            env=os.environ | {"LD_LIBRARY_PATH": str(invented_driver), "NVML_PROCESSES": f"{spinning.pid},999999999"},
        )
        assert comes_true(lambda: len(seen(out)) >= 1, 300.0)
        before = everybody()[spinning.pid].ticks
        assert comes_true(lambda: everybody()[spinning.pid].ticks > before + 100, 300.0)
        spun, looks_then = everybody()[spinning.pid].ticks - before, len(seen(out))
        assert comes_true(lambda: len(seen(out)) > looks_then, 300.0)
        had = everybody()[own.pid].ticks / TICKS
    finally:
        for process in (spinning, own):
            if process is not None:
                process.kill()
                process.wait()
        spinning.stdout.close()

    told = seen(out)
    first, last = told[0].look.processors, told[-1].look.processors
    assert first is not None and last is not None
    others = (last.programs - last.own) - (first.programs - first.own)
    assert others > 0.9 * spun / TICKS  # other programs of this machine may add to it
    assert 0 < last.own - first.own < 1.1 * had + 5.0  # the run's process, and its recorder
    accelerators = [record for record in records(out) if record.look.foreign is not None]
    assert {record.device.index: set(record.look.foreign or ()) for record in accelerators} == {
        0: {f"python {spinning.pid}"},
        1: set(),
    }


def records(out: Path) -> list[Sample]:
    return [
        record
        for record in parse(out.read_bytes().splitlines(keepends=True) if out.exists() else [], "made up")
        if isinstance(record, Sample)
    ]


def seen(out: Path) -> list[Sample]:
    return [record for record in records(out) if record.look.processors is not None]


def test_foreign_programs_on_an_accelerator_are_warned_of_at_all() -> None:
    gpu = Device(id="GPU-1", kind="accelerator", model="A100", index=3)
    first = Session(host="n1", worker=0, at=0.0, wall_unix=0.0, interval_seconds=1.0, devices=(gpu,), accelerators=1)
    shown = [(), ("python 4711",), ()]
    seen_by = [
        Sample(
            first, gpu, RecordedSample(device="GPU-1", at=20.0 + at, wall_unix=0.0, utilisation=0.9, foreign=foreign)
        )
        for at, foreign in enumerate(shown)
    ]

    telemetry: Telemetry = summarise([first, *seen_by], (10.0, 90.0))

    texts = [warning.text for warning in telemetry_warnings(telemetry) if warning.severity == "warning"]
    assert texts == [
        "1 of 1 accelerator computed for other programs too; first A100 #3 of worker 0 on 'n1', at 21 s: python 4711"
    ]
