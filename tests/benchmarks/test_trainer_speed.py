"""Both sides of the comparison of loops have the same switches of torch."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch

from benchmarks.trainer_speed import ON_CUDA_ALONE, WAYS, PlainLoop, PlainSide, Task, Way

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def switches_of_torch() -> Iterator[None]:
    """Restore the switches after each test."""
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.benchmark
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.benchmark = before


def switches() -> tuple[bool, bool, bool]:
    return torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.benchmark


def test_both_loops_have_the_same_switches() -> None:
    """By torch's defaults, convolutions in FP32 use TF32 and matrix products do not."""
    task = Task("resnet20", "fp32", 10, 4, CPU)
    found = []
    for side in (lambda: task.own_loop(), lambda: PlainLoop(task, Way())):
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = True, False
        side()
        found.append(switches())

    assert found[0] == found[1] == (False, False, False)


def test_both_loops_scale_their_loss_in_fp16() -> None:
    scaled = {name: PlainLoop(Task("resnet20", name, 10, 1, CPU), Way())._scaler for name in ("fp16", "bf16")}

    assert scaled["fp16"] is not None
    assert scaled["bf16"] is None


def test_ways_of_gpus_are_not_tried_on_a_processor() -> None:
    side = PlainSide(Task("resnet20", "fp32", 10, 4, CPU), True, False, torch.get_num_threads())

    assert {way.launched for way in side._ways} == {"eager", "compiled"}
    assert {way.launched for way in WAYS} == {"eager", "compiled", *ON_CUDA_ALONE}


def test_a_plain_way_that_fails_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the chosen loop is in memory when the next way is prepared."""
    alive, seen = weakref.WeakSet[PlainLoop](), list[int]()
    real = PlainLoop._launch

    def launch(self: PlainLoop, way: Way, module: torch.nn.Module) -> None:
        gc.collect()
        seen.append(len(alive))
        alive.add(self)
        if way.launched == "graphed":
            raise RuntimeError("capture refused")
        real(self, Way(), module)

    monkeypatch.setattr(PlainLoop, "_launch", launch)
    monkeypatch.setattr("benchmarks.trainer_speed.TRIED_SECONDS", 0.0)
    side = PlainSide(Task("resnet20", "fp32", 10, 1, CPU), True, False, torch.get_num_threads())
    side._ways = [Way(launched="graphed"), Way(), Way(fused=False), Way(launched="graphed")]

    side.choose()

    assert seen[:2] == [0, 0] and max(seen) == 1
    assert capsys.readouterr().out.count("failed: RuntimeError: capture refused") == 2
