"""Nobody but the run itself gets anything done on its Ray: not from another machine, and not from this one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from aiperf.drive.ray.cluster.ray_environment import CA, CERTIFICATE, KEY, guarded_environment, ray_folder, ray_parent
from aiperf.errors import BadConfiguration
from aiperf.scratch import compiler_caches
from tests.rigs.foreign_processes import REPOSITORY, another_machine, come, knock, listening, no_namespaces
from tests.rigs.processes import command_line, descendants
from tests.rigs.ray_cluster import TRIES

OURS = """
import os, sys, ray
from aiperf.drive.ray.cluster.started_ray import local_ray
with local_ray():
    print(ray.get_runtime_context().gcs_address, os.environ["RAY_AUTH_TOKEN"], os.environ["AIPERF_SCRATCH"], flush=True)
    sys.stdin.read()
"""
OPEN = """
import logging, os, sys, tempfile, ray
with tempfile.TemporaryDirectory(prefix="open", dir="/tmp", ignore_cleanup_errors=True) as folder:
    ray.init(address="local", include_dashboard=False, num_cpus=2, logging_level=logging.ERROR, _temp_dir=folder)
    print(ray.get_runtime_context().gcs_address, "-", folder, flush=True)
    sys.stdin.read()
    ray.shutdown()
"""


@dataclass(frozen=True)
class Standing:
    """Ray in its own process."""

    pid: int
    gcs: str
    token: str
    folder: Path


def standing(code: str, **environment: str) -> Iterator[Standing]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}

    def begun() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env=mine | environment,
            start_new_session=True,
        )

    for _ in range(TRIES):
        with begun() as process:
            assert process.stdout is not None
            if (
                said := process.stdout.readline().split()
            ):  # nothing: Ray was in a hurry, on a machine that does much else
                gcs, token, folder = said
                yield Standing(process.pid, gcs, token, Path(folder))
                return
    raise AssertionError(f"of {TRIES} Rays none came up: see standard error")


@pytest.fixture(scope="module")
def ours() -> Iterator[Standing]:
    """A Ray as a run brings it up."""
    yield from standing(OURS)


@pytest.fixture
def unguarded() -> Iterator[Standing]:
    """Ray without protection, to show what a stranger can do then."""
    yield from standing(OPEN, RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")


@pytest.fixture(scope="module")
def machine() -> Iterator[tuple[list[str], str]]:
    if reason := no_namespaces():
        pytest.skip(reason)
    with another_machine() as found:
        yield found


def test_a_stranger_runs_code_on_a_ray_without_a_token(unguarded: Standing, machine: tuple[list[str], str]) -> None:
    """The tests below can fail."""
    inside, host = machine
    ports = listening(descendants(unguarded.pid))

    assert "RAN" in come(unguarded.gcs, inside=inside).stdout
    assert len(knock([f"{host}:{port}" for port in ports], inside=inside)) > 3


def test_a_stranger_on_another_machine_reaches_no_port_of_a_run(ours: Standing, machine: tuple[list[str], str]) -> None:
    inside, host = machine
    own = [ours.pid, *descendants(ours.pid)]
    assert any(command_line(pid).startswith(b"ray::") for pid in own)
    ports = listening(own)
    assert len(ports) > 3
    outer = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()
    addresses = [f"{address}:{port}" for address in {host, *outer} for port in ports if ":" not in address]

    assert knock(addresses, inside=inside) == set()


@pytest.mark.slow
def test_a_stranger_with_a_certificate_also_needs_the_token(ours: Standing) -> None:
    assert len(ours.token) == 64
    tls = {"RAY_USE_TLS": "1"} | {name: str(ours.folder / name) for name in (CA, CERTIFICATE, KEY)}
    with ThreadPoolExecutor(3) as aside:
        none, wrong, right = aside.map(
            lambda token: come(ours.gcs, inside=[], token=token, tls=tls), (None, "0" * 64, ours.token)
        )

    for stranger in (none, wrong):
        assert stranger.returncode != 0 and "RAN" not in stranger.stdout
        assert re.search("(?i)unauthenticated|authentication token", stranger.stderr), stranger.stderr
    assert "RAN" in right.stdout, right.stderr


def test_the_token_is_in_no_file_and_on_no_command_line(ours: Standing) -> None:
    for pid in [ours.pid, *descendants(ours.pid)]:
        assert ours.token.encode() not in command_line(pid)
    for file in ours.folder.rglob("*"):
        if file.is_file():
            assert ours.token.encode() not in file.read_bytes(), file
    assert not (Path.home() / ".ray" / "auth_token").exists()
    assert ours.folder.stat().st_mode & 0o777 == 0o700


def test_each_run_makes_a_token_unless_the_user_has_one() -> None:
    made = {guarded_environment({})["RAY_AUTH_TOKEN"] for _ in range(10)}
    assert len(made) == 10 and {len(token) for token in made} == {64}
    assert len(guarded_environment({"RAY_AUTH_TOKEN": " "})["RAY_AUTH_TOKEN"]) == 64

    for mode in ({}, {"RAY_AUTH_MODE": "token"}, {"RAY_AUTH_MODE": "TOKEN"}):
        for own in ({"RAY_AUTH_TOKEN": "mine"}, {"RAY_AUTH_TOKEN_PATH": "/mine"}):
            assert guarded_environment(mode | own)["RAY_AUTH_MODE"] == "token"
            assert "RAY_AUTH_TOKEN" not in guarded_environment(mode | own)


@pytest.mark.parametrize("mode", ["disabled", "", "k8s"])
def test_an_environment_that_asks_for_an_open_ray_is_refused(mode: str) -> None:
    with pytest.raises(BadConfiguration, match=r"must require a token.*Unset it"):
        guarded_environment({"RAY_AUTH_MODE": mode})


def test_a_too_long_temporary_path_is_refused_with_the_fix() -> None:
    deep = "/scratch/of/this/batch/job/1234567"
    with pytest.raises(BadConfiguration, match=f"at most 25 bytes, but it is '{deep}'.*unset it"):
        ray_parent({"RAY_TMPDIR": deep})

    assert ray_parent({"TMPDIR": deep}) == Path("/tmp")
    assert ray_parent({"TMPDIR": deep, "RAY_TMPDIR": "/short"}) == Path("/short")


@pytest.mark.parametrize(
    ("parent", "found"),
    [("/no/folder", "No such file"), ("/etc/hostname", "Not a directory")],
)
def test_an_unusable_temporary_folder_is_refused_with_the_fix(parent: str, found: str) -> None:
    refused = pytest.raises(BadConfiguration, match=f"existing, writable.*'{parent}': {found}.*unset RAY_TMPDIR")
    with refused, ray_folder({"RAY_TMPDIR": parent}):
        pass


def test_compiler_caches_are_in_the_run_unless_the_user_set_them() -> None:
    assert compiler_caches({"TRITON_CACHE_DIR": "/mine"}, Path("/run")) == {"TORCHINDUCTOR_CACHE_DIR": "/run/inductor"}
    assert sorted(compiler_caches({}, Path("/run"))) == ["TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"]
