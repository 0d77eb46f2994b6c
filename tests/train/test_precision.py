"""`trainer.precision=auto` follows from the device, and TF32 needs NVIDIA hardware."""

from __future__ import annotations

import pytest
import torch

from aiperf.errors import BadConfiguration
from aiperf.system.peaks import table
from aiperf.train.precision import choose

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("accelerator", "capability", "chosen"),
    [
        ("V100", (7, 0), "fp16"),
        ("T4", (7, 5), "fp16"),
        ("A100", (8, 0), "bf16"),
        ("H200", (9, 0), "bf16"),
        ("P100", (6, 0), "fp32"),
    ],
)
def test_auto_is_a_half_precision_with_tensor_cores(
    monkeypatch: pytest.MonkeyPatch, accelerator: str, capability: tuple[int, int], chosen: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)

    assert choose("auto", CUDA).name == chosen


def test_bf16_has_the_peak_of_fp16_but_on_the_mi100() -> None:
    """So `auto` takes BF16, which needs no loss scaling."""
    both = {row.example: row.dense_flops for row in table() if {"bf16", "fp16"} <= row.dense_flops.keys()}

    assert [name for name, flops in both.items() if flops["bf16"] != flops["fp16"]] == ["AMD Instinct MI100"]


def test_fp16_brings_its_loss_scaling() -> None:
    assert choose("fp16", CPU).scaler() is not None
    assert choose("bf16", CPU).scaler() is None


def test_tf32_is_refused_on_amd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 4))
    assert choose("tf32", CUDA).name == "tf32"

    monkeypatch.setattr(torch.version, "hip", "7.0")
    with pytest.raises(BadConfiguration, match="needs an NVIDIA accelerator"):
        choose("tf32", CUDA)
