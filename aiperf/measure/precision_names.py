"""Choice of the training precision (option `trainer.precision`) by the hardware of a device."""

from __future__ import annotations

import platform

import torch

from aiperf.errors import BadConfiguration
from aiperf.system.host import cpu_features


def precision_name(choice: str, device: torch.device) -> str:
    """Return the precision of a device: fp32, tf32, bf16 or fp16. `choice`: one of these names, or auto.

    `auto` is bf16 if the hardware multiplies bf16, else fp16 on accelerators with CUDA capability 7 (V100, T4), whose tensor
    cores multiply fp16 8 times as fast as FP32, else fp32. Raise BadConfiguration for tf32 on a device that is no NVIDIA
    accelerator from Ampere on.
    """
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
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type != "cpu":
        return False
    # no features are reported on macOS: Apple's CPUs from M2 have bf16, and are not benchmark hosts
    features = cpu_features()
    return (
        "bf16" in features if platform.machine() == "aarch64" else not {"avx512_bf16", "amx_bf16"}.isdisjoint(features)
    )
