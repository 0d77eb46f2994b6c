"""What the simulated workers truly did, kept apart from journal and driver: the invariants compare the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aiperf.messages import Advanced, EpochDone, Train, Word
from aiperf.simulate.attempt import Attempt


@dataclass(slots=True)
class Witness:
    """Outlives the drivers of a run."""

    sums: dict[tuple[int, int], dict[int, set[tuple[int, int]]]] = field(default_factory=dict)
    """Of each (trial, attempt) and epoch: the sums of training and validation images that it truly reached and spoke of."""
    breaches: list[tuple[int, str]] = field(default_factory=list)
    """(trial, what was asked of a worker that must not be asked)."""
    words_heard: int = 0

    def said(self, words: Sequence[Word], now: float) -> None:
        """A worker spoke, whether or not it will be heard."""
        for word in words:
            sums = word if isinstance(word, Advanced) else word.advanced if isinstance(word, EpochDone) else None
            if sums is not None:
                epochs = self.sums.setdefault((sums.trial, sums.attempt), {})
                epochs.setdefault(sums.epoch, set()).add((sums.training_images, sums.validation_images))

    def heard(self, words: Sequence[Word]) -> None:
        """The driver was told."""
        self.words_heard += len(words)

    def ordered(self, order: Train, running: Attempt | None) -> None:
        """A worker was told to train."""
        if running is not None:
            self.breaches.append(
                (
                    order.trial,
                    f"worker {order.worker} was told to train trial {order.trial} while it trained trial {running.order.trial}",
                )
            )
        if (order.trial, order.attempt) in self.sums:
            self.breaches.append((order.trial, f"attempt {order.attempt} of trial {order.trial} was ordered twice"))
        self.sums[order.trial, order.attempt] = {}
