"""Files of a list. Each file is written atomically, and equal lists give equal bytes."""

from __future__ import annotations

from pathlib import Path

from aiperf.atomic_files import replace_file
from aiperf.leaderboard.csv_file import csv_text
from aiperf.leaderboard.json_file import json_text
from aiperf.leaderboard.leaderboard import Leaderboard
from aiperf.leaderboard.markdown import markdown
from aiperf.leaderboard.page import page


def write(found: Leaderboard, folder: Path) -> tuple[Path, ...]:
    """Write rank.html, rank.md, rank.csv and rank.json, and replace earlier ones. Raises OSError if the disk refuses them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, form in (("html", page), ("md", markdown), ("csv", csv_text), ("json", json_text)):
        paths.append(folder / f"rank.{suffix}")
        replace_file(paths[-1], form(found).encode())
    return tuple(paths)
