"""The final weights of the trials that this rank finished last: their children need not read a file.

What is held is what the checkpoint holds, to the bit; a trial that is not here is read from its file.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

BYTES = 2**30
"""Of the host's memory, for all of them: some fifty small networks, or five of ResNet-50's doubled."""


@dataclass(frozen=True, slots=True)
class _Kept:
    fingerprint: str
    weights: Mapping[str, Tensor]
    bytes: int


class WeightCache:
    """Weights by trial; the ones longest unused go first."""

    def __init__(self, limit: int = BYTES) -> None:
        self._limit = limit
        self._kept: OrderedDict[int, _Kept] = OrderedDict()

    def keep(self, trial: int, fingerprint: str, weights: Mapping[str, Tensor]) -> None:
        """`weights` on the host; nobody changes them any more."""
        self._kept.pop(trial, None)
        size = sum(tensor.nbytes for tensor in weights.values())
        if size > self._limit:
            return
        self._kept[trial] = _Kept(fingerprint, weights, size)
        while sum(kept.bytes for kept in self._kept.values()) > self._limit:
            self._kept.popitem(last=False)

    def weights(self, trial: int, fingerprint: str) -> Mapping[str, Tensor] | None:
        """A trial's, where they are here and belong to this graph."""
        kept = self._kept.get(trial)
        if kept is None or kept.fingerprint != fingerprint:
            return None
        self._kept.move_to_end(trial)
        return kept.weights
