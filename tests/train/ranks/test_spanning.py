"""A worker's ranks on two hosts, as values and as real processes (both hosts are this machine: tests/cluster has two)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.errors import BadConfiguration
from aiperf.journal.events import TrialPrepared
from aiperf.journal.messages import Crashed, Message, TrialDone
from aiperf.system.network import interface_of
from aiperf.train.collectives.horovod_collective import missing as horovod_missing
from aiperf.train.ranks import remote_ranks
from aiperf.train.ranks.protocol import Recipe, seats
from aiperf.train.ranks.remote_ranks import HostRankServer
from aiperf.train.ranks.rendezvous import Relay
from aiperf.train.trainer_config import TrainerConf, ranks_of_hosts
from morphism import encode
from tests.builders.order import IMAGES, epochs, follow, hear, order, plain_graph, visited
from tests.rigs.foreign_processes import another_machine, no_namespaces
from tests.rigs.two_hosts import spanning_group
from tests.train.ranks.test_group import difference, final_weights, go_on, new_group

COLLECTIVES = [
    pytest.param("horovod", marks=pytest.mark.skipif(horovod_missing(on_cuda=False) is not None, reason="no horovod")),
    pytest.param("torch", marks=pytest.mark.slow),
]


def conf(collective: str) -> TrainerConf:
    return TrainerConf(
        collective=collective, threads=1, precision="fp32", learning_rate=0.05, hang_seconds=6.0, start_seconds=90.0
    )


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_ranks_are_numbered_host_after_host(
    counts: list[int],
) -> None:
    found = seats([list(range(count)) for count in counts])

    assert [seat.rank for seat in found] == list(range(sum(counts)))
    assert [seat.host for seat in found] == sorted(seat.host for seat in found)
    for seat in found:
        own = [other for other in found if other.host == seat.host]
        across = [other for other in found if other.local_rank == seat.local_rank]
        assert seat.local_size == len(own) == counts[seat.host] and own[seat.local_rank] == seat
        assert seat.cross_size == len(across) and across[seat.cross_rank] == seat
        assert seat.accelerator == seat.local_rank


def test_declared_ranks_are_divided_equally_or_refused() -> None:
    assert ranks_of_hosts(TrainerConf(), [(8, 64), (4, 64)]) == [8, 4]
    assert ranks_of_hosts(TrainerConf(), [(0, 2), (0, 1)]) == [2, 1]
    assert ranks_of_hosts(TrainerConf(ranks=4), [(0, 2), (0, 2)]) == [2, 2]
    with pytest.raises(BadConfiguration, match=r"trainer\.ranks=3 for 2 hosts"):
        ranks_of_hosts(TrainerConf(ranks=3), [(0, 2), (0, 2)])
    with pytest.raises(BadConfiguration, match="'none' cannot be combined with a worker of"):
        ranks_of_hosts(TrainerConf(collective="none"), [(1, 2), (1, 2)])


def test_the_interface_has_the_address_or_an_error_names_it() -> None:
    assert interface_of("127.0.0.1") == interface_of("127.0.0.12") == "lo"
    with pytest.raises(OSError, match=r"no interface of this host has 203\.0\.113\.7: found lo with 127\.0\.0\.1"):
        interface_of("203.0.113.7")


KNOCK = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60) as knocking:
    knocking.sendall(b"to whom it may concern")
    try:
        print(knocking.recv(100))
    except ConnectionResetError:
        print(b"")
"""


@pytest.mark.skipif(no_namespaces() is not None, reason=no_namespaces() or "")
def test_a_rendezvous_answers_only_the_hosts_of_its_group() -> None:
    with another_machine() as (inside, here), socket.create_server(("127.0.0.1", 0)) as server:
        stranger = subprocess.check_output([*inside, "hostname", "-I"], text=True).split()[0]

        def knock(door: Relay) -> subprocess.Popen[str]:
            words = [*inside, sys.executable, "-c", KNOCK, here, str(door.port)]
            return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

        closed = Relay(here, ["192.0.2.9"], server.getsockname()[1])
        with knock(closed) as knocking:
            assert knocking.communicate(timeout=300)[0] == "b''\n"
        assert closed.refused == {stranger}
        closed.close()

        door = Relay(here, [stranger], server.getsockname()[1])
        with knock(door) as knocking:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(100) == b"to whom it may concern"
                door.shut()  # all have met: established connections stay, and new ones are refused
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection((here, door.port), timeout=60)
                connection.sendall(b"welcome")
                assert knocking.communicate(timeout=300)[0] == "b'welcome'\n"
        assert door.refused == set()
        door.close()


@pytest.mark.slow
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_ranks_of_two_hosts_end_with_the_weights_of_one(collective: str, tmp_path: Path) -> None:
    train_order = order(trial=10, batch_size=32, last_epoch=3)
    with spanning_group(conf(collective), tmp_path / "two", plain_graph()) as (group, _):
        ready = group.start()
        words = follow(group, train_order)
    one = new_group(collective, tmp_path / "one", plain_graph())
    try:
        one.start()
        alone = follow(one, train_order)
    finally:
        one.close()

    assert ready.ranks == 2 and ready.hosts == (socket.gethostname(), "elsewhere")
    assert isinstance(words[-1], TrialDone) and isinstance(alone[-1], TrialDone)
    assert difference(final_weights(tmp_path / "two", 10), final_weights(tmp_path / "one", 10)) < 1e-5
    for word in epochs(words):
        assert (word.advanced.training_images, word.advanced.validation_images) == (
            visited(64),
            IMAGES.validation_images,
        )


def trains(group: object, trial: int) -> list[Message]:
    group.order(order(trial=trial, batch_size=16, last_epoch=10_000))  # type: ignore[attr-defined]
    heard: list[Message] = []
    while not epochs(heard):
        heard += group.messages(timeout=60.0)  # type: ignore[attr-defined]
    return heard


@pytest.mark.slow
def test_a_lost_rank_or_host_is_named_and_the_trial_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed, stopped, cut off: one after the other, since a start takes its time."""
    monkeypatch.setattr(remote_ranks, "SILENCE_SECONDS", 8.0)
    with spanning_group(conf("torch"), tmp_path, plain_graph()) as (group, wire):
        group.start()
        group.messages(timeout=60.0)  # the ceiling
        for trial, (how, said) in enumerate([(signal.SIGKILL, "SIGKILL"), (signal.SIGSTOP, "is stopped")], 1):
            heard = trains(group, trial)
            os.kill(group.pids()[1], how)
            heard += hear(group)
            assert isinstance(heard[-1], Crashed) and heard[-1].retry
            assert "rank 1 of 2 on elsewhere" in heard[-1].reason and said in heard[-1].reason
            assert isinstance(go_on(group, trial, heard)[-1], TrialDone)

        heard, other = trains(group, 3), group.pids()[1]
        wire.is_cut = True
        heard += hear(group)
        assert isinstance(heard[-1], Crashed) and heard[-1].retry
        assert "host elsewhere (127.0.0.1) has not answered for" in heard[-1].reason
        assert "it had rank 1 of 2" in heard[-1].reason
        resumed = go_on(group, 3, heard)
        assert isinstance(resumed[0], TrialPrepared) and resumed[0].ranks == 1
        assert isinstance(resumed[-1], TrialDone)
        assert len(group.pids()) == 1 and other not in group.pids()


@pytest.mark.slow
def test_ranks_of_a_silent_leading_host_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_ranks, "ABANDONED_SECONDS", 4.0)
    with spanning_group(conf("torch"), tmp_path, plain_graph()) as (group, wire):
        group.start()
        orphan = group.pids()[1]
        wire.is_cut = True
        deadline = time.monotonic() + 300.0
        while Path(f"/proc/{orphan}/stat").read_text().split()[2] != "Z":
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_a_host_that_fails_at_the_first_start_ends_the_worker(tmp_path: Path) -> None:
    """A worker must not silently continue with fewer ranks than requested."""

    class Broken(HostRankServer):
        def start(self, number: int, start: object) -> None:
            raise OSError("no interface of this host has it")

    with spanning_group(conf("torch"), tmp_path, plain_graph()) as (group, wire):
        broken = Broken(Recipe(conf("torch"), IMAGES, encode(plain_graph()), tmp_path, 1, 0))
        wire.outpost, first = broken, wire.outpost
        first.close()
        with pytest.raises(Exception, match=r"host elsewhere .* is gone: no interface of this host has it"):
            group.start()
