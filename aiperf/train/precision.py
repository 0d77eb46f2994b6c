"""Precision in which convolutions and matrix products compute.

Weights, running statistics and optimiser state are always FP32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch

from aiperf.measure.matrix_product import precision_name
from aiperf.train.trainer_config import ELEMENT_BYTES

_DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True)
class Precision:
    name: str
    """fp32, tf32, bf16 or fp16, as the run records it. Nothing below 16 bits is supported."""
    device_type: str

    @property
    def dtype(self) -> torch.dtype:
        """Data type of activations and input images: float32, bfloat16 or float16. It is float32 for tf32."""
        return _DTYPES[self.name]

    @property
    def bytes_per_element(self) -> int:
        """Bytes of one activation value: 4 or 2."""
        return ELEMENT_BYTES[self.name]

    def computing(self) -> AbstractContextManager[object]:
        """Return a context manager in which forward passes compute in this precision (autocast for the 16-bit types)."""
        if self.dtype is torch.float32:
            return nullcontext()
        return torch.autocast(self.device_type, dtype=self.dtype)

    def scaler(self) -> torch.amp.GradScaler | None:
        """Return new loss scaling, which FP16 needs for its narrow exponent range. None for the other precisions."""
        return torch.amp.GradScaler(self.device_type) if self.name == "fp16" else None

    def switch_on(self) -> None:
        """Set torch's process-wide switches: TF32 is off for fp32 alone. On CUDA, cuDNN searches among 4 algorithms."""
        torch.backends.cuda.matmul.allow_tf32 = self.name != "fp32"
        torch.backends.cudnn.allow_tf32 = self.name != "fp32"
        # default: cuDNN's first heuristic algorithm. Shapes are fixed within a trial, so a search pays at once
        torch.backends.cudnn.benchmark = self.device_type == "cuda"
        torch.backends.cudnn.benchmark_limit = 4  # torch's default is 10: the first ones are the fastest by heuristics


@contextmanager
def unsearched() -> Iterator[None]:
    """Context in which cuDNN uses its first heuristic algorithm, since a search takes seconds for a shape that occurs once."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def choose(choice: str, device: torch.device) -> Precision:
    """Raise BadConfiguration for tf32 on a device without tensor cores that support TF32."""
    return Precision(precision_name(choice, device), device.type)
