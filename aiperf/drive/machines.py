"""Start of the machines of a run: a Ray cluster with its workers, or one worker in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol, assert_never

from aiperf.config import RunConf
from aiperf.data.dataset_config import DataSetConf
from aiperf.drive.driver import Driver
from aiperf.drive.executor import Executor
from aiperf.drive.preflight import PreflightResult, changed_files, check_here, depth, nobody_left, node_checks
from aiperf.drive.session import SessionState
from aiperf.journal.events import WorkerShape
from aiperf.planning.worker_shape import terms_of, this_machine
from aiperf.rules.proposals import proposer_of
from aiperf.system.load import identity
from cluster.place import Existing, HeadPlace, InvitedPlace, LocalPlace, Simulated, place_of
from morphism import encode_architecture

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
        yield _inline
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


def _inline(conf: RunConf, folder: Path, state: SessionState, checked: PreflightResult = UNCHECKED) -> Executor:
    from aiperf.data.opening import open_data
    from aiperf.drive.inline import InlineExecutor
    from aiperf.train.checkpoints.checkpoint_files import CheckpointFolder
    from aiperf.train.loop import train_here

    space = state.history.space
    checkpoints = folder / "checkpoints"
    data = open_data(_data_set_of(conf, state))
    return InlineExecutor(
        proposer_of(conf.searcher, conf.hpo),
        space,
        train=lambda order: train_here(order, conf.trainer, data, space.start, checkpoints),
        drop=CheckpointFolder(checkpoints).drop,
        worker=state.run.next_worker,
    )


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
