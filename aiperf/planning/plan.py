"""Plan of a run before it starts: starting network, search space and the journal's first line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from pathlib import Path
from typing import Any

import morphism
from aiperf.config import ALL, RunConf, as_plain
from aiperf.data.description import DataSet
from aiperf.data.survey import describe as describe_data
from aiperf.errors import BadConfiguration, conflict
from aiperf.files import given_path, shown, what_is_wrong_with
from aiperf.journal.events import SCHEMA, NodeChecked, RunStarted, WorkerShape
from aiperf.journal.first_line import config_hash
from aiperf.nearest import nearest
from aiperf.planning.buildable import require_devices, require_memory
from aiperf.planning.following import following_of, require_same_work
from aiperf.rules.followed import Following
from aiperf.rules.limits import WORKLOADS, HpcAi500Conf
from aiperf.rules.search_space import bounds, metric_of, planned, recorded
from aiperf.statistics import predicted_score
from cluster.place import ClusterConf, ClusterError, Simulated, place_of
from morphism import Architecture
from searchers.history import Space
from searchers.propose import RULES

NETWORKS = (*morphism.STARTS, *morphism.DETECTORS)


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a run that can begin: its configuration, data set, starting network, search space and shape of workers."""

    conf: RunConf
    dataset: DataSet
    network: Architecture
    """Starting network."""
    space: Space
    shape: WorkerShape
    follows: Following | None = None
    """List of trials to train. None if the run searches."""


def make_plan(conf: RunConf, shape: WorkerShape, dataset: DataSet | None = None) -> Plan:
    """Return the plan of a run, after checking that the run can begin."""
    check_options(conf)
    require_devices(conf, shape.accelerators)
    dataset = dataset or describe_data(conf.dataset)
    network = starting_network(conf, dataset)
    require_fixed(conf, network)
    _require_samples(conf, dataset, shape.ranks)
    space = planned(as_plain(conf), network, dataset.training_images, shape.ranks, shape.memory_bytes)
    _check_start(network, space.budget)
    require_memory(conf, network, shape)
    plan = Plan(conf, dataset, network, space, shape)
    return plan if conf.follow is None else _following(plan, conf.follow)


def _following(plan: Plan, word: str) -> Plan:
    """Return the plan with the list that it follows, after checking that it is the same work."""
    followed = following_of(word, plan.conf.runs)
    require_same_work(first_event(plan, "", 0.0), followed, plan.shape.ranks)
    return replace(plan, follows=followed)


def check_options(conf: RunConf) -> None:
    """Check the rules about several options of a run that need no description of a machine and no data set."""
    conf.schedule.check()
    if conf.start is not None and conf.start not in NETWORKS:
        _graph_file(conf.start)
    if isinstance(conf.benchmark, HpcAi500Conf) and conf.accelerators_per_worker != ALL:
        named = f"accelerators_per_worker={conf.accelerators_per_worker}"
        raise conflict(f"benchmark={conf.benchmark.name}", named, "Its one worker has all accelerators: leave it out")
    if conf.cluster is not None:
        if conf.executor != "ray":
            raise conflict(f"+cluster={conf.cluster.kind}", f"executor={conf.executor}")
        check_cluster(conf.cluster)
        try:
            conf.cluster.check_run(conf.schedule.duration_seconds, getattr(conf.dataset, "root", None))
        except ValueError as error:
            raise BadConfiguration(str(error)) from error
    if conf.predict is not None:
        require_prediction(conf)
    if conf.follow is not None:
        following_of(conf.follow, conf.runs)


def require_prediction(conf: RunConf, nodes: Iterable[NodeChecked] | None = None) -> dict[str, Any]:
    """Return the content of the file `conf.predict`, after checking it against the run. `nodes`: None before they are known."""
    assert conf.predict is not None, "the caller has looked"
    content = predicted_score.read_prediction(Path(conf.predict))
    differing = predicted_score.differing_options(content, json.loads(json.dumps(as_plain(conf))))
    differing += ["release"] if content["release"] != predicted_score.release() else []
    differing += [] if nodes is None else predicted_score.differing_nodes(content, nodes)
    if changed := predicted_score.contradictions(content):
        raise BadConfiguration(
            f"a prediction is sealed as it was written, but in {shown(conf.predict)} {changed[0]}: predict again"
        )
    if differing:
        raise BadConfiguration(
            "predict= takes a prediction of the same options, release and kinds of nodes, but "
            f"{shown(conf.predict)} differs in {', '.join(differing)}: predict again"
        )
    return content


def check_cluster(cluster: ClusterConf) -> None:
    """Raise BadConfiguration if the options of a cluster contradict each other, or the allocation of this process."""
    try:
        cluster.check()
        cluster.place(os.environ)
    except (ValueError, ClusterError) as error:
        raise BadConfiguration(str(error)) from error


def first_event(
    plan: Plan,
    run: str,
    now_unix: float,
    *,
    versions: Mapping[str, str] | None = None,
    machine: Mapping[str, Any] | None = None,
) -> RunStarted:
    """Return the first line of a run's journal, which records its configuration, data set and machine."""
    config = as_plain(plan.conf)
    config["space"] = recorded(plan.space)
    return RunStarted(
        at=0.0,
        schema=SCHEMA,
        run=run,
        started_unix=now_unix,
        seed=plan.conf.seed,
        config=config,
        config_hash=config_hash(config),
        start_graph=json.loads(morphism.encode_architecture(plan.network)),
        metric=metric_of(plan.network),
        dataset=plan.dataset.recorded,
        duration_seconds=plan.conf.schedule.duration_seconds,
        warmup_seconds=plan.conf.schedule.warmup_seconds,
        versions=dict(versions or {}),
        machine=dict(machine or {}),
        proposal_rules=RULES,
        shape=plan.shape,
        follows=None if plan.follows is None else plan.follows.recorded,
    )


def folder_of(conf: RunConf, now: float) -> Path:
    """Return the path of the folder of a new run, RUNS/TIME-NAME, without creating it."""
    return Path(conf.runs) / f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{conf.name or conf.dataset.name}"


def make_folder(folder: Path) -> Path:
    """Create a new folder and return its path: `folder`, or, if it exists, the first free one of FOLDER.2, FOLDER.3, …."""
    for candidate in candidates(folder):
        try:
            candidate.mkdir(parents=True)
        except FileExistsError:  # another run started in the same second, here or on another host: `mkdir` is atomic
            if not candidate.parent.is_dir():
                raise  # a broken link in the path: no name would work
            continue
        return candidate
    raise AssertionError("there is always another name")


def candidates(folder: Path) -> Iterator[Path]:
    """Yield paths for a new folder without end, in the order of trying: `folder`, FOLDER.2, FOLDER.3, …."""
    yield folder
    for number in count(2):
        yield folder.with_name(f"{folder.name}.{number}")


def starting_network(conf: RunConf, dataset: DataSet) -> Architecture:
    """Return the starting network of a run: that of the option `start`, else the usual one of the data set."""
    name = conf.dataset.usual_start if conf.start is None else conf.start
    workload = WORKLOADS.get(conf.benchmark.name)
    if workload is not None and (workload.start in morphism.DETECTORS) != (dataset.targets == "boxes"):
        data = f"dataset={dataset.name}, which has {dataset.targets}"
        raise conflict(
            f"benchmark={conf.benchmark.name}", data, f"Take dataset={workload.dataset}, or another benchmark"
        )
    _require_targets(name, dataset)
    if name in NETWORKS:
        try:
            return morphism.start_of(
                name, image=dataset.image, width=dataset.width, channels=dataset.channels, classes=dataset.classes
            )
        except morphism.IllegalGraph as error:
            raise BadConfiguration(
                f"start={name} does not fit dataset={dataset.name}: {error}. Choose another start or dataset"
            ) from error
    path = _graph_file(name)
    try:
        graph = morphism.load(path)
    except morphism.DamagedGraphFile as error:
        raise BadConfiguration(
            f"start must be a network's name or a graph's JSON file. {error}: choose another"
        ) from error
    if dataset.targets == "tokens":
        wanted: tuple[morphism.Shape, ...] = (
            morphism.TokenNumbers(dataset.classes, dataset.image),
            morphism.Tokens(dataset.image, dataset.classes),
        )
    else:
        wanted = morphism.Map(dataset.channels, dataset.image, dataset.image), morphism.Vector(dataset.classes)
    if (graph.shapes[0], graph.shapes[-1]) != wanted:
        raise BadConfiguration(
            f"a starting graph must fit the data set's {dataset.noun.many} and number of classes: {wanted[0]} and "
            f"{dataset.classes}. '{path}' reads {graph.shapes[0]} and ends in {graph.shapes[-1]}: choose another start or "
            "dataset"
        )
    return graph


def _graph_file(name: str) -> Path:
    path = given_path(name)
    if (wrong := what_is_wrong_with(path)) is not None:
        raise BadConfiguration(
            f"start must be one of {', '.join(NETWORKS)}, or the path of a graph's JSON file, but found {name!r}"
            + ("" if wrong == "not there" else f", which is {wrong}")
            + nearest(name, NETWORKS)
        )
    return path


def _require_targets(name: str, dataset: DataSet) -> None:
    """Raise BadConfiguration if a network cannot learn the targets of a data set."""
    learners = {
        "classes": morphism.IMAGE_STARTS,
        "boxes": tuple(morphism.DETECTORS),
        "tokens": morphism.TOKEN_STARTS,
    }
    needs = next((targets for targets, names in learners.items() if name in names), "classes")
    if name not in NETWORKS and dataset.targets == "tokens":
        return  # a graph's file: `starting_network` compares shapes
    if dataset.targets != needs:
        raise BadConfiguration(
            f"start={name} learns {needs}, but found dataset={dataset.name} with {dataset.targets}: take another dataset, or "
            f"start={' or '.join(learners[dataset.targets])}"
        )


def require_fixed(conf: RunConf, network: Architecture) -> None:
    """Raise BadConfiguration if options require to search, compile or simulate a detector, or to use CUDA graphs for it."""
    if not isinstance(network, morphism.Detector):
        return
    for option, value, needed in (
        ("limits.trials", conf.limits.trials, 1),
        ("trainer.compile", conf.trainer.compile, "off"),
        ("trainer.cuda_graphs", conf.trainer.cuda_graphs, "off"),
    ):
        if value not in (needed, "auto"):
            raise BadConfiguration(
                f"a detector is a fixed network without compilation: {option}={needed}, but found {option}="
                f"{'null' if value is None else value} with start={network.network}: set {option}={needed}"
            )
    if isinstance(place_of(conf.cluster, os.environ), Simulated):
        fix = "Only graphs are simulated: leave the cluster out"
        raise conflict(f"start={network.network}", "+cluster=simulated", fix)


def _check_start(network: Architecture, budget: morphism.Budget) -> None:
    needed = morphism.cost_of(network).training_memory(budget.batch, budget.bytes_per_element)
    if budget.memory_bytes is not None and needed > budget.memory_bytes:
        raise BadConfiguration(
            f"the starting graph must be within the budget, or nothing can be proposed. It needs {needed} bytes of training "
            f"memory at batch {budget.batch}, and {budget.memory_bytes} are allowed: "
            "lower budget.batch, or take a smaller start=…"
        )


def require_batches(plan: Plan, words: Sequence[str]) -> None:
    """Check that the typed batch sizes are at most the training images of a rank (one data-parallel process)."""
    images, ranks, samples = plan.dataset.training_images, plan.shape.ranks, plan.dataset.noun.many
    typed = {word.lstrip("+").partition("=")[0] for word in words}
    for each in fields(plan.conf.batch):
        option, value = f"batch.{each.name}", getattr(plan.conf.batch, each.name)
        if value is not None and value > images // ranks and option in typed:
            raise BadConfiguration(
                f"a batch holds {samples} of one rank, and of {images} training {samples} each of {ranks} ranks has "
                f"{images // ranks}, but found {option}={value}: take at most {images // ranks}, or fewer ranks"
            )


def _require_samples(conf: RunConf, dataset: DataSet, ranks: int) -> None:
    smallest = conf.batch.smallest
    if dataset.training_images < ranks:
        raise BadConfiguration(
            f"each rank of a worker needs its own {dataset.noun.many}. {dataset.name!r} has {dataset.training_images} training "
            f"{dataset.noun.many} for {ranks} ranks: use fewer ranks, or more {dataset.noun.many}"
        )
    _, largest = bounds(conf.batch.default, smallest, conf.batch.largest, dataset.training_images, ranks)
    if not 1 <= (1 if smallest is None else smallest) <= largest:
        raise BadConfiguration(
            f"batch.smallest is at least 1 and at most batch.largest, but found {smallest} and {largest}: change one of them"
        )
