"""A plan is asked for as a user asks for it."""

from tests.cli.conftest import aiperf

__all__ = ["aiperf"]
