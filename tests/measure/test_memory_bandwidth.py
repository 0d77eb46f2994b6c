"""Memory bandwidth: the arrays grow until their rate decreases no further."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from aiperf.measure import memory_bandwidth
from aiperf.measure.memory_bandwidth import TriadPass, triad_passes

CPU = torch.device("cpu")


class CachedMemory:
    """Triad on a machine with a cache that holds arrays below `cache_bytes`."""

    cache_bytes = 0

    def __init__(self, array_bytes: int, device: torch.device, threads: int) -> None:
        self._rate = 74e9 if array_bytes < self.cache_bytes else 43e9

    def rates(self, seconds: float) -> list[float]:
        return [self._rate * 0.9, self._rate]


def until_final(passes: Iterator[TriadPass]) -> list[TriadPass]:
    taken = []
    for one in passes:
        taken.append(one)
        if one.is_final:
            break
    return taken


@pytest.mark.parametrize("cache_bytes", [0, 2**26 + 1, 2**27 + 1])
def test_the_rate_is_that_of_the_memory(monkeypatch: pytest.MonkeyPatch, cache_bytes: int) -> None:
    monkeypatch.setattr(CachedMemory, "cache_bytes", cache_bytes)
    monkeypatch.setattr(memory_bandwidth, "Triad", CachedMemory)
    monkeypatch.setattr(memory_bandwidth, "available_bytes", lambda: 2**40)

    taken = until_final(triad_passes(1, CPU))

    assert max(taken[-1].rates) == 43e9
    assert [one.array_bytes for one in taken] == [2**26 * 2**index for index in range(len(taken))]


def test_arrays_do_not_take_more_than_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CachedMemory, "cache_bytes", 0)
    monkeypatch.setattr(memory_bandwidth, "Triad", CachedMemory)
    monkeypatch.setattr(memory_bandwidth, "available_bytes", lambda: 4 * 2 * 3 * 2**27)

    taken = until_final(triad_passes(1, CPU, processes=2))

    assert [one.array_bytes for one in taken] == [2**26, 2**27]


def test_a_real_triad_reports_every_repetition() -> None:
    one = next(triad_passes(1, CPU))

    assert len(one.rates) >= memory_bandwidth.FEWEST_REPETITIONS
    assert all(1e7 < rate < 1e13 for rate in one.rates)
