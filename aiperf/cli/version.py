"""`python -m aiperf --version`: which program this is, and on what it stands. Nothing of that is imported to be asked."""

from __future__ import annotations

import platform
from importlib import metadata

DISTRIBUTION = "aiperf-cluster"
LIBRARIES = ("torch", "ray", "horovod", "hydra-core", "optuna")
"""Distributions whose version says the most about a run; a journal holds all of them."""


def main() -> int:
    """Prints the lines; gives the exit status."""
    for line in lines():
        print(line)
    return 0


def lines() -> list[str]:
    """`name value` each: the program and its sources, the journal's schema, Python, libraries."""
    from aiperf.journal.events import SCHEMA
    from aiperf.system.source import COMMIT, SOURCE, revision

    sources = revision()
    said = {DISTRIBUTION: _installed(DISTRIBUTION)}
    if COMMIT in sources:
        said["commit"] = sources[COMMIT].replace("+", " (with changes)")
    said["sources"] = f"SHA-256 {sources[SOURCE]}"
    said["journal schema"] = str(SCHEMA)
    said["python"] = platform.python_version()
    said |= {name: _installed(name) for name in LIBRARIES}
    width = max(map(len, said))
    return [f"{name:<{width}}  {value}" for name, value in said.items()]


def _installed(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
