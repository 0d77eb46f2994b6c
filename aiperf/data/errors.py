"""Errors of a data set. Each message has the rule, the offending value and the fix."""

from __future__ import annotations

from aiperf.errors import AiperfError


class DataError(AiperfError):
    """A data set cannot be used as it is."""


class MissingData(DataError):
    """The files of a set are not in the configured folder.

    The message shows the expected tree. Nothing is ever downloaded.
    """


class DamagedData(DataError):
    """Files violate their format, or more images are corrupt than the limit."""


class StaleIndex(DataError):
    """The files of a set differ from its index."""

    def __init__(self, offence: str) -> None:
        super().__init__(
            f"an index says what lies in the set's folders; {offence}: write it anew with "
            "`python -m aiperf prepare … --index-only`, or restore the files"
        )


class OtherData(DataError):
    """The set on this host is not the expected one."""
