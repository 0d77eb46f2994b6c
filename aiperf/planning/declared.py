"""What can be said of a run before its machines are there: of what its place declares of its nodes, and of nothing else.

A plan is made of the workers' shape. Where the nodes are still to come, a part of that shape is what was asked for; what was
not asked for is not known, and is not made up of the machine where the command was typed. Before a run begins its plan is
made anew, of what the nodes have; nodes that have not what was declared end it by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiperf.config import ALL, RunConf
from aiperf.data.dataset_config import FilesConf
from aiperf.data.description import DataSet
from aiperf.data.survey import describe, is_indexed, is_seen
from aiperf.errors import BadConfiguration
from aiperf.journal.events import WorkerShape
from aiperf.planning.buildable import require_devices
from aiperf.planning.plan import Plan, check_options, make_plan, starting_graph
from aiperf.train.trainer_config import ranks_of_worker
from aiperf.typed import command, option
from aiperf.units import share as share_of
from cluster.place import NodesAsked
from morphism import Graph

LEARNT = "learnt from the first worker"
LISTED_AT_MOST = 10_000
"""Files of a set without an index that a run on several nodes lists: each rank of each node would list them all."""
MEMORY_TOLERANCE = 0.1
"""Of an accelerator's memory: what is printed on the box and what a driver shows differ by some per cent."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A worker as far as it is declared. None: it is learnt from the first worker."""

    accelerators: int | None
    ranks: int | None
    cores: int | None
    memory_bytes: int | None
    """Of one rank."""
    device: str | None

    def shape(self, source: str) -> WorkerShape | None:
        """The shape that a plan can be made of; None where too little is declared."""
        if self.accelerators is None or self.ranks is None or self.memory_bytes is None:
            return None
        return WorkerShape(
            source=source,
            device=self.device or f"a device that is {LEARNT}",
            accelerators=self.accelerators,
            ranks=self.ranks,
            cores=self.cores or 0,
            memory_bytes=self.memory_bytes,
        )


@dataclass(frozen=True, slots=True)
class Preview:
    """A run whose machines are still to come."""

    conf: RunConf
    worker: Expected
    dataset: DataSet | None
    """None: it is not seen from here."""
    dataset_source: str
    graph: Graph | None
    """None: the data set is not known."""
    plan: Plan | None
    """None: too little is known."""


def preview(conf: RunConf, nodes: NodesAsked) -> Preview:
    """What can be said of a run on nodes of which so much is declared.

    Raises:
        BadConfiguration, DataError: what cannot become a run, as far as that can be known.
    """
    check_options(conf)
    worker = expected(conf, nodes)
    if worker.accelerators is not None:
        require_devices(conf, worker.accelerators)
    dataset, source = _dataset(conf)
    graph = None if dataset is None else starting_graph(conf, dataset)
    shape = worker.shape("declared")
    plan = None if dataset is None or shape is None else make_plan(conf, shape, dataset)
    return Preview(conf, worker, dataset, source, graph, plan)


def expected(conf: RunConf, nodes: NodesAsked) -> Expected:
    """A worker on nodes of which so much is declared."""
    declared = conf.accelerators_per_worker
    if declared == ALL and nodes.nodes != 1:  # how many nodes its worker has is known when they are there
        ranks = conf.trainer.ranks
        memory = conf.budget.memory_bytes or conf.trainer.memory_limit_bytes
        return Expected(None, ranks, None, memory, nodes.accelerator if nodes.accelerators else None)
    accelerators = declared if isinstance(declared, int) else nodes.accelerators
    trainer, ranks = conf.trainer, None
    if accelerators or trainer.ranks is not None or trainer.collective == "none":
        ranks = ranks_of_worker(trainer, accelerators or 0, nodes.cores or 1)
    elif accelerators == 0 and nodes.cores is not None:
        ranks = ranks_of_worker(trainer, 0, nodes.cores)
    memory = conf.budget.memory_bytes or trainer.memory_limit_bytes
    if memory is None and accelerators:
        memory = nodes.accelerator_bytes
    elif memory is None and accelerators == 0 and nodes.memory_bytes is not None and ranks is not None:
        memory = nodes.memory_bytes // ranks
    return Expected(accelerators, ranks, nodes.cores, memory, nodes.accelerator if accelerators != 0 else None)


def workers_expected(conf: RunConf, nodes: NodesAsked) -> str | None:
    """How many workers there will be, in words; None: it depends on what the nodes have."""
    each = conf.accelerators_per_worker
    if nodes.nodes is None or not nodes.accelerators or not (each is None or isinstance(each, int)):
        return None
    each = each or nodes.accelerators
    spans = each > nodes.accelerators
    first = nodes.nodes * nodes.accelerators // each if spans else nodes.nodes * (nodes.accelerators // each)
    more = "" if nodes.most_nodes is None else f", up to {nodes.most_nodes} nodes' later"
    return f"{first} on {nodes.nodes} nodes{more}"


def require_declared(nodes: NodesAsked, accelerators_per_worker: object, shape: WorkerShape) -> None:
    """Holds what the nodes have to what was declared of them.

    Raises:
        BadConfiguration: they have other accelerators.
    """
    found = f"found {shape.accelerators} of {shape.device} ({shape.source})"
    if nodes.accelerators is not None and accelerators_per_worker is None and shape.accelerators != nodes.accelerators:
        raise BadConfiguration(
            f"nodes have the accelerators that were asked for, {nodes.accelerators} each; {found}: are their drivers there, "
            "and does Ray see them?"
        )
    if nodes.accelerator is not None and nodes.accelerator.lower() not in shape.device.lower():
        raise BadConfiguration(
            f"nodes have the accelerators that were declared, cluster.accelerator={nodes.accelerator}; {found}: ask for others "
            "(cluster.constraint, cluster.partition), or leave it out"
        )
    if nodes.accelerator_bytes is not None and shape.accelerators:
        share = shape.memory_bytes / nodes.accelerator_bytes
        if abs(share - 1) > MEMORY_TOLERANCE:
            raise BadConfiguration(
                f"accelerators have the declared memory, cluster.accelerator_memory, within {share_of(MEMORY_TOLERANCE, 0)}; "
                f"{found} with {shape.memory_bytes} bytes: ask for others, or leave it out"
            )


def require_index(conf: RunConf, nodes: NodesAsked, dataset: DataSet) -> None:
    """Refuses a run in which each rank of several nodes would list a large set.

    Raises:
        BadConfiguration: it has no index.
    """
    images = dataset.training_images + dataset.validation_images
    if (nodes.nodes == 1 and nodes.most_nodes in (None, 1)) or images <= LISTED_AT_MOST or is_indexed(conf.dataset):
        return
    root = (
        [option("dataset.root", conf.dataset.root)] if isinstance(conf.dataset, FilesConf) and conf.dataset.root else []
    )
    raise BadConfiguration(
        f"on several nodes a set of more than {LISTED_AT_MOST} files has an index, or each rank would list them all; "
        f"{conf.dataset.name!r} has {images}, and none: "
        + command("prepare", f"dataset={conf.dataset.name}", *root, "--index-only")
    )


def _dataset(conf: RunConf) -> tuple[DataSet | None, str]:
    """The set as far as it can be known here, and how."""
    chosen = conf.dataset
    if not isinstance(chosen, FilesConf):
        return describe(chosen), "made of its options"
    if chosen.root is None or is_seen(chosen):
        how = "as its index says" if is_indexed(chosen) else "as listed on this machine"
        return describe(chosen), f"{how}; the head reads its own before the run begins"
    published = chosen.published()
    return (
        published,
        f"{'as published; ' if published else ''}{chosen.root} is not seen from this machine: the head reads it",
    )
