"""Small random runs with many faults, checked after every event, and a report of a broken law.

A case is a value: the same case is the same run. A failing case is reduced while it still breaks the same law: without each
of its faults, with fewer workers, in a shorter time.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import msgspec

from aiperf.config import BudgetConf, RunConf, as_plain
from aiperf.data.dataset_config import SyntheticConf
from aiperf.drive.driver import Driver
from aiperf.errors import AiperfError
from aiperf.journal.events import AnyEvent, RunStarted, TrialProposed
from aiperf.journal.first_line import config_hash
from aiperf.journal.journal import NAME, read
from aiperf.planning.plan import Plan
from aiperf.ranking.levels import is_of_step
from aiperf.rng import derive
from aiperf.rules.followed import Following, following
from aiperf.rules.limits import LimitsConf, ScheduleConf
from aiperf.rules.proposals import Proposer
from aiperf.simulate.session import Opening, open_run, world_of
from cluster.faults import FAULTS, FaultConf
from cluster.simulated import SimulatedConf
from searchers.searcher_config import OffConf, RandomConf
from tests.audit.auditor import Auditor
from tests.audit.ground_truth import GroundTruth
from tests.audit.laws import AGAIN, ENDS, JOURNAL, BrokenLaw
from tests.audit.planted_faults import KINDS, BadProposalConf
from tests.audit.restarts import drive
from tests.builders.verified_proposals import verify_proposals

PLENTY = 32 * 2**30
"""Memory for every batch that a case may propose."""
SCARCE = 14 * 2**20
"""Memory for 40 images of the starting graph, with a reported ceiling of 24 and proposals of 64. Grown networks hold fewer.
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A small run."""

    seed: int
    workers: int
    workers_per_host: int
    seconds: float
    faults: tuple[FaultConf, ...]
    turn_seconds: float = 0.0
    searches: bool = False
    """True if the configured searcher proposes and each proposal is recomputed. Otherwise the cheapest proposer is used."""
    replays: float = 0.0
    """Share of turns after which the whole journal is replayed and compared."""
    memory_bytes: int = PLENTY
    """Memory of each accelerator."""
    follows: Case | None = None
    """Run to be followed, with its own faults."""


_TURNS_TO_END = 10
"""A driver ends its run in the first turn after its time. More turns than this are a failure."""


class Failed(Exception):
    """A case broke a law."""

    def __init__(self, case: Case, law: str, what: str, trial: int | None, journal: bytes) -> None:
        super().__init__(f"{law}: {what}")
        self.case = case
        self.law = law
        self.what = what
        self.trial = trial
        self.journal = journal


@dataclass(frozen=True, slots=True)
class Outcome:
    """A case that kept all laws."""

    drivers: int
    journal: bytes


def random_case(seed: int) -> Case:
    """Return a case of one to eight workers, some minutes, and up to six kinds of faults."""
    draw = random.Random(derive(seed, "case"))
    kinds = draw.sample([*KINDS], draw.choice((0, 1, 1, 2, 2, 3, 4, 6)))
    return Case(
        seed=seed,
        workers=draw.randint(1, 8),
        workers_per_host=draw.choice((1, 1, 2, 4)),
        seconds=draw.choice((120.0, 240.0, 420.0)),
        faults=tuple(kind() for kind in kinds),
        turn_seconds=draw.choice((0.0, 0.0, 0.3)),
        searches=draw.random() < 0.05,
        replays=0.02 if draw.random() < 0.2 else 0.0,
        memory_bytes=draw.choice((PLENTY, PLENTY, SCARCE)),
    )


def play(case: Case) -> Outcome:
    """Simulate a case with an auditor that checks every event.

    Raises:
        Failed: a law was broken. It holds the journal up to there.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        follows = None if case.follows is None else _followed(case.follows, Path(folder) / "followed")
        opening = _opening(case, follows)
        ground_truth = GroundTruth()
        world = world_of(opening, None if case.searches else cheap())
        after_end = 0

        class Watching(Auditor):
            def after_turn(self, driver: Driver) -> None:
                nonlocal after_end
                super().after_turn(driver)
                after_end += driver.run.ended is None and driver.clock.now() >= case.seconds
                if after_end > _TURNS_TO_END:
                    raise BrokenLaw(ENDS, f"it is {driver.clock.now():.0f} s, but the run has not ended")

        auditor = Watching(ground_truth, random.Random(derive(case.seed, "auditor")), case.replays)
        try:
            drivers = drive(world, opening.first, path, faults=case.faults, truth=ground_truth, audience=auditor)
            auditor.finish(path)
            if follows is not None:
                _check_rederivable(path, world.proposer, True, follows)
            elif case.searches:
                is_honest = not any(isinstance(fault, BadProposalConf) for fault in case.faults)
                _check_rederivable(path, world.proposer, is_honest)
        except BrokenLaw as broken:
            raise Failed(case, broken.law, str(broken), broken.trial, path.read_bytes()) from broken
        except AiperfError as error:
            # A driver's death must never leave a journal that the next driver cannot read.
            raise Failed(case, JOURNAL, str(error), None, path.read_bytes()) from error
        except (KeyError, ValueError, IndexError, AssertionError, LookupError) as error:
            raise Failed(case, type(error).__name__, repr(error), None, path.read_bytes()) from error
        return Outcome(drivers, path.read_bytes())


def smaller(failed: Failed, playing: Callable[[Case], Outcome] = play, tries: int = 60) -> Failed:
    """Return the smallest run found that breaks the same law: fewer faults, fewer workers, less time, within `tries` runs."""
    best = failed
    left = tries
    improved = True
    while improved and left > 0:
        improved = False
        for case in _simpler(best.case):
            left -= 1
            try:
                playing(case)
            except Failed as again:
                if again.law == best.law and len(again.journal) <= len(best.journal):
                    best, improved = again, True
                    break
            if left <= 0:
                break
    return best


def _check_rederivable(path: Path, proposer: Proposer, is_honest: bool, follows: Following | None = None) -> None:
    """`is_honest`: no fault answers for a generator, so that rejections follow from the journal as well."""
    for again in verify_proposals(read(path), proposer, None if follows is None else follows.work):
        if (isinstance(again.recorded, TrialProposed) or is_honest) and not again.is_equal:
            raise BrokenLaw(AGAIN, f"recorded {again.recorded}, made again {again.again}", again.number)


def _simpler(case: Case) -> Iterator[Case]:
    for left_out in range(len(case.faults)):
        yield replace(case, faults=case.faults[:left_out] + case.faults[left_out + 1 :])
    for workers in (1, case.workers // 2, case.workers - 1):
        if 1 <= workers < case.workers:
            yield replace(case, workers=workers)
    for seconds in (case.seconds / 2, case.seconds * 0.8):
        if seconds >= 30:
            yield replace(case, seconds=round(seconds, 1))
    if case.searches:
        yield replace(case, searches=False)
    if case.memory_bytes < PLENTY:
        yield replace(case, memory_bytes=PLENTY)


def explained(failed: Failed, keep: Path | None = None) -> str:
    """Return a broken law as text: the seed, the case, the journal's end, and the history of the trial concerned.

    `keep`: file for the journal, if any.
    """
    lines = failed.journal.splitlines()
    output = [failed.what, f"seed {failed.case.seed}: play({failed.case!r})", f"{len(lines)} lines of journal"]
    if keep is not None:
        keep.write_bytes(failed.journal)
        output.append(f"kept in '{keep}'")
    if failed.trial is not None:
        output.append(f"the story of trial {failed.trial}:")
        output += story(failed.journal, failed.trial)
    output.append("the last lines:")
    output += [_short(line.decode(errors="replace")) for line in lines[-6:]]
    return "\n".join(output)


def story(journal: bytes, trial: int) -> list[str]:
    """Return all lines of a journal on a trial and on its workers at that time, in order."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        path.write_bytes(journal)
        output: list[str] = []
        workers: set[int] = set()
        try:
            for number, event in enumerate(read(path), start=1):
                if getattr(event, "trial", None) == trial or getattr(event, "number", None) == trial:
                    workers |= {getattr(event, "worker", -1)}
                elif getattr(event, "worker", None) not in workers and type(event).__name__ not in (
                    "RunResumed",
                    "RunEnded",
                ):
                    continue
                if getattr(event, "trial", trial) == trial == getattr(event, "number", trial):
                    output.append(f"{number:>6} {_in_words(event)}")
        except AiperfError as error:
            output.append(f"       {error}")
        return output


def _in_words(event: AnyEvent) -> str:
    fields = {
        name: value
        for name, value in msgspec.structs.asdict(event).items()
        if name not in ("at", "machine", "versions")
    }
    return _short(f"{event.at:10.3f} s  {type(event).__name__} " + " ".join(f"{k}={v}" for k, v in fields.items()))


def _short(text: str) -> str:
    return text if len(text) <= 260 else text[:257] + "…"


def cheap() -> Proposer:
    """Return a proposer of one random morph: the cheapest proposer of different networks."""
    return Proposer(RandomConf(morphs=1).build(), None)


def _followed(case: Case, folder: Path) -> Following:
    """Simulate the run that another is to follow. Its journal is stored in the folder."""
    folder.mkdir()
    (folder / NAME).write_bytes(play(case).journal)
    return following(folder, is_of_step)


def _opening(case: Case, follows: Following | None = None) -> Opening:
    plan, first = _plan(case.memory_bytes)
    conf = plan.conf.cluster
    assert isinstance(conf, SimulatedConf)
    cluster = replace(
        conf,
        workers=case.workers,
        workers_per_host=case.workers_per_host,
        turn_seconds=case.turn_seconds,
        faults=[fault for fault in case.faults if isinstance(fault, FAULTS)],
    )
    follow = None if follows is None else follows.recorded.run
    schedule = replace(plan.conf.schedule, duration_seconds=case.seconds, warmup_seconds=case.seconds / 5)
    plan = replace(
        plan,
        conf=replace(plan.conf, cluster=cluster, schedule=schedule, seed=case.seed, follow=follow),
        follows=follows,
    )
    config = first.config | as_plain(plan.conf)
    first = msgspec.structs.replace(
        first,
        seed=case.seed,
        config=config,
        config_hash=config_hash(config),
        duration_seconds=schedule.duration_seconds,
        warmup_seconds=schedule.warmup_seconds,
        follows=None if follows is None else follows.recorded,
    )
    return Opening(cluster, plan, first)


@lru_cache(maxsize=2)
def _plan(memory_bytes: int) -> tuple[Plan, RunStarted]:
    """Epochs of some seconds and trials of a minute on a small graph, so that all events occur within minutes."""
    cluster = SimulatedConf(
        workers=1,
        accelerators=2,
        flops=2e9,
        memory_bytes=memory_bytes,
        bytes_per_element=4,
        speed_spread=0.1,
        join_seconds=4.0,
        return_seconds=8.0,
        detection_seconds=2.0,
        build_seconds=0.5,
        compile_seconds=1.0,
        proposal_seconds=0.3,
        turn_seconds=0.0,
    )
    conf = RunConf(
        dataset=SyntheticConf(training_images=400, validation_images=100, image=8, channels=1),
        schedule=ScheduleConf(duration_seconds=300.0, warmup_seconds=60.0, epochs=[3, 4, 6], patience=2),
        searcher=RandomConf(),
        hpo=OffConf(),
        limits=LimitsConf(silence_seconds=40.0),
        budget=BudgetConf(batch=8),
        cluster=cluster,
        start="digits_small",
    )
    opening = open_run(conf)
    return opening.plan, opening.first
