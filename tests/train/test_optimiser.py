"""The optimiser of the ranks: torch's SGD to the bit, without torch's compiler."""

from __future__ import annotations

import subprocess
import sys

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from aiperf.train.optimiser import sgd
from aiperf.train.trainer_config import TrainerConf


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rate=st.floats(1e-4, 1.0),
    momentum=st.sampled_from((0.0, 0.9)),
    decay=st.sampled_from((0.0, 1e-4)),
    steps=st.integers(1, 4),
)
def test_its_steps_are_those_of_torchs_own_to_the_bit(
    seed: int, rate: float, momentum: float, decay: float, steps: int
) -> None:
    torch.manual_seed(seed)
    ours, theirs = nn.Linear(7, 5), nn.Linear(7, 5)
    theirs.load_state_dict(ours.state_dict())
    conf = TrainerConf(learning_rate=rate, momentum=momentum, weight_decay=decay)
    optimisers = [
        sgd(ours, conf),
        torch.optim.SGD(theirs.parameters(), lr=rate, momentum=momentum, weight_decay=decay, fused=True),
    ]

    for _ in range(steps):
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        for optimiser in optimisers:
            optimiser.step()

    for name, tensor in ours.state_dict().items():
        assert torch.equal(tensor, theirs.state_dict()[name]), name
    optimisers[0].zero_grad()
    assert all(parameter.grad is None for parameter in ours.parameters())


def test_a_rank_without_compilation_loads_no_compiler() -> None:
    """It would cost each rank more than a second when it starts, for nothing."""
    code = (
        "import importlib.util, sys, torch\n"
        "from torch import nn\n"
        "from aiperf.train.optimiser import sgd\n"
        "from aiperf.train.trainer_config import TrainerConf\n"
        "network = nn.Linear(3, 2)\n"
        "optimiser = sgd(network, TrainerConf())\n"
        "if importlib.util.find_spec('horovod'):\n"
        "    import horovod.torch as hvd\n"
        "    hvd.init()\n"
        "    optimiser = hvd.DistributedOptimizer(optimiser, named_parameters=list(network.named_parameters()))\n"
        "network(torch.ones(1, 3)).sum().backward()\n"
        "optimiser.step()\n"
        "optimiser.zero_grad()\n"
        "print('torch._dynamo' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)

    assert done.stdout.split() == ["False"]
