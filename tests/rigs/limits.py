"""Limits of this machine for a test: a small real file system, a real control group."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_file_system(folder: Path, options: str) -> Iterator[Path]:
    """A tmpfs with these options of mount(8), mounted at a new folder. Skips the test where this user may not mount."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


GROUPS = Path("/sys/fs/cgroup")


@contextmanager
def group_with(controller: str, *limits: Mapping[str, str]) -> Iterator[Path]:
    """Create a group with the first of `limits` that fits this machine. Skip if none can be created."""
    name = f"aiperf-test-{os.getpid()}"
    group = GROUPS / controller / name if (GROUPS / controller).is_dir() else GROUPS / name
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        try:
            fitting = next((each for each in limits if all((group / file).exists() for file in each)), limits[-1])
            for file, text in fitting.items():
                (group / file).write_text(text)
        except OSError as error:
            pytest.skip(f"no limit can be set here: {error}")
        yield group
    finally:
        group.rmdir()


def inside(group: Path, program: str) -> str:
    """Return the output of a program started by a shell inside the group."""
    return subprocess.run(
        ["sh", "-c", f'echo $$ > {group / "cgroup.procs"} && exec "$0" -c "$1"', sys.executable, program],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout.strip()
