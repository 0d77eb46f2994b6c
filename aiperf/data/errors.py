"""What is wrong with a data set, each error saying the law, the offence and the remedy."""

from __future__ import annotations

from aiperf.errors import AiperfError


class DataError(AiperfError):
    """A data set that cannot be used as it is."""


class MissingData(DataError):
    """The files of a set are not where the configuration says; the message shows the tree that is wanted. Nothing is ever
    downloaded."""


class DamagedData(DataError):
    """Files that contradict their format, or more corrupt images than the stated limit."""
