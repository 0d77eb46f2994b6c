"""Ray's head process, started and ended by this process."""

from __future__ import annotations

import ipaddress
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from aiperf import HOME, interrupts
from aiperf.drive.ray.cluster.ray_environment import environment_of_process, new_authority, ray_folder, tls_environment
from aiperf.errors import RuntimeNotStarted
from aiperf.system.control_groups import usable_processors
from aiperf.system.processes import family
from aiperf.system.samplers import slices


@contextmanager
def started_ray(folder: Path, **options: Any) -> Iterator[None]:
    """Start Ray's head for a `with` block with its files in `folder`, and end it after the block."""
    import ray

    from aiperf.drive.ray.cluster.daemons import Runtime

    interrupts.set_again()
    # Ray's agents would notice the end of the others only after 43 s (Ray 2.60)
    interrupts.kill_when_ended(partial(family, os.getpid()))
    with _without_exit_messages():
        with named_if_not_started("a run needs Ray on this machine, and it did not come up", _REMEDY):
            usual: dict[str, Any] = {
                "num_cpus": usable_processors(),
                # a folder in ours: Ray opens its own to everybody (mode 0777), sockets and all
                "_temp_dir": str(folder / "r"),
                # Ray's default of 15 would give other processes priority over the ranks. (Ray 2.60)
                "_system_config": {"worker_niceness": 0},
            }
            if slices(os.environ):  # Ray counts each that is listed, and CUDA shows a process the first
                usual["num_gpus"] = 1
            ray.init(
                address="local",
                job_config=without_working_folder(),
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                **(usual | options),
            )
        try:
            yield
        finally:
            Runtime.of_this_process().kill_if_lost()
            ray.shutdown()


def without_working_folder() -> Any:
    """Return a JobConfig of Ray with a module path of the workers that does not include the working folder."""
    from ray.job_config import JobConfig

    config = JobConfig()
    config._py_driver_sys_path = _NoMore([HOME])
    return config


class _NoMore(list[str]):
    """Module path that cannot be extended. ray.init adds the working folder to any path. (Ray 2.60)."""

    def extend(self, folders: Iterable[str]) -> None:
        """Add nothing."""


def read_environment_anew() -> None:
    """Make Ray in this process read its environment variables again. Ray 2.60 normally reads them once."""
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]  # compiled, without stubs

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def assert_token() -> None:
    """Raise AssertionError unless Ray requires a token. Another release of Ray may behave differently."""
    from ray._raylet import AuthenticationMode, get_authentication_mode  # type: ignore[attr-defined]  # likewise

    assert get_authentication_mode() == AuthenticationMode.TOKEN, "Ray asks for no token"


@contextmanager
def named_if_not_started(offence: str, remedy: str) -> Iterator[None]:
    """Convert any error in a `with` block around the start of Ray to RuntimeNotStarted, and shut Ray down.

    Ray raises various types, a bare Exception after its own limit of 30 s, and leaves its processes running. (Ray 2.60)
    """
    import ray

    try:
        yield
    except Exception as error:
        ray.shutdown()
        first, _, others = str(error).strip().partition("\n")
        if first.startswith("Version mismatch"):  # the versions of both sides are in the other lines (Ray 2.60)
            first, remedy = f"{first} {' '.join(others.split())}", "Use the same Ray and Python on both sides"
        why = first.rstrip(".") or type(error).__name__
        raise RuntimeNotStarted(f"{offence}: {why}. {remedy}") from error


_REMEDY = (
    "It gives itself 30 s to start: look whether the machine is overloaded, out of memory or out of processes (ulimit -u), "
    "and run it again"
)


@contextmanager
def _without_exit_messages() -> Iterator[None]:
    """Hide the end of a dead raylet's log from the driver's output. `Runtime` reports the loss."""
    from ray._private import worker

    show = worker.print_to_stdstream

    def shown(data: Any, ignore_prefix: bool) -> None:
        if not any(line.startswith("Raylet is terminated") for line in data["lines"]):
            show(data, ignore_prefix)

    worker.print_to_stdstream = shown
    try:
        yield
    finally:
        worker.print_to_stdstream = show


@contextmanager
def local_ray() -> Iterator[None]:
    """Start Ray on this machine for a `with` block, independent of other Ray clusters, and end it after the block.

    A process that reaches Ray's ports with its token can run code as the user. The ports are therefore on the loopback
    interface, with a certificate and a token made for this run.
    """
    with (
        ray_folder(os.environ) as (folder, variables),
        environment_of_process(variables | tls_environment(new_authority(), folder, "127.0.0.1")),
        _on_loopback(),
        fewer_daemons(),
        started_ray(folder),
    ):
        _assert_closed()
        yield


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Ray 2.60 listens on all addresses, even if 127.0.0.1 is given, unless no other machine can join."""
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    read_environment_anew()
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def fewer_daemons() -> Iterator[None]:
    """Let `ray.init` in a `with` block start fewer processes: no dashboard, autoscaler, log monitor or agent servers.

    They take half of Ray's start time. If another release starts them differently, the run only begins later. (Ray 2.60)
    """
    from ray._private import node, services, utils

    with ExitStack() as stack:

        def replaced(owner: Any, name: str, answer: Any) -> None:
            if (before := getattr(owner, name, None)) is not None:
                setattr(owner, name, lambda *_, **__: answer)
                stack.callback(setattr, owner, name, before)

        replaced(services, "start_api_server", (None, None))  # neither address nor process
        replaced(node.Node, "start_monitor", None)
        replaced(node.Node, "start_log_monitor", None)
        replaced(utils, "get_dashboard_dependency_error", ImportError("a run's own Ray has no dashboard"))
        yield


def _assert_closed() -> None:
    """Assert that Ray listens on the loopback interface only and requires a token."""
    import ray

    addresses = [node["NodeManagerAddress"] for node in ray.nodes()]  # type: ignore[no-untyped-call]
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses), f"Ray listens on {addresses}"
    assert_token()
