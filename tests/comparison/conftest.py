"""Simulated runs that are made once, and a user who compares them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.run import folder_of
from tests.cli.conftest import aiperf as aiperf  # pytest needs the import to know the fixture


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds, the same on a machine that is 5 % slower, one with more workers, one of another data set."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        folder_of(folder / "fast", f"a{seed}", seed=seed)
        folder_of(folder / "slow", f"s{seed}", seed=seed, slower=0.05)
    folder_of(folder, "wide", {"cluster.workers": 6})
    folder_of(folder, "noisy", {"dataset.noise": 0.5})
    return folder
