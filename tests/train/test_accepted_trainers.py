"""A dry run accepts exactly the trainer options that torch can build on a CPU.

Modes, precision, optimiser, exchange, ceiling.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings

from aiperf.config import configure
from aiperf.errors import BadConfiguration
from aiperf.journal.events import WorkerShape
from aiperf.planning.buildable import require_devices, require_memory, require_packages
from aiperf.train.collectives.collective import choose as choose_collective
from aiperf.train.execution_mode import modes_of
from aiperf.train.memory_limits import largest_batch
from aiperf.train.optimiser import optimiser_of, set_learning_rate
from aiperf.train.precision import choose
from aiperf.train.torch_network import build
from aiperf.train.trainer_config import TrainerConf, learning_rate, ranks_of_worker
from morphism import start
from searchers.batch_sizes import LARGEST_BATCH
from tests.builders.options import drawn

USUAL = configure([])
START = start("digits_small", image=8, channels=1, classes=10)
NETWORK = build(START)
CPU = torch.device("cpu")
GIBIBYTE = 1 << 30


def is_built(trainer: TrainerConf | None) -> None:
    """Held to the plan's rules, then built as a rank on a processor builds it."""
    assume(trainer is not None)
    assert trainer is not None
    conf = replace(USUAL, trainer=trainer)
    trainer = conf.trainer
    memory = trainer.memory_limit_bytes or GIBIBYTE
    shape = WorkerShape(source="a test", device="a processor", accelerators=0, ranks=2, cores=2, memory_bytes=memory)
    try:
        require_devices(conf, 0)
        require_packages(conf)
        require_memory(conf, START, shape)
    except BadConfiguration:
        return
    assert modes_of(trainer, "")
    choose_collective(trainer.collective, min(8, ranks_of_worker(trainer, 0, 2)), on_cuda=False)
    precision = choose(trainer.precision, CPU)
    try:
        assert 8 <= largest_batch(START, CPU, precision, trainer, memory) <= LARGEST_BATCH
    except BadConfiguration:
        assert trainer.precision == "auto"  # which of them is measured: the plan takes the least that one needs
    optimiser = optimiser_of(NETWORK, trainer)
    for epoch in (1, trainer.decay_epochs or 1):
        rate = learning_rate(trainer, epoch, 2 * LARGEST_BATCH)
        single = torch.tensor(rate, dtype=torch.float32).item()
        assert 0 < single < math.inf, "a rate is a number of FP32"
        set_learning_rate(optimiser, rate)
        parameter = torch.nn.Parameter(torch.ones(3))
        parameter.grad = torch.full_like(parameter, 1e-3)
        group = optimiser.param_groups[0]
        values = {name: group[name] for name in ("lr", "momentum", "betas", "weight_decay", "fused") if name in group}
        kind = torch.optim.SGD if trainer.optimiser == "sgd" else torch.optim.AdamW
        kind([parameter], **values).step()
        assert torch.isfinite(parameter).all()


@given(drawn(TrainerConf))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_trainer_that_is_accepted_is_built(trainer: TrainerConf | None) -> None:
    is_built(trainer)


@pytest.mark.slow
@given(drawn(TrainerConf, most=8))
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
def test_many_trainers_that_are_accepted_are_built(trainer: TrainerConf | None) -> None:
    is_built(trainer)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16", "auto", "tf32"])
@pytest.mark.parametrize("graphs", ["on", "off", "auto"])
def test_the_plan_refuses_what_a_rank_on_a_processor_refuses(precision: str, graphs: str) -> None:
    trainer = TrainerConf(precision=precision, cuda_graphs=graphs)
    conf = replace(USUAL, trainer=trainer)

    def refuses_plan() -> bool:
        try:
            require_devices(conf, 0)
        except BadConfiguration:
            return True
        return False

    def refuses_rank() -> bool:
        try:
            modes_of(trainer, "")
            choose(precision, CPU)
        except BadConfiguration:
            return True
        return False

    assert refuses_plan() == refuses_rank()
