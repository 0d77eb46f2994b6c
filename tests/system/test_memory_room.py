"""Free memory of control groups, in trees of every shape and in a real group, and its only reader."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.system.control_groups import available_bytes, limits_here, memory_room_here
from aiperf.system.describe import storage
from tests.rigs.limits import group_with, inside

TOP = Path(__file__).parents[2]
MB = 1 << 20


@dataclass(frozen=True)
class Group:
    """Values that the kernel reports for one group."""

    limit: int | None
    used: int
    idle_files: int
    """Used memory in inactive files."""

    @property
    def room(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - (self.used - self.idle_files))

    def write_as_version_2(self, folder: Path) -> None:
        (folder / "memory.max").write_text(f"{'max' if self.limit is None else self.limit}\n")
        (folder / "memory.current").write_text(f"{self.used}\n")
        (folder / "memory.stat").write_text(f"anon {self.used}\ninactive_file {self.idle_files}\nactive_file 7\n")

    def write_as_version_1(self, folder: Path) -> None:
        (folder / "memory.limit_in_bytes").write_text(f"{2**63 - 4096 if self.limit is None else self.limit}\n")
        (folder / "memory.usage_in_bytes").write_text(f"{self.used}\n")
        (folder / "memory.stat").write_text(f"inactive_file 3\ntotal_inactive_file {self.idle_files}\n")


def groups() -> st.SearchStrategy[Group]:
    sizes = st.integers(0, 2**40)
    return st.builds(
        lambda limit, used, share: Group(limit, used, int(used * share)), st.none() | sizes, sizes, st.floats(0, 1)
    )


def host(folder: Path, line: list[Group], hidden: int, version: int, is_namespaced: bool) -> Path:
    """A /proc of a process in the last group of a line, each in the one before it.

    The first `hidden` groups lie above what is mounted here. `is_namespaced`: paths start at the mounted group, as in a
    container with its own namespace.
    """
    mount = folder / "mounted"
    names = [f"/g{depth}" for depth in range(len(line))]
    here = mount
    for depth, group in enumerate(line[hidden:], hidden):
        here = here if depth == hidden else here / names[depth][1:]
        here.mkdir()
        group.write_as_version_2(here) if version == 2 else group.write_as_version_1(here)
    above = "" if is_namespaced else "".join(names[1 : hidden + 1])
    path = above + "".join(names[hidden + 1 :])
    kind, option, controller = ("cgroup2", "rw", "0:") if version == 2 else ("cgroup", "rw,memory", "4:memory")
    proc = folder / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text(f"7:pids:/elsewhere\n{controller}:{path or '/'}\n")
    (proc / "self/mountinfo").write_text(
        f"23 1 0:22 / /proc rw - proc proc rw\n30 24 0:27 {above or '/'} {mount} ro - {kind} {kind} {option}\n"
    )
    (proc / "meminfo").write_text("MemTotal: 4096 kB\nMemAvailable:    2048 kB\n")
    return proc


@given(
    st.lists(groups(), min_size=1, max_size=5).flatmap(
        lambda line: st.tuples(st.just(line), st.integers(0, len(line) - 1))
    ),
    st.sampled_from([1, 2]),
    st.booleans(),
)
def test_memory_room_is_the_least_of_all_groups_above(
    line_and_hidden: tuple[list[Group], int], version: int, is_namespaced: bool
) -> None:
    line, hidden = line_and_hidden
    with tempfile.TemporaryDirectory(prefix="aiperf-groups-") as folder:
        proc = host(Path(folder), line, hidden, version, is_namespaced)

        limits = [group.limit for group in line[hidden:] if group.limit is not None]
        rooms = [group.room for group in line[hidden:] if group.room is not None]
        assert limits_here(proc).memory_bytes == min(limits, default=None)
        assert memory_room_here(proc) == min(rooms, default=None)
        assert available_bytes(proc) == min([2048 * 1024, *rooms])


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("lacks", ["memory.current", "memory.usage_in_bytes"])
def test_a_limited_group_without_reported_use_leaves_nothing(tmp_path: Path, version: int, lacks: str) -> None:
    proc = host(tmp_path, [Group(None, 0, 0), Group(1 << 30, 0, 0)], 0, version, False)
    file = tmp_path / "mounted/g1" / lacks
    told = file.exists()
    file.unlink(missing_ok=True)

    assert memory_room_here(proc) == (0 if told else 1 << 30)


def test_a_group_that_is_not_in_sight_has_what_is_mounted_for_it(tmp_path: Path) -> None:
    """A process moved out of its container's namespace is shown as /../x. A longer name is not a subgroup."""
    proc = host(tmp_path, [Group(None, 0, 0), Group(900, 0, 0), Group(70, 0, 0)], 1, 2, False)
    Group(5, 0, 0).write_as_version_2(tmp_path)  # next to the mount, where no path may lead
    for told in ("/../g2", "/g1/..", "/g1/g2/../..", "/g12", "/g1g2", "/other"):
        (proc / "self/cgroup").write_text(f"0::{told}\n")
        assert memory_room_here(proc) == 900, told
    (proc / "self/cgroup").write_text("0::/g1/g2\n")
    assert memory_room_here(proc) == 70


def test_no_memory_is_assumed_if_the_kernel_reports_none(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) == 0
    proc = host(tmp_path, [Group(None, 0, 0)], 0, 2, False)
    assert available_bytes(proc) == 2048 * 1024
    (proc / "meminfo").write_text("MemTotal: 4096 kB\n")  # before Linux 3.14
    assert available_bytes(proc) == 0


@pytest.fixture
def half_a_gigabyte() -> Iterator[Path]:
    """A group without a limit, below a group with a limit of 512 MB."""
    size = str(512 * MB)
    with group_with("memory", {"memory.limit_in_bytes": size}, {"memory.max": size}) as limited:
        own = limited / "own"
        own.mkdir()
        try:
            yield own
        finally:
            own.rmdir()


LIVING = """
import os, sys, time
from pathlib import Path
from aiperf.system.control_groups import available_bytes

fresh = available_bytes()
print(fresh)
taken = bytearray(os.urandom(1 << 20) * 100)
print(available_bytes())
file = Path({file!r})
with file.open("wb") as written:
    for _ in range(100):
        written.write(taken[:1 << 20])
    os.fsync(written.fileno())
del taken
after = available_bytes()
for _ in range(100):  # Linux updates memory.stat of a group with a delay
    if abs(fresh - after) < 30 << 20:
        break
    time.sleep(0.1)
    after = available_bytes()
print(after)
"""


def test_a_real_group_counts_memory_and_not_written_files(half_a_gigabyte: Path, tmp_path: Path) -> None:
    program = LIVING.format(file=str(tmp_path / "file"))

    fresh, holding, after = map(int, inside(half_a_gigabyte, program).split())

    assert 400 * MB < fresh <= 512 * MB
    assert 95 * MB < fresh - holding < 115 * MB
    if storage({"file": tmp_path})[0].file_system != "tmpfs":  # files in tmpfs use memory
        assert abs(fresh - after) < 30 * MB


def test_nothing_else_in_the_product_reads_control_groups() -> None:
    packages = ("aiperf", "morphism", "searchers", "cluster")
    naming = {
        str(path.relative_to(TOP))
        for package in packages
        for path in (TOP / package).rglob("*.py")
        if "cgroup" in path.read_text("utf-8")
    }

    assert naming == {"aiperf/system/control_groups.py"}
