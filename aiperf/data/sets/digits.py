"""The handwritten digits as a data set: what they are in numbers, opened in memory. They lie in no files of the user's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from aiperf.data.dataset_config import DigitsConf
from aiperf.data.description import DIGITS, DataSet
from aiperf.data.fingerprint import of_options
from aiperf.data.prepare_report import PrepareReport, nothing_to_check

if TYPE_CHECKING:
    from aiperf.data.opened import OpenData


def describe(conf: DigitsConf) -> DataSet:
    """The digits in numbers, and under how much noise they are seen."""
    return replace(DIGITS, noise=conf.noise, fingerprint=of_options(conf))


def open_data(conf: DigitsConf, cores: int | None) -> OpenData:
    """All of them, in memory; nothing is decoded, by however many cores."""
    from aiperf.data import digits
    from aiperf.data.opened import OpenData

    return OpenData(describe(conf), *digits.open_splits(conf), augment=conf.augment, how="8×8 pixels in memory")


def prepare(conf: DigitsConf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    """There is nothing to check."""
    return nothing_to_check(describe(conf), pack)
