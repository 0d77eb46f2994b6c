"""Texts of a list that the page, Markdown and the terminal share."""

from __future__ import annotations

from aiperf.leaderboard.leaderboard import BenchmarkRuns, Leaderboard
from aiperf.units import count


def about(found: Leaderboard) -> str:
    """Return a summary such as `30 runs of 2 benchmarks; 1 not in the list, with the reason at the end`."""
    runs, benchmarks = found.runs, len(found.listings)
    text = (
        f"{count(runs)} run{'' if runs == 1 else 's'} of {count(benchmarks)} benchmark{'' if benchmarks == 1 else 's'}"
    )
    left_out = len(found.unread)
    return f"{text}; {count(left_out)} not in the list, with the reason at the end" if left_out else text


def torn(found: Leaderboard) -> tuple[str, ...]:
    """Return a text for each run with a torn last journal line that was dropped."""
    entries = [row.entry for listing in found.listings for row in listing.rows]
    return tuple(f"{entry.run}: {entry.torn.text}" for entry in entries if entry.torn is not None)


def remarks(found: Leaderboard) -> tuple[tuple[str, str], ...]:
    """Return notes for the reader of a list, as (title, text)."""
    return (
        *(("Dropped last line", f"{each}.") for each in torn(found)),
        (
            "One order for each benchmark",
            "Runs with another data set, start, schedule or option belong to another benchmark, with a table of its own. "
            "Valid runs of a division belong to one benchmark if their lengths and image files are the same.",
        ),
        (
            "One entry for each system",
            "Runs of one system are one entry: the median over all its runs. In the ranking, an announced run without a valid "
            "result counts as the lowest.",
        ),
        (
            "Valid FLOPS",
            "HPC AI500’s metric: FLOPS × (quality ÷ target)^n, for runs of one fixed network to a target quality "
            "(benchmark=hpc_ai500_ic). A search of networks has no target, so it has no valid FLOPS.",
        ),
    )


def differences(listing: BenchmarkRuns) -> str:
    """Return the options that distinguish a benchmark from others with the same title."""
    options = ", ".join(f"{name}={value}" for name, value in listing.differs)
    return f"Differs from other benchmarks of this title in {options}."
