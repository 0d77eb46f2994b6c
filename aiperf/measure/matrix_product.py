"""Rate of square matrix products in the precision of training: preflight's probe of a node, and the measured peak of a CPU."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from aiperf.errors import BadConfiguration
from aiperf.measure.probe import ProbeReading, Setting
from aiperf.system.host import cpu_features

if TYPE_CHECKING:
    import torch


SIDES: Final = {"cpu": (256, 512, 1024, 2048), "cuda": (8192,)}
"""Rows and columns, by type of device. The largest that the time allows is used. At 2048 a product is 17 GFLOP and its operands
(16 MB each in FP32) are reused 2048 times, so the cores are measured and not the memory. At 8192 a product is 1.1 TFLOP."""
PASS_SECONDS: Final = 0.15
FASTER_BY: Final = 0.02
WARM_UP: Final = {"cpu": 1, "cuda": 3}
"""Products before the first measured one: allocation, choice of kernels, clocks."""


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """Probe of the rate of square matrix products: each accelerator after the other, or all processors together."""

    for_seconds: float = 1.0
    name: ClassVar[str] = "matrix product"
    unit: ClassVar[str] = "FLOPS"

    def measure(self, setting: Setting) -> ProbeReading:
        import torch

        devices = devices_of(setting)
        precision = precision_name(setting.precision, devices[0])
        torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
        series = {
            str(device): matmul_rates(precision, setting.processors, self.for_seconds, device) for device in devices
        }
        facts = {"precision": precision, "threads": setting.processors, "torch": str(torch.__version__)}
        return ProbeReading(probe=self.name, unit=self.unit, series=series, facts=facts)


def devices_of(setting: Setting) -> list[torch.device]:
    """Return the measured devices: the accelerators, or the CPU if there are none."""
    import torch

    if not setting.accelerators:
        return [torch.device("cpu")]
    if torch.cuda.device_count() < setting.accelerators:
        raise RuntimeError(
            f"torch sees {torch.cuda.device_count()} of the {setting.accelerators} accelerators: check the driver, "
            "CUDA_VISIBLE_DEVICES, and that torch is built for CUDA or ROCm (docs/setup.md, GPUs)"
        )
    return [torch.device("cuda", index) for index in range(setting.accelerators)]


def matmul_passes(precision: str, threads: int) -> Iterator[tuple[float, bool]]:
    """Yield, without end, (FLOPS of the fastest product up to now, True if this pass was faster by more than 2 %).

    The maximum is used, not the mean, because a peak is the undisturbed rate: while other processes of a host start, a third of
    a second once gave half the rate of an idle host. Ranks that measure at the same time must stop together, because a single
    rank would be faster again.
    """
    import torch

    with on_threads(threads):
        product, rates = _largest(precision, PASS_SECONDS, torch.device("cpu"))
        best = max(rates)
        while True:
            fastest = max(product.rates(PASS_SECONDS))
            is_faster, best = fastest > best * (1 + FASTER_BY), max(best, fastest)
            yield best, is_faster


def matmul_rates(precision: str, threads: int, seconds: float = 1.0, device: torch.device | None = None) -> list[float]:
    """Return the FLOPS (2·side³ a product) of each matrix product that fits into `seconds`, at least one."""
    import torch

    with on_threads(threads):
        end = time.perf_counter() + seconds
        product, rates = _largest(precision, seconds, device or torch.device("cpu"))
        return rates + product.rates(end - time.perf_counter())


@contextmanager
def on_threads(threads: int) -> Iterator[None]:
    """Let torch compute on `threads` CPU threads in the whole process. Restore the number at the end."""
    import torch

    assert threads >= 1, f"a measurement needs at least one thread, but found threads={threads!r}"
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _largest(precision: str, seconds: float, device: torch.device) -> tuple[_Product, list[float]]:
    """Return the largest product that should take less than half the time: emulated FP16 is up to 500 times slower."""
    rates: list[float] = []
    for side in SIDES[device.type]:
        if rates and 2 * side**3 / rates[-1] > seconds / 2:
            break
        product = _Product(side, precision, device)
        for _ in range(WARM_UP[device.type]):
            product.rate()
        rates.append(product.rate())
    return product, rates


class _Product:
    def __init__(self, side: int, precision: str, device: torch.device) -> None:
        import torch

        dtypes = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
        generator = torch.Generator(device).manual_seed(0)
        self._side = side
        self._device = device
        self._left, self._right = (
            torch.randn(side, side, generator=generator, device=device).to(dtypes[precision]) for _ in range(2)
        )
        self._out = torch.empty_like(self._left)

    def rate(self) -> float:
        import torch

        began = time.perf_counter()
        torch.mm(self._left, self._right, out=self._out)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return 2 * self._side**3 / (time.perf_counter() - began)

    def rates(self, seconds: float) -> list[float]:
        end = time.perf_counter() + seconds
        rates = [self.rate()]
        while time.perf_counter() < end:
            rates.append(self.rate())
        return rates


def precision_name(choice: str, device: torch.device) -> str:
    """Return the precision of a device: fp32, tf32, bf16 or fp16. `choice`: one of these names, or auto.

    `auto` is bf16 if the hardware multiplies bf16, else fp16 on accelerators with CUDA capability 7 (V100, T4), whose tensor
    cores multiply fp16 8 times as fast as FP32, else fp32. Raise BadConfiguration for tf32 on a device that is no NVIDIA
    accelerator from Ampere on.
    """
    import torch

    if choice == "auto":
        if has_native_bfloat16(device):
            return "bf16"
        return "fp16" if device.type == "cuda" and torch.cuda.get_device_capability(device) >= (7, 0) else "fp32"
    # ROCm reports capability 9 for MI300, but its convolutions have no TF32
    is_nvidia = device.type == "cuda" and torch.version.hip is None
    if choice == "tf32" and not (is_nvidia and torch.cuda.get_device_capability(device) >= (8, 0)):
        raise BadConfiguration(
            f"trainer.precision='tf32' needs an NVIDIA accelerator from Ampere on, but found {device.type!r}: "
            "set trainer.precision to 'fp32' or 'bf16'"
        )
    return choice


def has_native_bfloat16(device: torch.device) -> bool:
    """CUDA capability 8 and above, x86 with AVX512_BF16 or AMX, Arm with bf16. torch emulates it elsewhere, slowly."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type != "cpu":
        return False
    # no features are reported on macOS: Apple's CPUs from M2 have bf16, and are not benchmark hosts
    features = cpu_features()
    return (
        "bf16" in features if platform.machine() == "aarch64" else not {"avx512_bf16", "amx_bf16"}.isdisjoint(features)
    )
