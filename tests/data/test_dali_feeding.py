"""The order in which a DALI pipeline is fed, on a stand-in that counts as DALI's own source does."""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aiperf.data.dali_feeding import Feeding


class Pipeline:
    """Prefetches so many iterations at its first run; a run without a batch fed for it fails."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._is_first = True
        self._fed: deque[Any] = deque()
        self.done: deque[Any] = deque()

    def input_feed_count(self, name: str) -> int:
        return self._depth

    def feed_input(self, name: str, batch: Any) -> None:
        self._fed.append(batch)

    def schedule_run(self) -> None:
        for _ in range(self._depth if self._is_first else 1):
            assert self._fed, "no data was fed for this iteration"
            self.done.append(self._fed.popleft())
        self._is_first = False

    def share_outputs(self) -> Any:
        return self.done[0]

    def release_outputs(self) -> None:
        self.done.popleft()


@given(st.integers(1, 5), st.integers(1, 5), st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_every_batch_of_every_pass_comes_out_once_and_in_order(depth: int, ahead: int, passes: list[int]) -> None:
    pipeline = Pipeline(depth)
    feeding = Feeding(pipeline, "encoded")

    for number, length in enumerate(passes):
        batches, out, waiting = deque((number, step) for step in range(length)), [], 0
        while batches or waiting:
            while batches and (waiting < ahead or not feeding.has_run):
                feeding.feed({"encoded": batches.popleft()})
                waiting += 1
            out.append(feeding.outputs())
            feeding.release()
            waiting -= 1
        feeding.drain()

        assert out == [(number, step) for step in range(length)]
        assert not pipeline.done
