"""The run, followed once more by its rules: the checks that look at decisions, architectures, proposals and results.

Intervals of work change nothing that these look at, and are most lines: they are not even decoded (`read_again`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from aiperf.config import from_plain
from aiperf.errors import AiperfError
from aiperf.journal.events import AnyEvent, EpochFinished, FollowedRun, Progress, RunStarted
from aiperf.journal.journal import folding, read, read_again
from aiperf.rules.agenda import Agenda
from aiperf.rules.evolve import evolve
from aiperf.rules.followed import followed
from aiperf.rules.observations import observations
from aiperf.rules.proposals import Proposer, proposer_of
from aiperf.rules.search_space import space_of
from aiperf.rules.state import Run, begin
from aiperf.rules.verify_proposals import FollowedAgain, ProposalsAgain, check_followed
from aiperf.verify.check import Notes
from aiperf.verify.decisions import Decisions
from aiperf.verify.finding import Checked
from aiperf.verify.graphs import Graphs
from aiperf.verify.proposals import ProposalsMadeAgain
from aiperf.verify.results import Results
from searchers.history import History
from searchers.propose import RULES

LAW = "every line fits the state of its trial and worker, and can be taken in by the rules"


class CheckOfTheRun(Protocol):
    """A check that looks at the run as the rules see it."""

    looks_at_epochs: bool
    """Whether it is shown ends of epochs, which are most of the lines that are looked at here."""

    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        """An event, and the run as it stands before it."""
        ...

    def checked(self) -> Checked:
        """What came of it."""
        ...


class _HistoryAlone:
    """Keeps what searchers know, where no proposal can be made again."""

    looks_at_epochs = False

    def __init__(self, started: RunStarted, why_not: str, requested: int) -> None:
        self.history = History(space_of(started))
        self._notes = Notes(
            "proposals", "a proposal follows from the run's seed and the history at its line", "proposals"
        )
        self._notes.of = requested
        self._notes.not_checked = why_not

    def before(self, line: int, run: Run, event: AnyEvent) -> None:
        self.history.tell(observations(run, event))

    def checked(self) -> Checked:
        return self._notes.checked()


@dataclass(frozen=True, slots=True)
class Looked:
    """Which of the costly things are looked at."""

    chain: str
    """The journal's last hash, by which they were drawn."""
    requested: int
    """Proposals in all."""
    proposals: tuple[int, ...]
    """Made again."""
    told: tuple[int, ...]
    """Trials of which what the search was told is worked out again."""
    built: tuple[int, ...]
    """Trials whose architectures are built again."""
    followed: Path | None = None
    """The folder of the run that this one follows; None: it was not given, or it follows none."""


def follow(path: Path, looked: Looked) -> tuple[Checked, ...]:
    """Follows a journal that was read to its end and found whole."""
    fitting = Notes("states", LAW, "lines")
    checks: Sequence[CheckOfTheRun] = ()
    line = 0
    try:
        for line, event in enumerate(read_again(path, Progress), 1):
            if isinstance(event, RunStarted):
                run = begin(event)
                decisions, checks = _checks(run, looked)
                of_epochs = [check for check in checks if check.looks_at_epochs]
            elif event is None:
                run.lines += 1
            else:
                for check in of_epochs if type(event) is EpochFinished else checks:
                    check.before(line, run, event)
                evolve(run, event)
                if decisions is not None:
                    decisions.after(run, event)
    except (*_OF_A_LINE, AiperfError) as error:
        named = str(error) if isinstance(error, AiperfError | ValueError) else f"{type(error).__name__}: {error}"
        fitting.add(line, LAW, named)
        fitting.not_checked = "all that stands after it"
    fitting.examined = line
    return (fitting.checked(), *(check.checked() for check in checks))


_OF_A_LINE = (
    LookupError,
    ArithmeticError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
    struct.error,
    msgspec.MsgspecError,
)
"""As `aiperf.journal.journal.folding` has them: what a fold meets in a line that keeps all laws of reading, and is none."""


def _checks(run: Run, looked: Looked) -> tuple[Decisions | None, Sequence[CheckOfTheRun]]:
    """In the order in which they are shown; the last of them keeps the history, and takes each line in."""
    started = run.started
    is_ours = started.proposal_rules == RULES
    agenda: Agenda | None = None
    why_not: str | None = None
    if started.follows is not None:
        agenda, why_not = _agenda(started, started.follows, looked.followed)
    proposals = _proposals(started, looked, agenda, why_not)
    # What a run that follows another decides is told by that one's journal as well.
    decisions = Decisions(run, agenda) if is_ours and why_not is None else None
    return decisions, (
        *([] if decisions is None else [decisions]),
        Results(frozenset(looked.told), is_ours=is_ours),
        Graphs(run, proposals.history, frozenset(looked.built), is_ours=is_ours and started.follows is None),
        proposals,
    )


def _agenda(started: RunStarted, follows: FollowedRun, folder: Path | None) -> tuple[Agenda | None, str | None]:
    """What a run that follows another had to train, of that one's journal; else why it cannot be determined."""
    there = f"the run that it follows, '{follows.run}' (hash {follows.last_hash[:12]}…)"
    if folder is None:
        return None, f"not checkable without the journal of {there}: --followed RUN"
    try:
        reader = read(folder, follows.lines)
        with folding(reader):
            work = followed(reader)
        check_followed(started, work, reader.reading.chain.decode())
    except AiperfError as error:
        return None, str(error)
    return Agenda(work.trials), None


def _proposals(
    started: RunStarted, looked: Looked, agenda: Agenda | None, why_not: str | None
) -> ProposalsMadeAgain | _HistoryAlone:
    if why_not is not None:
        return _HistoryAlone(started, why_not, looked.requested)
    if agenda is not None:
        return ProposalsMadeAgain(started, FollowedAgain(started, Agenda(agenda.trials)), looked.requested)
    try:
        again = ProposalsAgain(started, _proposer(started), frozenset(looked.proposals))
        return ProposalsMadeAgain(started, again, looked.requested)
    except AiperfError as error:
        return _HistoryAlone(started, str(error), looked.requested)


def _proposer(started: RunStarted) -> Proposer:
    conf = from_plain(started.config)
    return proposer_of(conf.searcher, conf.hpo)
