"""Plans are made with the options that a user types."""

from tests.cli.conftest import aiperf

__all__ = ["aiperf"]
