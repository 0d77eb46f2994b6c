"""How a step is launched: what a configuration leaves open, what is worth trying, and that the fastest measured is kept."""

from itertools import product
from math import inf
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aiperf.errors import BadConfiguration
from aiperf.train.ceiling import blank, rehearse
from aiperf.train.checkpoint import load
from aiperf.train.checkpoint_files import CheckpointFolder
from aiperf.train.collective import Alone
from aiperf.train.compiling import EAGER, GUESSES, Expectation, Expectations, Way, ways
from aiperf.train.conf import TrainerConf
from aiperf.train.data.opening import open_data
from aiperf.train.initialise import initialise
from aiperf.train.inprocess import train_here
from aiperf.train.launch import Launch, fastest
from aiperf.train.module import build
from aiperf.train.place import Place
from aiperf.train.precision import choose
from tests.train.orders import CONF, IMAGES, graph, one_thread, order

__all__ = ["one_thread"]

ALL = [Way(compiled, graphed) for compiled, graphed in product((False, True), repeat=2)]
COMPILED = Way(compiled=True)
choices = st.sampled_from(["auto", "on", "off"])
seconds = st.floats(1e-3, 10.0)
# torch 2.13's own parts warn of each other
importing_inductor = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


@given(choices, choices)
def test_what_is_on_is_in_all_open_ways_what_is_off_in_none_and_auto_leaves_both_open_with_cuda(
    compiling: str, graphs: str
) -> None:
    found = ways(compiling, graphs, on_cuda=True)

    wanted = {"on": {True}, "off": {False}, "auto": {True, False}}
    assert {way.compiled for way in found} == wanted[compiling]
    assert {way.cuda_graphs for way in found} == wanted[graphs]
    assert len(found) == len(wanted[compiling]) * len(wanted[graphs])


def test_cuda_graphs_without_cuda_are_refused(tmp_path: Path) -> None:
    with open_data(IMAGES) as images, pytest.raises(BadConfiguration, match=r"trainer\.cuda_graphs='on' needs .*CUDA"):
        conf = TrainerConf(cuda_graphs="on")
        next(train_here(order(), conf, images, graph(), tmp_path))


@given(
    st.dictionaries(st.sampled_from(ALL), st.builds(Expectation, st.floats(0.0, 100.0), st.floats(0.5, 2.0))),
    st.dictionaries(st.sampled_from(ALL), seconds),
    st.integers(0, 10**6),
)
def test_a_way_is_tried_once_and_only_where_it_promises_to_save_more_than_it_costs(
    known: dict[Way, Expectation], measured: dict[Way, float], steps: int
) -> None:
    expected = Expectations({**GUESSES, **known})
    measured = {EAGER: 0.1, **measured}

    way = expected.next_to_try(ALL, measured, steps)

    saved = {
        each: (min(measured.values()) - measured[EAGER] * expected.of[each].share) * steps - expected.of[each].seconds
        for each in ALL
        if each not in measured
    }
    if way is None:
        assert all(amount <= 0.0 for amount in saved.values())
    else:
        assert saved[way] == max(saved.values()) > 0.0


def test_a_way_that_measured_slower_or_could_not_be_had_is_not_tried_again() -> None:
    for step in (0.12, inf):
        learnt = Expectations(GUESSES).learn(COMPILED, seconds=60.0, eager_step=0.1, step=step)

        assert learnt.next_to_try([EAGER, COMPILED], {EAGER: 0.1}, 10**9) is None


@pytest.mark.slow  # compiling takes a minute where nothing is cached
@importing_inductor
@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_the_fastest_of_real_candidates_is_kept_and_what_was_measured_is_expected_next(factor: float) -> None:
    """The eager step's measured time is scaled, so that it is sure which of the two is faster."""
    with open_data(IMAGES) as images:
        place = Place.make(CONF, images, graph(), torch.device("cpu"), Alone(), None)
    place.timeline = Scaled(factor)
    network = build(graph())
    initialise(network, seed=0)
    batch = blank(graph(), 4, place.device, place.precision, channels_last=True)

    kept = fastest((EAGER, COMPILED), network, batch, place, lambda: rehearse(network, batch, place.precision), 10**15)

    assert kept.way == (EAGER if factor < 1.0 else COMPILED)
    assert (network._compiled_call_impl is not None) == kept.way.compiled
    assert (place.expected.of[COMPILED].share < 1.0) == kept.way.compiled
    torch._dynamo.reset()


class Scaled:
    """A processor's time of which the first two marks lie `factor` times as far apart as they did."""

    behind = 0

    def __init__(self, factor: float) -> None:
        self._marks = 0
        self._factor = factor

    def mark(self) -> float:
        self._marks += 1
        return {1: 0.0, 2: self._factor}.get(self._marks, float(self._marks))

    def anchor(self) -> None:
        return None

    def second(self, mark: object) -> float:
        assert isinstance(mark, float)
        return mark


@pytest.mark.slow  # compiling takes a minute where nothing is cached
@importing_inductor
def test_a_batch_of_another_size_goes_eagerly_and_is_not_compiled_anew() -> None:
    network = build(graph())
    initialise(network, seed=0)
    launch = Launch(network, COMPILED, torch.zeros(4, 1, 8, 8), choose("fp32", torch.device("cpu")))
    whole = network(torch.zeros(4, 1, 8, 8))
    compiled = torch._dynamo.utils.counters["stats"]["unique_graphs"]

    with launch.eager_if(True):
        smaller = network(torch.zeros(3, 1, 8, 8))
    with launch.eager_if(False):
        again = network(torch.zeros(4, 1, 8, 8))

    assert compiled > 0
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == compiled
    assert (whole.shape, smaller.shape, again.shape) == ((4, 3), (3, 3), (4, 3))
    torch._dynamo.reset()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no accelerator with CUDA")
@pytest.mark.parametrize("compiling", ["off", "on"])
def test_with_cuda_graphs_a_trial_ends_with_the_weights_it_has_without(tmp_path: Path, compiling: str) -> None:
    ended = []
    for graphs in ("off", "on"):
        conf = TrainerConf(precision="fp32", learning_rate=0.05, compile=compiling, cuda_graphs=graphs)
        folder = tmp_path / graphs
        with open_data(IMAGES) as images:
            words = list(train_here(order(), conf, images, graph(), folder, torch.device("cuda")))
        assert words[0].cuda_graphs == (graphs == "on")  # type: ignore[union-attr]
        ended.append(load(CheckpointFolder(folder), 1, graph().fingerprint).weights)
    for name, plain in ended[0].items():
        torch.testing.assert_close(ended[1][name], plain, rtol=1e-3, atol=1e-4)
