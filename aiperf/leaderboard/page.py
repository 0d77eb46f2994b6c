"""HTML page of a list, in the design of the reports. The page loads nothing and is complete without its script."""

from __future__ import annotations

from collections.abc import Iterator

from aiperf.leaderboard import tables
from aiperf.leaderboard.leaderboard import BenchmarkRuns, Leaderboard, ListedRow
from aiperf.leaderboard.phrases import about, differences, remarks
from aiperf.report.document import document, listed, note, section, table, text, with_code


def page(found: Leaderboard) -> str:
    """Return the HTML text."""
    listings = list(enumerate(found.listings, 1))
    links = [(f"list-{index}", f"{listing.title} ({len(listing.rows)})") for index, listing in listings]
    if found.sites:
        links.append(("announced", "Announced runs"))
    if found.unread:
        links.append(("not-listed", "Not in the list"))
    return document(
        f"AIPerf list by {found.by.title}",
        [
            '<a class="skip" href="#main">To the list</a>',
            "<header>",
            '<p class="kind">AIPerf · list of runs</p>',
            f"<h1>By {text(found.by.title)}</h1>",
            f'<p class="about">{text(about(found))}</p>',
            "</header>",
            f'<nav aria-label="Lists"><ul>{"".join(_link(*link) for link in links)}</ul></nav>'
            if len(links) > 1
            else "",
            '<main id="main">',
            *(_listing(found, listing, index) for index, listing in listings),
            *([section("announced", "Announced runs", [table(tables.sites(found))])] if found.sites else []),
            *([section("not-listed", "Not in the list", [table(tables.unread(found))])] if found.unread else []),
            "</main>",
            '<div class="notes">',
            *(note("clear", title, f"<p>{text(remark)}</p>", "") for title, remark in remarks(found)),
            "</div>",
            "<footer><p>Every figure is computed from the runs’ journals; rank.json has them unrounded. "
            "How to read it: docs/ranking.md.</p></footer>",
        ],
        kind="list",
    )


def _link(name: str, title: str) -> str:
    return f'<li><a href="#{name}">{text(title)}</a></li>'


def _listing(found: Leaderboard, listing: BenchmarkRuns, index: int) -> str:
    places = table(tables.every_place(listing, index))
    others = [
        table(tables.changes(listing, found.by, index)),
        f"<details><summary>Places by every figure</summary>{places}</details>",
    ]
    return section(
        f"list-{index}",
        listing.title,
        [
            f'<div class="{listing.benchmark.standing}">',
            *_differs(listing),
            table(tables.order(listing, found.by, index)),
            *(others if len(listing.rows) > 1 else ()),
            '<details class="screen"><summary>Rules, warnings and origin of each run</summary>',
            *map(_details, listing.rows),
            "</details>",
            "</div>",
        ],
    )


def _differs(listing: BenchmarkRuns) -> Iterator[str]:
    if listing.benchmark.is_simulated:
        remark = "Virtual clock, invented learning curves: no work was done, and no such run is ever ranked."
        yield note("simulated", "Simulated runs", f"<p>{remark}</p>", "")
    if listing.differs:
        yield f"<p>{text(differences(listing))}</p>"


def _details(row: ListedRow) -> str:
    entry = row.entry
    parts = [table(tables.details(row))]
    if entry.rules_not_met:
        rules = "".join(f"<li>{with_code(rule)}</li>" for rule in entry.rules_not_met)
        heading = f"<p>{text(entry.rules_heading)}</p>" if entry.rules_heading else ""
        parts.append(note("simulated" if entry.is_simulated else "outside", "Rules not met", heading, rules))
    if entry.warnings:
        criticals = any(each.severity == "critical" for each in entry.warnings)
        parts.append(note("critical" if criticals else "warned", "Warnings", "", listed(entry.warnings)))
    return f'<div class="entry" id="{tables.details_of(row)}">{"".join(parts)}</div>'
