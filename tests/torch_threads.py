"""One torch thread for tests whose arithmetic is torch's: several run side by side, and threads that wait for a core spin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def one_torch_thread() -> Iterator[None]:
    """In each module of whose namespace it is, or of whose folder's conftest."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
