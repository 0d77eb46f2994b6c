"""What convolutions and matrix products compute in. Weights, running statistics and the optimiser's state are always FP32."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch

from aiperf.errors import BadConfiguration
from aiperf.system.processor import cpu_features
from aiperf.train.trainer_config import ELEMENT_BYTES

_DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True)
class Precision:
    """A precision on a device."""

    name: str
    """fp32, tf32, bf16 or fp16, as the run records it. Nothing narrower than 16 bits exists here."""
    device_type: str

    @property
    def dtype(self) -> torch.dtype:
        """Of activations, and of the images that enter."""
        return _DTYPES[self.name]

    @property
    def bytes_per_element(self) -> int:
        """Of an activation."""
        return ELEMENT_BYTES[self.name]

    def computing(self) -> AbstractContextManager[object]:
        """Within it, forward passes compute in this precision (autocast for the 16-bit ones)."""
        if self.dtype is torch.float32:
            return nullcontext()
        return torch.autocast(self.device_type, dtype=self.dtype)

    def scaler(self) -> torch.amp.GradScaler | None:
        """Loss scaling, which FP16's narrow range of exponents needs; None for the others."""
        return torch.amp.GradScaler(self.device_type) if self.name == "fp16" else None

    def switch_on(self) -> None:
        """Sets torch's process-wide switches: TF32 only where it was chosen."""
        torch.backends.cuda.matmul.allow_tf32 = self.name != "fp32"
        torch.backends.cudnn.allow_tf32 = self.name != "fp32"
        # without it cuDNN takes heuristics' first algorithm; shapes are fixed within a trial, so searching pays at once
        torch.backends.cudnn.benchmark = self.device_type == "cuda"


@contextmanager
def unsearched() -> Iterator[None]:
    """Within it cuDNN takes its heuristics' first algorithm: for a shape that comes once an epoch, where a search, seconds for
    a network, would stand inside the busy time. Whole batches are searched in the rehearsal before a trial."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def choose(choice: str, device: torch.device) -> Precision:
    """The precision for a device; `auto` is the first of `candidates`: `precision_choice.py` measures which is fastest.

    Raises BadConfiguration for tf32 where there are no tensor cores that have it.
    """
    if choice == "auto":
        return Precision(candidates(device)[0], device.type)
    if choice == "tf32" and not (device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)):
        raise BadConfiguration(
            f"trainer.precision='tf32' needs an NVIDIA accelerator from Ampere on; found {device.type!r}: take 'fp32' or 'bf16'"
        )
    return Precision(choice, device.type)


def candidates(device: torch.device) -> tuple[str, ...]:
    """What `auto` may be, the likeliest first.

    A processor: bf16 where it multiplies it, else fp32. CUDA capability 8 on (and ROCm's CDNA, which says 9): bf16 or fp16.
    Capability 7 (V100, T4): fp16, whose tensor cores are 8 times FP32's rate there, or fp32; they have no bf16. Older: fp32.
    """
    if device.type != "cuda":
        return ("bf16",) if has_native_bfloat16(device) else ("fp32",)
    capability = torch.cuda.get_device_capability(device)
    if capability >= (8, 0):
        return ("bf16", "fp16")
    return ("fp16", "fp32") if capability >= (7, 0) else ("fp32",)


def has_native_bfloat16(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16: CUDA compute capability 8 on; x86 with AVX512_BF16 or AMX; Arm with bf16.

    Emulated bfloat16, which torch offers on any CPU, is slower than FP32.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type != "cpu":
        return False
    # none are told on macOS: Apple's processors from M2 on have it, and none is a benchmark's host
    features = cpu_features()
    return (
        "bf16" in features if platform.machine() == "aarch64" else not {"avx512_bf16", "amx_bf16"}.isdisjoint(features)
    )
