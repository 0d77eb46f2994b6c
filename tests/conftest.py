"""What all tests share."""

import pytest
from hypothesis import settings

# How long an example takes says nothing on a machine that does other work too: a slow one is no failure.
settings.register_profile("aiperf", deadline=None)
settings.load_profile("aiperf")

REAL_PROCESSES = (
    "tests/cluster/test_existing_ray",
    "tests/cluster/test_slurm_real",
    "tests/drive/",
    "tests/train/ranks/",
    "tests/train/collectives/",
    "tests/train/test_full_disk",
)
"""Tests that start Ray or ranks. `make test` runs two tests at once, but not two of these: each takes both cores and has other
processes' deadlines to keep. What works in the test's own process is none of them: it fills the other worker's time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(REAL_PROCESSES):
            item.add_marker(pytest.mark.xdist_group("real processes"))
