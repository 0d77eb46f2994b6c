"""Probe of matrix multiplication in the data type of training."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from aiperf.preflight.reading import ProbeReading, Setting

if TYPE_CHECKING:
    import torch

    from aiperf.train.matmul_peak import CpuDataType

SIDE = 8192
"""Rows and columns on an accelerator: 1.1 TFLOP per product."""


@dataclass(frozen=True, slots=True)
class Matmul:
    """FLOPS of square matrix products for `for_seconds`.

    Of each accelerator in turn, or without accelerators of all processors together.
    """

    for_seconds: float = 1.0
    name: ClassVar[str] = "matrix product"
    unit: ClassVar[str] = "FLOPS"

    def measure(self, setting: Setting) -> ProbeReading:
        """See `reading.Probe`."""
        import torch

        from aiperf.train.matmul_peak import matmul_rates
        from aiperf.train.precision import choose

        devices = devices_of(setting)
        precision = choose(setting.trainer.precision, devices[0])
        precision.switch_on()
        series: dict[str, list[float]] = {}
        for device in devices:
            if device.type == "cpu":
                dtype = cast("CpuDataType", precision.name)
                series["cpu"] = matmul_rates(dtype, setting.processors, self.for_seconds)
            else:
                series[str(device)] = _on_accelerator(device, precision.dtype, self.for_seconds)
        facts = {"precision": precision.name, "threads": setting.processors, "torch": str(torch.__version__)}
        return ProbeReading(probe=self.name, unit=self.unit, series=series, facts=facts)


def devices_of(setting: Setting) -> list[torch.device]:
    """Return the devices that a node's workers compute on."""
    import torch

    if not setting.accelerators:
        return [torch.device("cpu")]
    if torch.cuda.device_count() < setting.accelerators:
        raise RuntimeError(f"torch sees {torch.cuda.device_count()} of the {setting.accelerators} accelerators")
    return [torch.device("cuda", index) for index in range(setting.accelerators)]


def _on_accelerator(device: torch.device, dtype: torch.dtype, seconds: float) -> list[float]:
    import torch

    left, right = (torch.randn(SIDE, SIDE, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(left)
    for _ in range(3):  # warm-up: choice of kernels, clocks
        torch.mm(left, right, out=out)
    torch.cuda.synchronize(device)
    rates: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        torch.mm(left, right, out=out)
        torch.cuda.synchronize(device)
        rates.append(2 * SIDE**3 / (time.perf_counter() - began))
    return rates
