"""The command that measures every way to launch a step goes on where one cannot be had, and says why."""

from __future__ import annotations

import pytest
import torch

from aiperf.train.execution import NotHad
from aiperf.train.execution_mode import EAGER, ExecutionMode
from benchmarks import launch_ways
from morphism import start

CPU = torch.device("cpu")


@pytest.mark.slow
def test_a_precision_and_a_way_that_cannot_be_had_are_rows_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, said = start("digits_small"), list[str]()
    real = launch_ways.against_eager

    def refuse_fused(graph: object, mode: ExecutionMode, *rest: object) -> object:
        if mode.fused != "no":
            raise NotHad("gamma is off")
        return real(graph, mode, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(launch_ways, "against_eager", refuse_fused)
    monkeypatch.setattr(launch_ways, "open_modes", lambda device, compiles: (ExecutionMode(fused="norm"), EAGER))

    launch_ways.measure(graph, "tf32", 4, CPU, 0.001, 6, False, said.append)
    launch_ways.measure(graph, "fp32", 4, CPU, 0.001, 6, False, said.append)

    unavailable, fused, eager = said
    assert "tf32" in unavailable and "needs an NVIDIA accelerator" in unavailable
    assert "fused=norm" in fused and "gamma is off" in fused
    assert "eager" in eager and "95 % interval" in eager


def test_each_way_has_a_name_of_its_own() -> None:
    from aiperf.train.execution_mode import GUESSES

    assert len({launch_ways.spoken(mode) for mode in GUESSES}) == len(GUESSES)
    assert launch_ways.spoken(ExecutionMode(cuda_graphs=True, fused="conv")) == "fused=conv + CUDA graphs"
