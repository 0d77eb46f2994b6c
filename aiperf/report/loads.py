"""Whose work each machine's processors did in the valid window, as a table."""

from __future__ import annotations

from aiperf import units
from aiperf.report import words
from aiperf.report.facts import Report
from aiperf.report.tables import Cell, Column, Table
from aiperf.system.telemetry import HostLoad

MOST_HOSTS = 64


def loads(report: Report) -> Table | None:
    """One row a machine, the most loaded by others first; None where no recorder told."""
    if report.telemetry is None or not report.telemetry.loads:
        return None
    by_others = sorted(report.telemetry.loads, key=lambda one: -one.others)
    columns = (
        Column("host"),
        Column("this run", True, "programs of this run, Ray's own included"),
        Column("other programs", True),
        Column("most of them", True, "in one part of the window"),
        Column("when", True, "that was, since the run began"),
        Column("kernel", True, "interrupts and the kernel's own threads"),
        Column("stolen", True, "given to other machines by the hypervisor"),
        Column("waiting", True, "time in which some program waited for a processor (/proc/pressure/cpu)"),
        Column("measured", True, "of the window"),
    )
    shown = by_others[:MOST_HOSTS]
    left_out = len(by_others) - len(shown)
    footnote = "Shares of all of the host's processor time. Programs of other containers count as other programs."
    footnote += f" {units.count(left_out)} more hosts are in report.json." if left_out else ""
    return Table(
        "loads", "Processor time of the hosts over the valid window", columns, tuple(map(_row, shown)), True, footnote
    )


def _row(one: HostLoad) -> tuple[Cell, ...]:
    return (
        Cell(one.host),
        *(Cell(words.share(part), part) for part in (one.own, one.others, one.most_others)),
        Cell(f"{one.most_at[0]:.0f}–{one.most_at[1]:.0f} s", one.most_at[0]),
        *(Cell(words.share(part), part) for part in (one.kernel, one.stolen)),
        Cell("—", -1.0) if one.stalled is None else Cell(words.share(one.stalled), one.stalled),
        Cell(units.duration(one.seconds), one.seconds),
    )
