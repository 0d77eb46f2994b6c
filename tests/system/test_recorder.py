"""The recorder is a small separate process that samples on time and ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from aiperf.system.log import Sample, Session, path, read
from aiperf.system.processes import state
from aiperf.system.recorder import Recorder, Recording
from aiperf.system.summary import summarise
from tests.rigs.processes import comes_true


def has_lines(file: Path, lines: int) -> bool:
    return comes_true(lambda: file.exists() and file.read_bytes().count(b"\n") >= lines, 300.0)


def is_running(pid: int) -> bool:
    return state(pid) not in ("", "Z")


def test_a_recorder_samples_the_host_from_start_to_stop(tmp_path: Path) -> None:
    file = path(tmp_path, 3).with_suffix("")  # plain: each sample is written at once
    since = time.time() - 100
    recorder = Recorder(
        Recording(out=str(file), host="n3", worker=3, epoch_unix=since, interval_seconds=0.05, accelerators=0)
    )
    recorder.start()
    assert has_lines(file, 8)
    assert recorder.pid is not None
    assert os.getpriority(os.PRIO_PROCESS, recorder.pid) == 19
    assert recorder.stop() == 0
    assert not is_running(recorder.pid)
    assert recorder.stop() == 0  # again: the same

    first, *rest = read(tmp_path / "telemetry")

    assert isinstance(first, Session) and (first.host, first.worker, first.accelerators) == ("n3", 3, 0)
    assert 100 <= first.at < 1000
    samples = [record for record in rest if isinstance(record, Sample) and record.device.kind == "host"]
    gaps = [after.look.at - before.look.at for before, after in pairwise(samples)]
    assert all(gap > 0 for gap in gaps)
    assert all(record.look.memory_used_bytes for record in samples)
    one = summarise([first, *samples], (first.at, samples[-1].look.at)).devices[0]
    assert one.utilisation_mean is not None and 0 <= one.utilisation_mean <= 1


def test_a_recorder_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    file = path(tmp_path, 0)
    parent_code = (
        "import sys, time; from aiperf.system.recorder import Recorder, Recording\n"
        "r = Recorder(Recording(out=sys.argv[1], host='n', worker=0, interval_seconds=3600.0))\n"
        "r.start(); print(r.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", parent_code, str(file)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    recorder = int(parent.stdout.readline())
    assert comes_true(lambda: len(list(read(file.parent))) == 2, 300.0)
    assert is_running(recorder)

    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()

    # far less than its interval: the kernel wakes it
    assert comes_true(lambda: not is_running(recorder), 300.0), "the recorder outlived its parent"


def test_a_killed_recorder_leaves_a_file_to_which_the_next_appends(tmp_path: Path) -> None:
    file = path(tmp_path, 0)
    for sessions in (1, 2):
        recorder = Recorder(Recording(out=str(file), host="n", worker=0, interval_seconds=0.05))
        recorder.start()
        assert comes_true(lambda: len(list(read(file.parent))) >= 2 * sessions, 300.0)  # noqa: B023
        assert recorder.pid is not None
        if sessions == 1:
            os.kill(recorder.pid, signal.SIGKILL)
        recorder.stop()

    records = list(read(file.parent))

    assert sum(isinstance(record, Session) for record in records) == 2
    assert all(isinstance(record, Session | Sample) for record in records)


def test_a_recorder_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    file = tmp_path / "0.jsonl"
    code = (
        "import sys, time, pathlib, threading; from aiperf.system.recorder import Recorder, Recording\n"
        "out = pathlib.Path(sys.argv[1])\n"
        "r = Recorder(Recording(out=str(out), host='n', worker=0, interval_seconds=0.05))\n"
        "def start():\n"
        "    r.start()\n"
        "    while not out.exists() or out.read_bytes().count(b'\\n') < 3: time.sleep(0.02)\n"
        "thread = threading.Thread(target=start); thread.start(); thread.join()\n"
        "size = out.stat().st_size\n"
        "while out.stat().st_size == size: time.sleep(0.02)\n"
        "sys.exit(r.stop())"
    )
    assert subprocess.run([sys.executable, "-c", code, str(file)], timeout=600).returncode == 0


def test_the_recorder_loads_neither_torch_nor_ray_nor_numpy() -> None:
    code = (
        "import sys, aiperf.system.recorder as r, aiperf.system.describe as d\n"
        "r.attach(r.accelerator_samplers()); d.describe()\n"
        "assert not {'torch', 'ray', 'numpy', 'optuna', 'horovod'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
