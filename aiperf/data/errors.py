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


class StaleIndex(DataError):
    """The files of a set are not those that its index was written of."""

    def __init__(self, offence: str) -> None:
        super().__init__(
            f"an index says what lies in the set's folders; {offence}: write it anew with "
            "`python -m aiperf prepare … --index-only`, or restore the files"
        )


class OtherData(DataError):
    """The set here is not the one that is meant."""
