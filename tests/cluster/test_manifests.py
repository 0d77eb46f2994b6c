"""Manifests of runs on Kubernetes: properties for all options, and validity for an API server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiperf.__main__ import main
from cluster.kubernetes import OPERATORS, PULL_POLICIES, KubernetesConf, quantity
from cluster.kubernetes_job import KubernetesJob
from cluster.manifests import LONGEST_NAME, locked, named
from cluster.place import Demand, Existing, HeadPlace, JobSubmission
from tests.rigs.kubernetes_api import complaints, crds
from tests.rigs.namespaces import REPOSITORY

NAMES = st.from_regex(r"\A[a-z]([-a-z0-9]{0,20}[a-z0-9])?\Z")
VALUES = st.from_regex(r"\A[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?\Z")
QUANTITIES = st.from_regex(r"\A[1-9][0-9]{0,3}(Mi|Gi|Ti|M|G)\Z")
LABELS = st.lists(
    st.builds("{}/{}={}".format, NAMES, VALUES, VALUES), max_size=3, unique_by=lambda word: word.partition("=")[0]
)
WORDS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20), max_size=4)


@st.composite
def confs(draw: st.DrawFn) -> KubernetesConf:
    """Whatever `check` lets pass."""
    operator = draw(st.sampled_from(OPERATORS))
    most = draw(st.integers(1, 5000))
    is_kuberay = operator == "kuberay"
    storage = draw(st.none() | st.tuples(QUANTITIES, st.none() | NAMES)) or (None, None)
    shared, *memory = sorted((draw(QUANTITIES) for _ in range(3)), key=quantity)
    conf = KubernetesConf(
        image=draw(st.sampled_from(["aiperf:1", "registry.example:5000/hpc/aiperf@sha256:" + "0" * 64])),
        operator=operator,
        namespace=draw(NAMES),
        max_workers=most,
        start_workers=draw(st.integers(1, most)),
        join_seconds=draw(st.floats(1, 1e6)),
        accelerators=draw(st.integers(0, 16)),
        accelerator_resource=draw(st.sampled_from(["nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910"])),
        cpus=draw(st.integers(1, 512)),
        memory=memory[0],
        shared_memory=shared,
        head_cpus=draw(st.integers(1, 64)),
        head_memory=memory[1],
        runs_claim=draw(NAMES),
        runs_path=draw(st.sampled_from(["/runs", "/mnt/shared/runs"])),
        runs_size=storage[0],
        storage_class=storage[1],
        data_claim=draw(st.none() | NAMES),
        node_selector=draw(LABELS),
        head_node_selector=draw(LABELS),
        node_affinity=draw(st.lists(st.sampled_from(["a/b", "!spot", "pool=x,y", "zone!=far"]), max_size=3)),
        apart=draw(st.booleans()),
        priority_class=draw(st.none() | NAMES),
        host_network=draw(st.booleans()),
        extra_resources=draw(st.sampled_from([[], ["rdma/hca_shared_devices=1", "vpc.amazonaws.com/efa=4"]])),
        labels=draw(st.sampled_from([[], ["kueue.x-k8s.io/queue-name=bench"]])),
        annotations=draw(st.sampled_from([[], ["k8s.v1.cni.cncf.io/networks=rdma", "who=é: 'x'"]])),
        tolerations=draw(
            st.lists(st.sampled_from(["a/b", "spot=true", "nvidia.com/gpu:NoSchedule", "k=v:NoExecute"]), max_size=3)
        ),
        pull_policy=draw(st.sampled_from(PULL_POLICIES)),
        pull_secrets=draw(st.lists(NAMES, max_size=2, unique=True)),
        token_secret=draw(st.none() | NAMES),
        user=draw(st.integers(1, 2**31 - 1)),
        env=draw(
            st.lists(st.builds("A_{}={}".format, st.integers(0, 9), st.sampled_from(["", "$(HOME)", "é 'x' \""])))
        ),
        restarts=draw(st.integers(0, 100)),
        keep_seconds=draw(st.integers(0, 10**6)),
        idle_seconds=draw(st.integers(0, 10**6)),
        autoscaler=draw(st.sampled_from(["v1", "v2"])),
        metrics_namespace=draw(st.none() | NAMES),
        min_workers=draw(st.integers(0, most)) if is_kuberay else 0,
        service_account=draw(st.none() | NAMES) if is_kuberay else None,
        operator_namespace=draw(st.none() | NAMES) if is_kuberay else None,
    )
    conf.check()
    return conf


def job_of(conf: KubernetesConf, words: list[str], run: str = "20261122-140000-digits") -> KubernetesJob:
    return conf.job(JobSubmission("aiperf", Path("/here/runs") / run, words, 600.0, "python", Path("/here")))


def objects(job: KubernetesJob) -> list[dict[str, Any]]:
    """Return the manifests as a reader of the YAML gets them."""
    return list(yaml.safe_load_all(job.script))


def pods(manifests: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield every pod's template in the manifests."""
    for value in manifests:
        if isinstance(value, dict):
            if "containers" in value.get("spec", {}):
                yield value
            yield from pods(list(value.values()))
        elif isinstance(value, list):
            yield from pods(value)


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(confs(), WORDS)
def test_an_api_server_accepts_every_object_for_any_options(conf: KubernetesConf, words: list[str]) -> None:
    manifests = objects(job_of(conf, words))

    core = [each for each in manifests if not each["apiVersion"].startswith("ray.io/")]
    assert [complaint for each in core for complaint in complaints(each)] == []
    for pod in pods(manifests):
        whole = {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {"name": "a", **pod["metadata"]}}
        assert complaints(whole) == []


def test_kuberays_schema_accepts_every_job_for_any_options() -> None:
    crds()

    @settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
    @given(confs().filter(lambda conf: conf.operator == "kuberay"), WORDS)
    def takes(conf: KubernetesConf, words: list[str]) -> None:
        (job,) = (each for each in objects(job_of(conf, words)) if each["kind"] == "RayJob")
        assert complaints(job) == []

    takes()


def test_a_field_that_a_schema_does_not_name_is_a_complaint() -> None:
    job = objects(job_of(KubernetesConf(image="a", operator="none"), []))[-1]
    job["spec"]["template"]["spec"]["containers"][0]["imagePullPolcy"] = "Always"

    assert any("imagePullPolcy" in complaint for complaint in complaints(job))


def test_a_field_that_kuberay_does_not_name_is_a_complaint() -> None:
    crds()
    job = objects(job_of(KubernetesConf(image="a"), []))[-1]
    job["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParam"] = {}

    assert any("rayStartParam" in complaint for complaint in complaints(job))


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(confs(), WORDS)
def test_no_pod_is_root_and_each_requests_its_limits(conf: KubernetesConf, words: list[str]) -> None:
    found = list(pods(objects(job_of(conf, words))))

    assert len(found) == (3 if conf.operator == "kuberay" else 2)
    for pod in found:
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsUser"] == conf.user > 0
        assert spec["restartPolicy"] == "Never"
        for container in spec["containers"]:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert not container["securityContext"]["allowPrivilegeEscalation"]
            assert {"cpu", "memory"} <= container["resources"]["limits"].keys()
            paths = [mount["mountPath"] for mount in container["volumeMounts"]]
            assert len(paths) == len(set(paths))
            assert {mount["name"] for mount in container["volumeMounts"]} == {one["name"] for one in spec["volumes"]}
        is_worker = pod["metadata"]["labels"]["aiperf-role"] == "worker"
        limits = spec["containers"][0]["resources"]["limits"]
        wanted = str(conf.accelerators) if is_worker and conf.accelerators else None
        assert limits.get(conf.accelerator_resource) == wanted, "accelerators are for workers alone"


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(confs(), WORDS)
def test_the_driver_reads_options_with_any_characters_as_typed(conf: KubernetesConf, words: list[str]) -> None:
    job = job_of(conf, words)
    manifests = objects(job)
    head = next(pod for pod in pods(manifests) if pod["metadata"]["labels"]["aiperf-role"] == "head")["spec"]
    container = head["containers"][0]

    if conf.operator == "kuberay":
        environment = {each["name"]: each.get("value") for each in container["env"]}
        read = json.loads(expanded(environment["AIPERF_OPTIONS"]))
        entry = manifests[-1]["spec"]["entrypoint"]
        assert re.fullmatch(r"[\w ./-]+", entry), "no shell on the way reads anything in it as its own"
        assert entry.split()[-1] == job.run.folder
    else:
        command = [expanded(word) for word in container["command"]]
        read = command[command.index(job.run.folder) + 1 :]
    typed = [word for word in words if not word.startswith("runs=")]
    assert read == (words and [*typed, f"runs={conf.runs_path}"])


def expanded(text: str) -> str:
    """Return a container's arguments or environment as the kubelet reads them, without variables of these names."""
    return text.replace("$$", "$")


@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(confs())
def test_nobody_but_the_runs_own_pods_reaches_rays_ports(conf: KubernetesConf) -> None:
    manifests = objects(job_of(conf, []))
    policies = [each for each in manifests if each["kind"] == "NetworkPolicy"]
    labels = [pod["metadata"]["labels"] for pod in pods(manifests)]

    everyone = policies[0]["spec"]
    assert all(everyone["podSelector"]["matchLabels"].items() <= each.items() for each in labels)
    peers = [(peer, rule.get("ports")) for rule in everyone["ingress"] for peer in rule["from"]]
    assert ({"podSelector": everyone["podSelector"]}, None) in peers
    assert all(ports == [{"protocol": "TCP", "port": 8080}] for peer, ports in peers[1:]), "others read metrics alone"
    assert len(peers) == (1 if conf.metrics_namespace is None else 2)
    for policy in policies[1:]:
        (rule,) = policy["spec"]["ingress"]
        assert rule["ports"] == [{"protocol": "TCP", "port": 8265}]
        assert all("kuberay-operator" in str(peer["podSelector"]) for peer in rule["from"])
    assert all(policy["spec"]["policyTypes"] == ["Ingress"] for policy in policies), "names and the API stay reachable"


def test_rays_kuberay_autoscaler_fits_one_bundle_per_node() -> None:
    from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr

    conf = KubernetesConf(image="a", max_workers=5, min_workers=1, cpus=12, accelerators=8)
    job = next(each for each in objects(job_of(conf, [])) if each["kind"] == "RayJob")
    cluster = {"metadata": {"name": "a", "namespace": "b"}, "spec": job["spec"]["rayClusterSpec"]}

    read = _derive_autoscaling_config_from_ray_cr(cluster)

    types = read["available_node_types"]
    assert {name: value for name, value in types["headgroup"]["resources"].items() if name != "memory"} == {
        "CPU": 0,
        "GPU": 0,
    }
    assert (types["workers"]["min_workers"], types["workers"]["max_workers"]) == (1, 5)
    place = conf.place({})
    assert isinstance(place, Existing) and place.demand is not None
    there = {name: types["workers"]["resources"][name] for name in ("CPU", "GPU")}
    assert place.demand == Demand(5, there), "a node is what one worker takes, no more"


@pytest.mark.parametrize("operator", OPERATORS)
def test_scheduling_options_are_in_the_pods_they_are_for(operator: str) -> None:
    conf = KubernetesConf(
        image="a",
        operator=operator,
        node_affinity=["pool=x,y", "!spot"],
        apart=True,
        priority_class="high",
        host_network=True,
        extra_resources=["rdma/hca=1"],
        labels=["kueue.x-k8s.io/queue-name=bench"],
        annotations=["who=me"],
    )

    manifests = objects(job_of(conf, []))
    found = {pod["metadata"]["labels"]["aiperf-role"]: pod for pod in pods(manifests)}
    worker, head = found["worker"], found["head"]

    expressions = worker["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert expressions["nodeSelectorTerms"][0]["matchExpressions"] == [
        {"key": "pool", "operator": "In", "values": ["x", "y"]},
        {"key": "spot", "operator": "DoesNotExist"},
    ]
    assert worker["spec"]["affinity"]["podAntiAffinity"] and "affinity" not in head["spec"]
    assert worker["spec"]["containers"][0]["resources"]["limits"]["rdma/hca"] == "1"
    assert all(pod["spec"]["priorityClassName"] == "high" for pod in found.values())
    job = next(each for each in manifests if each["kind"] in ("RayJob", "Job"))
    for each in (worker, head, job):
        assert each["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "bench"
        assert each["metadata"]["annotations"] == {"who": "me"}
    for pod in (worker, head):
        assert (pod["spec"]["hostNetwork"], pod["spec"]["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    for role in found.keys() - {"worker", "head"}:
        assert "kueue.x-k8s.io/queue-name" not in found[role]["metadata"]["labels"]
        assert "hostNetwork" not in found[role]["spec"]


def test_without_an_operator_workers_join_the_runs_own_head() -> None:
    conf = KubernetesConf(image="a", operator="none", max_workers=8, start_workers=2)

    manifests = objects(job_of(conf, ["seed=1"]))

    assert conf.place({}) == HeadPlace(3, 3, conf.join_seconds)
    head, workers = (each["spec"]["template"]["spec"]["containers"][0]["command"] for each in manifests[-2:])
    assert head[3:] == ["drive", "--supervised", "/runs/20261122-140000-digits", "seed=1", "runs=/runs"]
    assert workers[3:] == ["join", "--rejoin", "--patience", "1800", "/runs/20261122-140000-digits"]
    assert manifests[-1]["spec"]["completions"] == 8


def test_a_resumed_run_gets_its_options_from_the_journal() -> None:
    job = objects(job_of(KubernetesConf(image="a", operator="none"), []))[-2]

    assert job["spec"]["template"]["spec"]["containers"][0]["command"][-1] == "/runs/20261122-140000-digits"


@given(st.text(st.sampled_from("abzABZ019._-"), min_size=1, max_size=80), st.text(st.sampled_from("aA._-"), min_size=1))
def test_two_runs_have_objects_of_two_names_that_the_api_takes(one: str, other: str) -> None:
    for run in (one, other):
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", named(run))
        assert len(named(run)) <= LONGEST_NAME
    assert (named(one) == named(other)) == (one == other)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("cluster.image=", "cluster.image is a text, but"),
        ("cluster.operator=helm", "cluster.operator is one of kuberay, none, but found 'helm'"),
        ("cluster.max_workers=0", "cluster.max_workers is between 1 and 1000000, but found 0"),
        ("cluster.start_workers=3", "are at most cluster.max_workers, but found 0, 3 and 1"),
        ("cluster.user=0", "cluster.user is between 1 and 4294967294, but found 0"),
        ("cluster.memory=lots", "cluster.memory is a whole number with a unit, 16Gi, but found 'lots'"),
        ("cluster.runs_path=/tmp/runs", "cluster.runs_path is an absolute path"),
        ("cluster.data_path=/runs/data", "cluster.runs_path and cluster.data_path do not overlap"),
        (
            "cluster.tolerations=['gpu:Never']",
            "cluster.tolerations each is KEY[=VALUE][:EFFECT], nvidia.com/gpu:NoSchedule, but found ['gpu:Never']",
        ),
        ("cluster.env=['RAY_AUTH_TOKEN=1']", "cluster.env must not set variables of the run or KubeRay"),
        ("cluster.node_affinity=['pool=']", "cluster.node_affinity each is a requirement as kubectl writes it"),
        ("cluster.priority_class=High", "cluster.priority_class is a name of lower case letters"),
        ("cluster.extra_resources=['hca=1']", "cluster.extra_resources each is DOMAIN/NAME=AMOUNT"),
        ("cluster.extra_resources=['nvidia.com/gpu=8']", "is without accelerators (cluster.accelerators)"),
        ("cluster.labels=['aiperf-run=x']", "cluster.labels must not set labels of the run or KubeRay"),
        ("cluster.labels=['a=x', 'a=y']", "cluster.labels gives each key once, but found 'a' more than once"),
        ("cluster.annotations=['=x']", "cluster.annotations each is an annotation, KEY=VALUE"),
        ("cluster.namespace=Bench", "cluster.namespace is a name of lower case letters"),
    ],
)
def test_a_value_that_kubernetes_refuses_is_refused_with_a_fix(
    word: str, told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    image = [] if word.startswith("cluster.image") else ["cluster.image=aiperf:1"]
    assert main(["+cluster=kubernetes", *image, "cluster.submit=false", word]) == 2

    said = capsys.readouterr()
    assert told in said.err
    assert not said.out


def test_shown_manifests_are_the_only_standard_output(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["+cluster=kubernetes", "cluster.image=aiperf:1", "cluster.submit=false"]) == 0

    kinds = [each["kind"] for each in yaml.safe_load_all(capsys.readouterr().out)]
    assert kinds == ["ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "NetworkPolicy", "RayJob"]
    assert not list(tmp_path.iterdir())


def test_the_manifest_for_kubectl_apply_is_valid_and_restricted() -> None:
    """`restricted` is a pod security standard. Requests are equal to limits, as in the manifests that a run prints."""
    claim, job = yaml.safe_load_all((REPOSITORY / "examples/kubernetes-job.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    volumes = {each["name"]: each for each in pod["volumes"]}

    assert complaints(claim) + complaints(job) == []
    assert complaints({**job, "spec": {**job["spec"], "backofLimit": 0}})  # strict
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"] == locked()
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert volumes["runs"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert volumes.keys() == {each["name"] for each in container["volumeMounts"]}
