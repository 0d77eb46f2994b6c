"""amdsmi's answers become numbers. Uses a substitute library with amdsmi's interface, without an AMD accelerator."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pytest

from aiperf.system.sampler import DeviceSample, Unavailable
from aiperf.system.samplers.amd import AmdSampler, cap_watts, given, violations


class InventedAmdsmi:
    """Two accelerators with the answers of amdsmi 7.0.2 for an MI300X. The second has no sensors left."""

    class AmdSmiException(Exception):
        pass

    AmdSmiInitFlags = IntEnum("AmdSmiInitFlags", {"INIT_AMD_GPUS": 2})
    AmdSmiTemperatureType = IntEnum("AmdSmiTemperatureType", {"HOTSPOT": 1})
    AmdSmiTemperatureMetric = IntEnum("AmdSmiTemperatureMetric", {"CURRENT": 0})
    AmdSmiClkType = IntEnum("AmdSmiClkType", {"GFX": 1, "MEM": 5})

    def __init__(self, is_loaded: bool = True) -> None:
        self.is_loaded = is_loaded
        self.is_open = False

    def amdsmi_init(self, flags: int) -> None:
        if not self.is_loaded:
            raise self.AmdSmiException("driver not loaded")
        self.is_open = True

    def amdsmi_shut_down(self) -> None:
        self.is_open = False

    def amdsmi_get_processor_handles(self) -> list[int]:
        return [0, 1]

    def _answer(self, handle: int, answer: Any) -> Any:
        if handle == 1:
            raise self.AmdSmiException("AMDSMI_STATUS_NOT_FOUND")
        return answer

    def amdsmi_get_gpu_asic_info(self, handle: int) -> dict[str, Any]:
        return {"market_name": "AMD Instinct MI300X", "num_compute_units": 304 if handle == 0 else "N/A"}

    def amdsmi_get_gpu_device_uuid(self, handle: int) -> str:
        return f"uuid-{handle}"

    def amdsmi_get_power_cap_info(self, handle: int) -> dict[str, Any]:
        return {"power_cap": 750_000_000}

    def amdsmi_get_gpu_activity(self, handle: int) -> Any:
        return self._answer(handle, {"gfx_activity": 88, "umc_activity": "N/A", "mm_activity": "N/A"})

    def amdsmi_get_gpu_vram_usage(self, handle: int) -> Any:
        return self._answer(handle, {"vram_total": 196_592, "vram_used": 1024})

    def amdsmi_get_power_info(self, handle: int) -> Any:
        return self._answer(handle, {"current_socket_power": 612, "average_socket_power": "N/A"})

    def amdsmi_get_energy_count(self, handle: int) -> Any:
        return self._answer(handle, {"energy_accumulator": 2_000_000, "counter_resolution": 15.0})

    def amdsmi_get_temp_metric(self, handle: int, sensor: int, metric: int) -> Any:
        return self._answer(handle, 71)

    def amdsmi_get_clock_info(self, handle: int, kind: int) -> Any:
        return self._answer(handle, {"clk": 2100 if kind == 1 else "N/A"})

    def amdsmi_get_gpu_total_ecc_count(self, handle: int) -> Any:
        return self._answer(handle, {"correctable_count": 4, "uncorrectable_count": 0})

    def amdsmi_get_violation_status(self, handle: int) -> Any:
        return self._answer(handle, {"active_ppt_pwr": True, "active_hbm_thrm": False, "active_vr_thrm": "N/A"})


def test_the_answers_of_amdsmi_come_in_si_units_and_with_names() -> None:
    library = InventedAmdsmi()
    sampler = AmdSampler(library)
    first, second = sampler.sample()

    device = sampler.devices()[0]
    assert (device.model, device.variant, device.power_cap_watts) == ("AMD Instinct MI300X", "OAM", 750.0)
    assert device.memory_bytes == 196_592 << 20
    assert [each.compute_units for each in sampler.devices()] == [304, None]
    assert first == DeviceSample(
        device="uuid-0",
        utilisation=0.88,
        memory_used_bytes=1 << 30,
        power_watts=612.0,
        energy_joules=30.0,
        clock_mhz=2100.0,
        temperature_celsius=71.0,
        throttle=("ppt_pwr",),
        ecc_corrected=4,
        ecc_uncorrected=0,
    )
    assert second.gone is not None and second.utilisation is None

    assert [look.device for look in sampler.sample({"uuid-1"})] == ["uuid-1"]
    sampler.close()
    assert not library.is_open


def test_without_a_loaded_driver_the_sampler_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="driver not loaded"):
        AmdSampler(InventedAmdsmi(is_loaded=False))


def test_what_amdsmi_calls_not_available_is_not_measured() -> None:
    assert given({"clk": "N/A"}, "clk") is None
    assert given({}, "clk") is None
    assert given(None, "clk") is None
    assert violations({"active_ppt_pwr": "N/A"}) is None
    assert violations({"active_ppt_pwr": False}) == ()


def test_power_limits_in_microwatts_and_watts_are_distinguished() -> None:
    assert cap_watts(750_000_000) == cap_watts(750) == 750.0
    assert cap_watts(0) is None
