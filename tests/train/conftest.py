"""One torch thread in all tests of this folder."""

from tests.builders.network import one_torch_thread

__all__ = ["one_torch_thread"]
