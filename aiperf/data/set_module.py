"""What a data set's module in `aiperf/data/sets/` offers, and how it is found: the configuration names it."""

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
    """A module a data set. Importing it takes no torch: what opens images is imported where it is called.

    `conf` is always of the set's own class.
    """

    describe: Callable[[Any], DataSet]
    """The set in numbers, without reading a pixel: for dry runs. See `survey.describe`."""
    open_data: Callable[[Any, int | None], OpenData]
    """The set opened, for a process with so many cores (None: all it may use). See `opening.open_data`."""
    prepare: Callable[[Any, Path | None, Console, Path | None], PrepareReport]
    """The set checked, and packed into a folder where one is named. See `verification.prepare`."""


def module_of(conf: DataSetConf) -> SetModule:
    """The module that knows this set.

    Raises:
        BadConfiguration: the configuration is that of no set.
    """
    if not hasattr(conf, "module"):
        names = ", ".join(each().name for each in DATA_SETS)
        raise BadConfiguration(f"a data set is one of {names}; found {type(conf).__name__} {conf.name!r}")
    return cast(SetModule, importlib.import_module(conf.module))
