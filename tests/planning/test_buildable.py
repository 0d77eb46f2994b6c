"""A run builds everything that a dry run accepts. Configurations are drawn from the limits of their fields.

Each part is built of them. Trainers are built in tests/train/test_accepted_trainers.py, since they need torch.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from aiperf.cli.plan_lines import plan_table
from aiperf.config import BatchConf, BudgetConf, RunConf, configure, from_plain
from aiperf.data.dataset_config import DigitsConf, ImagenetConf, SyntheticConf
from aiperf.errors import BadConfiguration
from aiperf.journal.events import RunStarted, WorkerShape
from aiperf.planning.buildable import require_devices, require_memory, require_packages
from aiperf.planning.declared_nodes import preview
from aiperf.planning.plan import check_options, first_event, make_plan, require_batches
from aiperf.rules.limits import LimitsConf, ScheduleConf, progress_seconds, schedule_of
from aiperf.rules.proposals import proposer_of
from aiperf.rules.search_space import space_of
from aiperf.simulate.session import open_run, world_of
from aiperf.train.trainer_config import TrainerConf
from cluster.faults import FAULTS
from cluster.hosts import HostsConf
from cluster.kubernetes import KubernetesConf
from cluster.place import ClusterConf, JobSubmission, JoinedConf, NodesAsked, SchedulerConf, place_of
from cluster.ray import RayConf
from cluster.simulated import SimulatedConf
from cluster.slurm import SlurmConf
from cluster.topology import LinkConf
from morphism import cost, start
from searchers.history import History, Request
from searchers.propose import propose
from searchers.searcher_config import SEARCHERS, TUNINGS, MorphismConf, TpeConf
from tests.builders.options import drawn

SHAPE = WorkerShape(source="a test", device="a processor", accelerators=0, ranks=2, cores=2, memory_bytes=4 << 30)
LEAST_EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
USUAL = configure([])


def accepted(**parts: Any) -> RunConf:
    """A run of these parts, which nothing refuses before a plan is made."""
    assume(None not in parts.values())
    try:
        conf = replace(USUAL, **parts)
        check_options(conf)
    except BadConfiguration:
        assume(False)
    return conf


def is_buildable_place(data: st.DataObject) -> None:
    """Job, place and description of nodes of a cluster that `check_options` lets through."""
    kind = data.draw(st.sampled_from([SlurmConf, KubernetesConf, HostsConf, RayConf]))
    fixed: dict[str, Any] = {"image": "aiperf:1"} if kind is KubernetesConf else {}
    cluster = data.draw(drawn(kind, most=6, **fixed))
    conf = accepted(cluster=cluster, trainer=data.draw(drawn(TrainerConf)))
    found: ClusterConf = cluster
    place_of(found, {})
    assert isinstance(found.requested_nodes(), NodesAsked) and found.workers_text()
    assert all(isinstance(value, str) for _, value in found.requested_resources(conf.schedule.duration_seconds))
    submission = JobSubmission("a-run", Path("/runs/a-run"), ["seed=1"], 180.0, "/usr/bin/python3", Path("/runs"))
    if isinstance(found, SchedulerConf):
        job = found.job(submission)
        assert job.script and job.folder
    if isinstance(found, JoinedConf):
        assert found.shown(submission.folder)


@given(st.data())
@LEAST_EXAMPLES
def test_a_cluster_that_is_accepted_has_a_place_and_a_job(data: st.DataObject) -> None:
    is_buildable_place(data)


@pytest.mark.slow
@given(st.data())
@MANY
def test_many_clusters_that_are_accepted_have_a_place_and_a_job(data: st.DataObject) -> None:
    is_buildable_place(data)


def is_buildable_plan(data: st.DataObject) -> None:
    """A plan that is made has a first line which is read again as it was written, and rules that can be asked."""
    conf = accepted(
        schedule=data.draw(drawn(ScheduleConf)),
        limits=data.draw(drawn(LimitsConf)),
        budget=data.draw(drawn(BudgetConf)),
        batch=data.draw(drawn(BatchConf)),
        trainer=data.draw(drawn(TrainerConf)),
        searcher=data.draw(st.sampled_from(SEARCHERS).flatmap(drawn)),
        hpo=data.draw(st.sampled_from(TUNINGS).flatmap(drawn)),
        dataset=data.draw(drawn(DigitsConf) | drawn(SyntheticConf)),
        seed=data.draw(st.integers(0, 2**63 - 1)),
    )
    words = [f"batch.{name}" for name in ("default", "smallest", "largest") if getattr(conf.batch, name) is not None]
    try:
        plan = make_plan(conf, SHAPE)
        require_batches(plan, [f"{word}=1" for word in words])
    except BadConfiguration:
        return
    line = msgspec.json.encode(first_event(plan, "a run", 1.0))
    read = msgspec.json.decode(line, type=RunStarted)
    assert from_plain(read.config) == conf
    space = space_of(read)
    assert space == plan.space
    images = plan.dataset.training_images // SHAPE.ranks
    assert max(space.default_batch_size, space.smallest_batch_size or 1, *[conf.batch.largest or 1]) <= images
    schedule_of(read)
    assert 0 < progress_seconds(conf.limits, 1_000_000) <= 10**8
    json.loads(line)  # by a program independent of AIPerf


@given(st.data())
@LEAST_EXAMPLES
def test_an_accepted_plan_has_a_readable_first_line(data: st.DataObject) -> None:
    is_buildable_plan(data)


@pytest.mark.slow
@given(st.data())
@MANY
def test_many_accepted_plans_have_readable_first_lines(data: st.DataObject) -> None:
    is_buildable_plan(data)


def proposes(data: st.DataObject) -> None:
    """Build a proposer at any edge. Draw proposals with as many candidates as take milliseconds."""
    conf = accepted(
        searcher=data.draw(st.sampled_from(SEARCHERS).flatmap(drawn)),
        hpo=data.draw(st.sampled_from(TUNINGS).flatmap(drawn)),
        seed=data.draw(st.integers(0, 2**63 - 1)),
    )
    proposer_of(conf.searcher, conf.hpo)
    searcher, hpo = conf.searcher, conf.hpo
    if isinstance(searcher, MorphismConf):
        searcher = replace(searcher, candidates=8)
    if isinstance(hpo, TpeConf):
        hpo = replace(hpo, candidates=8)
    proposer = proposer_of(searcher, hpo)
    history = History(make_plan(conf, SHAPE).space)
    made = propose(proposer.searcher, history, Request(1, conf.schedule.warmup_rounds + 1, conf.seed), proposer.tuner)
    assert made.morphs and made.batch_size <= 128


@given(st.data())
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_an_accepted_searcher_and_tuning_propose(data: st.DataObject) -> None:
    proposes(data)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_many_accepted_searchers_and_tunings_propose(data: st.DataObject) -> None:
    proposes(data)


def opens(data: st.DataObject) -> None:
    """A simulated run that is accepted has a world to begin in."""
    cluster = data.draw(drawn(SimulatedConf, most=6))
    faults = data.draw(st.lists(st.sampled_from(FAULTS).flatmap(drawn), max_size=2))
    links = data.draw(st.lists(drawn(LinkConf), min_size=1, max_size=3))
    assume(cluster is not None)
    conf = accepted(
        cluster=replace(cluster, faults=faults, links=links),
        dataset=ImagenetConf(),
        trainer=data.draw(drawn(TrainerConf)),
        hpo=TUNINGS[-1](),
        batch=BatchConf(),
    )
    try:
        opening = open_run(conf)
    except BadConfiguration:
        return
    world = world_of(opening)
    assert world.memory.ceiling >= 8


@given(st.data())
@LEAST_EXAMPLES
def test_a_simulated_run_that_is_accepted_has_a_world(data: st.DataObject) -> None:
    opens(data)


@pytest.mark.slow
@given(st.data())
@MANY
def test_many_simulated_runs_that_are_accepted_have_a_world(data: st.DataObject) -> None:
    opens(data)


NEEDS_ACCELERATORS = [
    ({"trainer": TrainerConf(cuda_graphs="on")}, "trainer.cuda_graphs=on", "use off or auto"),
    ({"trainer": TrainerConf(precision="tf32")}, "trainer.precision=tf32", "use auto, fp32 or bf16"),
]


@pytest.mark.parametrize(("parts", "found", "remedy"), NEEDS_ACCELERATORS)
def test_options_for_accelerators_are_refused_without_any(parts: dict[str, Any], found: str, remedy: str) -> None:
    conf = replace(USUAL, **parts)
    for refuse in (
        lambda: make_plan(conf, SHAPE),
        lambda: preview(conf, NodesAsked(nodes=2, accelerators=0)),
        lambda: require_devices(replace(conf, executor="inline"), accelerators=8),
    ):
        with pytest.raises(BadConfiguration) as refused:
            refuse()
        assert str(refused.value).startswith(f"{found} needs workers with accelerators")
        assert remedy in str(refused.value)
    require_devices(conf, accelerators=1)
    preview(conf, NodesAsked(nodes=2))  # the accelerators are unknown


def test_the_gpu_s_decoder_is_refused_without_a_gpu() -> None:
    conf = replace(USUAL, dataset=ImagenetConf(decoder="gpu"))
    with pytest.raises(BadConfiguration, match=r"dataset\.decoder=gpu needs workers with accelerators, .*: use cpu"):
        make_plan(conf, SHAPE)
    require_devices(conf, accelerators=1)


def test_missing_packages_are_refused_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(BadConfiguration, match=r"trainer\.collective=horovod needs the package horovod"):
        require_packages(replace(USUAL, trainer=TrainerConf(collective="horovod")))
    require_packages(USUAL)


def test_a_start_or_set_that_does_not_fit_is_refused() -> None:
    graph = start("digits_small", image=8, channels=1, classes=10)
    needed = cost(graph).training_memory(8, 4)
    fp32 = TrainerConf(precision="fp32", ceiling_share=1)
    enough, short = (msgspec.structs.replace(SHAPE, memory_bytes=needed + more) for more in (0, -1))

    require_memory(replace(USUAL, trainer=fp32), graph, enough)
    with pytest.raises(BadConfiguration, match="must fit into an accelerator's memory at batch 8"):
        require_memory(replace(USUAL, trainer=fp32), graph, short)
    require_memory(replace(USUAL, trainer=fp32, budget=BudgetConf(memory_bytes=2**40)), graph, short)
    large = replace(USUAL, dataset=SyntheticConf(image=1024))
    with pytest.raises(BadConfiguration, match=r"each rank generates the set synthetic .* dataset\.image=1024"):
        require_memory(large, graph, SHAPE)
    require_memory(large, graph, msgspec.structs.replace(SHAPE, accelerators=1))


def test_a_typed_batch_is_limited_a_scheduled_one_lowered() -> None:
    small = ["schedule=ranking", "dataset=synthetic", "start=resnet20", "dataset.training_images=700"]
    ranking = make_plan(configure([*small, "dataset.validation_images=100"]), SHAPE)
    assert ranking.space.default_batch_size == 350
    require_batches(ranking, ["schedule=ranking"])

    for words in (["batch.default=719"], ["batch.largest=719"]):
        plan = make_plan(configure([word.lstrip("+") for word in words]), SHAPE)
        law = r"each of 2 ranks has 718, but found batch\.(default|largest)=719: take at most 718"
        with pytest.raises(BadConfiguration, match=law):
            require_batches(plan, words)
    require_batches(make_plan(configure(["batch.largest=718"]), SHAPE), ["batch.largest=718"])


@pytest.mark.parametrize(
    ("graphs", "compiling", "said"), [("on", "off", "sure"), ("auto", "auto", "if"), ("off", "on", "")]
)
def test_plan_says_where_no_exchange_overlaps(graphs: str, compiling: str, said: str) -> None:
    conf = configure([f"trainer.cuda_graphs={graphs}", f"trainer.compile={compiling}"])
    for ranks in (1, 2):
        shape = msgspec.structs.replace(SHAPE, accelerators=ranks, ranks=ranks)

        text = str(plan_table(make_plan(conf, shape), "one worker"))

        assert ("no gradient exchange overlaps" in text) == (said != "" and ranks > 1)
        assert ("if CUDA graphs are chosen" in text) == (said == "if" and ranks > 1)
