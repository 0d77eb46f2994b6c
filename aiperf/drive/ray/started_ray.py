"""Ray's head, started by this process and ended with it; by whom it can be reached is for the caller to say."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiperf import HOME, interrupts
from aiperf.errors import RuntimeNotStarted
from aiperf.system.control_groups import usable_processors


@contextmanager
def started_ray(folder: Path, metrics_port: int | None = None, **options: Any) -> Iterator[None]:
    """Brings it up, its files in `folder`, and ends it. `options`: of ray.init, besides those that hold for every run.

    Raises:
        RuntimeNotStarted: Ray did not come up; nothing of it is left.
    """
    import ray

    from aiperf.drive.ray.daemons import Runtime

    interrupts.set_again()
    with _without_last_words():
        with named_if_not_started("a run needs Ray on this machine, and it did not come up", _REMEDY):
            usual: dict[str, Any] = {
                "num_cpus": usable_processors(),
                # a folder in ours: Ray opens its own to everybody (mode 0777), sockets and all
                "_temp_dir": str(folder / "r"),
                # Ray's own 15 would have the ranks give way to whatever else wakes up on the machine. (Ray 2.60)
                "_system_config": {"worker_niceness": 0},
            }
            if metrics_port is not None:
                usual["_metrics_export_port"] = metrics_port
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
    """What has a driver's workers look for modules where the driver's own packages lie, and not first of all in the folder in
    which it was typed: whoever has a `cluster.py` or `searchers/` there does not mean them for this program."""
    from ray.job_config import JobConfig

    config = JobConfig()
    config._py_driver_sys_path = _NoMore([HOME])
    return config


class _NoMore(list[str]):
    """Folders to which none is added: ray.init adds the working folder to whatever it is given. (Ray 2.60)"""

    def extend(self, folders: Iterable[str]) -> None:
        """Adds nothing."""


def read_environment_anew() -> None:
    """Ray reads the environment once a process, though tests bring it up more than once. (Ray 2.60)"""
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]  # compiled, without stubs

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def assert_token() -> None:
    """Another release of Ray may do otherwise than the one that this was written for: then nothing runs on it."""
    from ray._raylet import AuthenticationMode, get_authentication_mode  # type: ignore[attr-defined]  # likewise

    assert get_authentication_mode() == AuthenticationMode.TOKEN, "Ray asks for no token"


@contextmanager
def named_if_not_started(offence: str, remedy: str) -> Iterator[None]:
    """Ray raises whatever comes, a bare Exception when its own 30 s are over, and leaves what it has started. (Ray 2.60)"""
    import ray

    try:
        yield
    except Exception as error:
        ray.shutdown()
        why = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise RuntimeNotStarted(f"{offence}: {why}. {remedy}") from error


_REMEDY = (
    "It gives itself 30 s to start: look whether the machine is overloaded, out of memory or out of processes (ulimit -u), "
    "and run it again"
)


@contextmanager
def _without_last_words() -> Iterator[None]:
    """What Ray pushes to a driver's output is shown, but for the end of a dead raylet's log: `Runtime` says what died."""
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
