"""Precision of convolutions and matrix products.

Weights, running statistics and the optimiser's state are always FP32.
"""

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
    """fp32, tf32, bf16 or fp16, as the run records it. Nothing below 16 bits is supported."""
    device_type: str

    @property
    def dtype(self) -> torch.dtype:
        """Data type of activations and input images."""
        return _DTYPES[self.name]

    @property
    def bytes_per_element(self) -> int:
        """Bytes of one activation value."""
        return ELEMENT_BYTES[self.name]

    def computing(self) -> AbstractContextManager[object]:
        """Context in which forward passes compute in this precision (autocast for the 16-bit types)."""
        if self.dtype is torch.float32:
            return nullcontext()
        return torch.autocast(self.device_type, dtype=self.dtype)

    def scaler(self) -> torch.amp.GradScaler | None:
        """Return the loss scaling that FP16's narrow exponent range needs. None for the other types."""
        return torch.amp.GradScaler(self.device_type) if self.name == "fp16" else None

    def switch_on(self) -> None:
        """Set torch's process-wide switches. TF32 is on only if it was chosen."""
        torch.backends.cuda.matmul.allow_tf32 = self.name != "fp32"
        torch.backends.cudnn.allow_tf32 = self.name != "fp32"
        # default: cuDNN's first heuristic algorithm. Shapes are fixed within a trial, so a search pays at once
        torch.backends.cudnn.benchmark = self.device_type == "cuda"


@contextmanager
def unsearched() -> Iterator[None]:
    """Context in which cuDNN uses its first heuristic algorithm.

    For a shape that occurs once per epoch: a search takes seconds per network and would be part of the busy time. Whole
    batches are searched in the rehearsal before a trial.
    """
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def choose(choice: str, device: torch.device) -> Precision:
    """Return the precision for a device.

    `auto` is the first of `candidates`. `precision_choice.py` measures which is fastest.

    Raises BadConfiguration for tf32 without tensor cores that support it.
    """
    if choice == "auto":
        return Precision(candidates(device)[0], device.type)
    # ROCm reports capability 9 for MI300, whose convolutions have no TF32
    is_nvidia = device.type == "cuda" and torch.version.hip is None
    if choice == "tf32" and not (is_nvidia and torch.cuda.get_device_capability(device) >= (8, 0)):
        raise BadConfiguration(
            f"trainer.precision='tf32' needs an NVIDIA accelerator from Ampere on; found {device.type!r}: take 'fp32' or 'bf16'"
        )
    return Precision(choice, device.type)


def candidates(device: torch.device) -> tuple[str, ...]:
    """Return the possible values of `auto`, the most likely first.

    CPU: bf16 if it has native bf16, else fp32. CUDA capability 8 and above (and ROCm's CDNA, which reports 9): bf16 or
    fp16. Capability 7 (V100, T4): fp16, with 8 times the rate of FP32, or fp32. No bf16 there. Older: fp32.
    """
    if device.type != "cuda":
        return ("bf16",) if has_native_bfloat16(device) else ("fp32",)
    capability = torch.cuda.get_device_capability(device)
    if capability >= (8, 0):
        return ("bf16", "fp16")
    return ("fp16", "fp32") if capability >= (7, 0) else ("fp32",)


def has_native_bfloat16(device: torch.device) -> bool:
    """Return whether the hardware multiplies bfloat16.

    That is CUDA compute capability 8 and above, x86 with AVX512_BF16 or AMX, and Arm with bf16. torch emulates bfloat16
    on any other CPU, which is slower than FP32.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type != "cpu":
        return False
    # no features are reported on macOS: Apple's CPUs from M2 have bf16, and are not benchmark hosts
    features = cpu_features()
    return (
        "bf16" in features if platform.machine() == "aarch64" else not {"avx512_bf16", "amx_bf16"}.isdisjoint(features)
    )
