"""Mean processor load of each machine over a window, from telemetry: shares of the run, other programs and the kernel.

Recorders that see the same processes report the same machine. The own times of several containers on a machine are added.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiperf.system.log import RecordedSample, Session

LONGEST_STEP_SECONDS = 600.0
"""Longest time between two samples of all processes. A longer gap counts as not measured."""


@dataclass(frozen=True, slots=True)
class HostLoad:
    """Mean load of one machine. Shares refer to all its processor time in the measured seconds."""

    host: str
    """Name of the machine, or names of its containers if there are several."""
    seconds: float
    own: float
    """Share of this run's programs, as far as they are visible."""
    others: float
    kernel: float
    stolen: float
    stalled: float | None
    """Share of the time in which a process waited for a processor. None if it was not measured."""


@dataclass(slots=True)
class _View:
    passed: float = 0.0
    programs: float = 0.0
    own: float = 0.0
    kernel: float = 0.0
    stolen: float = 0.0
    stalled: float | None = 0.0
    seconds: float = 0.0


class LoadBuilder:
    def __init__(self, window: tuple[float, float]) -> None:
        self._window = window
        self._views: dict[str, dict[str, _View]] = {}
        self._names: dict[str, set[str]] = {}
        self._last: tuple[Session, RecordedSample] | None = None

    def add(self, session: Session, look: RecordedSample) -> None:
        """Add a sample, in the order of its file. Two samples of a session more than 600 s apart add no load."""
        now = look.processors
        if now is None:
            return
        last, self._last = self._last, (session, look)
        if last is None or last[0] is not session:
            return
        before, step = last[1], look.at - last[1].at
        was = before.processors
        assert was is not None, "samples without processor time are not kept"
        inside = min(look.at, self._window[1]) - max(before.at, self._window[0])
        if now.passed <= was.passed or not 0 < step <= LONGEST_STEP_SECONDS or inside <= 0:
            return
        machine = session.boot_id or session.host
        self._names.setdefault(machine, set()).add(session.host)
        view = self._views.setdefault(machine, {}).setdefault(session.process_space or "", _View())
        view.seconds += inside
        for name in ("passed", "programs", "own", "kernel", "stolen"):
            gained = (getattr(now, name) - getattr(was, name)) * inside / step
            setattr(view, name, getattr(view, name) + gained)
        if view.stalled is None or now.stalled is None or was.stalled is None:
            view.stalled = None
        else:
            view.stalled += (now.stalled - was.stalled) * inside / step

    def loads(self) -> tuple[HostLoad, ...]:
        """Return the loads, sorted by machine name. A machine without a measured period in the window is left out."""
        loads = [
            self._load(", ".join(sorted(self._names[machine])), [*of.values()]) for machine, of in self._views.items()
        ]
        return tuple(sorted(loads, key=lambda one: one.host))

    def _load(self, host: str, views: list[_View]) -> HostLoad:
        passed, seconds = sum(view.passed for view in views), sum(view.seconds for view in views)
        own = sum(view.own / view.passed for view in views)
        stalled = [view.stalled for view in views if view.stalled is not None]
        return HostLoad(
            host=host,
            seconds=min(self._window[1] - self._window[0], max(view.seconds for view in views)),
            own=own,
            # each view covers the programs of the whole machine
            others=max(0.0, sum(view.programs for view in views) / passed - own),
            kernel=sum(view.kernel for view in views) / passed,
            stolen=sum(view.stolen for view in views) / passed,
            stalled=min(1.0, sum(stalled) / seconds) if len(stalled) == len(views) else None,
        )
