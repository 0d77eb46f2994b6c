"""Sampler of NVIDIA accelerators by nvidia-ml-py (`pynvml`), which is imported when the sampler is opened."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from aiperf.system.peaks import board_variant
from aiperf.system.sampler import Device, DeviceSample, Unavailable, VendorSampler

T = TypeVar("T")

# nvml.h, nvmlClocksEventReasons. Not read from pynvml, which drops and renames some between releases, while a driver may set
# any of them.
THROTTLE_BITS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}

# Codes of nvmlReturn_t, by the names of nvidia-ml-py, that mean a lost device. Any other code means that this device, driver or
# account cannot give the value.
LOST = {
    "NVML_ERROR_INSUFFICIENT_POWER": "its power cables are not attached",
    "NVML_ERROR_NOT_FOUND": "not found",
    "NVML_ERROR_IRQ_ISSUE": "interrupt problem",
    "NVML_ERROR_GPU_IS_LOST": "GPU is lost",
    "NVML_ERROR_RESET_REQUIRED": "GPU requires reset",
    "NVML_ERROR_GPU_NOT_FOUND": "GPU not found",
}
NO_DRIVER = ("NVML_ERROR_LIBRARY_NOT_FOUND", "NVML_ERROR_DRIVER_NOT_LOADED")
"""Codes of a host without a driver. They are no fault unless the kernel module or device files are there."""
DRIVER_SIGNS = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/nvidia0")
FALLEN = 79
"""Xid of a device that has fallen off the bus. The driver may report it without a line of the form 'Xid'."""
HARDWARE_XIDS = frozenset(
    {46, 48, 62, 64, 74, FALLEN, 95, 110, 119, 120, 136, 140, 142, 143, *range(144, 152), 154, 155, 156, 158}
)
"""Xid errors of the device, its link or its firmware: those of NVIDIA's Xid catalog that need a reset, a reboot or a repair
(docs.nvidia.com/deploy/xid-errors, as of November 2026). Halted engines, ECC, row remapping, NVLink (74, 144 to 150), fallen
off the bus, GSP, recovery action (154). Most other Xids are errors of a program and end with it."""
_ADDRESS = r"(?:PCI:)?([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}:[0-9a-fA-F]{2})"
_XID_LINE = re.compile(rf"NVRM: Xid \({_ADDRESS}(?:\.\d)?\): (\d+)")
_DEVICE_LINE = re.compile(rf"NVRM: .*?\b{_ADDRESS}\b")
_RECOVERED = "to 0x0 (None)"
"""End of an Xid 154 that reports a device without any needed recovery action."""


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """Return the names of the bits of nvmlClocksEventReasons, lowest first. An unknown bit keeps its number ('bit_0x800')."""
    bits = (1 << position for position in range(mask.bit_length()))
    return tuple(THROTTLE_BITS.get(bit, f"bit_{bit:#x}") for bit in bits if mask & bit)


def _address(domain: str, bus: str) -> str:
    """Return a PCI address without leading zeros of the domain: '0:3b:00'. NVML writes 8 digits, the kernel's log 4."""
    return f"{int(domain, 16):x}:{bus.lower()}"


def _bus(pci: str) -> str:
    domain, bus = pci.split(":", 1)
    return _address(domain, bus.partition(".")[0])


def _text(answer: str | bytes) -> str:
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def _driver_fault(reason: str) -> str:
    return (
        f"NVIDIA's driver is there, but its library cannot use it ({reason}). Reboot, or install driver and library of equal "
        "versions, or set CUDA_VISIBLE_DEVICES= to run on processors"
    )


@contextmanager
def opened_nvml() -> Iterator[Any]:
    import pynvml

    pynvml.nvmlInit()
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def slice_bytes(uuid: str) -> int | None:
    import pynvml

    try:
        with opened_nvml() as nvml:
            return int(nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByUUID(uuid.encode())).total)
    except pynvml.NVMLError:
        return None


class NvmlSampler(VendorSampler):
    """Sampler of all NVIDIA accelerators of this host that NVML reports.

    Without a running persistence daemon, opening takes seconds per accelerator, because the driver initializes each.
    """

    def __init__(self) -> None:
        try:
            import pynvml
        except ImportError as absent:
            raise Unavailable(f"nvidia-ml-py is not installed: {absent}") from absent
        self._nvml: Any = pynvml  # ctypes without type annotations
        # old releases of the module lack some names
        self._lost = {getattr(pynvml, name): words for name, words in LOST.items() if hasattr(pynvml, name)}
        try:
            pynvml.nvmlInit()
            driver = _text(pynvml.nvmlSystemGetDriverVersion())
            count = int(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError as error:
            is_missing = error.value in {getattr(pynvml, name) for name in NO_DRIVER}
            is_fault = not (is_missing and not any(Path(sign).exists() for sign in DRIVER_SIGNS))
            raise Unavailable(str(error), fault=_driver_fault(str(error)) if is_fault else None) from error
        self._handles = []
        self._gone: dict[str, str] = {}
        for index in range(count):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            except pynvml.NVMLError as error:
                if error.value == pynvml.NVML_ERROR_NO_PERMISSION:  # of another job, by a device control group
                    continue
                # An accelerator that has fallen off the bus keeps its index. It is listed as lost, not skipped.
                reason = self._lost.get(error.value, str(error))
                lost = Device(
                    id=f"nvidia-{index}",
                    kind="accelerator",
                    index=index,
                    vendor="NVIDIA",
                    driver=driver,
                    memory_why_not=reason,
                )
                self._handles.append((None, lost))
                self._gone[lost.id] = reason
            else:
                self._handles.append((handle, self._describe(handle, index, driver)))

    def health(self, wanted: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return health indicators by name for each device, by identifier. None for an indicator that cannot be read."""
        nvml, log = self._nvml, kernel_log()
        xids = None if log is None else hardware_xids(log)
        by_device: dict[str, dict[str, Any]] = {}
        for handle, device in self._handles:
            if handle is None or device.id not in wanted:
                continue
            by_device[device.id] = {
                "ecc_uncorrected_since_boot": self._ecc(
                    handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
                ),
                "xids": None if xids is None or device.pci is None else xids.get(_bus(device.pci), []),
                "processes": self._value(partial(self._computing, handle)),
            }
        return by_device

    def computing(self, wanted: Collection[str]) -> dict[str, list[int] | None]:
        return {
            device.id: self._ask(partial(self._computing, handle))[0]
            for handle, device in self._handles
            if handle is not None and device.id in wanted
        }

    def _computing(self, handle: Any) -> list[int] | None:
        try:
            return [int(process.pid) for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)]
        except getattr(self._nvml, "NVMLLibraryMismatchError", ()):  # driver older than pynvml: not an NVMLError
            return None

    def close(self) -> None:
        self._nvml.nvmlShutdown()

    def _ask(self, call: Callable[[], T]) -> tuple[T | None, str | None]:
        try:
            return call(), None
        except self._nvml.NVMLError as error:
            return None, self._lost.get(error.value)

    def _value(self, call: Callable[[], T]) -> T | None:
        return self._ask(call)[0]

    def _describe(self, handle: Any, index: int, driver: str) -> Device:
        nvml = self._nvml
        model = self._value(lambda: _text(nvml.nvmlDeviceGetName(handle)))
        memory, why_not, is_shared = None, None, False
        try:
            memory = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
        except nvml.NVMLError as error:
            why_not, is_shared = str(error), error.value == nvml.NVML_ERROR_NOT_SUPPORTED
        cap = self._value(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
        pci = self._value(lambda: nvml.nvmlDeviceGetPciInfo(handle))
        return Device(
            id=self._value(lambda: _text(nvml.nvmlDeviceGetUUID(handle))) or f"nvidia-{index}",
            kind="accelerator",
            index=index,
            vendor="NVIDIA",
            model=model,
            variant=None if model is None else board_variant(model),
            memory_bytes=memory,
            memory_why_not=why_not,
            is_memory_shared=is_shared,
            driver=driver,
            pci=None if pci is None else _text(pci.busId),
            power_cap_watts=None if cap is None else cap / 1000,  # milliwatts
        )

    def _look(self, handle: Any, device: Device) -> DeviceSample:
        nvml = self._nvml
        if handle is None:
            return DeviceSample(device=device.id, gone=self._gone[device.id])
        use, lost = self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        temperature, too_lost = self._ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        if lost or too_lost:
            return DeviceSample(device=device.id, gone=lost or too_lost)
        memory = self._value(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        power = self._value(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        energy = self._value(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        # Renamed in driver 535: older drivers do not know the new name, and newer ones may drop the old one.
        event_reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        reasons = None if event_reasons is None else self._value(lambda: event_reasons(handle))
        if reasons is None:
            reasons = self._value(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return DeviceSample(
            device=device.id,
            utilisation=None if use is None else use.gpu / 100,
            memory_used_bytes=None if memory is None else int(memory.used),
            power_watts=None if power is None else power / 1000,  # milliwatts
            energy_joules=None if energy is None else energy / 1000,  # millijoules
            clock_mhz=self._value(lambda: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))),
            memory_clock_mhz=self._value(lambda: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM))),
            temperature_celsius=None if temperature is None else float(temperature),
            throttle=None if reasons is None else throttle_reasons(int(reasons)),
            # the aggregate counter survives a reset of the device or a reload of the driver during a run
            ecc_corrected=self._ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_AGGREGATE_ECC),
            ecc_uncorrected=self._ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_AGGREGATE_ECC),
        )

    def _ecc(self, handle: Any, error_type: int, counter: int) -> int | None:
        return self._value(lambda: int(self._nvml.nvmlDeviceGetTotalEccErrors(handle, error_type, counter)))


def hardware_xids(lines: Iterable[str]) -> dict[str, list[int]]:
    """Return NVIDIA's error codes (Xids) that mean faulty hardware, each once, by PCI domain, bus and device.

    >>> hardware_xids(["NVRM: Xid (PCI:0008:3B:00): 79, pid=7, …", "NVRM: Xid (PCI:0008:3B:00): 31, …"])
    {'8:3b:00': [79]}
    """
    xids: dict[str, list[int]] = {}
    named: re.Match[str] | None = None
    for line in lines:
        device = _DEVICE_LINE.search(line)
        if (match := _XID_LINE.search(line)) is not None:
            number = None if _RECOVERED in line else int(match[3])
        else:  # this message may have no Xid, and name the device in the line before
            match = device or named
            number = FALLEN if "NVRM: " in line and "fallen off the bus" in line else None
        named = device
        if match is not None and number is not None and number in HARDWARE_XIDS:
            of_device = xids.setdefault(_address(match[1], match[2]), [])
            if number not in of_device:
                of_device.append(number)
    return xids


def kernel_log() -> list[str] | None:
    """Return the lines of the kernel log since boot. None if it is not readable, as in most containers."""
    try:
        descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    lines: list[str] = []
    try:
        while True:
            try:
                line = os.read(descriptor, 8192)
            except OSError as error:
                if error.errno == errno.EPIPE:  # overwritten meanwhile: the next read continues after it
                    continue
                return lines if error.errno == errno.EAGAIN else None
            if not line:
                return lines
            lines.append(line.decode(errors="replace"))
    finally:
        os.close(descriptor)
