"""NVML's numbers become names and units. Runs through the real nvidia-ml-py against a substitute driver built here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.system.log import Sample, Session, parse
from aiperf.system.recorder import Recording
from aiperf.system.sampler import Device, DeviceSample, Unavailable
from aiperf.system.samplers import nvml
from aiperf.system.samplers.nvml import hardware_xids
from aiperf.system.summary import summarise
from aiperf.system.warnings import telemetry_warnings

LOOK = """
import sys, msgspec
from aiperf.system.samplers.nvml import NvmlSampler
sampler = NvmlSampler()
looks = [sampler.sample() for _ in range(3)]
sys.stdout.buffer.write(msgspec.json.encode([sampler.devices(), *looks]))
sampler.close()
"""


def look(driver: Path, **environment: str) -> tuple[list[Device], list[list[DeviceSample]]]:
    process = subprocess.run(
        [sys.executable, "-c", LOOK],
        env=os.environ | {"LD_LIBRARY_PATH": str(driver)} | environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    devices, *looks = msgspec.json.decode(process.stdout, type=list[list[msgspec.Raw]])
    return (
        [msgspec.json.decode(device, type=Device) for device in devices],
        [[msgspec.json.decode(sample, type=DeviceSample) for sample in samples] for samples in looks],
    )


OLD_MODULE = """
import pynvml
del pynvml.NVML_ERROR_NOT_READY, pynvml.NVML_ERROR_DEPRECATED
del pynvml.nvmlDeviceGetCurrentClocksEventReasons, pynvml.NVMLLibraryMismatchError
name = pynvml.nvmlDeviceGetName
pynvml.nvmlDeviceGetName = lambda handle: name(handle).encode()
"""


NO_PROCESSES = """
def refuse(handle):
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
pynvml.nvmlDeviceGetComputeRunningProcesses = refuse
sampler = NvmlSampler()
found = sampler.computing([device.id for device in sampler.devices()])
assert len(found) == 2 and set(found.values()) == {None}, found
sampler.close()
"""


def test_a_pynvml_of_11_lacks_names_and_is_read(invented_driver: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", OLD_MODULE + LOOK + NO_PROCESSES],
        env=os.environ | {"LD_LIBRARY_PATH": str(invented_driver)},
        stdout=subprocess.PIPE,
        check=True,
    )
    devices, *_ = msgspec.json.decode(found.stdout)
    assert [device["model"] for device in devices] == ["NVIDIA A100-SXM4-80GB"] * 2


USABLE = """
import sys, msgspec
from pathlib import Path
from aiperf.config import configure
from aiperf.drive.preflight import check_here, node_checks
from aiperf.planning.worker_shape import this_machine
conf = configure(["dataset=digits"])
shape = this_machine(conf)
here = check_here(conf, Path(sys.argv[1]), is_full=False)
faults = [fault for line in node_checks([here], [here], conf.preflight) for fault in line.faults]
print(shape.accelerators, shape.memory_bytes >> 30, len([f for f in faults if f.startswith("accelerators")]))
"""


@pytest.mark.parametrize(
    ("listed", "accelerators", "gigabytes"),
    [
        ("0", 1, 80),
        ("2,3", 2, 80),
        ("MIG-1c", 1, 20),
        ("MIG-1c, MIG-2c", 1, 20),
        ("MIG-1c,3", 1, 20),
        ("3,MIG-1c", 1, 80),
        ("", 0, None),
    ],
)
def test_a_process_plans_with_the_accelerators_it_may_use(
    invented_driver: Path, tmp_path: Path, listed: str, accelerators: int, gigabytes: int | None
) -> None:
    """The node lists eight."""
    environment = {"LD_LIBRARY_PATH": str(invented_driver), "NVML_COUNT": "8", "CUDA_VISIBLE_DEVICES": listed}
    said = subprocess.run(
        [sys.executable, "-c", USABLE, str(tmp_path)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout

    count, memory, faults = map(int, said.split())
    assert (count, faults) == (accelerators, 0)
    assert gigabytes is None or memory == gigabytes


def test_each_known_throttle_bit_has_the_name_nvml_gives_it() -> None:
    named = {
        pynvml.nvmlClocksEventReasonGpuIdle: "gpu_idle",
        pynvml.nvmlClocksEventReasonApplicationsClocksSetting: "applications_clocks_setting",
        pynvml.nvmlClocksEventReasonSwPowerCap: "sw_power_cap",
        pynvml.nvmlClocksEventReasonHwSlowdown: "hw_slowdown",
        pynvml.nvmlClocksEventReasonSyncBoost: "sync_boost",
        pynvml.nvmlClocksEventReasonSwThermalSlowdown: "sw_thermal_slowdown",
        pynvml.nvmlClocksEventReasonHwThermalSlowdown: "hw_thermal_slowdown",
        pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "hw_power_brake_slowdown",
        pynvml.nvmlClocksEventReasonDisplayClockSetting: "display_clock_setting",
    }
    assert {bit: nvml.throttle_reasons(bit) for bit in named} == {bit: (name,) for bit, name in named.items()}


@given(st.integers(0, 2**64 - 1))
def test_no_throttle_bit_is_lost_even_an_unknown_one(mask: int) -> None:
    reasons = nvml.throttle_reasons(mask)

    assert len(set(reasons)) == len(reasons) == mask.bit_count()


CODES = {name: value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")}


@pytest.mark.parametrize("name", ["NVML_ERROR_NO_DATA", "NVML_ERROR_INVALID_ARGUMENT", "NVML_ERROR_FREQ_NOT_SUPPORTED"])
def test_a_figure_that_a_driver_refuses_is_not_measured(invented_driver: Path, name: str) -> None:
    _, (first, *_) = look(invented_driver, NVML_POWER_CODE=str(CODES[name]))

    assert first[0].power_watts is None
    assert first[0].utilisation == 0.93


def test_a_recorder_reads_its_workers_accelerators_only(invented_driver: Path, tmp_path: Path) -> None:
    """Here two workers of one accelerator each, and a third without any."""
    recorders = []
    for worker, visible in enumerate(("0", "1", "")):
        out, calls = tmp_path / f"{worker}.jsonl", tmp_path / f"{worker}.calls"
        recording = Recording(out=str(out), host="n1", worker=worker, interval_seconds=0.05)
        recorders.append(
            subprocess.Popen(
                [sys.executable, "-m", "aiperf.system.recorder", msgspec.json.encode(recording)],
                env=os.environ
                | {"LD_LIBRARY_PATH": str(invented_driver), "CUDA_VISIBLE_DEVICES": visible, "NVML_CALLS": str(calls)},
            )
        )
    try:
        for worker, recorder in enumerate(recorders):
            out = tmp_path / f"{worker}.jsonl"
            while not out.exists() or out.read_bytes().count(b"\n") < 5:
                assert recorder.poll() is None
                time.sleep(0.02)
    finally:
        for recorder in recorders:
            recorder.terminate()
            recorder.wait()

    asked = [(tmp_path / f"{worker}.calls") for worker in range(3)]

    assert set(asked[0].read_text()) == {"0"}
    assert set(asked[1].read_text()) == {"1"}
    assert not asked[2].exists()


def test_without_an_nvidia_driver_the_sampler_is_unavailable() -> None:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        with pytest.raises(Unavailable, match="NVML"):
            nvml.NvmlSampler()
    else:
        pynvml.nvmlShutdown()
        pytest.skip("this machine has an NVIDIA driver")


def test_the_figures_of_a_driver_come_in_si_units_and_with_names(invented_driver: Path) -> None:
    devices, (first, *_) = look(invented_driver, NVML_THROTTLE="0x44")

    assert devices[0] == Device(
        id="GPU-00000000-1111-2222-3333-444444444444",
        kind="accelerator",
        vendor="NVIDIA",
        model="NVIDIA A100-SXM4-80GB",
        variant="SXM",
        memory_bytes=80 << 30,
        driver="570.86.15",
        pci="00000000:07:00.0",
        power_cap_watts=400.0,
    )
    assert first[0] == DeviceSample(
        device=devices[0].id,
        utilisation=0.93,
        memory_used_bytes=30 << 30,
        power_watts=312.5,
        energy_joules=5000.0,
        clock_mhz=1410.0,
        memory_clock_mhz=1593.0,
        temperature_celsius=64.0,
        throttle=("sw_power_cap", "hw_thermal_slowdown"),
        ecc_corrected=12,
        ecc_uncorrected=0,
    )


def test_unsupported_values_are_none_and_never_zero(invented_driver: Path) -> None:
    _, (first, *_) = look(invented_driver, NVML_OLD="1")

    assert first[0].energy_joules is None
    assert first[1].ecc_corrected is None and first[1].ecc_uncorrected is None
    assert first[0].throttle == ()  # asked by its old name


def test_a_lost_accelerator_does_not_stop_the_others(invented_driver: Path) -> None:
    devices, looks = look(invented_driver, NVML_LOST="1")

    assert [samples[1].gone for samples in looks] == [None, "GPU is lost", "GPU is lost"]
    assert looks[2][1] == DeviceSample(device=devices[1].id, gone="GPU is lost")
    assert all(samples[0].utilisation == 0.93 for samples in looks)


def test_a_recorder_records_its_workers_accelerators(invented_driver: Path, tmp_path: Path) -> None:
    out = tmp_path / "0.jsonl"
    recording = Recording(out=str(out), host="n1", worker=0, interval_seconds=0.05, accelerators=2)
    process = subprocess.Popen(
        [sys.executable, "-m", "aiperf.system.recorder", msgspec.json.encode(recording)],
        env=os.environ
        | {"LD_LIBRARY_PATH": str(invented_driver), "CUDA_VISIBLE_DEVICES": "1", "NVML_THROTTLE": "0x40"},
    )
    try:
        while not out.exists() or out.read_bytes().count(b"\n") < 9:
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        process.terminate()
        process.wait()

    records = list(parse(out.read_bytes().splitlines(keepends=True), str(out)))

    assert isinstance(records[0], Session)
    assert [device.index for device in records[0].devices if device.kind == "accelerator"] == [1]
    assert {record.device.id for record in records if isinstance(record, Sample)} == {
        "host",
        "GPU-00000001-1111-2222-3333-444444444444",
    }
    last = records[-1]
    assert isinstance(last, Sample)
    texts = [warning.text for warning in telemetry_warnings(summarise(records, (0.0, last.look.at)))]
    assert any("1 of 2 accelerators of worker 0 on 'n1' missing" in text for text in texts)
    assert any("throttled (hw_thermal_slowdown)" in text and "100 % of the time" in text for text in texts)


HEALTH = """
import sys, msgspec
from aiperf.system.samplers.nvml import NvmlSampler
sampler = NvmlSampler()
sys.stdout.buffer.write(msgspec.json.encode(sampler.health([device.id for device in sampler.devices()][:1])))
sampler.close()
"""


@pytest.mark.parametrize(("environment", "errors"), [({}, 0), ({"NVML_SICK": "1"}, 3)])
def test_health_reports_memory_errors_of_wanted_devices(
    invented_driver: Path, environment: dict[str, str], errors: int
) -> None:
    told = subprocess.run(
        [sys.executable, "-c", HEALTH],
        env=os.environ | {"LD_LIBRARY_PATH": str(invented_driver)} | environment,
        stdout=subprocess.PIPE,
        check=True,
    )

    ((_, health),) = msgspec.json.decode(told.stdout).items()
    assert health["ecc_uncorrected_since_boot"] == errors
    assert health["processes"] is None, "this driver does not tell"


def test_each_hardware_xid_is_reported_once_by_device() -> None:
    lines = [
        "4,1,2,-;NVRM: Xid (PCI:0000:3B:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "4,2,3,-;NVRM: Xid (PCI:0000:3B:00): 79, again",
        "4,3,4,-;NVRM: Xid (PCI:0000:AF:00): 31, pid=4711, MMU Fault",
        "4,4,5,-;NVRM: Xid (PCI:0000:AF:00.0): 48, DBE",
        "6,5,6,-;eth0: link up",
    ]

    assert hardware_xids(lines) == {"0:3b:00": [79], "0:af:00": [48]}


DESCRIBE = """
import sys, msgspec
from aiperf.system.node_parts import accelerators
sys.stdout.buffer.write(msgspec.json.encode(accelerators()))
"""


def test_a_description_has_values_or_reasons(invented_driver: Path) -> None:
    told = msgspec.json.decode(
        subprocess.run(
            [sys.executable, "-c", DESCRIBE],
            env=os.environ | {"LD_LIBRARY_PATH": str(invented_driver)},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
    )

    first, second = told["nvidia"]["devices"]
    assert (told["nvidia"]["cuda"], told["nvidia"]["topology"]) == ("12.4", {"0-1": "one NUMA node"})
    assert (first["vbios"], first["nvlinks"]) == ("92.00.45.00.06", "3 up")
    assert second["vbios"].startswith("not readable: ") and first["pcie"].startswith("not readable: ")
    assert [each["driver"] for each in told["devices"]] == [told["devices"][0]["driver"]] * 2
    assert "GPU-" not in msgspec.json.encode(told).decode()  # serial numbers are no part of a kind of node
