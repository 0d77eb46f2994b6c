"""Names of the laws of a run, and the error for a broken law. `run_model.py` and `auditor.py` check them."""

from __future__ import annotations


class BrokenLaw(Exception):
    """An invariant does not hold."""

    def __init__(self, law: str, details: str, trial: int | None = None) -> None:
        super().__init__(f"{law}: {details}")
        self.law = law
        self.details = details
        self.trial = trial


LEGAL = "every line is legal"
ONCE = "each image of a (trial, epoch) counts once"
LOST = "no image is lost from the work log"
LIMITS = "every trial ends or is retried within limits"
ONE_TRIAL = "no worker holds two trials"
REPLAY = "live state equals replayed state"
SCORE = "the score is that of the work done"
ENDS = "the run ends"
WRITTEN = "nothing is done that does not stand in the journal"
AGAIN = "every proposal can be made again from its journal"
ROUNDS = "a trial is of its worker's round"
START = "the starting network is trained first of all"
DIFFERENT = "no architecture is proposed twice"
WEIGHTS = "no parent without weights"
CEILING = "no batch is proposed above the measured ceiling"
IDLE = "no worker idles while there is something to do"
WAITS = "a worker never idles while a proposal waits for it"
DUE = "a proposal is asked for when it is due"
NEWEST = "what was proposed last is trained first"
GENERATIONS = "generations grow"
JOURNAL = "the journal is whole"
