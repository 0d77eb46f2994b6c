"""The same user at an empty folder as of the other verbs."""

from tests.cli.conftest import aiperf

__all__ = ["aiperf"]
