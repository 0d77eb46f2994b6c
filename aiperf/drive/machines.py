"""Start of the machines of a run: a Ray cluster with its workers, or one worker in this process."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol, assert_never

import msgspec

from aiperf.config import RunConf
from aiperf.data.dataset_config import DataSetConf
from aiperf.drive.driver import Driver, Executor
from aiperf.drive.preflight import PreflightResult, changed_files, check_here, depth, nobody_left, node_checks
from aiperf.drive.session import SessionState
from aiperf.files import host_name
from aiperf.journal.events import ProposalRequested, WorkerJoined, WorkerShape
from aiperf.journal.messages import Drop, Message, Order, Release, Sum, Train
from aiperf.planning.worker_shape import terms_of, this_machine
from aiperf.rules.proposals import make, proposer_of
from aiperf.system.describe import describe
from aiperf.system.load import identity
from cluster.place import Existing, HeadPlace, InvitedPlace, LocalPlace, Simulated, place_of
from morphism import encode_architecture
from searchers.history import History, Observation

UNCHECKED = PreflightResult()


class MachinesExecutor(Protocol):
    """Function that starts an executor (backend of the driver) on machines that are already running."""

    def __call__(
        self, conf: RunConf, folder: Path, state: SessionState, checked: PreflightResult = ...
    ) -> Executor: ...


@contextmanager
def machines(conf: RunConf, folder: Path | None = None) -> Iterator[MachinesExecutor]:
    """Start or join the machines of a run for a `with` block. None is allowed if no other host joins."""
    if conf.executor == "inline":
        yield InlineExecutor
        return
    with _ray(conf, folder):
        yield on_ray


def _ray(conf: RunConf, folder: Path | None) -> AbstractContextManager[None]:
    match place_of(conf.cluster, os.environ):
        case LocalPlace():
            from aiperf.drive.ray.cluster.started_ray import local_ray

            return local_ray()
        case HeadPlace() as head:
            from aiperf.drive.ray.cluster.head import head_ray

            assert folder is not None, "other hosts join through the run's folder"
            return head_ray(folder, head)
        case InvitedPlace() as invited:
            from aiperf.drive.ray.cluster.invited_hosts import invited_ray

            assert folder is not None, "other hosts join through the run's folder"
            return invited_ray(folder, invited)
        case Existing() as existing:
            from aiperf.drive.ray.cluster.existing import existing_ray

            return existing_ray(existing)
        case Simulated():
            raise AssertionError("a simulated run has no machines")
        case other:
            assert_never(other)


def publisher(conf: RunConf) -> Callable[[Driver], None]:
    """Only an existing Ray cluster has an endpoint for metrics. For other runs the function does nothing."""
    if not isinstance(place_of(conf.cluster, os.environ), Existing):
        return lambda driver: None
    from aiperf.drive.ray import metrics

    return metrics.publisher()


def check(conf: RunConf, folder: Path | None, show: Callable[[str], None]) -> PreflightResult:
    """Measure the running machines, compare them with limits (preflight), and return the events and the excluded nodes."""
    if (deep := depth(conf)) == "none":
        return UNCHECKED
    parent = folder or Path(conf.runs)
    if conf.executor == "inline" or conf.cluster is None:
        here = check_here(conf, parent, is_full=deep == "full")
        events = node_checks([here], [here], conf.preflight)
        excluded = [here.node] if events[0].excluded else []
        error = changed_files(events) or nobody_left({here.node: here.address}, excluded, events)
        if error is not None:
            raise error
        return PreflightResult(events)
    from aiperf.drive.ray.node_admission import check_nodes

    return check_nodes(conf, parent, show, is_full=deep == "full")


def worker_shape(conf: RunConf, checked: PreflightResult = UNCHECKED) -> WorkerShape:
    """Return the accelerators, memory and cores of the workers (process groups that train networks) for the plan of a run."""
    if conf.executor == "inline":
        return this_machine(conf)
    from aiperf.drive.ray.node_admission import learn

    return learn(conf, excluded=checked.excluded)


class InlineExecutor:
    """Executor (backend of the driver) with one worker in the driver's process, for debuggers and tests."""

    def __init__(self, conf: RunConf, folder: Path, state: SessionState, checked: PreflightResult = UNCHECKED) -> None:
        from aiperf.data.opening import open_data
        from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder
        from aiperf.train.loop import train_here

        space, checkpoints = state.history.space, folder / "checkpoints"
        data = open_data(_data_set_of(conf, state))
        self._proposer = proposer_of(conf.searcher, conf.hpo)
        self._history = History(space)
        self._train = partial(train_here, conf=conf.trainer, data=data, start=space.start, checkpoints=checkpoints)
        self._drop = CheckpointFolder(checkpoints).drop
        self._worker = state.run.next_worker
        self._unread: deque[Message] = deque()
        self._training: Iterator[Message] = iter(())

    def start(self) -> None:
        """Add a WorkerJoined message for the only worker. `messages` returns it."""
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self._unread.append(
            WorkerJoined(
                worker=self._worker,
                host=host_name(),
                ranks=1,
                device="cpu (inline)",
                device_memory_bytes=memory,
                collective="none",
                machine=msgspec.to_builtins(describe()),
            )
        )

    def observe(self, observations: Sequence[Observation]) -> None:
        """Add results of trials to the searcher's history, in the sequence of the journal."""
        self._history.observe(observations)

    def send(self, order: Order) -> None:
        """Carry out a command. After the command Release the worker has the next number."""
        match order:
            case Drop():
                self._drop(order.trial)
            case _ if order.worker != self._worker:
                pass
            case ProposalRequested():
                self._unread.append(make(self._proposer, self._history, order))
            case Train():
                self._training = self._train(order)
            case Release():
                # released after a silence, for example in a debugger: the worker continues under a new number
                self._training = iter(())
                self._unread.clear()
                self._worker += 1
                self.start()
            case Sum():
                pass  # `messages` trains on to the next message, which has the sums

    def messages(self, timeout: float) -> list[Message]:
        if not self._unread:
            message = next(self._training, None)
            if message is None:
                time.sleep(min(timeout, 0.01))
            else:
                self._unread.append(message)
        unread = list(self._unread)
        self._unread.clear()
        return unread

    def close(self) -> None:
        self._training = iter(())


def _data_set_of(conf: RunConf, state: SessionState) -> DataSetConf:
    """Return the data set configuration, with the fingerprint of the run's first event."""
    from aiperf.data.survey import held_to

    return held_to(conf.dataset, state.run.started.dataset.get("fingerprint"))


def on_ray(conf: RunConf, folder: Path, state: SessionState, checked: PreflightResult = UNCHECKED) -> Executor:
    """Executor on the Ray cluster of this process, after `ray.init`. Its workers are not yet started."""
    from aiperf.drive.ray.ray_executor import RayExecutor
    from aiperf.drive.ray.worker_host import WorkerPlan

    shape = state.run.started.shape
    plan = WorkerPlan(
        trainer=conf.trainer,
        dataset=_data_set_of(conf, state),
        start_graph=encode_architecture(state.history.space.start),
        folder=folder.resolve(),
        started_unix=state.run.started.started_unix,
        driver=identity(),
    )
    return RayExecutor(
        plan,
        proposer_of(conf.searcher, conf.hpo),
        state.history.space,
        first_worker=state.run.next_worker,
        accelerators_per_worker=conf.accelerators_per_worker,
        only_accelerators=shape is not None and shape.accelerators > 0,
        terms=terms_of(state.run.started),
        gate=checked.gate,
    )
