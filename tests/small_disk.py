"""A small real file system, for tests of what a full disk does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
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
