"""Folders of images, shared memory of a test's own, and one torch thread: several tests run side by side with other work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aiperf.data import hostcache
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
def no_shared_memory_is_left(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("shm")
    monkeypatch.setattr(hostcache, "SHARED_MEMORY", folder)
    yield
    assert not any(folder.iterdir())
