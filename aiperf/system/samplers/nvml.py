"""Sampler of NVIDIA accelerators by nvidia-ml-py (`pynvml`), which is imported when the sampler is opened.

Only this module translates bits and codes of NVML to names.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from aiperf.system.peaks import board_variant
from aiperf.system.sampler import Device, DeviceSample, Unavailable

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

# Codes of nvmlReturn_t by the names of nvidia-ml-py. The first set means that this device, driver or account cannot give the
# value. The second means that the device is lost. Any other code is a programming error and is raised.
NOT_GIVEN = (
    "NVML_ERROR_NOT_SUPPORTED",
    "NVML_ERROR_NO_PERMISSION",
    "NVML_ERROR_TIMEOUT",
    "NVML_ERROR_FUNCTION_NOT_FOUND",
    "NVML_ERROR_CORRUPTED_INFOROM",
    "NVML_ERROR_IN_USE",
    "NVML_ERROR_MEMORY",
    "NVML_ERROR_NO_DATA",
    "NVML_ERROR_VGPU_ECC_NOT_SUPPORTED",
    "NVML_ERROR_INSUFFICIENT_RESOURCES",
    "NVML_ERROR_ARGUMENT_VERSION_MISMATCH",
    "NVML_ERROR_DEPRECATED",
    "NVML_ERROR_NOT_READY",
    "NVML_ERROR_INVALID_STATE",
    "NVML_ERROR_UNKNOWN",
)
LOST = {
    "NVML_ERROR_NOT_FOUND": "not found",
    "NVML_ERROR_IRQ_ISSUE": "interrupt problem",
    "NVML_ERROR_GPU_IS_LOST": "GPU is lost",
    "NVML_ERROR_RESET_REQUIRED": "GPU requires reset",
    "NVML_ERROR_GPU_NOT_FOUND": "GPU not found",
}
HARDWARE_XIDS = frozenset({48, 62, 64, 74, 79, 95, 119, 120, 140})
"""Xid errors of the device, its link or its firmware (docs.nvidia.com/deploy/xid-errors). Double-bit ECC, internal
microcontroller halt, row remapping failed, NVLink, fallen off the bus, uncontained ECC, GSP. Most other Xids are errors of a
program and end with it."""
_XID_LINE = re.compile(r"NVRM: Xid \(PCI:[0-9a-fA-F]+:([0-9a-fA-F]+:[0-9a-fA-F]+)(?:\.\d)?\): (\d+)")


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """Return the names of the reasons for a reduced clock in a bit mask of NVML, lowest bit first. Empty for 0.

    `mask`: bits of nvmlClocksEventReasons. An unknown bit keeps its number ('bit_0x800').
    """
    bits = (1 << position for position in range(mask.bit_length()))
    return tuple(THROTTLE_BITS.get(bit, f"bit_{bit:#x}") for bit in bits if mask & bit)


def _bus(pci: str) -> str:
    """Return bus and device: '3b:00' for '00000000:3B:00.0'."""
    return pci.lower().split(":", 1)[1].partition(".")[0]


def _text(answer: str | bytes) -> str:
    """Return an answer as text. Old releases of the module return bytes."""
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def slice_bytes(uuid: str) -> int | None:
    """Return the memory of a device slice in bytes. None if NVML does not report it. `uuid`: 'MIG-…'."""
    import pynvml

    pynvml.nvmlInit()
    try:
        return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())).total)
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


class NvmlSampler:
    """Sampler of all NVIDIA accelerators of this host that NVML reports.

    Without a running persistence daemon, opening takes seconds per accelerator, because the driver initializes each.

    Raises:
        Unavailable: if there is no NVIDIA driver.
    """

    def __init__(self) -> None:
        try:
            import pynvml
        except ImportError as absent:
            raise Unavailable(f"nvidia-ml-py is not installed: {absent}") from absent
        self._nvml: Any = pynvml  # ctypes without type annotations
        # old releases of the module lack some names
        self._not_given = {getattr(pynvml, name, None) for name in NOT_GIVEN} - {None}
        self._lost = {getattr(pynvml, name): words for name, words in LOST.items() if hasattr(pynvml, name)}
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise Unavailable(str(error)) from error
        self._handles: list[tuple[Any, Device]] = []
        self._gone: dict[str, str] = {}
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        for index in range(int(pynvml.nvmlDeviceGetCount())):
            # An accelerator that has fallen off the bus keeps its index but has no handle. It is listed as lost, not skipped.
            handle, reason = self._ask(partial(self._nvml.nvmlDeviceGetHandleByIndex, index))
            if handle is None:
                lost = Device(id=f"nvidia-{index}", kind="accelerator", index=index, vendor="NVIDIA", driver=driver)
                self._handles.append((None, lost))
                self._gone[lost.id] = reason or "no handle"
            else:
                self._handles.append((handle, self._describe(handle, index, driver)))

    def devices(self) -> list[Device]:
        """Return the NVIDIA accelerators of this host, in NVML's order. Lost ones are included."""
        return [device for _, device in self._handles]

    def sample(self, wanted: Collection[str] | None = None) -> list[DeviceSample]:
        """Return one sample (utilization, memory, power, clocks, temperature, errors) of each wanted accelerator.

        `wanted`: identifiers of accelerators. Default: all. In the sample of a lost accelerator only `gone` is set.
        """
        return [self._look(handle, device) for handle, device in self._handles if wanted is None or device.id in wanted]

    def health(self, wanted: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return health indicators by name for each device, by device identifier. None for an indicator that cannot be read.

        `wanted`: identifiers of devices. Devices that were lost at the opening are left out. `ecc_uncorrected_since_boot`:
        uncorrected memory errors since the driver started. `xids`: hardware error codes in the kernel log. `processes`: numbers
        of the processes that compute on the device.
        """
        nvml, log = self._nvml, kernel_log()
        xids = None if log is None else hardware_xids(log)
        found: dict[str, dict[str, Any]] = {}
        for handle, device in self._handles:
            if handle is None or device.id not in wanted:
                continue
            found[device.id] = {
                "ecc_uncorrected_since_boot": self._value(
                    partial(
                        nvml.nvmlDeviceGetTotalEccErrors,
                        handle,
                        nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                        nvml.NVML_VOLATILE_ECC,
                    )
                ),
                "xids": None if xids is None or device.pci is None else xids.get(_bus(device.pci), []),
                "processes": self._value(partial(self._computing, handle)),
            }
        return found

    def computing(self, wanted: Collection[str]) -> dict[str, list[int] | None]:
        """Return the process numbers (PIDs) of the processes that compute on each device, by device identifier.

        `wanted`: identifiers of devices. The value is None if NVML does not report the processes. Devices that were lost at
        the opening are left out.
        """
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
        """Release NVML. No sample can be taken afterwards."""
        self._nvml.nvmlShutdown()

    def _ask(self, call: Callable[[], T]) -> tuple[T | None, str | None]:
        """Return (answer, None), (None, reason) for a lost device, or (None, None) if it cannot give this value."""
        try:
            return call(), None
        except self._nvml.NVMLError as error:
            if error.value in self._not_given:
                return None, None
            if error.value in self._lost:
                return None, self._lost[error.value]
            raise

    def _value(self, call: Callable[[], T]) -> T | None:
        return self._ask(call)[0]

    def _describe(self, handle: Any, index: int, driver: str) -> Device:
        nvml = self._nvml
        model = self._value(lambda: _text(nvml.nvmlDeviceGetName(handle)))
        memory = self._value(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        cap = self._value(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
        pci = self._value(lambda: nvml.nvmlDeviceGetPciInfo(handle))
        return Device(
            id=self._value(lambda: _text(nvml.nvmlDeviceGetUUID(handle))) or f"nvidia-{index}",
            kind="accelerator",
            index=index,
            vendor="NVIDIA",
            model=model,
            variant=None if model is None else board_variant(model),
            memory_bytes=None if memory is None else int(memory.total),
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
            ecc_corrected=self._ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            ecc_uncorrected=self._ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
        )

    def _ecc(self, handle: Any, error_type: int) -> int | None:
        # The aggregate counter survives a reset of the device or a reload of the driver during a run.
        nvml = self._nvml
        return self._value(lambda: int(nvml.nvmlDeviceGetTotalEccErrors(handle, error_type, nvml.NVML_AGGREGATE_ECC)))


def hardware_xids(lines: Iterable[str]) -> dict[str, list[int]]:
    """Return NVIDIA's error codes (Xids) that mean faulty hardware, each once, by PCI bus and device in lower case.

    `lines`: lines of the kernel log.

    >>> hardware_xids(["NVRM: Xid (PCI:0000:3B:00): 79, pid=7, …", "NVRM: Xid (PCI:0000:3B:00): 31, …"])
    {'3b:00': [79]}
    """
    xids: dict[str, list[int]] = {}
    for line in lines:
        if (match := _XID_LINE.search(line)) is not None and (number := int(match[2])) in HARDWARE_XIDS:
            of_device = xids.setdefault(match[1].lower(), [])
            if number not in of_device:
                of_device.append(number)
    return xids


def kernel_log(path: Path = Path("/dev/kmsg")) -> list[str] | None:
    """Return the lines of the kernel log since boot, as far as they are kept. None if the log is not readable.

    It is not readable in most containers. `path`: device of the log.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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
