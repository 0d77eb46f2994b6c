"""History updates to generators: each observation arrives once, in order, whenever the generator was started."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.drive.ray import history_updates
from aiperf.drive.ray.history_updates import UpdateLog, UpdateReceiver
from searchers.history import Observation, Requested


class Store:
    """An object store in a list."""

    def __init__(self) -> None:
        self.put_in: list[list[bytes]] = []

    def put(self, block: list[bytes]) -> int:
        self.put_in.append(block)
        return len(self.put_in) - 1

    def get(self, references: list[Any]) -> list[list[bytes]]:
        return [self.put_in[reference] for reference in references]


@given(st.lists(st.one_of(st.integers(1, 6), st.just(0)), max_size=60), st.integers(1, 400), st.data())
def test_every_generator_receives_all_packets_once_in_order(
    steps: list[int], block_bytes: int, data: st.DataObject
) -> None:
    """A step is a number of new observations, or 0 for a call to a generator or a new generator."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_updates, "BLOCK_BYTES", block_bytes)
        store = Store()
        told: list[Observation] = []
        out = UpdateLog(store.put)
        generators: list[tuple[UpdateReceiver, list[Observation], int]] = []
        for step in steps:
            if step:
                packet = [Requested(len(told) + each) for each in range(step)]
                told += packet
                out.tell(packet)
                continue
            which = data.draw(st.integers(0, len(generators)))
            heard, known, count = generators[which] if which < len(generators) else (UpdateReceiver(store.get), [], 0)
            known = known + heard.take(out.since(count))
            assert known == told
            generators[which : which + 1] = [(heard, known, out.count)]


def test_history_is_encoded_once_and_stored_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[object] = []
    encode = pickle.dumps

    def dumps(value: object, protocol: int) -> bytes:
        encoded.append(value)
        return encode(value, protocol)

    store = Store()
    out = UpdateLog(store.put)
    monkeypatch.setattr(pickle, "dumps", dumps)
    monkeypatch.setattr(history_updates, "BLOCK_BYTES", 2000)
    for number in range(500):
        out.tell([Requested(number)])

    parcels = [out.since(0) for _ in range(100)]

    assert len(encoded) == 500
    assert all(parcel.blocks == tuple(range(len(store.put_in))) for parcel in parcels)
    assert sum(len(each) for each in parcels[0].loose) < history_updates.BLOCK_BYTES, "the rest is a block's at most"
    assert out.since(499).blocks == () and len(out.since(499).loose) == 1, "who is nearly up to date asks no store"
