"""The optimiser of the ranks: torch's SGD to the bit, without torch's compiler."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from aiperf.config import as_plain, configure, from_plain
from aiperf.errors import BadConfiguration
from aiperf.train.optimiser import initial_state, load_state, optimiser_of, state_by_name
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
        optimiser_of(ours, conf),
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


@pytest.mark.parametrize("scale", [None, 1024.0])
@pytest.mark.parametrize("size", [0.01, 10.0])
def test_adamw_clips_and_decays_as_torchs_own_steps(scale: float | None, size: float) -> None:
    """Clipping within the step is that after `unscale_`. Gains and embedding do not decay."""
    torch.manual_seed(1)
    ours = nn.Sequential(nn.Embedding(9, 8), nn.RMSNorm(8), nn.Linear(8, 3, bias=False))
    theirs = copy.deepcopy(ours)
    conf = TrainerConf(optimiser="adamw")
    mine = optimiser_of(ours, conf)
    load_state(mine, ours, initial_state(ours, conf))
    kept, decayed = [theirs[0].weight, theirs[1].weight], [theirs[2].weight]
    other = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": kept, "weight_decay": 0.0}], lr=3e-3, betas=(0.9, 0.95)
    )
    scaler = None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale)

    for step in range(4):
        for one, its in zip(ours.parameters(), theirs.parameters(), strict=True):
            gradient = size * torch.randn_like(one)
            its.grad, one.grad = gradient.clone(), gradient * (scale or 1.0)
            if step == 2 and scaler is not None and one.dim() == 1:
                one.grad[0] = float("inf")
        if scaler is None:
            mine.step()
        else:
            scaler.scale(torch.zeros(()))
            scaler.step(mine)
            scaler.update(scale)
        if step != 2 or scaler is None:  # an overflow skips the step
            nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
            other.step()

    for one, its in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, its, rtol=2e-5, atol=1e-6)


def test_the_state_of_adamw_survives_a_checkpoint() -> None:
    conf, network = TrainerConf(optimiser="adamw"), nn.Linear(5, 3, bias=False)
    first = optimiser_of(network, conf)
    load_state(first, network, initial_state(network, conf))
    network.weight.grad = torch.ones_like(network.weight)
    first.step()
    saved = {name: each.clone() for name, each in state_by_name(first, network).items()}
    second, copied = optimiser_of(other := copy.deepcopy(network), conf), {}
    load_state(second, other, saved)
    copied = state_by_name(second, other)

    assert set(saved) == {"weight.exp_avg", "weight.exp_avg_sq", "weight.step"} == set(initial_state(network, conf))
    assert all(torch.equal(copied[name], each) for name, each in saved.items())
    for optimiser, module in ((first, network), (second, other)):
        module.weight.grad = torch.full_like(module.weight, 0.5)
        optimiser.step()
    assert torch.equal(network.weight, other.weight)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["dataset=text"], ("adamw", 3e-3, 0.1, 1.0, 1, 0.0, [4, 6, 8, 10])),
        (["dataset=text", "start=llama_162m"], ("adamw", 6e-4, 0.1, 1.0, 1, 0.0, [4, 6, 8, 10])),
        (["dataset=text", "trainer.optimiser=sgd"], ("sgd", 0.1, 5e-5, 0.0, 5, 0.0, [4, 6, 8, 10])),
        (["dataset=text", "schedule.epochs=[2]", "trainer.weight_decay=0"], ("adamw", 3e-3, 0.0, 1.0, 1, 0.0, [2])),
        (["trainer.optimiser=adamw"], ("adamw", 3e-3, 0.1, 1.0, 1, 0.1, [6, 9, 12, 15])),
        ([], ("sgd", 0.1, 5e-5, 0.0, 5, 0.1, [6, 9, 12, 15])),
    ],
)
def test_options_default_to_those_of_the_optimiser(words: list[str], expected: tuple[object, ...]) -> None:
    conf = configure(words)
    trainer = conf.trainer

    found = trainer.optimiser, trainer.learning_rate, trainer.weight_decay, trainer.gradient_clipping
    assert (*found, trainer.warmup_epochs, trainer.label_smoothing, list(conf.schedule.epochs)) == expected
    assert from_plain(as_plain(conf)) == conf


def test_a_rank_without_compilation_loads_no_compiler() -> None:
    """It would cost each rank more than a second when it starts, for nothing."""
    code = (
        "import importlib.util, sys, torch\n"
        "from torch import nn\n"
        "from aiperf.train.optimiser import optimiser_of\n"
        "from aiperf.train.trainer_config import TrainerConf\n"
        "network = nn.Linear(3, 2)\n"
        "optimiser = optimiser_of(network, TrainerConf())\n"
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


@pytest.mark.parametrize(
    "words",
    [
        ("trainer.profile_steps=2", "trainer.optimiser=adamw"),
        ("trainer.compile=regions", "trainer.channels_last=false"),
        ("trainer.compile=regions", "trainer.cuda_graphs=on"),
    ],
)
def test_options_that_exclude_each_other_are_refused_by_name(words: tuple[str, str]) -> None:
    with pytest.raises(BadConfiguration, match=r"trainer\.\w+=.* cannot be combined with trainer\.\w+=.*\. Leave "):
        configure(words)
