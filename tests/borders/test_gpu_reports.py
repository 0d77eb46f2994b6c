"""Reports about accelerators: drivers that refuse, mismatch or know less, as whole processes against a substitute driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.journal.events import WorkerJoined
from aiperf.measure.probe import ProbeReading
from aiperf.preflight import PreflightConf
from aiperf.preflight.node_faults import judge
from aiperf.report.nodes import unusable_accelerators
from aiperf.system.samplers.amd import AmdSampler
from aiperf.system.samplers.nvml import HARDWARE_XIDS, hardware_xids
from tests.builders.node_readings import accelerators, node
from tests.builders.report_journal import MACHINE

CODES = {name: value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")}
NO_PERMISSION, MISMATCH, NOT_SUPPORTED, UNPOWERED = (
    str(CODES[f"NVML_ERROR_{name}"])
    for name in ("NO_PERMISSION", "LIB_RM_VERSION_MISMATCH", "NOT_SUPPORTED", "INSUFFICIENT_POWER")
)


def plan(driver: Path, folder: Path, **environment: str) -> str:
    """Return the plan or the refusal that a dry run prints on a host with the substitute driver."""
    return subprocess.run(
        [sys.executable, "-m", "aiperf", "dry_run=true", f"runs={folder}"],
        env={**os.environ, "LD_LIBRARY_PATH": str(driver), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ).stdout


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (
            {"NVML_COUNT": "4", "NVML_HANDLES": "013", "NVML_HANDLE": NO_PERMISSION, "CUDA_VISIBLE_DEVICES": "0"},
            "planned for  NVIDIA A100-SXM4-80GB, 85.9 GB a rank",
        ),
        (
            {"NVML_COUNT": "1", "NVML_HANDLES": "0", "NVML_HANDLE": UNPOWERED},
            "(accelerator 0: its power cables are not attached)",
        ),
        ({"NVML_COUNT": "4", "CUDA_VISIBLE_DEVICES": "0,4"}, "but '0,4' names '4', which is none of them: correct it"),
        ({"NVML_INIT": MISMATCH}, "NVIDIA's driver is there, but its library cannot use it ("),
        ({"NVML_COUNT": "1", "NVML_MEMORY": NOT_SUPPORTED}, "memory shared with the host"),
        (
            {"NVML_COUNT": "1", "NVML_MEMORY": NO_PERMISSION},
            "(NVIDIA A100-SXM4-80GB: Insufficient Permissions). Set it: budget.",
        ),
    ],
)
def test_a_plan_says_what_the_driver_says(
    invented_driver: Path, tmp_path: Path, environment: dict[str, str], expected: str
) -> None:
    assert expected in plan(invented_driver, tmp_path, **environment)


def test_no_visible_device_permits_a_broken_driver(invented_driver: Path, tmp_path: Path) -> None:
    said = plan(invented_driver, tmp_path, NVML_INIT=MISMATCH, CUDA_VISIBLE_DEVICES="")

    assert "no accelerators" in said and "NVIDIA" not in said


EVERY_CODE = """
import sys, pynvml
from aiperf.system.sampler import Unavailable
from aiperf.system.samplers import attach, nvml
from aiperf.system.node_parts import accelerators
class Failing:
    def __call__(self, *arguments):
        raise pynvml.NVMLError(self.code)
failing = Failing()
for name in [name for name in vars(pynvml) if name.startswith(sys.argv[1]) and name != "nvmlShutdown"]:
    setattr(pynvml, name, failing)
for failing.code in [value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")]:
    opened = attach({"nvml": nvml.NvmlSampler})
    for sampler in opened.samplers.values():
        devices = [device.id for device in sampler.devices()]
        samples = sampler.sample()
        assert len(samples) == len(devices)
        assert failing.code != pynvml.NVML_ERROR_NO_PERMISSION or sys.argv[1] == "nvmlDeviceGetU" or not devices
        assert all(sample.gone for sample in samples) or sys.argv[1] != "nvmlDeviceGetHandle"
        sampler.health(devices), sampler.computing(devices)
    assert opened.samplers or opened.absent["nvml"]
    assert accelerators()
print("done")
"""


@pytest.mark.parametrize("calls", ["nvmlInit", "nvmlSystemGet", "nvmlDeviceGetHandle", "nvmlDeviceGetU"])
def test_no_code_of_nvml_is_a_traceback(invented_driver: Path, calls: str) -> None:
    said = subprocess.run(
        [sys.executable, "-c", EVERY_CODE, calls],
        env=os.environ | {"LD_LIBRARY_PATH": str(invented_driver)},
        capture_output=True,
        text=True,
    )

    assert (said.stdout, said.returncode) == ("done\n", 0), said.stderr


def test_an_unusable_driver_is_a_fault_of_preflight_and_a_warning() -> None:
    fault = "NVIDIA's driver is there, but …"
    reading: ProbeReading = accelerators(0, 0)
    reading.facts["driver_faults"] = [fault]
    judged = node("n1", accelerators=reading)
    worker = WorkerJoined(
        at=0.0,
        worker=0,
        host="n7",
        device="cpu",
        device_memory_bytes=1 << 30,
        ranks=1,
        collective="gloo",
        machine=MACHINE | {"driver_faults": [fault]},
    )

    assert f"accelerators: {fault}" in judge([judged], PreflightConf())[judged.node].faults
    (warning,) = unusable_accelerators([worker])
    assert (warning.severity, warning.text) == ("critical", f"no accelerator of 'n7' was used: {fault}")


addresses = st.tuples(st.integers(0, 0xFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F))


@given(st.lists(addresses, min_size=2, max_size=8, unique=True), st.sampled_from(sorted(HARDWARE_XIDS)))
def test_an_xid_belongs_to_one_pci_address(devices: list[tuple[int, int, int]], xid: int) -> None:
    (domain, bus, device), *_ = devices
    line = f"NVRM: Xid (PCI:{domain:04x}:{bus:02x}:{device:02x}): {xid}, pid=77, a text"

    assert hardware_xids([line]) == {f"{domain:x}:{bus:02x}:{device:02x}": [xid]}


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["NVRM: GPU 0008:01:00.0: GPU has fallen off the bus."], {"8:01:00": [79]}),
        (
            [
                "NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:2330) installed in this system has",
                "NVRM: fallen off the bus and is not responding to commands.",
            ],
            {"0:b3:00": [79]},
        ),
        (["NVRM: fallen off the bus and is not responding to commands."], {}),
        (["NVRM: GPU at PCI:0000:b3:00: GPU-1", "eth0: has fallen off the bus"], {}),
        (
            [
                "NVRM: Xid (PCI:0000:b3:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
            ],
            {"0:b3:00": [154]},
        ),
        (
            [
                "NVRM: Xid (PCI:0000:b3:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
            ],
            {},
        ),
        (["NVRM: Xid (0000:b3:00): 48, an old driver's form"], {"0:b3:00": [48]}),
        (["NVRM: Xid (PCI:0000:b3:00): 13, of a program", "NVRM: Xid (PCI:0000:b3:00): 31, of a program"], {}),
    ],
)
def test_the_kernel_log_names_faulty_devices(lines: list[str], found: dict[str, list[int]]) -> None:
    assert hardware_xids(lines) == found


class Amdsmi:
    """Substitute for amdsmi that gives one answer to every question about a device, or raises it."""

    class AmdSmiException(Exception):
        def get_error_code(self) -> int:
            return int(self.args[0])

    class AmdSmiInitFlags:
        INIT_AMD_GPUS = 2

    class AmdSmiTemperatureType:
        HOTSPOT = 1

    class AmdSmiTemperatureMetric:
        CURRENT = 0

    class AmdSmiClkType:
        GFX, MEM = 0, 4

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def __getattr__(self, name: str) -> object:
        if name == "amdsmi_init":
            return lambda flags: None
        if name == "amdsmi_get_processor_handles":
            return lambda: [0]

        def call(*arguments: object) -> object:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        return call


@pytest.mark.parametrize(
    ("answer", "is_lost"),
    [
        ({"gfx_activity": "N/A", "vram_used": "N/A", "current_socket_power": "N/A"}, False),
        ("N/A", False),
        ({}, False),
        (Amdsmi.AmdSmiException(2), False),  # not supported
        (Amdsmi.AmdSmiException(31), True),  # not found
    ],
)
def test_a_partition_without_values_is_present(answer: object, is_lost: bool) -> None:
    (sample,) = AmdSampler(Amdsmi(answer)).sample()

    assert (sample.gone is not None, sample.utilisation, sample.power_watts) == (is_lost, None, None)
