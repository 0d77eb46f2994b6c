"""Processor time of the run and of other programs on each machine over a window, from telemetry.

Recorders that see the same processes report the same machine. The own times of several containers on a machine are added.
A period without samples has no load.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from aiperf.system.log import RecordedSample, Session
from aiperf.system.utilization_series import overlaps

PARTS = 240
LEAST_PART_SECONDS = 10.0
"""Samples are five seconds apart. A shorter part would show sampling noise."""
LONGEST_STEP_SECONDS = 600.0
"""Longest time between two samples of all processes. A longer gap counts as not measured."""


@dataclass(frozen=True, slots=True)
class HostLoad:
    """Load of one machine. Shares refer to all its processor time in the measured seconds."""

    host: str
    """Name of the machine, or names of its containers if there are several."""
    seconds: float
    """Measured seconds of the window."""
    own: float
    """Share of this run's programs, as far as they are visible."""
    others: float
    """Share of all other programs."""
    kernel: float
    """Share of interrupts and kernel threads."""
    stolen: float
    """Share taken by the hypervisor."""
    stalled: float | None
    """Share of the time in which a process waited for a processor. None if it was not measured."""
    most_others: float
    """`others` in the part of the window with its maximum."""
    most_at: tuple[float, float]
    """Start and end of that part in seconds since the start of the run."""


@dataclass(slots=True)
class _Sums:
    """Sums of one recorder by part of the window: processor seconds, and wall-clock seconds in `looked`."""

    passed: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    programs: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    own: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    kernel: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    stolen: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    stalled: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    looked: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    has_stalled: bool = True


class LoadBuilder:
    """Loads while telemetry is being read. Used by `summarise` only."""

    def __init__(self, window: tuple[float, float]) -> None:
        self._window = window
        length = window[1] - window[0]
        self._parts = max(1, min(PARTS, int(length / LEAST_PART_SECONDS)))
        self._width = length / self._parts
        self._sums: dict[str, dict[str, _Sums]] = {}
        """By machine and process space."""
        self._names: dict[str, set[str]] = {}
        self._last: tuple[Session, RecordedSample] | None = None

    def add(self, session: Session, look: RecordedSample) -> None:
        """Add the next sample of a recorder, in the order of its file."""
        now = look.processors
        if now is None:
            return
        last, self._last = self._last, (session, look)
        if last is None or last[0] is not session:
            return
        before, seconds = last[1], look.at - last[1].at
        was = before.processors
        assert was is not None, "samples without processor time are not kept"
        passed = now.passed - was.passed
        if passed <= 0 or not 0 < seconds <= LONGEST_STEP_SECONDS:
            return
        machine = session.boot_id or session.host
        self._names.setdefault(machine, set()).add(session.host)
        sums = self._sums.setdefault(machine, {}).setdefault(session.process_space or "", _Sums())
        sums.has_stalled = sums.has_stalled and None not in (now.stalled, was.stalled)
        for index, part in overlaps(before.at, look.at, self._window, self._parts):
            share = part / seconds
            sums.looked[index] += part
            for name in ("passed", "programs", "own", "kernel", "stolen"):
                getattr(sums, name)[index] += share * (getattr(now, name) - getattr(was, name))
            sums.stalled[index] += share * ((now.stalled or 0.0) - (was.stalled or 0.0))

    def loads(self) -> tuple[HostLoad, ...]:
        """Return the loads, sorted by machine name."""
        loads = [self._load(machine, list(views.values())) for machine, views in self._sums.items()]
        return tuple(sorted((one for one in loads if one is not None), key=lambda one: one.host))

    def _load(self, machine: str, views: list[_Sums]) -> HostLoad | None:
        """Return the mean load of a machine. Each part is weighted by its measured seconds."""
        parts = sorted({index for view in views for index, passed in view.passed.items() if passed > 0})
        if not parts:
            return None
        seconds = {index: min(self._width, max(view.looked[index] for view in views)) for index in parts}

        def shares(name: str, index: int, of: str = "passed") -> float:
            """Return the share over all views. Each view covers the whole machine."""
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
            # The mean over the window is limited to 0, not each part: an error of one sample is corrected by the next.
            others=max(0.0, mean({index: shares("programs", index) - own[index] for index in parts})),
            kernel=mean({index: shares("kernel", index) for index in parts}),
            stolen=mean({index: shares("stolen", index) for index in parts}),
            stalled=(
                min(1.0, mean({index: shares("stalled", index, "looked") for index in parts}))
                if all(view.has_stalled for view in views)
                else None
            ),
            most_others=others[most],
            most_at=(self._window[0] + most * self._width, self._window[0] + (most + 1) * self._width),
        )
