"""Folder of the choices of the command line: YAML files in one folder per group.

An installed package contains it (`aiperf/conf`). In a checkout and in an editable install it is next to the package.
"""

from __future__ import annotations

from pathlib import Path

from aiperf.errors import AiperfError

MAIN = "config.yaml"
"""File with the default choices."""


def configuration_folder(package: Path | None = None) -> Path:
    """Return the absolute path of the folder. Raises AiperfError if the installation has none."""
    package = package or Path(__file__).resolve().parent
    places = (package / "conf", package.parent / "conf")
    for place in places:
        if (place / MAIN).is_file():
            return place
    looked_in = " nor in ".join(f"'{place}'" for place in places)
    raise AiperfError(f"the installation is incomplete: there is no {MAIN} in {looked_in}. Install AIPerf again")
