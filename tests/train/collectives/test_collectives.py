"""Contract of a collective. Each collective in the registry COLLECTIVES passes it, and so does a single rank.

Real ranks in real processes run their duties once (`duties.py`). Each test checks one of their answers.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from aiperf.train.collectives.collective import SingleRank, choose, module_of, nccl_transport
from aiperf.train.collectives.torch_collective import PHASES, unsynced_buffers
from aiperf.train.ranks.rendezvous import HorovodRendezvous
from aiperf.train.tracing import trace_file
from aiperf.train.tracing.trace_file import exchange_times, read_trace
from aiperf.train.trainer_config import COLLECTIVES
from tests.builders.rendezvous import on_one_host
from tests.rigs.collective_duties import LATE_SECONDS, TRACED_STEPS, Training

PROJECT = Path(__file__).parent.parent.parent.parent
RANKS = {"none": 1, **dict.fromkeys(COLLECTIVES, 2)}
Answers = list[dict[str, Any]]
"""By rank."""


def carried_out(name: str, folder: Path, *more: str) -> Answers:
    """Return the answers of a collective's ranks, after checking how each rank ended."""
    if name in COLLECTIVES and (why := module_of(name).missing(on_cuda=False)) is not None:
        pytest.skip(f"no {name}: {why}")
    ranks = RANKS[name]
    rendezvous = HorovodRendezvous()
    with ExitStack() as stack:
        stack.callback(rendezvous.close)
        begun = []
        for rank in range(ranks):
            log = stack.enter_context((folder / f"log-{rank}").open("wb"))
            words = [sys.executable, "-m", "tests.rigs.collective_duties", name, str(rank), str(ranks), str(folder)]
            environment = {**os.environ, **on_one_host(rank, ranks, rendezvous.port)}
            process = subprocess.Popen([*words, *more], cwd=PROJECT, env=environment, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
            begun.append(process)
        ended = [process.wait(timeout=600) for process in begun]
    killed = [ranks - 1] if more else []
    logs = [(folder / f"log-{rank}").read_text() for rank in range(ranks)]
    assert ended == [-signal.SIGKILL if rank in killed else 0 for rank in range(ranks)], logs
    return [json.loads((folder / f"answers-{rank}").read_text()) for rank in range(ranks)]


@pytest.fixture(scope="module", params=RANKS)
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return carried_out(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module", params=COLLECTIVES)
def after_a_loss(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Return the answers of ranks that send gradients in 16 bits, with the last rank killed."""
    return carried_out(request.param, tmp_path_factory.mktemp(request.param), "fp16")


@pytest.fixture
def whole() -> Iterator[Training]:
    """The same training by one rank that has the whole batch."""
    training = Training(SingleRank())
    yield training
    training.exchange.close()


def test_each_rank_knows_its_number_and_all_the_same_name(answers: Answers) -> None:
    assert [each["rank"] for each in answers] == list(range(len(answers)))
    assert {each["ranks"] for each in answers} == {len(answers)}
    assert len({each["name"] for each in answers}) == 1


def test_a_total_is_the_sum_over_all_ranks_in_double_precision(answers: Answers) -> None:
    ranks = range(len(answers))

    for each in answers:
        assert each["total"] == [
            sum(0.1 + rank for rank in ranks),
            sum(2.0**53 * rank + 1 for rank in ranks),
            -1.5 * len(ranks),
        ]


def test_average_is_the_mean_in_place_for_any_memory_layout(answers: Answers) -> None:
    mean = sum(range(len(answers))) / len(answers)
    rows = [[(mean + 1) * number for number in numbers] for numbers in ([0, 1, 2], [3, 4, 5])]

    for each in answers:
        plain, channels_last = each["average"]
        assert plain == rows
        assert channels_last == [[[[mean] * 2] * 2] * 3] * 2


def test_broadcast_copies_values_of_any_type_bit_for_bit(answers: Answers) -> None:
    for each in answers:
        whole, truth, short, image = each["broadcast"]
        assert (whole, truth, short) == ([7], [1], [2.0**-24])
        assert image == answers[0]["broadcast"][3] and image[1][2][1][1] == 23.0


def test_gradients_of_uneven_shares_equal_the_whole_batch(answers: Answers, whole: Training) -> None:
    whole.backward()

    for each in answers:
        assert each["gradients"] == answers[0]["gradients"]
        assert each["gradients"] == pytest.approx(whole.gradients(), abs=1e-6)


def test_ranks_have_the_weights_of_one_rank_and_no_gradient(answers: Answers, whole: Training) -> None:
    for _ in range(3):  # from the second on there is momentum
        whole.step()

    for each in answers:
        assert not any(each["left of them"])
        assert each["weights"] == answers[0]["weights"]
        assert each["weights"] == pytest.approx(whole.weights(), abs=1e-6)


def test_waiting_for_a_late_rank_is_communication(answers: Answers) -> None:
    if len(answers) == 1:
        assert answers[0]["communication"] is None
    else:
        assert answers[0]["communication"] >= LATE_SECONDS
        assert all(each["communication"] >= 0.0 for each in answers)


def test_every_rank_comes_to_each_exchange_once(answers: Answers) -> None:
    """The number of exchanges distinguishes the rank that hangs from the ranks that wait for it."""
    exchanges = 0 if len(answers) == 1 else 1

    assert len({each["met"] for each in answers}) == 1 and (answers[0]["met"] > 0) == bool(exchanges)
    assert [each["met in a backward pass"] for each in answers] == [exchanges] * len(answers)


def test_exchange_begins_before_the_compiled_backward_pass_ends(answers: Answers) -> None:
    """It began after the last part, because the whole network was one graph."""
    for answer in answers[: answers[0]["ranks"] - 1]:
        for events in answer["overlapping"]:
            last_part = len(events) - events[::-1].index("part") - 1
            assert "exchange" in events[:last_part], events


def test_traced_steps_have_the_phases_of_their_exchange(answers: Answers, tmp_path: Path) -> None:
    """Horovod reports them in its timeline. Gloo has neither waits nor a queue."""
    traced, of_others = answers[0]["traced"], [each["traced"] for each in answers[1:]]
    assert of_others == [{"seconds": {}, "timeline": None}] * (len(answers) - 1)
    match answers[0]["name"].split()[0]:
        case "none":
            assert traced == {"seconds": {}, "timeline": None}
        case "torch":
            assert list(traced["seconds"]) == list(PHASES) and all(each > 0 for each in traced["seconds"].values())
            assert traced["timeline"] is None
        case "horovod":
            (tmp_path / "timeline").write_text(traced["timeline"])
            found = exchange_times(read_trace(tmp_path / "timeline"))
            assert found.steps == TRACED_STEPS
            assert set(found.seconds) <= set(trace_file.PHASES)
            assert found.seconds["negotiation"] > 0 and found.seconds["all-reduce"] > 0


@pytest.mark.parametrize("duty", ["total", "average", "broadcast", "backward"])
def test_a_rank_that_reports_an_exchange_and_stops_did_its_part(answers: Answers, duty: str) -> None:
    """The others get through it: a rank that falls asleep there is behind at the next exchange, and named for it."""
    assert [each["through"][duty] for each in answers] == ([[True]] * len(answers) if len(answers) > 1 else [[]])


def test_gradients_in_16_bits_are_equal_and_near_those_in_32(after_a_loss: Answers, whole: Training) -> None:
    whole.backward()

    for each in after_a_loss:
        assert each["gradients"] == after_a_loss[0]["gradients"]
        assert each["gradients"] == pytest.approx(whole.gradients(), abs=1e-3, rel=1e-2)
        assert each["gradients"] != pytest.approx(whole.gradients(), abs=1e-9), "they did travel in 16 bits"


def test_a_lost_rank_is_an_exchange_error_for_the_others(after_a_loss: Answers) -> None:
    assert [each.get("error") for each in after_a_loss] == ["of the exchange"] * (len(after_a_loss) - 1) + [None]


def test_auto_is_the_first_available_collective() -> None:
    had = [name for name in COLLECTIVES if module_of(name).missing(on_cuda=False) is None]

    assert choose("auto", 2, on_cuda=False) == had[0]
    assert choose("auto", 1, on_cuda=False) == "none"


def test_buffers_stay_unsynced_in_torch_2_11_and_later() -> None:
    class Old:
        def __init__(self, module: object, broadcast_buffers: bool = True, init_sync: bool = True) -> None: ...

    wrapper = torch.nn.parallel.DistributedDataParallel
    assert unsynced_buffers(Old) == {"broadcast_buffers": False}
    assert unsynced_buffers(wrapper).keys() <= inspect.signature(wrapper).parameters.keys()


RING = (
    "n1:84:98 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 1, bw 10.000000/10.000000, type {}/PIX, sameChannels 1\n"
)
PEERS = "n1:84:98 [0] NCCL INFO Channel 00/0 : 0[0] -> 7[7] via P2P/CUMEM\n"


@pytest.mark.parametrize(
    ("log", "transport"),
    [
        ("", None),
        (RING.format("NVL") + PEERS, "NVLink"),
        (RING.format("XGMI") + PEERS, "Infinity Fabric"),
        (RING.format("SYS") + PEERS, "PCIe"),
        (RING.format("PHB") + "Channel 07/0 : 7[7] -> 6[6] via P2P/direct pointer/read\n", "PCIe"),
        (PEERS, "PCIe or NVLink"),
        (RING.format("SYS") + "Channel 00 : 0[3b000] -> 1[86000] via SHM/direct/direct\n", "shared memory"),
        (
            "Channel 07/0 : 0[0] -> 2[0] [receive] via NET/IB/3/GDRDMA\n" + RING.format("NVL") + PEERS,
            "network (IB), NVLink",
        ),
        ("Channel 03/0 : 5[5] -> 12[4] [send] via NET/Socket/0\n" * 2, "network (Socket)"),
        ("NCCL INFO NET/IB : No device found.\n", None),
    ],
)
def test_nccl_s_log_names_its_transport(log: str, transport: str | None) -> None:
    assert nccl_transport(log) == transport
