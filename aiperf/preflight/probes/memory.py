"""Probe of memory bandwidth: STREAM's triad, a = b + s·c, with arrays larger than any cache."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from aiperf.preflight.probes.matmul import devices_of
from aiperf.preflight.reading import ProbeReading, Setting

if TYPE_CHECKING:
    import torch

ARRAY_BYTES = {"cpu": 2**27, "cuda": 2**29}
"""Bytes of each of the three FP32 arrays."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes per second as counted by STREAM: two arrays read and one written, without write-allocates."""

    for_seconds: float = 1.0
    name: ClassVar[str] = "memory"
    unit: ClassVar[str] = "B/s"

    def measure(self, setting: Setting) -> ProbeReading:
        """See `reading.Probe`."""
        import torch

        torch.set_num_threads(setting.processors)
        series = {str(device): _triad(device, self.for_seconds) for device in devices_of(setting)}
        facts = {"array_bytes": ARRAY_BYTES["cuda" if setting.accelerators else "cpu"], "threads": setting.processors}
        return ProbeReading(probe=self.name, unit=self.unit, series=series, facts=facts)


def _triad(device: torch.device, seconds: float) -> list[float]:
    import torch

    size = ARRAY_BYTES[device.type]
    b, c = (torch.full((size // 4,), value, device=device) for value in (1.0, 2.0))
    a = torch.empty_like(b)

    def once() -> float:
        began = time.perf_counter()
        torch.add(b, c, alpha=3.0, out=a)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return 3 * size / (time.perf_counter() - began)

    once()  # first touch allocates the pages
    rates = [once()]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        rates.append(once())
    return rates
