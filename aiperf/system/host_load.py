"""Whose work a run's machines did over a window, from telemetry: a figure for each machine, whatever containers it holds.

Recorders that see the same processes say the same of the machine; what those of several containers say of their own is added
up. Of a time that none of them tells, nothing is said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from aiperf.system.log import Look, Session

PARTS = 240
LEAST_PART_SECONDS = 10.0
"""Two looks lie five seconds apart: a shorter part would show how they fell."""
LONGEST_STEP_SECONDS = 600.0
"""Between two looks at all processes: a longer time is one that nobody looked at."""


@dataclass(frozen=True, slots=True)
class HostLoad:
    """Of one machine. Shares are of all its processor time, of the seconds that were measured."""

    host: str
    """Its name; those of its containers, where there are several."""
    seconds: float
    """Of the window, that were measured."""
    own: float
    """This run's programs, as far as they can be seen."""
    others: float
    """All other programs."""
    kernel: float
    """Interrupts and the kernel's own threads."""
    stolen: float
    """By the hypervisor."""
    stalled: float | None
    """Share of the time in which somebody waited for a processor; None = not measured."""
    most_others: float
    """`others`, of the part of the window in which they had most."""
    most_at: tuple[float, float]
    """When that was, in seconds since the run began."""


@dataclass(slots=True)
class _Sums:
    """Of one recorder's view, by part of the window: seconds of processor time; and of the clock, in `looked`."""

    passed: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    programs: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    own: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    kernel: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    stolen: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    stalled: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    looked: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    told_stalled: bool = True


class GrowingLoads:
    """The loads while telemetry is being read; seen by nobody but `summarise`."""

    def __init__(self, window: tuple[float, float]) -> None:
        self._window = window
        length = window[1] - window[0]
        self._parts = max(1, min(PARTS, int(length / LEAST_PART_SECONDS)))
        self._width = length / self._parts
        self._sums: dict[str, dict[str, _Sums]] = {}
        """By machine, and by which processes are seen."""
        self._names: dict[str, set[str]] = {}
        self._last: tuple[Session, Look] | None = None

    def add(self, session: Session, look: Look) -> None:
        """The next look of a recorder, in the order of its file."""
        now = look.processors
        if now is None:
            return
        last, self._last = self._last, (session, look)
        if last is None or last[0] is not session:
            return
        before, seconds = last[1], look.at - last[1].at
        was = before.processors
        assert was is not None, "a look without it is not kept"
        passed = now.passed - was.passed
        if passed <= 0 or not 0 < seconds <= LONGEST_STEP_SECONDS:
            return
        machine = session.boot_id or session.host
        self._names.setdefault(machine, set()).add(session.host)
        sums = self._sums.setdefault(machine, {}).setdefault(session.process_space or "", _Sums())
        sums.told_stalled = sums.told_stalled and None not in (now.stalled, was.stalled)
        for index, part in self._pieces(before.at, look.at):
            share = part / seconds
            sums.looked[index] += part
            for name in ("passed", "programs", "own", "kernel", "stolen"):
                getattr(sums, name)[index] += share * (getattr(now, name) - getattr(was, name))
            sums.stalled[index] += share * ((now.stalled or 0.0) - (was.stalled or 0.0))

    def _pieces(self, since: float, until: float) -> Iterator[tuple[int, float]]:
        """The parts of the window that a time lies in, each with the seconds of it that do."""
        start, end = max(since, self._window[0]), min(until, self._window[1])
        while start < end:
            index = min(self._parts - 1, int((start - self._window[0]) / self._width))
            edge = end if index == self._parts - 1 else min(end, self._window[0] + (index + 1) * self._width)
            if edge <= start:  # a part's edge that rounding put where we are
                index, edge = index + 1, min(end, start + self._width)
            yield index, edge - start
            start = edge

    def loads(self) -> tuple[HostLoad, ...]:
        """As they stand, by name of the machine."""
        found = [self._load(machine, list(views.values())) for machine, views in self._sums.items()]
        return tuple(sorted((one for one in found if one is not None), key=lambda one: one.host))

    def _load(self, machine: str, views: list[_Sums]) -> HostLoad | None:
        """Each part of the window weighs by the seconds that somebody looked at, once."""
        parts = sorted({index for view in views for index, passed in view.passed.items() if passed > 0})
        if not parts:
            return None
        seconds = {index: min(self._width, max(view.looked[index] for view in views)) for index in parts}

        def shares(name: str, index: int, of: str = "passed") -> float:
            """Of all views together: each is of the whole machine."""
            part, whole = (sum(float(getattr(view, of_all)[index]) for view in views) for of_all in (name, of))
            return part / whole

        own = {
            index: sum(view.own[index] / view.passed[index] for view in views if view.passed[index] > 0)
            for index in parts
        }
        others = {index: max(0.0, shares("programs", index) - own[index]) for index in parts}
        whole = sum(seconds.values())

        def mean(by_part: dict[int, float]) -> float:
            return sum(by_part[index] * seconds[index] for index in parts) / whole

        most = max(parts, key=lambda index: others[index])
        return HostLoad(
            host=", ".join(sorted(self._names[machine])),
            seconds=whole,
            own=mean(own),
            # Over the whole window before it is held to nothing: what one look leaves to the next is no other program's.
            others=max(0.0, mean({index: shares("programs", index) - own[index] for index in parts})),
            kernel=mean({index: shares("kernel", index) for index in parts}),
            stolen=mean({index: shares("stolen", index) for index in parts}),
            stalled=(
                min(1.0, mean({index: shares("stalled", index, "looked") for index in parts}))
                if all(view.told_stalled for view in views)
                else None
            ),
            most_others=others[most],
            most_at=(self._window[0] + most * self._width, self._window[0] + (most + 1) * self._width),
        )
