"""Faults of those who propose: a generator that never answers, or answers with what cannot be built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from aiperf.journal.messages import Propose, Proposed, Unproposed
from aiperf.simulate.model.fault import Fault
from cluster.faults import BadProposalConf, GeneratorDeadConf

if TYPE_CHECKING:
    from aiperf.simulate.model.simulated_attempt import Worker
    from aiperf.simulate.model.simulated_executor import SimulatedExecutor


@dataclass(slots=True, eq=False)
class GeneratorDead(Fault):
    """Some workers' generators of proposals never answer."""

    conf: GeneratorDeadConf

    def joined(self, cluster: SimulatedExecutor, worker: Worker) -> None:
        if self.draw.random() < self.conf.rate:
            worker.is_generating = False

    def asked(self, worker: Worker, order: Propose, answer: Proposed | Unproposed) -> Proposed | Unproposed | None:
        return answer if worker.is_generating else None


@dataclass(slots=True, eq=False)
class BadProposal(Fault):
    """A generator answers with what cannot be built, or says that it has nothing to propose."""

    conf: BadProposalConf

    def asked(self, worker: Worker, order: Propose, answer: Proposed | Unproposed) -> Proposed | Unproposed | None:
        if self.draw.random() >= self.conf.rate:
            return answer
        if isinstance(answer, Proposed) and self.draw.random() < 0.7:
            if self.draw.random() < 0.3:
                return msgspec.structs.replace(answer, parent=order.number + 1000)
            return msgspec.structs.replace(answer, morphs=({"morph": "invented"},))
        return Unproposed(number=order.number, reason="an invented reason")
