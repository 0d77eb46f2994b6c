"""History updates to generators: each observation arrives once, in order, whenever the generator was started."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.drive.ray import generators
from aiperf.drive.ray.generators import UpdateLog, observed
from searchers.history import Observation, Requested


@given(st.lists(st.one_of(st.integers(1, 6), st.just(0)), max_size=60), st.integers(0, 20), st.data())
def test_every_generator_receives_all_packets_once_in_order(
    steps: list[int], most_loose: int, data: st.DataObject
) -> None:
    """A step is a number of new observations, or 0 for a call to a generator or a new generator."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generators, "MOST_LOOSE", most_loose)
        all_observations: list[Observation] = []
        log = UpdateLog(lambda packets: packets)
        received: list[tuple[list[Observation], int]] = []
        for step in steps:
            if step:
                packet = [Requested(len(all_observations) + each) for each in range(step)]
                all_observations += packet
                log.observe(packet)
                continue
            which = data.draw(st.integers(0, len(received)))
            known, count = received[which] if which < len(received) else ([], 0)
            stored, loose = log.since(count)
            known = known + observed([*stored, *loose])
            assert known == all_observations
            received[which : which + 1] = [(known, log.count)]


def test_history_is_stored_once_for_all_new_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    puts: list[list[bytes]] = []
    log = UpdateLog(lambda packets: puts.append(packets) or len(puts))  # type: ignore[func-returns-value]
    monkeypatch.setattr(generators, "MOST_LOOSE", 20)
    for number in range(500):
        log.observe([Requested(number)])

    assert [log.since(0) for _ in range(100)] == [(1, [])] * 100
    assert len(puts) == 1 and len(puts[0]) == 500
    assert log.since(499)[0] == [] and len(log.since(499)[1]) == 1, "no store for a generator that is nearly up to date"
