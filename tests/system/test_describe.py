"""The description reports the limits of this process without loading large packages."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from aiperf.errors import BadConfiguration
from aiperf.system.describe import HostDescription, describe
from aiperf.system.host import cpu_model, near_processors
from aiperf.system.node_parts import container
from aiperf.system.sampler import Device, Sampler, Unavailable
from aiperf.system.samplers import OpenSamplers, attach, require_known, visible


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

    assert msgspec.json.decode(msgspec.json.encode(system), type=HostDescription) == system
    assert msgspec.convert(msgspec.to_builtins(system), HostDescription) == system


def test_a_processor_without_a_name_has_none(tmp_path: Path) -> None:
    told = "processor\t: 0\nBogoMIPS\t: 50.00\n\nprocessor\t: 1\nmodel name\t: not the first\n"
    (tmp_path / "cpuinfo").write_text(told)

    assert cpu_model(tmp_path) is None


def test_a_container_is_recognised_by_its_marks(tmp_path: Path) -> None:
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


AMD = tuple(Device(id=f"amd-{index}", kind="accelerator", index=index, vendor="AMD") for index in range(8))


@pytest.mark.parametrize(
    ("environment", "indices"),
    [
        ({"ROCR_VISIBLE_DEVICES": "4,5,6"}, [4, 5, 6]),
        ({"ROCR_VISIBLE_DEVICES": "4,5,6", "HIP_VISIBLE_DEVICES": "2,0"}, [6, 4]),
        ({"HIP_VISIBLE_DEVICES": "3"}, [3]),
    ],
)
def test_hip_counts_within_the_devices_of_rocr(environment: dict[str, str], indices: list[int]) -> None:
    assert [device.index for device in visible(AMD, environment)] == indices


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"CUDA_VISIBLE_DEVICES": "abc"}, "'abc' names 'abc', which is none"),
        ({"CUDA_VISIBLE_DEVICES": "1,7,2"}, "4 accelerators or the beginning of one's id, once, but '1,7,2' names '7'"),
        ({"CUDA_VISIBLE_DEVICES": "0,0"}, "names '0', again"),
        ({"CUDA_VISIBLE_DEVICES": "GPU"}, "names 'GPU'"),  # fits several
        ({"CUDA_VISIBLE_DEVICES": "0,"}, "names ''"),
        ({"ROCR_VISIBLE_DEVICES": "8"}, "ROCR_VISIBLE_DEVICES is a number below the host's 8 accelerators"),
        (
            {"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "4"},
            "HIP_VISIBLE_DEVICES is a number below the host's 2",
        ),
    ],
)
def test_a_selection_of_unknown_accelerators_is_refused(environment: dict[str, str], named: str) -> None:
    with pytest.raises(BadConfiguration, match=re.escape(named)):
        require_known(FOUR + AMD, environment)


@pytest.mark.parametrize("listed", ["", "-1", "NoDevFiles", " 0 , 3", "1,-1,9", "GPU-b", "MIG-1234"])
def test_what_cuda_takes_is_no_mistake(listed: str) -> None:
    require_known(FOUR, {"CUDA_VISIBLE_DEVICES": listed})
    require_known((), {"CUDA_VISIBLE_DEVICES": "abc"})


def test_ray_is_imported_under_slurm_on_amd() -> None:
    """Slurm sets ROCR_VISIBLE_DEVICES alone, with which Ray's import would raise."""
    environment = {name: value for name, value in os.environ.items() if name != "HIP_VISIBLE_DEVICES"}
    code = "import aiperf.drive.ray, os; import ray; print(os.environ['HIP_VISIBLE_DEVICES'])"
    said = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"ROCR_VISIBLE_DEVICES": "4,5"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )

    assert said.stdout.strip() == "0,1"


def test_a_sampler_that_cannot_be_opened_leaves_its_reason() -> None:
    def none_here() -> Sampler:
        raise Unavailable("no such driver")

    assert attach({"invented": none_here}) == OpenSamplers({}, {"invented": "no such driver"})


@pytest.mark.parametrize(
    ("text", "least", "near"),
    [("0-1,4\n", 2, {1, 4}), ("0-1,4\n", 3, {1, 2, 3, 4}), ("\n", 1, {1, 2, 3, 4}), (None, 1, {1, 2, 3, 4})],
)
def test_a_rank_keeps_to_processors_near_its_device(
    text: str | None, least: int, near: set[int], tmp_path: Path
) -> None:
    if text is not None:
        folder = tmp_path / "bus/pci/devices/0000:3b:00.0"
        folder.mkdir(parents=True)
        (folder / "local_cpulist").write_text(text)

    assert near_processors("0000:3b:00.0", (1, 2, 3, 4), least, tmp_path) == near
