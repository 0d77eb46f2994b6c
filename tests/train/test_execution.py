"""Execution modes of a step.

The modes that a configuration allows, those worth trying, and the choice of the fastest measured.
"""

import gc
import os
import re
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aiperf.data.opening import open_data
from aiperf.errors import BadConfiguration
from aiperf.journal.events import TrialPrepared
from aiperf.journal.messages import Crashed, Train, TrialDone
from aiperf.own_files import NotOwn
from aiperf.scratch import CODE_CACHES
from aiperf.train import execution, execution_mode, loop
from aiperf.train.checkpoints.checkpoint import Writer, load
from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder
from aiperf.train.collectives.collective import Exchange, SingleRank
from aiperf.train.execution import Execution, ModeUnavailable, fastest
from aiperf.train.execution_mode import EAGER, GUESSES, ExecutionMode, Expectation, Expectations, modes_of
from aiperf.train.loop import train_here
from aiperf.train.memory_limits import DoesNotFit, blank, rehearse, rehearse_eager_passes
from aiperf.train.optimiser import EagerSgd
from aiperf.train.precision import choose
from aiperf.train.rank_context import RankContext
from aiperf.train.torch_network import Network, build, initialise
from aiperf.train.trainer_config import TrainerConf
from morphism import encode_morph
from tests.builders.network import random_morphs
from tests.builders.order import CONF, IMAGES, graph, order

ALL = [ExecutionMode(compiled, graphed) for compiled, graphed in product((False, True), repeat=2)]
COMPILED = ExecutionMode(compiled=True)
choices = st.sampled_from(["auto", "on", "off"])
seconds = st.floats(1e-3, 10.0)
# torch 2.13's own parts warn of each other
importing_inductor = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


@given(choices, choices)
def test_open_modes_follow_the_configuration(compiling: str, graphs: str) -> None:
    found = modes_of(TrainerConf(compile=compiling, cuda_graphs=graphs), "NVIDIA H100 80GB HBM3")

    wanted = {"on": {True}, "off": {False}, "auto": {True, False}}
    assert {mode.compiled for mode in found} == wanted[compiling]
    assert {mode.cuda_graphs for mode in found} == wanted[graphs]
    assert len(found) == len(wanted[compiling]) * len(wanted[graphs])


def test_cuda_graphs_without_cuda_are_refused(tmp_path: Path) -> None:
    with (
        open_data(IMAGES) as images,
        pytest.raises(BadConfiguration, match=r"trainer\.cuda_graphs='on' cannot be combined with a CPU"),
    ):
        conf = TrainerConf(cuda_graphs="on")
        next(train_here(order(), conf, images, graph(), tmp_path))


@given(
    st.dictionaries(st.sampled_from(ALL), st.builds(Expectation, st.floats(0.0, 100.0), st.floats(0.5, 2.0))),
    st.dictionaries(st.sampled_from(ALL), seconds),
    st.integers(0, 10**6),
    st.sampled_from([0.001, 0.0099, 0.0101, 0.1]),
)
def test_a_mode_is_tried_once_if_it_promises_to_save_time(
    known: dict[ExecutionMode, Expectation], measured: dict[ExecutionMode, float], steps: int, eager: float
) -> None:
    """CUDA graphs for steps below 10 ms only."""
    expected = Expectations({**GUESSES, **known})
    measured = {**measured, EAGER: eager}

    mode = expected.next_to_try(ALL, measured, steps)

    saved = {
        each: (min(measured.values()) - measured[EAGER] * expected.guesses[each].share) * steps
        - expected.guesses[each].seconds
        for each in ALL
        if each not in measured and (eager < 0.01 or not each.cuda_graphs)
    }
    if mode is None:
        assert all(amount <= 0.0 for amount in saved.values())
    else:
        assert saved[mode] == max(saved.values()) > 0.0


TIRELESS = 10**9


def is_tried(expected: Expectations, eager_step: float) -> bool:
    return expected.next_to_try([EAGER, COMPILED], {EAGER: eager_step}, TIRELESS) is not None


@given(st.floats(1e-4, 10.0), st.integers(1, 30), st.integers(0, 30))
def test_a_failed_mode_is_tried_again_after_ten_trials(step: float, failures: int, trials: int) -> None:
    expected = Expectations(GUESSES)
    for _ in range(failures):
        expected = expected.next_trial().learn(COMPILED, 5.0, step, inf)

    for _ in range(trials):
        expected = expected.next_trial()

    assert is_tried(expected, step) == (trials >= 10)


@given(st.floats(1e-4, 1.0), st.floats(2.0, 1000.0), st.sampled_from([1.01, inf]))
def test_a_small_network_says_nothing_about_a_larger_one(step: float, larger: float, share: float) -> None:
    expected = Expectations(GUESSES).learn(COMPILED, 60.0, step, share * step)

    assert not is_tried(expected, step)
    assert is_tried(expected, larger * step)


@given(st.lists(st.tuples(st.floats(1.0, 100.0), st.floats(0.5, 1.5)), min_size=1, max_size=6))
def test_the_last_three_trials_of_a_class_are_expected(trials: list[tuple[float, float]]) -> None:
    expected = Expectations(GUESSES)
    for cost, share in trials:
        expected = expected.next_trial().learn(COMPILED, cost, 0.1, share * 0.1)

    found, last = expected.of(COMPILED, 0.1), trials[-3:]
    assert found.seconds == pytest.approx(sum(cost for cost, _ in last) / len(last))
    assert found.share == pytest.approx(sum(share for _, share in last) / len(last))


def learnt(context: RankContext, mode: ExecutionMode) -> list[Expectation]:
    """Measurements of a mode in all classes."""
    return [one for (of, _), some in context.expected.measured.items() if of == mode for _, one in some]


def descendants(count: int) -> list[Train]:
    """Orders of a lineage's networks, each another one."""
    orders, lineage = [], []
    for number, (morph, _, _) in enumerate(random_morphs(graph(), Random(23), count)):
        lineage.append(encode_morph(morph))
        orders.append(order(trial=number, morphs=tuple(lineage), batch_size=75, last_epoch=2))
    assert len(orders) == count
    return orders


def compiling(compiler: str, compile: str = "on") -> RankContext:
    with open_data(IMAGES) as images:
        conf = replace(CONF, compile=compile)
        return replace(
            RankContext.make(conf, images, graph(), torch.device("cpu"), SingleRank(), None), compiler=compiler
        )


def graphs_compiled() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.usefixtures("fresh_compiler")
@importing_inductor
@pytest.mark.parametrize(
    "compiler", [pytest.param("eager", marks=pytest.mark.slow), pytest.param("inductor", marks=pytest.mark.slow)]
)
def test_twelve_networks_of_one_process_are_compiled_once_each(compiler: str) -> None:
    """torch.compile gives up on a function after 8 compilations and silently continues eagerly."""
    context = compiling(compiler)
    context.writer = None
    for train_order in descendants(12):
        before = graphs_compiled()

        words = list(loop.train(train_order, context, taken=0.0))

        assert isinstance(words[0], TrialPrepared) and words[0].compiled
        assert isinstance(words[-1], TrialDone)
        assert graphs_compiled() - before == 1


@pytest.mark.usefixtures("fresh_compiler")
@importing_inductor
def test_a_network_that_was_not_compiled_is_not_reported_as_such() -> None:
    """The environment disables compilation. With compile=on the trial fails, because eager training was not chosen."""
    with torch._dynamo.config.patch(disable=True):
        words = list(loop.train(order(), compiling("eager"), taken=0.0))

    assert len(words) == 1
    assert isinstance(words[0], Crashed) and "Dynamo tracing is disabled" in words[0].reason and not words[0].retry


def test_an_uncompiled_launch_is_not_reported_as_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    network = build(graph())
    initialise(network, seed=0)
    execution = Execution(network, COMPILED, torch.zeros(4, 1, 8, 8), choose("fp32", torch.device("cpu")), "eager")
    network.straight_line(network, torch.zeros(4, 1, 8, 8))

    with pytest.raises(ModeUnavailable, match="TORCH_COMPILE_DISABLE"):
        execution.verify()


@pytest.mark.usefixtures("fresh_compiler")
@importing_inductor
def test_auto_trains_eagerly_if_compilation_fails() -> None:
    def refuses(graph: object, inputs: object) -> object:
        raise RuntimeError("no compiler on this host")

    torch._dynamo.register_backend(refuses, "refuses")  # type: ignore[arg-type]
    context = compiling("refuses", compile="auto")
    network = build(graph())
    initialise(network, seed=0)
    images = blank(graph(), 4, context.device, context.precision, channels_last=True)

    kept = fastest(
        (EAGER, COMPILED), network, images, context, lambda: rehearse(network, images, context.precision), 10**15
    )

    assert kept.mode == EAGER
    assert network._compiled_call_impl is None
    assert [each.share for each in learnt(context, COMPILED)] == [inf]
    words = list(loop.train(order(), compiling("refuses"), taken=0.0))
    assert isinstance(words[-1], Crashed) and "no compiler on this host" in words[-1].reason


GRAPHED = ExecutionMode(cuda_graphs=True)


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of this machine are as short as those for which `auto` tries CUDA graphs."""
    monkeypatch.setattr(execution_mode, "GRAPHS_BELOW_SECONDS", inf)


REFUSALS = [
    RuntimeError("CUDA error: operation not permitted when stream is capturing"),
    OSError("no C compiler"),
    subprocess.CalledProcessError(1, ["gcc", "launcher.c"]),
    type("CompilationError", (Exception,), {"__module__": "triton.compiler.errors"})("at 3:4: out of range"),
]


@pytest.mark.usefixtures("short_steps")
@pytest.mark.parametrize("error", REFUSALS, ids=str)
@pytest.mark.parametrize("graphs", ["auto", "on"])
def test_a_mode_that_is_refused_is_not_had(error: Exception, graphs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With auto the trial continues eagerly. With on it fails."""

    def refuse(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(execution, "_capture", refuse)
    network, images, context = prepared()
    modes = (EAGER, GRAPHED) if graphs == "auto" else (GRAPHED,)

    def choose_one() -> Execution:
        return fastest(modes, network, images, context, lambda: rehearse(network, images, context.precision), 10**15)

    if graphs == "auto":
        assert choose_one().mode == EAGER
        assert [each.share for each in learnt(context, GRAPHED)] == [inf]
    else:
        with pytest.raises(ModeUnavailable, match=re.escape(str(error))):
            choose_one()


def test_a_failed_device_is_no_refused_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")

    monkeypatch.setattr(execution, "_capture", fail)
    network, images, context = prepared()

    with pytest.raises(RuntimeError, match="uncorrectable ECC"):
        fastest((GRAPHED,), network, images, context, lambda: None, 10**15)


class Ranks(SingleRank):
    """Two ranks of which the other one does the same."""

    ranks = 2

    def __init__(self, events: list[str]) -> None:
        self.events = events

    def total(self, values: Sequence[float]) -> list[float]:
        self.events.append("meet")
        return super().total(values)

    def exchange(self, *arguments: Any) -> Exchange:
        exchange = super().exchange(*arguments)
        self.events.append("exchange begins")
        exchange.close = lambda: self.events.append("exchange ends")  # type: ignore[method-assign]
        return exchange


@pytest.mark.usefixtures("short_steps")
def test_measured_steps_exchange_and_captures_come_before(monkeypatch: pytest.MonkeyPatch) -> None:
    network, images, context = prepared()
    events: list[str] = []
    context.collective = Ranks(events)
    monkeypatch.setattr(execution, "_capture", lambda *arguments: events.append("capture"))
    context.expected = Expectations({EAGER: Expectation(0.0, 1.0), GRAPHED: Expectation(0.0, 0.5)})

    fastest((EAGER, GRAPHED), network, images, context, lambda: events.append("alone"), 10**15)

    told = [event for event in events if event != "meet"]
    measured = ["exchange begins", "exchange ends"]
    assert told == [*measured, "capture", "alone", *measured]


@pytest.mark.parametrize("reads", [False, True])
def test_the_first_rank_of_a_host_compiles_before_the_others(reads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    network, images, context = prepared()
    events: list[str] = []
    context.collective, context.reads_code = Ranks(events), reads
    monkeypatch.setattr(execution, "_compiled", lambda *arguments: None)
    monkeypatch.setattr(Execution, "verify", lambda self: None)

    fastest((COMPILED,), network, images, context, lambda: events.append("compile"), 10**15)

    assert events[:2] == (["meet", "compile"] if reads else ["compile", "meet"])


class Pool:
    """Memory of a captured graph."""


@pytest.mark.usefixtures("short_steps")
def test_a_modes_graphs_are_released_before_the_next_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    alive, at_capture = weakref.WeakSet[Pool](), list[int]()

    def capture(network: Network, images: torch.Tensor, mode: ExecutionMode) -> None:
        at_capture.append(len(alive))
        pool = Pool()
        alive.add(pool)
        network.__dict__["forward"] = partial(lambda pool, batch: Network.forward(network, batch), pool)

    monkeypatch.setattr(execution, "_capture", lambda network, images, precision: capture(network, images, GRAPHED))
    network, images, context = prepared()
    modes = (EAGER, *(ExecutionMode(cuda_graphs=number) for number in (2, 3, 4)))  # type: ignore[arg-type]
    context.expected = Expectations({mode: Expectation(0.0, 0.5) for mode in modes})
    context.timeline = Slower()  # type: ignore[assignment]

    kept = fastest(modes, network, images, context, lambda: rehearse(network, images, context.precision), 10**15)

    assert kept.mode == EAGER and len(context.expected.measured) == 3
    assert at_capture == [0, 0, 0] and not alive


class Slower:
    """Time of a device whose steps get slower and slower."""

    behind = 0

    def __init__(self) -> None:
        self._marks = 0

    def mark(self) -> float:
        self._marks += 1
        return float(self._marks**2)

    def anchor(self) -> None:
        return None

    def second(self, mark: float) -> float:
        return mark


def prepared() -> tuple[Network, torch.Tensor, RankContext]:
    with open_data(IMAGES) as images:
        context = RankContext.make(CONF, images, graph(), torch.device("cpu"), SingleRank(), None)
    network = build(graph())
    initialise(network, seed=0)
    return network, blank(graph(), 4, context.device, context.precision, channels_last=True), context


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_compiler")
@importing_inductor
def test_a_network_is_released_with_its_trial_in_any_mode() -> None:
    """It does not wait for the garbage collector, because objects in cycles hold an accelerator's memory until then."""
    context = compiling("aot_eager")
    gc.collect()
    of_other_tests = weakref.WeakSet(each for each in gc.get_objects() if type(each) in (Network, EagerSgd))
    for train_order in descendants(3):
        words = loop.train(train_order, context, taken=0.0)
        next(words)
        found = [each for each in gc.get_objects() if type(each) in (Network, EagerSgd) and each not in of_other_tests]
        alive = [weakref.ref(each) for each in found]
        del found
        assert len(alive) == 2
        gc.disable()
        try:
            list(words)
            assert [each() for each in alive] == [None, None]
        finally:
            gc.enable()


@pytest.mark.slow  # compiling takes a minute without a cache
@importing_inductor
@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_the_fastest_candidate_is_kept_and_expected_next(factor: float) -> None:
    """The eager step's measured time is scaled, so that it is sure which of the two is faster."""
    with open_data(IMAGES) as images:
        context = RankContext.make(CONF, images, graph(), torch.device("cpu"), SingleRank(), None)
    context.timeline = Scaled(factor)
    network = build(graph())
    initialise(network, seed=0)
    batch = blank(graph(), 4, context.device, context.precision, channels_last=True)

    kept = fastest(
        (EAGER, COMPILED), network, batch, context, lambda: rehearse(network, batch, context.precision), 10**15
    )

    assert kept.mode == (EAGER if factor < 1.0 else COMPILED)
    assert (network._compiled_call_impl is not None) == kept.mode.compiled
    assert (learnt(context, COMPILED)[0].share < 1.0) == kept.mode.compiled
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


@pytest.mark.slow  # compiling takes a minute without a cache
@importing_inductor
def test_a_batch_of_another_size_runs_eagerly() -> None:
    network = build(graph())
    initialise(network, seed=0)
    execution = Execution(network, COMPILED, torch.zeros(4, 1, 8, 8), choose("fp32", torch.device("cpu")))
    whole = network(torch.zeros(4, 1, 8, 8))
    compiled = torch._dynamo.utils.counters["stats"]["unique_graphs"]

    with execution.eager_if(True):
        smaller = network(torch.zeros(3, 1, 8, 8))
    with execution.eager_if(False):
        again = network(torch.zeros(4, 1, 8, 8))

    assert compiled > 0
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == compiled
    assert (whole.shape, smaller.shape, again.shape) == ((4, 3), (3, 3), (4, 3))
    torch._dynamo.reset()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no accelerator with CUDA")
@pytest.mark.parametrize("compiling", ["off", "on"])
def test_cuda_graphs_do_not_change_the_final_weights(tmp_path: Path, compiling: str) -> None:
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


# --- rehearsal before a trial, and the search for algorithms


def test_algorithms_are_searched_for_whole_batches_only(
    tmp_path: Path,
) -> None:
    """CuDNN's search is a switch of the process. The test reads it at each convolution, as a GPU would."""
    found: set[tuple[bool, int, bool]] = set()

    def look(layer: torch.nn.Module, entering: tuple[torch.Tensor, ...]) -> None:
        if isinstance(layer, torch.nn.Conv2d):
            found.add((layer.training, len(entering[0]), torch.backends.cudnn.benchmark))

    with open_data(IMAGES) as images:
        context = RankContext.make(
            CONF, images, graph(), torch.device("cpu"), SingleRank(), Writer(CheckpointFolder(tmp_path), 0.0)
        )
        before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = True
        hook = torch.nn.modules.module.register_module_forward_pre_hook(look)
        try:
            words = list(loop.train(order(batch_size=24, last_epoch=1), context, time.monotonic()))
        finally:
            hook.remove()
            torch.backends.cudnn.benchmark = before

    assert isinstance(words[-1], TrialDone)
    last = {entry for entry in found if entry[1] != 24}
    assert {is_training for is_training, _, _ in last} == {False}, (
        "a training epoch is whole steps; validation has a rest"
    )
    assert all(searched == (count == 24) for _, count, searched in found)


GRAPHED = ExecutionMode(cuda_graphs=True)


def graphed_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the capture, because there is no GPU. It calls the network directly."""
    monkeypatch.setattr(execution, "_capture", lambda network, images, precision: None)


def rehearsed(
    tmp_path: Path, ways_open: tuple[ExecutionMode, ...], beside: Callable[[], None]
) -> tuple[Execution, RankContext]:
    with open_data(IMAGES) as images:
        context = RankContext.make(CONF, images, graph(), torch.device("cpu"), SingleRank(), None)
    network = build(graph())
    initialise(network, seed=0)
    batch = blank(graph(), 4, context.device, context.precision, channels_last=True)
    run = partial(rehearse, network, batch, context.precision)
    return fastest(ways_open, network, batch, context, run, 10**15, beside), context


def test_eager_passes_are_rehearsed_beside_a_captured_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphed_by_hand(monkeypatch)
    done: list[str] = []

    rehearsed(tmp_path, (GRAPHED,), lambda: done.append("beside"))
    rehearsed(tmp_path, (EAGER,), lambda: done.append("never"))

    assert done == ["beside"]


@pytest.mark.usefixtures("short_steps")
def test_a_graph_that_leaves_no_room_for_validation_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphed_by_hand(monkeypatch)

    def full() -> None:
        raise torch.cuda.OutOfMemoryError("the graph's pool has it")

    kept, context = rehearsed(tmp_path, (EAGER, GRAPHED), full)

    assert kept.mode == EAGER
    assert [each.share for each in learnt(context, GRAPHED)] == [inf]
    with pytest.raises(DoesNotFit):
        rehearsed(tmp_path, (GRAPHED,), full)


def test_eager_passes_are_validation_and_the_last_images() -> None:
    network = build(graph())
    initialise(network, seed=0)
    place_precision = choose("fp32", torch.device("cpu"))
    batch = blank(graph(), 6, torch.device("cpu"), place_precision, channels_last=True)
    found: list[tuple[bool, int, bool]] = []
    first = next(layer for layer in network.modules() if isinstance(layer, torch.nn.Conv2d))
    first.register_forward_pre_hook(
        lambda layer, entering: found.append((layer.training, len(entering[0]), torch.is_grad_enabled()))
    )

    rehearse_eager_passes(network, batch, 5, place_precision)
    rehearse_eager_passes(network, batch, 0, place_precision)

    assert found == [(False, 6, False), (True, 5, True), (False, 6, False)]
    assert network.training


def test_compiled_code_is_looked_for_in_private_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's default folder in /tmp has a name that another user can take."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in CODE_CACHES:
        monkeypatch.setenv(name, "")
    keep = execution._keep_code_private.__wrapped__  # that of the process stays as earlier tests left it

    scratch = keep()

    assert scratch is not None and scratch.path.stat().st_mode & 0o777 == 0o700
    assert {name: Path(os.environ[name]).parent for name in CODE_CACHES} == dict.fromkeys(CODE_CACHES, scratch.path)
    scratch.close()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "open"))
    with pytest.raises(NotOwn, match="must be a directory of user"):
        keep()
