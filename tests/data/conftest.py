"""Folders of images, shared memory of a test's own, and one torch thread: several tests run side by side with other work."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.data_set import make
from tests.builders.network import one_torch_thread

__all__ = ["one_torch_thread"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("small"), training=7, validation=4, classes=3)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("large"), training=6, validation=3, classes=2, height=300, width=400)


@pytest.fixture
def no_shared_memory_is_left() -> Iterator[None]:
    yield
    assert open_caches() == []


def open_caches() -> list[str]:
    """Image caches that this process has open. A map has a descriptor of its own, until it is collected."""
    gc.collect()
    links = [str(file.readlink()) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    return [link for link in links if "aiperf-images" in link]
