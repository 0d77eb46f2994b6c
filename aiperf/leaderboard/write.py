"""A list's four files in a folder, each written whole or not at all; the same list gives the same bytes."""

from __future__ import annotations

from pathlib import Path

from aiperf.leaderboard.csv_file import csv_text
from aiperf.leaderboard.json_file import json_text
from aiperf.leaderboard.leaderboard import Leaderboard
from aiperf.leaderboard.markdown import markdown
from aiperf.leaderboard.page import page
from aiperf.whole_files import replace_file


def write(found: Leaderboard, folder: Path) -> tuple[Path, ...]:
    """rank.html, rank.md, rank.csv and rank.json; earlier ones are replaced. Raises OSError: the folder cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, form in (("html", page), ("md", markdown), ("csv", csv_text), ("json", json_text)):
        paths.append(folder / f"rank.{suffix}")
        replace_file(paths[-1], form(found).encode())
    return tuple(paths)
