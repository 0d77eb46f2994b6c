"""Interface of a data set's module in `aiperf/data/sets/`, and its import by the name in the configuration."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from rich.console import Console

from aiperf.data.dataset_config import DATA_SETS, DataSetConf
from aiperf.data.description import DataSet
from aiperf.data.prepare_report import PrepareReport
from aiperf.errors import BadConfiguration

if TYPE_CHECKING:
    from aiperf.data.opened import OpenData


class SetModule(Protocol):
    """Module of a data set.

    Importing it does not import torch: modules that open images are imported when they are called.

    `conf` is always of the set's own class.
    """

    describe: Callable[[Any], DataSet]
    """Return the set's numbers without reading a pixel. See `survey.describe`."""
    open_data: Callable[[Any, int | None], OpenData]
    """Open the set for a process with so many cores (default: all that it may use). See `opening.open_data`."""
    prepare: Callable[[Any, Path | None, Console, Path | None], PrepareReport]
    """Check the set, and pack it into a folder if one is given. See `verification.prepare`."""


def module_of(conf: DataSetConf) -> SetModule:
    """Return the module of this set.

    Raises:
        BadConfiguration: the configuration is not of a data set.
    """
    if not hasattr(conf, "module"):
        names = ", ".join(each().name for each in DATA_SETS)
        raise BadConfiguration(f"a data set must be one of {names}, not {type(conf).__name__} {conf.name!r}")
    return cast(SetModule, importlib.import_module(conf.module))
