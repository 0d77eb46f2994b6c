"""Preview of a run before its nodes exist, from the node properties that the cluster configuration declares."""

from __future__ import annotations

from dataclasses import dataclass

from aiperf.config import ALL, RunConf, as_plain
from aiperf.data.dataset_config import FolderConf
from aiperf.data.description import DataSet
from aiperf.data.survey import describe, is_indexed, is_seen
from aiperf.errors import BadConfiguration
from aiperf.journal.events import WorkerShape
from aiperf.planning.buildable import require_devices
from aiperf.planning.plan import Plan, check_options, make_plan, starting_network
from aiperf.rules.search_space import planned
from aiperf.shell_command import command, option
from aiperf.train.trainer_config import ranks_of_worker
from aiperf.units import share as share_of
from cluster.place import NodesAsked, SchedulerConf
from morphism import Architecture

LEARNT = "learnt from the first worker"
LISTED_AT_MOST = 10_000
"""Largest set without an index for a run on several nodes. Each rank of each node lists all files."""
ASSUMED_BYTES = 80 << 30
MEMORY_TOLERANCE = 0.1
"""Relative tolerance of an accelerator's memory: data sheets and drivers differ by some per cent."""


@dataclass(frozen=True, slots=True)
class Preview:
    """Known parts of the plan of a run before its nodes exist."""

    dataset: DataSet | None
    """Data set. None if it is not visible from this machine."""
    dataset_source: str
    network: Architecture | None
    """Starting network. None if the data set is not known."""
    plan: Plan | None
    """Plan of the run. None if too little is known."""


def preview(conf: RunConf, nodes: NodesAsked) -> Preview:
    """Return the parts of a run's plan that are known before its nodes exist."""
    check_options(conf)
    if (accelerators := _accelerators(conf, nodes)) is not None:
        require_devices(conf, accelerators)
    dataset, source = _dataset(conf)
    network = None if dataset is None else starting_network(conf, dataset)
    shape = declared_shape(conf, nodes)
    plan = None if dataset is None or shape is None else make_plan(conf, shape, dataset)
    return Preview(dataset, source, network, plan)


def assumed(previewed: Preview, conf: RunConf) -> Plan | None:
    """Return the plan, or one for an assumed worker, of which only the options are meant. None without the data set."""
    if previewed.plan is not None or previewed.dataset is None or previewed.network is None:
        return previewed.plan
    shape = WorkerShape(source="assumed", device="", accelerators=1, ranks=1, cores=1, memory_bytes=ASSUMED_BYTES)
    images = previewed.dataset.training_images
    space = planned(as_plain(conf), previewed.network, images, shape.ranks, shape.memory_bytes)
    return Plan(conf, previewed.dataset, previewed.network, space, shape)


def _accelerators(conf: RunConf, nodes: NodesAsked) -> int | None:
    """Return the accelerators of a worker. None if they become known with the nodes."""
    declared = conf.accelerators_per_worker
    if declared == ALL and nodes.nodes != 1:
        return None
    return declared if isinstance(declared, int) else nodes.accelerators


def declared_shape(conf: RunConf, nodes: NodesAsked) -> WorkerShape | None:
    """Expected shape of a worker before its nodes exist. None if they do not determine accelerators, ranks and memory."""
    accelerators, trainer = _accelerators(conf, nodes), conf.trainer
    has_ranks = accelerators or trainer.ranks is not None or trainer.collective == "none" or nodes.cores is not None
    if accelerators is None or not has_ranks:
        return None
    ranks = ranks_of_worker(trainer, accelerators, nodes.cores or 1)
    memory = conf.budget.memory_bytes or trainer.memory_limit_bytes
    if memory is None and accelerators:
        memory = nodes.accelerator_bytes
    elif memory is None and nodes.memory_bytes is not None:
        memory = nodes.memory_bytes // ranks
    if memory is None:
        return None
    device = (nodes.accelerator if accelerators else None) or f"a device that is {LEARNT}"
    return WorkerShape(
        source="declared",
        device=device,
        accelerators=accelerators,
        ranks=ranks,
        cores=nodes.cores or 0,
        memory_bytes=memory,
    )


def workers_expected(conf: RunConf, nodes: NodesAsked) -> str | None:
    """Return the expected number of workers as text, such as '8 on 2 nodes'. None if it depends on the actual nodes."""
    each = conf.accelerators_per_worker
    if nodes.nodes is None or not nodes.accelerators or not (each is None or isinstance(each, int)):
        return None
    each = each or nodes.accelerators
    spans = each > nodes.accelerators
    first = nodes.nodes * nodes.accelerators // each if spans else nodes.nodes * (nodes.accelerators // each)
    more = "" if nodes.most_nodes is None else f", up to {nodes.most_nodes} nodes' later"
    return f"{first} on {nodes.nodes} nodes{more}"


def require_declared(nodes: NodesAsked, accelerators_per_worker: object, shape: WorkerShape) -> None:
    """Check the nodes against the declared accelerators, their number only if accelerators_per_worker is None."""
    actual = f"Found {shape.accelerators} of {shape.device} ({shape.source})"
    if nodes.accelerators is not None and accelerators_per_worker is None and shape.accelerators != nodes.accelerators:
        raise BadConfiguration(
            f"nodes must have the requested number of accelerators, {nodes.accelerators} each. {actual}: check that their "
            "drivers are loaded and that Ray detects them"
        )
    if nodes.accelerator is not None and nodes.accelerator.lower() not in shape.device.lower():
        raise BadConfiguration(
            f"nodes must have the declared accelerators, cluster.accelerator={nodes.accelerator}. {actual}: request others "
            "(cluster.constraint, cluster.partition), or remove the option"
        )
    if nodes.accelerator_bytes is not None and shape.accelerators:
        share = shape.memory_bytes / nodes.accelerator_bytes
        if abs(share - 1) > MEMORY_TOLERANCE:
            raise BadConfiguration(
                "accelerators must have the declared memory, cluster.accelerator_memory, within "
                f"{share_of(MEMORY_TOLERANCE, 0)}. {actual} with {shape.memory_bytes} bytes: request others, or remove the "
                "option"
            )


def require_index(conf: RunConf, nodes: NodesAsked, dataset: DataSet) -> None:
    """Check that a data set of more than LISTED_AT_MOST (10,000) images has an index if the run may use several nodes."""
    images = dataset.training_images + dataset.validation_images
    if (nodes.nodes == 1 and nodes.most_nodes in (None, 1)) or images <= LISTED_AT_MOST or is_indexed(conf.dataset):
        return
    root = (
        [option("dataset.root", conf.dataset.root)]
        if isinstance(conf.dataset, FolderConf) and conf.dataset.root
        else []
    )
    raise BadConfiguration(
        f"on several nodes a set of more than {LISTED_AT_MOST} files needs an index, or each rank would list all files. "
        f"{conf.dataset.name!r} has {images} files and no index. Create it: "
        + command("prepare", f"dataset={conf.dataset.name}", *root, "--index-only")
    )


def _dataset(conf: RunConf) -> tuple[DataSet | None, str]:
    chosen = conf.dataset
    if not isinstance(chosen, FolderConf):
        return describe(chosen), "from its options"
    # the head of hosts and of an existing Ray is this machine
    is_read_here = not isinstance(conf.cluster, SchedulerConf)
    if is_read_here or chosen.root is None or is_seen(chosen):
        how = "from its index" if is_indexed(chosen) else "as listed on this machine"
        return describe(chosen), how if is_read_here else f"{how}; the head node reads its own before the run begins"
    published = chosen.published()
    return (
        published,
        f"{'as published; ' if published else ''}{chosen.root} is not visible from this machine: the head node reads it",
    )
