"""Processes of a run are identified, and their processor time counts once, including ended processes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from aiperf.system.load import OwnProcesses, identity, roots_of, seen_here
from aiperf.system.processes import Process, everybody

ROOT = 10
SESSION = "session_2026-11-22_10-11-12_123456_789"


@dataclass
class Machine:
    """A simulated machine whose processes fork, work and end. A parent waits for its children as soon as they end."""

    processes: dict[int, Process] = field(default_factory=dict)
    ours: set[int] = field(default_factory=set)
    worked: int = 0
    """Ticks that the run's processes have had since the first look."""
    next_pid: int = 100

    def begin(self, pid: int, parent: int) -> None:
        self.processes[pid] = Process(pid, parent, pid, 0, 0, is_kernel_thread=False)
        if pid == ROOT or parent in self.ours:
            self.ours.add(pid)

    def fork(self, parent: int) -> None:
        self.begin(self.next_pid, parent)
        self.next_pid += 1

    def work(self, pid: int, ticks: int) -> None:
        self._change(pid, ticks, 0)
        self.worked += ticks if pid in self.ours else 0

    def end(self, pid: int) -> None:
        """End a process without children."""
        ended = self.processes.pop(pid)
        if ended.parent in self.processes:
            self._change(ended.parent, 0, ended.ticks + ended.children_ticks)

    def _change(self, pid: int, ticks: int, children_ticks: int) -> None:
        was = self.processes[pid]
        self.processes[pid] = Process(
            pid, was.parent, was.started, was.ticks + ticks, was.children_ticks + children_ticks, was.is_kernel_thread
        )

    def childless(self) -> list[int]:
        parents = {process.parent for process in self.processes.values()}
        return [pid for pid in self.processes if pid not in parents and pid >= 100]


@given(st.data())
def test_processor_time_counts_once_over_ended_processes(data: st.DataObject) -> None:
    machine = Machine()
    machine.begin(1, 0)
    machine.begin(ROOT, 1)
    machine.work(ROOT, 7)  # before the first look
    own = OwnProcesses({ROOT})
    own.look(machine.processes)
    machine.worked = 0

    for _ in range(data.draw(st.integers(1, 40))):
        match data.draw(st.sampled_from(["fork", "work", "end", "look"])):
            case "fork":
                machine.fork(data.draw(st.sampled_from(sorted(machine.processes))))
            case "work":
                machine.work(data.draw(st.sampled_from(sorted(machine.processes))), data.draw(st.integers(1, 500)))
            case "end" if machine.childless():
                machine.end(data.draw(st.sampled_from(sorted(machine.childless()))))
            case "look":
                own.look(machine.processes)
                assert own.ticks == machine.worked
                assert own.pids == machine.ours & machine.processes.keys()
    own.look(machine.processes)

    assert own.ticks == machine.worked


def test_a_process_whose_parent_has_ended_is_still_the_runs() -> None:
    machine = Machine()
    machine.begin(1, 0)
    machine.begin(ROOT, 1)
    machine.begin(20, ROOT)
    own = OwnProcesses({ROOT})
    own.look(machine.processes)

    machine.processes.pop(ROOT)
    machine.processes[20] = Process(20, 1, 20, 300, 0, is_kernel_thread=False)
    own.look(machine.processes)

    assert own.ticks == 300


def test_a_reused_process_number_is_another_process() -> None:
    machine = Machine()
    machine.begin(1, 0)
    machine.begin(ROOT, 1)
    machine.begin(20, ROOT)
    own = OwnProcesses({ROOT})
    own.look(machine.processes)

    machine.processes[20] = Process(20, 1, 4000, 900, 0, is_kernel_thread=False)
    own.look(machine.processes)

    assert own.ticks == 0
    assert own.pids == {ROOT}


def a_process(proc: Path, pid: int, parent: int, *words: str, ticks: int = 0, flags: int = 0) -> None:
    """In an invented /proc."""
    (proc / str(pid)).mkdir(parents=True, exist_ok=True)
    fields = ["S", str(parent), *["0"] * 4, str(flags), *["0"] * 4, str(ticks), "0", "0", "0", *["0"] * 4, str(pid)]
    (proc / str(pid) / "stat").write_text(f"{pid} (a (program) name) {' '.join(fields)} 0 0\n")
    (proc / str(pid) / "cmdline").write_text("".join(f"{word}\0" for word in words))
    (proc / str(pid) / "comm").write_text(f"program{pid}\n")


def test_ray_daemons_and_the_driver_are_roots_not_the_shell(
    tmp_path: Path,
) -> None:
    a_process(tmp_path, 1, 0, "init")
    a_process(tmp_path, 2, 1, "bash", "-c", "python -m aiperf schedule.duration_seconds=60")
    a_process(tmp_path, 3, 2, "python", "-m", "aiperf", "schedule.duration_seconds=60")
    a_process(tmp_path, 4, 3, "raylet", f"--session-dir=/tmp/ray/{SESSION}")
    a_process(tmp_path, 5, 4, "ray::WorkerHost")
    a_process(tmp_path, 6, 5, "python", "-m", "aiperf.system.recorder")

    assert roots_of(5, None, tmp_path) == (frozenset({3, 4, 5}), SESSION)
    assert roots_of(5, 77, tmp_path) == (frozenset({3, 4, 5, 77}), SESSION)


def test_daemons_of_the_same_ray_session_are_the_runs(
    tmp_path: Path,
) -> None:
    a_process(tmp_path, 1, 0, "init")
    a_process(tmp_path, 4, 1, "raylet", f"--session-dir=/tmp/ray/{SESSION}")
    a_process(tmp_path, 5, 4, "ray::WorkerHost")
    a_process(tmp_path, 7, 1, "gcs_server", f"--log_dir=/tmp/ray/{SESSION}/logs")
    a_process(tmp_path, 8, 1, "gcs_server", f"--log_dir=/tmp/ray/{SESSION}1/logs")
    a_process(tmp_path, 9, 1, "spin")
    roots, session = roots_of(5, None, tmp_path)
    own = OwnProcesses(roots, session, tmp_path)

    own.look(everybody(tmp_path))

    assert own.pids == {4, 5, 7}


def test_the_driver_is_found_by_identity_on_its_own_machine() -> None:
    boot, space, pid, started = identity().split("/")

    assert seen_here(identity()) == os.getpid()
    assert seen_here(f"{boot}/pid:[1]/{pid}/{started}") is None
    assert seen_here(f"another/{space}/{pid}/{started}") is None
    assert seen_here(f"{boot}/{space}/{pid}/{int(started) - 1}") is None


BURN = "import time\nwhile time.process_time() < 0.3: pass"


def test_ended_real_processes_count_as_in_the_kernel() -> None:
    own = OwnProcesses({os.getpid()})
    own.look(everybody())
    before = os.times()
    for _ in range(2):
        subprocess.run([sys.executable, "-S", "-c", BURN], check=True)
    own.look(everybody())
    after = os.times()

    had = sum(after[:4]) - sum(before[:4])
    assert had > 0.5
    assert abs(own.ticks / os.sysconf("SC_CLK_TCK") - had) < 0.2 * had
