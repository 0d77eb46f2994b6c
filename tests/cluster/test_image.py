"""Image of the Dockerfile, and pods of the manifests under podman: no rights, and a run that ends with a score.

AIPERF_IMAGE names an existing image. Without it, AIPERF_IMAGE_BASE names the base: an image, or a folder with the root of a
Debian (debootstrap makes one), with the packages that APT=true would install. AIPERF_IMAGE_WHEELS names a folder that
`make wheels` filled, for builds without an index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from aiperf.journal.events import RunEnded
from aiperf.journal.journal import read
from cluster.kubernetes import KubernetesConf
from tests.cluster.test_manifests import job_of
from tests.rigs.namespaces import REPOSITORY

BUILT = ("aiperf", "cluster", "conf", "morphism", "searchers", "requirements", "tools")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "Dockerfile", ".dockerignore")
RESTRICTED = ("--user=1000:1000", "--cap-drop=all", "--security-opt=no-new-privileges", "--shm-size=1g")
SHORT = ("schedule.duration_seconds=60", "schedule.warmup_seconds=5")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("podman") is None or os.geteuid() != 0, reason="needs podman, and root for its base"
    ),
]


def podman(*words: str, timeout: float = 1200.0) -> subprocess.CompletedProcess[str]:
    runtime = ["--runtime", "runc"] if shutil.which("runc") else []
    return subprocess.run(["podman", *runtime, *words], capture_output=True, text=True, timeout=timeout)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its name."""
    if named := os.environ.get("AIPERF_IMAGE"):
        yield named
        return
    base = os.environ.get("AIPERF_IMAGE_BASE")
    if not base:
        pytest.skip("AIPERF_IMAGE_BASE names no base to build on, and AIPERF_IMAGE no image")
    if Path(base).is_dir():
        with subprocess.Popen(["tar", "-C", base, "-c", "."], stdout=subprocess.PIPE) as packed:
            subprocess.run(["podman", "import", "-", "localhost/aiperf-test-base"], stdin=packed.stdout, check=True)
        base = "localhost/aiperf-test-base"
    folder = tmp_path_factory.mktemp("context")
    for name in BUILT:
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(REPOSITORY / name, folder)
    wheels = os.environ.get("AIPERF_IMAGE_WHEELS")
    shutil.copytree(wheels or REPOSITORY / "wheels", folder / "wheels")
    arguments = [f"--build-arg=BASE={base}", "--build-arg=APT=false", "--tag=localhost/aiperf-test"]
    network = ["--build-arg=INDEX=false", "--network=none"] if wheels else ["--network=host"]
    built = podman("build", *network, *arguments, str(folder))
    assert built.returncode == 0, built.stdout[-5000:] + built.stderr[-5000:]
    yield "localhost/aiperf-test"
    podman("rmi", "localhost/aiperf-test")


def test_the_image_plans_a_run_as_a_user_without_rights(image: str) -> None:
    done = podman("run", "--rm", "--network=none", *RESTRICTED, image, "python", "-m", "aiperf", "dry_run=true")
    who = podman("run", "--rm", "--network=none", image, "id", "-u")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "first graph" in done.stdout
    assert who.stdout.strip() == "1000"


def test_the_image_has_what_kuberay_calls_in_its_pods(image: str) -> None:
    """`ray start` and `ray job submit` by a shell, and the dashboard, which takes jobs in."""
    words = "ray --version && ray job submit --help >/dev/null && python -c 'import ray.dashboard.head, kubernetes'"

    done = podman("run", "--rm", "--network=none", *RESTRICTED, image, "bash", "-c", words)

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_short_run_in_the_image_ends_with_a_valid_score(image: str, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    shutil.chown(runs, 1000, 1000)

    words = ["python", "-m", "aiperf", "runs=/runs", *SHORT]
    done = podman("run", "--rm", "--network=none", *RESTRICTED, f"--volume={runs}:/runs", image, *words)

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (folder,) = runs.iterdir()
    last = list(read(folder))[-1]
    assert isinstance(last, RunEnded) and last.reason == "duration"
    assert folder.stat().st_uid == 1000


def test_the_pods_of_plain_jobs_connect_and_end_with_a_run(image: str, tmp_path: Path) -> None:
    """Convert the pods for `podman kube play`: a claim is a volume of podman. Policies need a real cluster."""
    claim = f"aiperf-test-{os.getpid()}"
    conf = KubernetesConf(
        image=image, operator="none", runs_claim=claim, cpus=1, head_cpus=1, memory="4Gi", head_memory="4Gi"
    )
    conf.pull_policy = "Never"
    job = job_of(conf, ["+cluster=kubernetes", f"cluster.image={image}", "cluster.operator=none", *SHORT])
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**each["spec"]["template"]["metadata"], "name": each["metadata"]["name"]},
            "spec": each["spec"]["template"]["spec"],
        }
        for each in job.objects
        if each["kind"] == "Job"
    ]
    play = tmp_path / "pods.yaml"
    play.write_text(yaml.safe_dump_all(pods, sort_keys=False))
    podman("volume", "create", "--opt=o=uid=1000,gid=1000", claim)
    try:
        played = podman("kube", "play", str(play))
        assert played.returncode == 0, played.stderr
        head = f"{pods[0]['metadata']['name']}-head"
        ended = podman("wait", head)
        said = podman("logs", head)
        assert ended.stdout.strip() == "0", said.stdout[-3000:] + said.stderr[-3000:]
        assert "score" in said.stdout
    finally:
        podman("kube", "down", str(play))
        podman("volume", "rm", "--force", claim)
