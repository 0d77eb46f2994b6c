"""The description tells what limits this process, without loading anything heavy."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import msgspec
import pytest

from aiperf.system.attach import Attached, attach, visible
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


def test_a_processor_without_a_name_has_none(tmp_path: Path) -> None:
    told = "processor\t: 0\nBogoMIPS\t: 50.00\n\nprocessor\t: 1\nmodel name\t: not the first\n"
    (tmp_path / "cpuinfo").write_text(told)

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
