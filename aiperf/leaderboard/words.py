"""What a list says of itself, in words that page, Markdown and terminal share."""

from __future__ import annotations

from aiperf.leaderboard.leaderboard import Leaderboard, Listing
from aiperf.leaderboard.valid_flops import EXPONENT, TARGET_ACCURACY
from aiperf.units import count


def about(found: Leaderboard) -> str:
    """`30 runs of 2 benchmarks; 1 could not be read`."""
    runs, benchmarks = found.entries, len(found.listings)
    text = (
        f"{count(runs)} run{'' if runs == 1 else 's'} of {count(benchmarks)} benchmark{'' if benchmarks == 1 else 's'}"
    )
    left_out = len(found.unread)
    return f"{text}; {count(left_out)} not in the list, with the reason at the end" if left_out else text


def torn(found: Leaderboard) -> tuple[str, ...]:
    """Of each run whose journal's last line was dropped, that it was."""
    entries = [row.entry for listing in found.listings for row in listing.rows]
    return tuple(f"{entry.run}: {entry.torn.text}" for entry in entries if entry.torn is not None)


def remarks(found: Leaderboard) -> tuple[tuple[str, str], ...]:
    """What a reader of such a list should know, as (title, text)."""
    return (
        *(("Dropped last line", f"{each}.") for each in torn(found)),
        (
            "One order for each benchmark",
            "Runs of another data set, start, schedule or option are other benchmarks, and stand in tables of their own. "
            "Those that break no rule of a division are of one benchmark.",
        ),
        (
            "Valid FLOPS",
            f"HPC AI500’s metric: score × (accuracy ÷ {TARGET_ACCURACY})^{EXPONENT}, for runs on ImageNet, of which alone its "
            "authors name a target. Theirs are of one fixed network; the two lists cannot be compared.",
        ),
    )


def differences(listing: Listing) -> str:
    """Why it is another benchmark than those of the same title."""
    options = ", ".join(f"{name}={value}" for name, value in listing.differs)
    return f"Another benchmark than others of this title, by {options}."
