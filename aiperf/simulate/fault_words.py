"""Faults as they stand on a command line: `name`, or `name(parameter=value, …)`.

cluster.faults=[node_lost,late] · 'cluster.faults=["worker_lost(rate=0.1, when=before)",late]'
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import Field, fields

from aiperf.errors import BadConfiguration
from aiperf.simulate import faults
from aiperf.simulate.faults import Fault

KINDS: dict[str, type[Fault]] = {
    "worker_lost": faults.WorkerLost,
    "worker_hung": faults.WorkerHung,
    "idle_worker_hung": faults.IdleWorkerHung,
    "node_lost": faults.NodeLost,
    "late_join": faults.LateJoin,
    "flap": faults.Flap,
    "all_gone": faults.AllGone,
    "straggler": faults.Straggler,
    "wrong_clock": faults.WrongClock,
    "crash": faults.Crash,
    "memory_runs_out": faults.MemoryRunsOut,
    "checkpoints_vanish": faults.CheckpointsVanish,
    "late": faults.Late,
    "twice": faults.Twice,
    "out_of_order": faults.OutOfOrder,
    "never": faults.Never,
    "generator_dead": faults.GeneratorDead,
    "bad_proposal": faults.BadProposal,
    "driver_dies": faults.DriverDies,
    "disk_full": faults.DiskFull,
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
