"""Where the choices of the command line lie, as YAML: a folder a group, a file a choice.

In an installed package they lie within it (`aiperf/conf`), so that no other `conf` on anybody's path is ever read; in a
checkout and an editable install beside it, where people edit them. Nothing is imported to find them.
"""

from __future__ import annotations

from pathlib import Path

from aiperf.errors import AiperfError

MAIN = "config.yaml"
"""The file that names the defaults."""


def configuration_folder(package: Path | None = None) -> Path:
    """The folder of the package that runs, absolute.

    Raises AiperfError: the package came without it.
    """
    package = package or Path(__file__).resolve().parent
    places = (package / "conf", package.parent / "conf")
    for place in places:
        if (place / MAIN).is_file():
            return place
    looked_in = " nor in ".join(f"'{place}'" for place in places)
    raise AiperfError(
        f"the configuration travels with the package; there is no {MAIN} in {looked_in}: install it again"
    )
