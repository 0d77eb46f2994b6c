"""In which order a DALI pipeline is fed and run. (Not run on a GPU yet; by the source of DALI's `pipeline.py`.)

The first `schedule_run` of a pipeline starts as many iterations as it prefetches, and takes a batch of each input for each of
them: `input_feed_count`. Each later one starts a single iteration.
"""

from __future__ import annotations

from typing import Any


class Feeding:
    """A built pipeline, whose outputs come in the order in which batches were fed."""

    def __init__(self, pipeline: Any, name: str) -> None:
        """`name`: of one of its inputs, which are all fed equally often."""
        self._pipeline = pipeline
        self._wanted = pipeline.input_feed_count(name)
        self._last: dict[str, Any] = {}
        self._surplus = 0
        """Outputs of batches that were only fed to let the first run begin."""

    @property
    def has_run(self) -> bool:
        return not self._wanted

    def feed(self, inputs: dict[str, Any]) -> None:
        """One batch of every input."""
        for name, batch in inputs.items():
            self._pipeline.feed_input(name, batch)
        self._last = inputs
        if self._wanted > 1:
            self._wanted -= 1
        else:
            self._wanted = 0
            self._pipeline.schedule_run()

    def outputs(self) -> Any:
        """Of the batch fed longest ago; valid until `release`. Where the first run has not begun, nothing more is to be fed."""
        while not self.has_run:
            self._surplus += 1
            self.feed(self._last)
        return self._pipeline.share_outputs()

    def release(self) -> None:
        self._pipeline.release_outputs()

    def drain(self) -> None:
        """Takes the surplus out, once all that was fed in earnest has been taken."""
        for _ in range(self._surplus):
            self._pipeline.share_outputs()
            self._pipeline.release_outputs()
        self._surplus = 0
