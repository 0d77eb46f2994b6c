"""Faults as they stand on a command line: `name`, or `name(parameter=value, …)`.

cluster.faults=[node_lost,late] · 'cluster.faults=["worker_lost(rate=0.1, when=before)",late]'
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import Field, fields

from aiperf.errors import BadConfiguration
from aiperf.simulate.faults import driver, messages, proposals, training, workers
from aiperf.simulate.model.fault import Fault

KINDS: dict[str, type[Fault]] = {
    "worker_lost": workers.WorkerLost,
    "worker_hung": workers.WorkerHung,
    "idle_worker_hung": workers.IdleWorkerHung,
    "node_lost": workers.NodeLost,
    "late_join": workers.LateJoin,
    "flap": workers.Flap,
    "all_gone": workers.AllGone,
    "straggler": workers.Straggler,
    "wrong_clock": workers.WrongClock,
    "crash": training.Crash,
    "memory_runs_out": training.MemoryRunsOut,
    "checkpoints_vanish": training.CheckpointsVanish,
    "checkpoints_unwritten": training.CheckpointsUnwritten,
    "late": messages.Late,
    "twice": messages.Twice,
    "out_of_order": messages.OutOfOrder,
    "never": messages.Never,
    "generator_dead": proposals.GeneratorDead,
    "bad_proposal": proposals.BadProposal,
    "driver_dies": driver.DriverDies,
    "disk_full": driver.DiskFull,
}
"""By their names on the command line."""

_SHARES = ("rate", "final")
_WHEN = ("before", "during", "after", "any")


def parse_all(words: Sequence[str], seed: int) -> tuple[Fault, ...]:
    """The faults of a list, each with its own draws from the run's seed.

    Raises:
        BadConfiguration: a name, parameter or value that there is not; the message names the nearest right one.
    """
    parsed = tuple(parse(word) for word in words)
    for place, fault in enumerate(parsed):
        fault.seed(seed, place)
    return parsed


def parse(word: str) -> Fault:
    """One fault. Raises BadConfiguration.

    >>> parse("worker_lost(rate=0.5, when=before)").when
    'before'
    """
    matched = re.fullmatch(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", word)
    if matched is None:
        raise BadConfiguration(f"a fault is written name or name(parameter=value, …); found {word!r}")
    name, arguments = matched.groups()
    if name not in KINDS:
        raise BadConfiguration(f"there is no fault {name!r}{_nearest(name, list(KINDS))}; there are {', '.join(KINDS)}")
    kind = KINDS[name]
    known = {each.name: each for each in fields(kind) if each.init}
    values: dict[str, float | str] = {}
    for argument in filter(None, (part.strip() for part in (arguments or "").split(","))):
        parameter, equals, value = (part.strip() for part in argument.partition("="))
        if not equals or parameter not in known:
            raise BadConfiguration(
                f"the fault {name} has no parameter {parameter!r}{_nearest(parameter, list(known))}; it has {', '.join(known)}"
            )
        values[parameter] = _value(name, known[parameter], value)
    return kind(**values)


def _value(fault: str, parameter: Field[object], text: str) -> float | str:
    if parameter.type == "str":
        if text not in _WHEN:
            raise BadConfiguration(
                f"{fault}: {parameter.name} is one of {', '.join(_WHEN)}; found {text!r}{_nearest(text, _WHEN)}"
            )
        return text
    try:
        value = float(text)
    except ValueError as error:
        raise BadConfiguration(f"{fault}: {parameter.name} is a number; found {text!r}") from error
    if (
        not 0 <= value < float("inf")
        or (parameter.name in _SHARES and value > 1)
        or (value == 0 and parameter.name not in _SHARES)
    ):
        law = "lies between 0 and 1" if parameter.name in _SHARES else "is above 0"
        raise BadConfiguration(f"{fault}: {parameter.name} {law}; found {text!r}")
    return value


def _nearest(word: str, right: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, right, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
