"""Section of the report on the exchange of gradients between the ranks (processes) of a worker."""

from __future__ import annotations

from aiperf import units
from aiperf.page.section import Cell, Column, Section, Table, row_of
from aiperf.report.facts import Report


def exchange(report: Report) -> Section | None:
    """Return the section on the time of the gradient exchange and its minimum at the measured bandwidth.

    None if no worker with several ranks worked in the valid window, or if a bandwidth was not measured.
    """
    facts = report.exchange
    if facts is None:
        return None
    exchanged = facts.visible_seconds - facts.waiting_seconds
    times = (
        ("bound of the links", facts.least_seconds, "bytes · 2(n − 1)/n ÷ bus bandwidth, with nothing hidden"),
        ("visible exchange", exchanged, "communication that the backward pass did not hide, up to the bound"),
        (
            "waiting",
            facts.waiting_seconds,
            "visible communication above the bound: the slowest rank, or the network's load",
        ),
    )
    rows = [
        row_of(
            name,
            Cell(units.duration(seconds), seconds),
            Cell(units.share(seconds / facts.busy_seconds) if facts.busy_seconds else "—", seconds),
            meaning,
        )
        for name, seconds, meaning in times
    ]
    footnote = (
        f"Workers of {', '.join(map(str, facts.ranks))} ranks exchanged {units.size(facts.exchanged_bytes)} of gradients a "
        f"rank. Bus bandwidth {units.si(facts.bus_bytes_per_second, 'B/s')}, measured at their start with the gradients of "
        f"the starting network. Transport by NCCL: {'; '.join(facts.transports) or 'not shown'}. Times are of the first rank "
        "of each worker. A slow first rank does not wait. Details: docs/scaling.md."
    )
    columns = (Column("part"), Column("time", True), Column("share of the steps", True), Column("meaning"))
    return Section(
        "exchange",
        "Exchange of gradients",
        (Table("exchange", "Exchange", columns, tuple(rows), footnote=footnote),),
        "Exchange",
    )
