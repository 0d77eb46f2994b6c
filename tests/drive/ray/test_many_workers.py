"""Workers as actors on several real Ray nodes: losses, late starts, failed starts, and their effect on the others.

Ranks are stand-ins (tests/rigs/stand_in_ranks.py), except in the last test, since no test depends on real training.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
import ray

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.config import BudgetConf, configure
from aiperf.data.dataset_config import SyntheticConf
from aiperf.drive.driver import Driver
from aiperf.drive.machines import on_ray
from aiperf.drive.ray.node_admission import learn
from aiperf.drive.ray.ray_executor import RayExecutor
from aiperf.drive.ray.slots import StartLaw
from aiperf.drive.ray.worker_host import WorkerPlan
from aiperf.drive.session import run_session
from aiperf.errors import AiperfError, BadConfiguration, NoWorkers
from aiperf.journal.events import (
    HelperLost,
    RunEnded,
    TrialStarted,
    WorkerJoined,
    WorkerLost,
    WorkerNotStarted,
)
from aiperf.journal.journal import read
from aiperf.journal.messages import EpochDone, Message, Release, TrialDone
from aiperf.planning.plan import make_plan
from aiperf.planning.worker_shape import WorkerRequirements, this_machine
from aiperf.rules.proposals import Proposer, proposer_of
from aiperf.system.log import path as telemetry_path
from aiperf.train.trainer_config import TrainerConf
from searchers.searcher_config import RandomConf
from tests.builders.history import space
from tests.builders.verified_proposals import verify_proposals
from tests.rigs.processes import command_line, descendants
from tests.rigs.ray_cluster import SmallCluster, small_cluster
from tests.rigs.real_run import SMALL
from tests.rigs.stand_in_ranks import (
    BREAKS,
    LACKS_DATA,
    LOSES_DEVICES,
    NEVER_READY,
    mind,
    open_stand_in,
    order,
)


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[SmallCluster]:
    with small_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(ray_cluster: SmallCluster) -> Iterator[SmallCluster]:
    yield ray_cluster
    ray_cluster.clear()


class Bench:
    """Executor with its messages."""

    def __init__(self, executor: RayExecutor) -> None:
        self.executor = executor
        self.said: list[Message] = []
        executor.start()

    def until(self, happened: Callable[[list[Message]], bool], seconds: float = 600.0) -> list[Message]:
        """Read messages until the condition holds. Return all messages so far."""
        deadline = time.monotonic() + seconds
        while not happened(self.said):
            assert time.monotonic() < deadline, f"it did not happen within {seconds} s; said: {self.said}"
            self.said += self.executor.messages(0.1)
        return self.said

    def up(self, count: int) -> list[WorkerJoined]:
        """Return the first `count` workers that came up."""
        self.until(lambda said: len(of(said, WorkerJoined)) >= count)
        return of(self.said, WorkerJoined)

    def trains(self, worker: int, trial: int) -> None:
        """Has a worker do a trial to its end."""
        self.executor.send(order(worker, trial))
        self.until(lambda said: any(word.trial == trial for word in of(said, TrialDone)))


Open = Callable[..., Bench]
Kind = TypeVar("Kind")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Open]:
    """Open an executor on the current cluster, and close it."""
    opened: list[Bench] = []

    def open_(**others: Any) -> Bench:
        plan = WorkerPlan(TrainerConf(), SyntheticConf(), "", tmp_path, time.time())
        plan = replace(plan, **others.pop("of_plan", {}))
        arguments: dict[str, Any] = {
            "proposer": Proposer(RandomConf().build(), None),
            "space": space(),
            "first_worker": 0,
            "accelerators_per_worker": None,
            "open_group": open_stand_in,
            "law": StartLaw(first_pause_seconds=0.5),
        }
        opened.append(Bench(RayExecutor(plan, **{**arguments, **others})))
        return opened[-1]

    yield open_
    for one in opened:
        one.executor.close()


def of(said: list[Message], kind: type[Kind]) -> list[Kind]:
    return [word for word in said if isinstance(word, kind)]


@pytest.mark.slow
def test_a_failed_worker_is_down_after_its_last_messages(cluster: SmallCluster, bench: Open, tmp_path: Path) -> None:
    cluster.add()
    broken = cluster.add()
    run = bench()
    run.up(2)
    mind(tmp_path, broken, LOSES_DEVICES)

    for worker in (0, 1):
        run.executor.send(order(worker, trial=worker))
    said = run.until(lambda said: bool(of(said, WorkerLost)))

    (down,) = of(said, WorkerLost)
    assert f"no rank can be started on {broken}" in down.reason
    (epoch,) = [word for word in of(said, EpochDone) if word.advanced.trial == down.worker]
    assert said.index(epoch) < said.index(down)
    run.trains(1 - down.worker, trial=7)


@pytest.mark.slow
def test_a_late_host_without_data_is_used_once_it_has_them(cluster: SmallCluster, bench: Open, tmp_path: Path) -> None:
    cluster.add()
    run = bench()
    run.up(1)
    late = cluster.add()
    mind(tmp_path, late, LACKS_DATA)

    run.until(lambda said: any(word.failures == 2 for word in of(said, WorkerNotStarted)))
    run.trains(0, trial=1)
    mind(tmp_path, late, "")
    run.up(2)

    assert {word.host for word in of(run.said, WorkerNotStarted)} == {cluster.address(late)}
    assert all("the data set must be on each node" in word.reason for word in of(run.said, WorkerNotStarted))
    assert not of(run.said, WorkerLost)


@pytest.mark.slow
def test_a_killed_recorder_is_reported_and_replaced(cluster: SmallCluster, bench: Open, tmp_path: Path) -> None:
    cluster.add()
    run = bench()
    run.up(1)

    def recorder() -> int | None:
        out = os.fsencode(telemetry_path(tmp_path, 0))
        return next((pid for pid in descendants(os.getpid()) if out in command_line(pid).split(b"\0")), None)

    killed = recorder()
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    run.until(lambda said: bool(of(said, HelperLost)))

    assert of(run.said, HelperLost) == [HelperLost(worker=0, helper="recorder", reason="was ended by SIGKILL")]
    assert recorder() not in (None, killed)
    run.trains(0, trial=1)
    assert of(run.said, WorkerLost) == []


@pytest.mark.slow
def test_a_killed_host_loses_its_own_worker_only(cluster: SmallCluster, bench: Open) -> None:
    cluster.add()
    doomed = cluster.add()
    run = bench()
    ups = run.up(2)

    cluster.kill(doomed)
    said = run.until(lambda said: bool(of(said, WorkerLost)))

    (down,) = of(said, WorkerLost)
    (left,) = [up.worker for up in ups if up.worker != down.worker]
    run.trains(left, trial=1)


@pytest.mark.slow
def test_a_host_that_joins_late_brings_a_worker(cluster: SmallCluster, bench: Open) -> None:
    cluster.add()
    run = bench()
    run.up(1)

    cluster.add()

    assert [up.worker for up in run.up(2)] == [0, 1]
    run.trains(1, trial=1)


@pytest.mark.slow
def test_a_fixable_error_at_every_place_ends_the_run_at_once(
    cluster: SmallCluster, bench: Open, tmp_path: Path
) -> None:
    for _ in range(2):
        mind(tmp_path, cluster.add(), LACKS_DATA)
    run = bench()

    with pytest.raises(AiperfError, match="the data set must be on each node"):
        run.until(lambda said: False)

    assert len(of(run.said, WorkerNotStarted)) == 2, "each place is named, and none was tried twice"


@pytest.mark.slow
def test_one_host_without_data_does_not_delay_the_others(cluster: SmallCluster, bench: Open, tmp_path: Path) -> None:
    cluster.add()
    mind(tmp_path, cluster.add(), LACKS_DATA)
    run = bench()

    run.up(1)
    run.until(lambda said: bool(of(said, WorkerNotStarted)))

    run.trains(of(run.said, WorkerJoined)[0].worker, trial=1)


@pytest.mark.slow
def test_a_host_without_a_started_worker_is_given_up(cluster: SmallCluster, bench: Open, tmp_path: Path) -> None:
    """One host whose ranks are never ready, and one without room for an actor."""
    cluster.add()
    run = bench(law=StartLaw(first_pause_seconds=600, place_seconds=30.0, start_seconds=30.0))
    run.up(1)
    mind(tmp_path, hung := cluster.add(), NEVER_READY)
    full = cluster.add()
    filler = cluster.fill(full)

    named = {cluster.address(hung), cluster.address(full)}
    run.until(lambda said: {word.host for word in of(said, WorkerNotStarted)} == named)

    why = {word.host: word.reason for word in of(run.said, WorkerNotStarted)}
    assert "no worker was up" in why[cluster.address(hung)]
    assert "no room" in why[cluster.address(full)]
    run.trains(0, trial=1)
    ray.kill(filler)


@pytest.mark.slow
def test_a_run_that_lost_its_last_worker_ends_with_the_reason(
    cluster: SmallCluster, bench: Open, tmp_path: Path
) -> None:
    node = cluster.add()
    run = bench(law=StartLaw(first_pause_seconds=0.5, alone_seconds=20.0))
    run.up(1)
    mind(tmp_path, node, BREAKS)

    run.executor.send(Release(worker=0, reason="silent"))

    with pytest.raises(NoWorkers, match=r"all are lost.*an unexpected error"):
        run.until(lambda said: False)


@pytest.mark.slow
def test_an_order_that_the_ranks_reject_ends_their_worker(cluster: SmallCluster, bench: Open) -> None:
    cluster.add()
    run = bench()
    run.up(1)

    run.executor.send(order(0, trial=666))
    run.until(lambda said: bool(of(said, WorkerLost)))

    assert "trial 666 ordered" in of(run.said, WorkerLost)[0].reason
    run.up(2)
    run.trains(1, trial=1)


@pytest.mark.slow
def test_a_cpu_worker_is_released_when_an_accelerator_is_up(cluster: SmallCluster, bench: Open) -> None:
    cluster.add()
    run = bench()
    run.up(1)

    cluster.add(accelerators=2)
    run.up(2)

    (down,) = of(run.said, WorkerLost)
    assert (down.worker, down.cause) == (0, "released")
    assert run.said.index(down) < run.said.index(of(run.said, WorkerJoined)[1]), (
        "both at once would count as idle for ever"
    )
    run.trains(1, trial=1)
    time.sleep(2.5)
    run.said += run.executor.messages(0.0)
    assert len(of(run.said, WorkerJoined)) == 2, "nobody takes the place again"


@pytest.mark.slow
def test_a_worker_that_breaks_the_plan_is_refused(cluster: SmallCluster, bench: Open) -> None:
    cluster.add()
    run = bench(terms=WorkerRequirements(memory_bytes=None, most_ranks=1))
    run.up(1)

    late = cluster.add(accelerators=2)
    run.until(lambda said: bool(of(said, WorkerNotStarted)))

    (refused,) = of(run.said, WorkerNotStarted)
    assert refused.host == cluster.address(late) and "is refused: the plan allows 1 ranks per worker" in refused.reason
    run.trains(0, trial=1)
    assert len(of(run.said, WorkerJoined)) == 1 and not of(run.said, WorkerLost), (
        "accelerators that cannot be used push nobody out"
    )


@pytest.mark.slow
def test_a_plan_is_based_on_the_nodes_that_hold_workers(
    cluster: SmallCluster,
) -> None:
    plain = configure(["batch.largest=64"])
    assert this_machine(plain).cores != 1, "this test needs a driver unlike its nodes"

    cluster.add()
    found = learn(plain)
    cluster.add(accelerators=2)
    with pytest.raises(BadConfiguration, match=r"accelerator's memory.*cannot be read"):
        learn(plain)
    equipped = learn(replace(plain, budget=BudgetConf(memory_bytes=2**33)))

    assert (found.accelerators, found.ranks, found.cores) == (0, 1, 1)
    assert (equipped.accelerators, equipped.ranks, equipped.memory_bytes) == (2, 2, 2**33)


@pytest.mark.slow
def test_a_plan_needs_a_node_with_the_declared_accelerators(cluster: SmallCluster) -> None:
    cluster.add()
    declared = replace(configure([]), accelerators_per_worker=2, budget=BudgetConf(memory_bytes=2**33))
    with pytest.raises(NoWorkers, match=r"none of \d nodes has 2 accelerators"):
        learn(declared)

    cluster.add(accelerators=2)

    assert learn(declared).ranks == 2


@pytest.mark.slow
def test_a_run_on_two_hosts_survives_the_loss_of_one(cluster: SmallCluster, tmp_path: Path) -> None:
    """Real trainer, driver and journal, instead of the stand-ins of the tests above."""
    hosts = [cluster.add(), cluster.add()]
    conf = configure(
        [*SMALL, f"runs={tmp_path}", "schedule.duration_seconds=240", "limits.trials=8", "limits.silence_seconds=100"]
    )
    killed: list[float] = []

    def after_turn(driver: Driver) -> None:
        if (
            not killed
            and len(driver.run.running) == 2
            and all(driver.run.trials[one].saved_epoch for one in driver.run.running)
        ):
            cluster.kill(hosts[0])
            killed.append(driver.clock.now())

    folder = run_session(make_plan(conf, learn(conf)), on_ray, after_turn)

    events = list(read(folder))
    (lost,) = [event for event in events if isinstance(event, WorkerLost)]
    left = 1 - lost.worker
    begun = [event for event in events if isinstance(event, TrialStarted)]
    assert {event.worker for event in begun if event.at < lost.at} == {0, 1}
    (again,) = [event for event in begun if event.attempt == 2]
    assert again.worker == left and again.epoch > 1, "after its last saved epoch"
    assert isinstance(events[-1], RunEnded) and events[-1].reason == "trials"
    assert [
        one.number for one in verify_proposals(events, proposer_of(conf.searcher, conf.hpo)) if not one.is_equal
    ] == []
    assert score(work_log(events)).valid
