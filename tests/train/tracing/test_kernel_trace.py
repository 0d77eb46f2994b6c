"""Kernels by class in traces: sums, names, steps and truncated files."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd.profiler import record_function

from aiperf.train.optimiser import optimiser_of
from aiperf.train.torch_network import build, initialise
from aiperf.train.tracing.kernel_trace import (
    ALL_REDUCE,
    CLASSES,
    FAST_CONVOLUTION,
    FRAMEWORK,
    OTHER,
    PAPER_CLASSES,
    STEP,
    KernelTimes,
    kernel_class,
    kernel_times,
)
from aiperf.train.tracing.layer_times import operator_profile
from aiperf.train.tracing.trace_file import NoTrace, Trace, read_trace
from aiperf.train.trainer_config import TrainerConf
from morphism import start

OPERATORS = ("aten::mkldnn_convolution", "aten::mm", "aten::relu_", "aten::empty", "aten::unheard_of")


def event(name: str, ts: float, dur: float, cat: str = "cpu_op", tid: int = 1) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": tid}


def of(*events: dict[str, Any]) -> Trace:
    return Trace(events, is_truncated=False)


@st.composite
def calls(draw: st.DrawFn, begin: int, end: int, depth: int = 3) -> list[dict[str, Any]]:
    """Operators between two times, each within its caller."""
    found: list[dict[str, Any]] = []
    edges = sorted(draw(st.lists(st.integers(begin, end), max_size=6, unique=True)))
    for first, last in zip(edges[::2], edges[1::2], strict=False):
        found.append(event(draw(st.sampled_from(OPERATORS)), first, last - first))
        if depth:
            found += draw(calls(first, last, depth - 1))
    return found


@given(calls(100, 200), calls(300, 450), st.lists(st.tuples(st.integers(0, 250), st.integers(251, 500)), max_size=1))
def test_all_classes_together_are_the_time_of_the_steps(
    first: list[dict[str, Any]], second: list[dict[str, Any]], waits: list[tuple[float, float]]
) -> None:
    steps = [event(f"{STEP}{number}", at, dur, "user_annotation") for number, at, dur in ((7, 100, 100), (8, 300, 150))]
    elsewhere = [event("aten::mm", 0, 1000, tid=2), event("aten::mm", 210, 50)]

    found = kernel_times(of(*steps, *first, *second, *elsewhere), waits)

    assert (found.device, found.steps) == ("cpu", 2)
    assert sum(found.seconds.values()) == pytest.approx(250e-6)
    assert set(found.seconds) <= set(CLASSES) and (found.seconds[ALL_REDUCE] > 0) <= bool(waits)


def test_an_operator_excludes_the_operators_that_it_calls() -> None:
    step = event(f"{STEP}0", 0, 100, "user_annotation")
    convolution = [event("aten::conv2d", 10, 60), event("aten::empty", 20, 10), event("aten::clone", 80, 10)]
    copy = event("aten::copy_", 82, 6)

    found = kernel_times(of(step, *convolution, copy), [(85, 95)]).seconds

    measured = {name: seconds for name, seconds in found.items() if seconds}
    assert measured == pytest.approx(
        {"convolution": 50e-6, "data arrangement": 10e-6, ALL_REDUCE: 5e-6, FRAMEWORK: 35e-6}
    )


def test_kernels_of_an_accelerator_are_summed_without_idle_time() -> None:
    kernels = [
        event("sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc", 10, 40, "kernel", tid=7),
        event("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 30, 30, "kernel", tid=9),
        event("Memcpy HtoD (Pinned -> Device)", 90, 5, "gpu_memcpy", tid=7),
    ]

    found = kernel_times(of(event("aten::conv2d", 0, 500), *kernels))

    assert (found.device, found.steps) == ("cuda", 0)
    assert found.seconds == pytest.approx(
        dict.fromkeys((*PAPER_CLASSES, FAST_CONVOLUTION, OTHER), 0)
        | {"convolution": 40e-6, "memcpy": 5e-6, ALL_REDUCE: 30e-6}
    )


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>", "batch normalisation"),
        ("void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true>", "data arrangement"),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT", "GEMM"),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "GEMM"),
        ("volta_scudnn_128x64_relu_interior_nn_v1", "convolution"),
        ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v0", FAST_CONVOLUTION),
        ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>", FAST_CONVOLUTION),
        ("void fft2d_r2c_32x32<float, false, 0u, false>", FAST_CONVOLUTION),
        ("void cudnn::cnn::fft2d_c2r_16x16<float>", FAST_CONVOLUTION),
        ("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<direct_copy_kernel>", "data arrangement"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", "element-wise"),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedSgdMathFunctor>", "element-wise"),
        ("void at::native::(anonymous namespace)::max_pool_forward_nhwc<float, float>", "pooling"),
        ("void vision::ops::roi_align_forward_kernel_impl<float>", "pooling"),
        ("void vision::ops::nms_kernel_impl<float>", "data arrangement"),
        ("ncclKernel_AllReduce_TREE_LL_Sum_float", ALL_REDUCE),
        ("mystery_kernel", OTHER),
    ],
)  # fmt: skip
def test_kernels_of_accelerators_have_the_class_of_their_name(name: str, found: str) -> None:
    assert kernel_class(name) == found


def traced(module: nn.Module, loss_of: Any, file: Path, autocast: bool) -> KernelTimes:
    """Return the kernels of the second training step."""
    optimiser = optimiser_of(module, TrainerConf())

    def step(number: int) -> None:
        with record_function(f"{STEP}{number}"), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss: Tensor = loss_of(module)
        with record_function(f"{STEP}{number}"):
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            optimiser.zero_grad()

    step(0)
    with operator_profile(torch.device("cpu")) as profile:
        step(1)
    profile.export_chrome_trace(str(file))
    return kernel_times(read_trace(file))


def classification(batch: int, image: int) -> Any:
    images, labels = torch.randn(batch, 3, image, image), torch.zeros(batch, dtype=torch.long)
    return lambda module: nn.functional.cross_entropy(module(images).float(), labels, label_smoothing=0.1)


@pytest.mark.parametrize("autocast", [False, True], ids=["fp32", "bf16"])
@pytest.mark.parametrize(("name", "image"), [("resnet20", 32), ("resnet50_v1_5", 224)])
def test_kernels_of_networks_have_known_names(name: str, image: int, autocast: bool, tmp_path: Path) -> None:
    network = build(start(name))
    initialise(network, 0)

    found = traced(network, classification(2, image), tmp_path / "trace.json", autocast)

    shares = {each: seconds / sum(found.seconds.values()) for each, seconds in found.seconds.items()}
    assert found.steps == 1
    assert shares.get(OTHER, 0) <= 0.02
    assert all(shares[name] > 0 for name in ("convolution", "batch normalisation", "element-wise", "GEMM", FRAMEWORK))


def test_kernels_of_a_detector_have_known_names(tmp_path: Path) -> None:
    detector = torchvision.models.detection.fasterrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=5, min_size=64, max_size=96, box_batch_size_per_image=16
    )
    image, boxes = torch.randn(3, 64, 96), torch.tensor([[5.0, 5, 30, 35], [40, 15, 75, 50]])
    targets = [{"boxes": boxes, "labels": torch.tensor([1, 2])}]

    def loss_of(module: nn.Module) -> Tensor:
        losses: list[Tensor] = list(module([image], targets).values())
        return torch.stack(losses).sum()

    found = traced(detector.train(), loss_of, tmp_path / "trace.json", False)

    assert found.seconds.get(OTHER, 0) <= 0.02 * sum(found.seconds.values())
    assert found.seconds["pooling"] > 0 and found.seconds["data arrangement"] > 0


FOLDER = tempfile.TemporaryDirectory()
WHOLE = json.dumps(
    {
        "traceEvents": [
            event(f"{STEP}0", 0, 90, "user_annotation"),
            *(event("aten::mm", at, 5) for at in range(0, 90, 9)),
        ]
    }
)


@given(st.integers(0, len(WHOLE) - 1))
def test_a_truncated_trace_is_read_as_far_as_it_goes(length: int) -> None:
    whole = json.loads(WHOLE)["traceEvents"]
    file = Path(FOLDER.name) / "trace.json"
    file.write_text(WHOLE[:length])
    try:
        found = read_trace(file)
    except NoTrace:
        assert length <= WHOLE.index("[")
    else:
        assert list(found.events) == whole[: len(found.events)]
        assert found.is_truncated == (length <= WHOLE.rindex("]"))
        assert len(found.events) >= WHOLE[:length].count("}")


@pytest.mark.parametrize("text", ["", "no JSON at all", '{"a": 1}', "\x00\x01"])
def test_a_file_that_is_no_trace_is_refused_with_its_name(text: str, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(text)

    with pytest.raises(NoTrace, match=r"but found '.*notes.txt', which has no such list: name such a file"):
        read_trace(file)


def test_a_trace_without_kernels_has_no_time() -> None:
    assert not any(kernel_times(of({"ph": "M", "name": "process_name"})).seconds.values())
