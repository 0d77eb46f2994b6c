"""What all tests share."""

import pytest
from hypothesis import settings

# How long an example takes says nothing on a machine that does other work too: a slow one is no failure.
settings.register_profile("aiperf", deadline=None)
settings.load_profile("aiperf")

REAL_PROCESSES = (
    "tests/drive/",
    "tests/train/ranks/",
    "tests/train/collectives/",
    "tests/train/test_full_disk",
    "tests/train/test_execution",
    "tests/cli/",
)
"""Tests that start Ray, ranks, compilers or whole commands. `make test` runs two tests at once, but not two of these: each
takes both cores and has other processes' deadlines to keep."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(REAL_PROCESSES):
            item.add_marker(pytest.mark.xdist_group("real processes"))
