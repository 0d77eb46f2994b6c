"""Trials of a list that a receiver trains again on this machine, from the run's journal (`verify --retrain N`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from aiperf.config import from_plain
from aiperf.drive.machines import machines, worker_shape
from aiperf.drive.session import run_session
from aiperf.errors import BadConfiguration
from aiperf.journal import events
from aiperf.journal.journal import folding, read
from aiperf.planning.plan import make_plan
from aiperf.ranking.levels import is_of_step
from aiperf.rules.followed import followed_again
from aiperf.rules.limits import ScheduleConf
from aiperf.verify.verification import drawn

TOLERATED_LOSS = 0.05
"""Relative difference of the training loss of the first epoch: another machine, precision or number of ranks sums otherwise."""


@dataclass(frozen=True, slots=True)
class Training:
    trial: int
    loss: float
    """Training loss of the first epoch. Later epochs drift apart with the order of sums."""
    samples_per_second: float
    """Training samples ÷ time from the prepared network to the end of the trial."""


@dataclass(frozen=True, slots=True)
class RetrainedTrial:
    place: int
    """Place in the list."""
    journal: Training
    again: Training

    @property
    def is_confirmed(self) -> bool:
        return abs(self.again.loss / self.journal.loss - 1) <= TOLERATED_LOSS


def retrain(folder: Path, number: int, followed: Path | None = None) -> tuple[RetrainedTrial, ...]:
    """Train up to `number` trials again, chosen by the journal's last hash. `followed`: run of the list, None for its place."""
    first, trainings, chain = _trainings(folder)
    if first.follows is None or first.simulated or not trainings:
        raise BadConfiguration(
            f"--retrain trains finished trials of a list again, and '{first.run}' has none on a real machine: leave it out"
        )
    places = drawn(chain, list(trainings), number)
    conf, shape = from_plain(first.config), first.shape
    ranks = shape.ranks if shape is not None and not shape.accelerators and conf.executor == "ray" else None
    with TemporaryDirectory() as runs:
        conf = replace(
            conf,
            cluster=None,
            runs=runs,
            announcement=None,
            predict=None,
            schedule=replace(conf.schedule, duration_seconds=10 * ScheduleConf().duration_seconds, warmup_seconds=0.0),
            limits=replace(conf.limits, trials=None),
            trainer=replace(conf.trainer, ranks=ranks),
        )
        with machines(conf) as executor_of:
            plan = make_plan(replace(conf, follow=None), worker_shape(conf))
            follows = followed_again(first.follows, followed or Path(first.follows.path), is_of_step)
            plan = replace(plan, conf=conf, follows=replace(follows, places=places))
            _, again, _ = _trainings(run_session(plan, executor_of, lambda driver: None))
    return tuple(RetrainedTrial(place, trainings[place], again[place]) for place in places if place in again)


def _trainings(folder: Path) -> tuple[events.RunStarted, dict[int, Training], str]:
    """Return the first line, the trials that finished in one attempt by their place in the list, and the last hash."""
    places: dict[int, int] = {}
    losses: dict[int, float] = {}
    prepared: dict[int, float] = {}
    epochs: dict[int, int] = {}
    trainings: dict[int, Training] = {}
    reader = read(folder)
    with folding(reader):
        for event in reader:
            match event:
                case events.RunStarted():
                    first = event
                case events.TrialProposed(follows=events.FollowedValues() as follows):
                    places[event.number] = follows.trial
                case events.TrialPrepared(attempt=1):
                    prepared[event.trial] = event.at
                case events.EpochFinished(attempt=1):
                    losses.setdefault(event.trial, event.training_loss)
                    epochs[event.trial] = event.epoch
                case events.TrialFinished(reason="followed", attempt=1) if (
                    event.trial in epochs.keys() & prepared.keys()
                ):
                    samples = epochs[event.trial] * first.dataset["training_images"]
                    rate = samples / (event.at - prepared[event.trial])
                    trainings[places[event.trial]] = Training(event.trial, losses[event.trial], rate)
                case _:
                    pass
    return first, trainings, reader.reading.chain.decode()
