"""Handwritten digits as a data set in memory, without files of the user."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from aiperf.data.dataset_config import DigitsConf
from aiperf.data.description import DIGITS, DataSet
from aiperf.data.files.fingerprint import of_options
from aiperf.data.prepare_report import PrepareReport, nothing_to_check

if TYPE_CHECKING:
    from aiperf.data.opened import OpenData


def describe(conf: DigitsConf) -> DataSet:
    """Return the set's numbers, including the noise."""
    return replace(DIGITS, noise=conf.noise, fingerprint=of_options(conf))


def open_data(conf: DigitsConf, cores: int | None) -> OpenData:
    """Open all digits in memory. Nothing is decoded, so `cores` has no effect."""
    from aiperf.data import digits
    from aiperf.data.opened import OpenData

    return OpenData(describe(conf), *digits.open_splits(conf), augment=conf.augment, how="8×8 pixels in memory")


def prepare(conf: DigitsConf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    """Return a report without checks, because there are no files."""
    return nothing_to_check(describe(conf), pack)
