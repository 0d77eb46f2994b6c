"""Before its nodes exist, a run's preview uses the declared properties only, not the machine where it is typed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.cli import run
from aiperf.config import CLUSTERS, configure
from aiperf.data.survey import write_index
from aiperf.errors import AiperfError, BadConfiguration
from aiperf.journal.events import WorkerShape
from aiperf.planning import declared_nodes, worker_shape
from aiperf.planning.declared_nodes import declared_shape, preview, require_declared, require_index
from aiperf.planning.plan import make_plan
from aiperf.planning.worker_shape import shape_of
from cluster.place import NodesAsked, NodesConf, bytes_of
from tests.builders.data_set import make
from tests.planning.test_worker_shape import GIB, conf_of, host
from tests.rigs.user import User

LEARNT = "learnt from the first worker"
NEEDED = {"kubernetes": ("cluster.image=here/aiperf",), "hosts": ("cluster.hosts=[a,b]",)}
"""Options without which a kind of cluster cannot be."""
PLACES = [str(kind.kind) for kind in CLUSTERS if kind.kind != "simulated"]


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks at this machine fails."""

    def looked(*_: Any) -> None:
        raise AssertionError("the machine where the command was typed was looked at")

    monkeypatch.setattr(run, "describe_usable", looked)
    monkeypatch.setattr(worker_shape, "describe_usable", looked)


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.usefixtures("blind")
def test_a_dry_run_on_a_cluster_ignores_this_machine(kind: str, aiperf: User) -> None:
    answer = aiperf("dry_run=true", f"+cluster={kind}", *NEEDED.get(kind, ()))

    assert answer.status == 0, answer.err
    assert "data set     digits: 1" in answer.out


@pytest.mark.usefixtures("blind")
def test_a_plan_for_slurm_is_complete_and_shows_the_request(aiperf: User) -> None:
    answer = aiperf(
        "dry_run=true", "+cluster=slurm", "cluster.nodes=8", "cluster.gpus_per_node=8", "cluster.partition=gpu",
        "cluster.accelerator=H100", "cluster.accelerator_memory=80G", "dataset=imagenet", "dataset.root=/data/imagenet",
    )  # fmt: skip

    assert answer.status == 0, answer.err
    assert "--nodes=8" in answer.out and "--gpus-per-node=8" in answer.out and "--partition=gpu" in answer.out
    assert "slurm.sh in the run's folder" in answer.out
    assert "as published; /data/imagenet is not visible from this machine" in answer.out
    assert "8 on 8 nodes" in answer.out
    assert "8 accelerators, 8 ranks" in answer.out and "H100, 85.9 GB a rank (declared)" in answer.out
    assert LEARNT not in answer.out


@pytest.mark.parametrize("kind", PLACES)
def test_a_missing_data_set_is_refused_where_the_head_is_here(kind: str, aiperf: User, tmp_path: Path) -> None:
    words = (f"+cluster={kind}", *NEEDED.get(kind, ()), "dataset=imagenet", f"dataset.root={tmp_path}/none")

    answer = aiperf("dry_run=true", *words)

    assert (answer.status == 2) == (kind in ("hosts", "ray")), answer.err
    assert (f"{tmp_path}/none" in answer.err) == (kind in ("hosts", "ray"))


def test_undeclared_properties_have_no_number(aiperf: User) -> None:
    for words in ((), ("cluster.gpus_per_node=a100:4",)):
        shown = aiperf("dry_run=true", "+cluster=slurm", *words).out

        assert f"a worker     ranks, batch, memory and budget: {LEARNT}" in shown
        assert "first graph" in shown and "GB a rank" not in shown


@settings(max_examples=20)
@given(
    st.integers(0, 16),
    st.integers(1, 128),
    st.integers(2, 256),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 1 << 33]),
)
def test_the_plan_of_declared_nodes_equals_the_real_one(
    accelerators: int, cores: int, gib: int, ranks: int | None, declared_bytes: int | None
) -> None:
    conf = conf_of(())
    if ranks is not None and accelerators and ranks > accelerators:
        ranks = None
    conf = replace(
        conf, trainer=replace(conf.trainer, ranks=ranks), budget=replace(conf.budget, memory_bytes=declared_bytes)
    )
    nodes = NodesAsked(2, None, accelerators, "A", gib * GIB, cores, gib * GIB)
    system = host(*[gib] * accelerators, memory_gib=gib)

    plan = preview(conf, nodes).plan
    learnt = shape_of(system, accelerators, cores, conf.trainer, declared_bytes, "learnt")

    assert plan is not None
    assert plan.space == make_plan(conf, learnt, plan.dataset).space
    assert (plan.shape.ranks, plan.shape.memory_bytes) == (learnt.ranks, learnt.memory_bytes)


def test_a_worker_of_part_of_a_nodes_accelerators_is_expected_so() -> None:
    conf = replace(configure([]), accelerators_per_worker=2)

    shape = declared_shape(conf, NodesAsked(accelerators=8, accelerator_bytes=80 * GIB))

    assert shape is not None and shape.ranks == 2


def found(**other: Any) -> WorkerShape:
    usual = {"source": "node7", "device": "NVIDIA H100 80GB HBM3", "accelerators": 8, "ranks": 8, "cores": 8}
    return WorkerShape(**{**usual, "memory_bytes": 79 * GIB, **other})


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"accelerators": 0, "device": "EPYC"},
            r"the requested number of accelerators, 8 each. Found 0 of EPYC \(node7\)",
        ),
        ({"device": "NVIDIA A100-SXM4-80GB"}, r"cluster\.accelerator=H100. Found 8 of NVIDIA A100"),
        ({"memory_bytes": 39 * GIB}, r"cluster\.accelerator_memory, within 10 %. Found 8 of NVIDIA H100"),
    ],
)
def test_nodes_unlike_the_declaration_end_the_run(other: dict[str, Any], message: str) -> None:
    nodes = NodesAsked(8, None, 8, "h100", 80 * GIB)

    require_declared(nodes, None, found())
    require_declared(NodesAsked(), None, found(**other))
    with pytest.raises(BadConfiguration, match=message.replace("=H100", "=h100")):
        require_declared(nodes, None, found(**other))


def test_a_large_set_needs_an_index_on_several_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = configure(["dataset=images", f"dataset.root={make(tmp_path / 'set')}"])
    images = preview(conf, NodesAsked()).dataset
    assert images is not None
    require_index(conf, NodesAsked(2), images)
    monkeypatch.setattr(declared_nodes, "LISTED_AT_MOST", 17)

    require_index(conf, NodesAsked(1), images)
    for nodes in (NodesAsked(2), NodesAsked(1, 4), NodesAsked()):
        with pytest.raises(BadConfiguration, match=r"more than 17 files needs an index.*'images' has 18.*--index-only"):
            require_index(conf, nodes, images)

    write_index(conf.dataset)
    require_index(conf, NodesAsked(2), images)


def test_a_visible_set_is_described_with_its_source(tmp_path: Path) -> None:
    root = make(tmp_path / "set")
    conf = configure(["dataset=images", f"dataset.root={root}"])

    listed = preview(conf, NodesAsked())
    write_index(conf.dataset)
    indexed = preview(conf, NodesAsked())
    elsewhere = preview(configure(["+cluster=slurm", "dataset=images", "dataset.root=/nowhere"]), NodesAsked())

    assert listed.dataset == indexed.dataset is not None
    assert listed.dataset_source.startswith("as listed on this machine") and indexed.dataset_source.startswith(
        "from its index"
    )
    assert elsewhere.dataset is None and elsewhere.plan is None
    with pytest.raises(AiperfError, match=r"dataset\.root=FOLDER"):
        preview(configure(["dataset=images"]), NodesAsked())


@pytest.mark.parametrize("word", ["80", "0G", "80X", "", "-1G", "8.5G"])
def test_memory_that_has_no_unit_or_no_sense_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r"cluster\.accelerator_memory is a number with K, M, G or T"):
        bytes_of("cluster.accelerator_memory", word)


def test_every_cluster_kind_can_declare_accelerators() -> None:
    assert [kind for kind in CLUSTERS if not issubclass(kind, NodesConf)] == [CLUSTERS[0]], (
        "the simulated one has its own"
    )
