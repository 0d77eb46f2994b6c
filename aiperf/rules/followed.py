"""A list of trials that a run trains in order from fresh weights, instead of a search: packaged, or of an earlier run."""

from __future__ import annotations

import gzip
import hashlib
import json
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from aiperf.errors import CannotFollow
from aiperf.journal import events
from aiperf.journal.journal import folding, read
from aiperf.journal.legality import IllegalLine, TrialState
from aiperf.journal.messages import ProposalReturned
from aiperf.journal.options import flat_options
from aiperf.rng import derive
from aiperf.rules.evolve import replay
from aiperf.rules.limits import PACKAGED
from aiperf.rules.proposals import described, of_proposal
from aiperf.rules.state import Run
from morphism import DamagedMorph, IllegalMorph, decode_morph
from searchers.history import History

FOLLOW = "follow"
"""Name of the searcher in the proposals of such a run."""


class ListedTrial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One network to train from fresh weights."""

    morphs: list[dict[str, Any]]
    """Morphs from the starting graph to the network."""
    fingerprint: str
    batch: int
    """Images of a step over all ranks."""
    samples: int
    """Training images, a multiple of those of the data set."""


class TrialList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Trials with everything that determines their work. Two runs with one list do the same work, trial by trial."""

    dataset: dict[str, Any]
    """RunStarted.dataset."""
    start: dict[str, Any]
    """RunStarted.start_graph."""
    options: dict[str, Any]
    """Options of a training step, by dotted names."""
    trials: tuple[ListedTrial, ...]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()

    def epochs(self, place: int) -> int:
        return self.trials[place].samples // int(self.dataset["training_images"])


@cache
def packaged(name: str) -> TrialList:
    packed = files("aiperf.rules").joinpath(f"{name}.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=TrialList)


@dataclass(frozen=True, slots=True)
class Following:
    """List of a run, and the entry about it in the first line of the run's journal."""

    work: TrialList
    recorded: events.FollowedRun
    places: tuple[int, ...] | None = None
    """Places of the trials to train. None for all."""


def following(folder: Path, is_of_step: Callable[[str], bool], until: int | None = None) -> Following:
    """Return the list of the trials that the run in a folder trained. `is_of_step`: an option defines a training step."""
    reader = read(folder, until)
    with folding(reader):
        run, work = listed(reader, is_of_step)
    left_out = _left_out(run)
    if not work.trials:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items()) or "none"
        raise CannotFollow(
            f"a run follows the trained trials of another run. '{folder}' has none (proposals: {reasons}): follow a longer run"
        )
    recorded = events.FollowedRun(
        run=run.started.run,
        path=str(folder),
        lines=reader.reading.lines,
        trials=len(work.trials),
        left_out=left_out,
        sequence=work.sha256,
    )
    return Following(work, recorded)


def following_packaged(name: str) -> Following:
    work = packaged(name)
    return Following(
        work, events.FollowedRun(run=name, path=name, trials=len(work.trials), left_out={}, sequence=work.sha256)
    )


def followed_again(recorded: events.FollowedRun, folder: Path, is_of_step: Callable[[str], bool]) -> Following:
    """Return the list that a first line names. Raise CannotFollow if it is another one here."""
    if not recorded.sequence:
        raise CannotFollow(
            f"the list of a run is named by its hash. This run followed '{recorded.run}' in an older release, with inherited "
            "weights: use that release"
        )
    is_packaged = recorded.path in PACKAGED
    again = following_packaged(recorded.path) if is_packaged else following(folder, is_of_step, recorded.lines)
    if again.recorded.sequence != recorded.sequence:
        remedy = (
            "use the release of that run" if is_packaged else "give its current place, follow=RUN or --followed RUN"
        )
        raise CannotFollow(
            f"the list must be that of '{recorded.run}', with the hash {recorded.sequence[:12]}…. "
            f"'{again.recorded.path}' is '{again.recorded.run}' with {again.recorded.sequence[:12]}…: {remedy}"
        )
    return again


def unlike(work: TrialList, first: events.RunStarted) -> Iterator[str]:
    """Yield what of a run's first line is not as in the list: the training step, the data set, the starting graph."""
    options = flat_options(first.config)
    for option, value in work.options.items():
        if option in options and options[option] != value:
            yield "{}={}, not {}".format(option, *(json.dumps(each).strip('"') for each in (value, options[option])))
    for name, value in work.dataset.items():
        here = first.dataset.get(name)
        # a simulated run reads no files
        if here != value and not (name == "fingerprint" and None in (here, value)):
            yield f"a data set with {name} {value!r}, not {here!r}"
    if first.start_graph != work.start:
        yield "another starting graph: set start=… as in that list"


WHY_LEFT_OUT = {
    TrialState.REQUESTED: "rejected",
    TrialState.REJECTED: "rejected",
    TrialState.WAITING: "never started",
    TrialState.WITHDRAWN: "never started",
    TrialState.FAILED: "failed",
}
"""Reasons for not listing a proposal, by its state at the end of its run."""
CUT_OFF = "without an epoch"


def listed(journal: Iterable[events.AnyEvent], is_of_step: Callable[[str], bool]) -> tuple[Run, TrialList]:
    """Return the last state and the list: trials with an epoch, in the order of their start, with the epochs they had."""
    ranks: dict[int, int] = {}
    prints: dict[int, str] = {}
    run: Run | None = None
    for run, event in replay(journal):
        match event:
            case events.TrialProposed():
                prints[event.number] = event.fingerprint
            case events.TrialStarted():
                ranks.setdefault(event.trial, run.workers[event.worker].ranks)
            case events.TrialPrepared():
                ranks[event.trial] = event.ranks
            case _:
                pass
    assert run is not None, "a replay gives at least one pair"
    first = run.started
    trials = tuple(
        ListedTrial(
            morphs=list(run.lineage(number)),
            fingerprint=prints[number],
            batch=run.trials[number].batch_size * ranks[number],
            samples=run.trials[number].epoch * first.dataset["training_images"],
        )
        for number in _in_order(run, ranks)
    )
    options = {name: value for name, value in flat_options(first.config).items() if is_of_step(name)}
    return run, TrialList(dataset=first.dataset, start=first.start_graph, options=options, trials=trials)


def _in_order(run: Run, started: Iterable[int]) -> Iterable[int]:
    return (number for number in started if run.trials[number].state not in WHY_LEFT_OUT and run.trials[number].epoch)


def _left_out(run: Run) -> dict[str, int]:
    left_out = Counter(
        WHY_LEFT_OUT.get(trial.state, CUT_OFF)
        for trial in run.trials.values()
        if trial.state in WHY_LEFT_OUT or not trial.epoch
    )
    left_out["rejected"] += run.next_number - len(run.trials)
    return {reason: count for reason, count in sorted(left_out.items()) if count}


@dataclass(slots=True)
class ReplayQueue:
    """Places of a list that no trial of this run has taken. Call `take` with each event after the first."""

    work: TrialList
    places: Sequence[int] | None = None
    """Places to train, in order. None for all."""
    ready: list[int] = field(default_factory=list, init=False)
    """In order."""
    _asked: dict[int, tuple[int, int]] = field(default_factory=dict, init=False)
    """(worker, place) of each number of this run that was requested or proposed and has not started."""

    def __post_init__(self) -> None:
        self.ready = list(range(len(self.work.trials)) if self.places is None else self.places)

    @property
    def is_done(self) -> bool:
        return not (self.ready or self._asked)

    @property
    def first(self) -> int | None:
        return self.ready[0] if self.ready else None

    def take(self, event: events.AnyEvent) -> None:
        """Update the queue. Raise IllegalLine if the event requests a trial that is not left."""
        match event:
            case events.ProposalRequested():
                assert event.follows is not None, "the validator has seen that a run that follows asks for nothing else"
                index = bisect_left(self.ready, event.follows)
                if self.ready[index : index + 1] != [event.follows]:
                    raise IllegalLine(
                        f"a request must be for a trial of the list that is left. Proposal {event.number} requests trial "
                        f"{event.follows!r}"
                    )
                del self.ready[index]
                self._asked[event.number] = (event.worker, event.follows)
            case events.TrialRejected():
                del self._asked[event.number]
            case events.TrialStarted() | events.TrialFailed():
                self._asked.pop(event.trial, None)
            case events.WorkerLost():
                self._give_back([number for number, (worker, _) in self._asked.items() if worker == event.worker])
            case events.RunResumed():
                self._give_back(list(self._asked))
            case _:
                pass

    def _give_back(self, numbers: Sequence[int]) -> None:
        """Return trials to the queue: their worker was lost before their start."""
        for number in numbers:
            insort(self.ready, self._asked.pop(number)[1])


def answer(
    work: TrialList, history: History, request: events.ProposalRequested, ranks: int, at: float
) -> events.TrialProposed | events.TrialRejected:
    """Return the requested trial of the list as a proposal for a worker of `ranks` ranks, or a rejection."""
    assert request.follows is not None, "a run that follows asks for nothing else"
    wanted = work.trials[request.follows]
    batch, rest = divmod(wanted.batch, ranks)

    def rejected(reason: str) -> events.TrialRejected:
        return events.TrialRejected(at=at, number=request.number, by="check", reason=reason)

    if rest or not batch:
        return rejected(
            f"trial {request.follows} of the list has batches of {wanted.batch}, not divisible by {ranks} ranks"
        )
    if history.ceiling is not None and batch > history.ceiling:
        return rejected(
            f"trial {request.follows} of the list has batches of {batch} a rank; the most that fits here was measured to be "
            f"{history.ceiling}"
        )
    proposal = ProposalReturned(
        number=request.number,
        searcher=FOLLOW,
        parent=None,
        morphs=tuple(wanted.morphs),
        batch_size=batch,
        kernel_size=None,
        pruned=(),
        seconds=0.0,
    )
    try:
        network = of_proposal(history, None, tuple([decode_morph(morph) for morph in proposal.morphs]))
    except (IllegalMorph, DamagedMorph) as error:
        return rejected(str(error))
    if network.counts["fingerprint"] != wanted.fingerprint:
        return rejected(
            f"trial {request.follows} of the list has the fingerprint {wanted.fingerprint!r}; the same morphs give "
            f"{network.counts['fingerprint']!r} here"
        )
    follows = events.FollowedValues(
        trial=request.follows, epochs=work.epochs(request.follows), seed=derive(0, "trial", request.follows)
    )
    return described(request, proposal, network, at, follows)
