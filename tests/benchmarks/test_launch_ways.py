"""Rows of `launch_ways`: each precision and way has one, even if others raise."""

from __future__ import annotations

import pytest
import torch

from aiperf.train.execution_mode import EAGER, GUESSES, ExecutionMode
from benchmarks import launch_ways
from morphism import start

CPU = torch.device("cpu")


@pytest.mark.parametrize("error", [RuntimeError("capture refused"), OSError("no compiler"), ValueError("odd")])
def test_a_way_that_fails_is_a_row_and_the_next_is_run(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    graph, rows = start("digits_small"), list[str]()
    real = launch_ways.against_eager

    def fail_graphs(graph: object, mode: ExecutionMode, *rest: object) -> object:
        if mode.cuda_graphs:
            raise error
        return real(graph, mode, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(launch_ways, "against_eager", fail_graphs)
    ways = (ExecutionMode(cuda_graphs=True), EAGER)

    launch_ways.measure(graph, "tf32", 4, CPU, 0.001, 6, ways, rows.append)
    launch_ways.measure(graph, "fp32", 4, CPU, 0.001, 6, ways, rows.append)

    unavailable, failed, eager = rows
    assert "tf32" in unavailable and "needs an NVIDIA accelerator" in unavailable
    assert "eager+graphs" in failed and f"{type(error).__name__}: {error}" in failed
    assert "| eager |" in eager and "95 % interval" in eager


def test_bytes_of_an_eager_resnet50() -> None:
    """Without weights, in 16 bits (docs/training.md)."""
    assert launch_ways.bytes_per_image(start("resnet50_v1"), 2) / 1e6 == pytest.approx(457, abs=1)
    assert launch_ways.bytes_per_image(start("resnet50_v1_5"), 2) / 1e6 == pytest.approx(477, abs=1)


def test_each_way_has_a_name_of_its_own() -> None:
    assert len({launch_ways.name_of(mode) for mode in GUESSES}) == len(GUESSES)
