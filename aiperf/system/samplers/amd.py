"""Sampler of AMD accelerators by ROCm's `amdsmi` 6 or 7. Not tested on an AMD accelerator."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiperf.system.peaks import board_variant
from aiperf.system.sampler import Device, DeviceSample, Unavailable, VendorSampler

# amdsmi_get_violation_status: active limits, by amdsmi's names without the prefix.
VIOLATIONS = ("prochot_thrm", "ppt_pwr", "socket_thrm", "vr_thrm", "hbm_thrm")


NOT_SUPPORTED = 2
"""amdsmi_status_t of a value that this board or partition does not have."""


def given(answer: object, key: str | None = None) -> float | None:
    value = answer if key is None else answer.get(key) if isinstance(answer, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def cap_watts(power_cap: float | None) -> float | None:
    """Return the power limit in watts, None for 0. `power_cap`: microwatts, in older releases watts (below 100 kW)."""
    if power_cap is None or power_cap == 0:
        return None
    return power_cap / 1e6 if power_cap >= 1e5 else power_cap


def violations(answer: dict[str, Any] | None) -> tuple[str, ...] | None:
    """Return the names of the limits that reduce the clock now, such as 'ppt_pwr'. `answer`: None on MI2xx and older."""
    if answer is None:
        return None
    states = {name: answer.get(f"active_{name}") for name in VIOLATIONS}
    if not any(isinstance(active, bool) for active in states.values()):
        return None
    return tuple(name for name, active in states.items() if active is True)


def load() -> Any:
    """Check the driver first: without ROCm's library the import prints advice and raises KeyError (7.0.2)."""
    if not Path("/sys/module/amdgpu").exists():
        raise Unavailable("no amdgpu driver is loaded")
    try:
        return importlib.import_module("amdsmi")
    except (ImportError, OSError, KeyError) as error:
        raise Unavailable(f"amdsmi cannot be loaded: {error!r}") from error


class AmdSampler(VendorSampler):
    """Sampler of all AMD accelerators of this host by the module amdsmi. Each die of an MI250 is one device, as in ROCm."""

    def __init__(self, library: Any = None) -> None:
        self._smi = library = library or load()
        try:
            library.amdsmi_init(library.AmdSmiInitFlags.INIT_AMD_GPUS)
        except library.AmdSmiException as error:
            raise Unavailable(str(error)) from error
        self._handles = [
            (handle, self._describe(handle, index))
            for index, handle in enumerate(library.amdsmi_get_processor_handles())
        ]

    def close(self) -> None:
        self._smi.amdsmi_shut_down()

    def _ask(self, name: str, *arguments: Any) -> Any:
        call: Callable[..., Any] | None = getattr(self._smi, name, None)
        if call is None:
            return None
        try:
            answer = call(*arguments)
            return {} if answer == "N/A" else answer
        except self._smi.AmdSmiException as error:
            return {} if getattr(error, "get_error_code", int)() == NOT_SUPPORTED else None

    def _describe(self, handle: Any, index: int) -> Device:
        asic = self._ask("amdsmi_get_gpu_asic_info", handle) or {}
        driver = self._ask("amdsmi_get_gpu_driver_info", handle) or {}
        memory = given(self._ask("amdsmi_get_gpu_vram_usage", handle), "vram_total")
        units = given(asic, "num_compute_units")  # amdsmi 6.1 and later; 'N/A' before
        model = asic.get("market_name")
        model = None if model in (None, "", "N/A") else str(model)
        return Device(
            id=self._ask("amdsmi_get_gpu_device_uuid", handle) or f"amd-{index}",
            kind="accelerator",
            index=index,
            vendor="AMD",
            model=model,
            variant=None if model is None else board_variant(model),
            compute_units=None if units is None else int(units),
            memory_bytes=None if memory is None else int(memory) << 20,
            driver=driver.get("driver_version"),
            pci=self._ask("amdsmi_get_gpu_device_bdf", handle) or None,
            power_cap_watts=cap_watts(given(self._ask("amdsmi_get_power_cap_info", handle), "power_cap")),
        )

    def _look(self, handle: Any, device: Device) -> DeviceSample:
        smi = self._smi
        activity = self._ask("amdsmi_get_gpu_activity", handle)
        use = given(activity, "gfx_activity")
        vram = self._ask("amdsmi_get_gpu_vram_usage", handle)
        memory = given(vram, "vram_used")
        power = self._ask("amdsmi_get_power_info", handle)
        watts = given(power, "current_socket_power")  # MI300 and later
        energy = self._ask("amdsmi_get_energy_count", handle)
        steps, resolution = (given(energy, "energy_accumulator"), given(energy, "counter_resolution"))  # µJ a step
        errors = self._ask("amdsmi_get_gpu_total_ecc_count", handle)
        corrected, uncorrected = given(errors, "correctable_count"), given(errors, "uncorrectable_count")
        # The hottest spot of the die: MI300 has no edge sensor.
        sensor = (smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT)
        temperature = self._ask("amdsmi_get_temp_metric", handle, *sensor)
        # 'N/A' is an answer: partitions of a board but the first have no sensors
        if activity is vram is temperature is power is None:
            return DeviceSample(device=device.id, gone="answers none of amdsmi's questions")
        return DeviceSample(
            device=device.id,
            utilisation=None if use is None else use / 100,
            memory_used_bytes=None if memory is None else int(memory) << 20,
            power_watts=watts if watts else given(power, "average_socket_power"),
            energy_joules=None if steps is None or resolution is None else steps * resolution / 1e6,
            clock_mhz=given(self._ask("amdsmi_get_clock_info", handle, smi.AmdSmiClkType.GFX), "clk"),
            memory_clock_mhz=given(self._ask("amdsmi_get_clock_info", handle, smi.AmdSmiClkType.MEM), "clk"),
            temperature_celsius=given(temperature),
            throttle=violations(self._ask("amdsmi_get_violation_status", handle)),
            ecc_corrected=None if corrected is None else int(corrected),
            ecc_uncorrected=None if uncorrected is None else int(uncorrected),
        )
