"""The description tells what limits this process, without loading anything heavy."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import msgspec
import pytest

from aiperf.system.attach import Attached, attach, visible
from aiperf.system.control_groups import Limits, control_group_limits
from aiperf.system.describe import System, container, describe
from aiperf.system.processor import cpu_model
from aiperf.system.sampler import Device, Sampler, Unavailable


def test_this_host_is_described() -> None:
    system = describe()

    assert system.processors == os.cpu_count()
    assert 1 <= system.usable_processors <= len(os.sched_getaffinity(0))
    assert 0 < system.usable_memory_bytes <= system.memory_bytes
    assert system.python == platform.python_version()
    assert system.versions["msgspec"] and "torch" in system.versions
    assert system.accelerators or {"nvml", "amdsmi"} <= set(system.not_sampled)


def test_a_description_survives_json() -> None:
    system = describe()

    assert msgspec.json.decode(msgspec.json.encode(system), type=System) == system
    assert msgspec.convert(msgspec.to_builtins(system), System) == system


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def test_the_tightest_limit_of_a_version_2_group_and_those_above_holds(tmp_path: Path) -> None:
    write(tmp_path / "slurm", cpu__max="max 100000", memory__max="8589934592")
    write(tmp_path / "slurm/job", cpu__max="250000 100000", memory__max="max")
    mounts = f"30 24 0:27 / {tmp_path} rw,nosuid - cgroup2 cgroup2 rw"

    assert control_group_limits("0::/slurm/job\n", mounts) == Limits(processors=2.5, memory_bytes=8 << 30)


def test_a_container_finds_its_own_group_at_the_root_of_the_mount(tmp_path: Path) -> None:
    write(tmp_path, cpu__max="400000 100000", memory__max="1073741824")
    inside = f"30 24 0:27 / {tmp_path} ro - cgroup2 cgroup ro"
    bound = f"30 24 0:27 /docker/abc {tmp_path} ro - cgroup2 cgroup ro"

    assert control_group_limits("0::/\n", inside) == Limits(processors=4.0, memory_bytes=1 << 30)
    assert control_group_limits("0::/docker/abc\n", bound) == Limits(processors=4.0, memory_bytes=1 << 30)


def test_the_limits_of_version_1_groups_hold_too(tmp_path: Path) -> None:
    write(tmp_path / "cpu/a", cpu__cfs_quota_us="150000", cpu__cfs_period_us="100000")
    write(tmp_path / "memory/b", memory__limit_in_bytes="2147483648")
    mounts = (
        f"31 24 0:28 / {tmp_path}/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        f"32 24 0:29 / {tmp_path}/memory rw - cgroup cgroup rw,memory"
    )

    assert control_group_limits("5:cpu,cpuacct:/a\n4:memory:/b\n", mounts) == Limits(
        processors=1.5, memory_bytes=2 << 30
    )


def test_no_limit_is_none_and_not_a_large_number(tmp_path: Path) -> None:
    write(tmp_path / "cpu", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    write(tmp_path / "memory", memory__limit_in_bytes="9223372036854771712")
    mounts = (
        f"31 24 0:28 / {tmp_path}/cpu rw - cgroup cgroup rw,cpu\n"
        f"32 24 0:29 / {tmp_path}/memory rw - cgroup cgroup rw,memory"
    )

    assert control_group_limits("5:cpu:/\n4:memory:/\n", mounts) == Limits()


def test_a_processor_without_a_name_has_none(tmp_path: Path) -> None:
    write(tmp_path, cpuinfo="processor\t: 0\nBogoMIPS\t: 50.00\n\nprocessor\t: 1\nmodel name\t: not the first\n")

    assert cpu_model(tmp_path) is None


def test_a_container_is_told_by_its_marks(tmp_path: Path) -> None:
    assert container({}, tmp_path) is None
    assert container({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path) == "kubernetes"
    (tmp_path / ".dockerenv").touch()
    assert container({}, tmp_path) == "docker"


# --- which accelerators a process may use

FOUR = tuple(
    Device(id=f"GPU-{letter * 4}", kind="accelerator", index=index, vendor="NVIDIA")
    for index, letter in enumerate("abcd")
)


@pytest.mark.parametrize(
    ("listed", "indices"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("-1", []),
        ("2,0", [2, 0]),
        ("GPU-b,GPU-dddd", [1, 3]),
        ("1,7,2", [1]),  # as in CUDA: what follows a wrong entry is not seen
        ("0,0", [0]),
        ("MIG-1234", []),
    ],
)
def test_visible_accelerators_are_those_that_cuda_would_show(listed: str | None, indices: list[int]) -> None:
    environment = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}

    assert [device.index for device in visible(FOUR, environment)] == indices


def test_a_sampler_that_cannot_be_opened_leaves_its_reason() -> None:
    def none_here() -> Sampler:
        raise Unavailable("no such driver")

    assert attach({"invented": none_here}) == Attached({}, {"invented": "no such driver"})
