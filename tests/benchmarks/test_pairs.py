"""One half of a comparison in its own process, and the description of the machine."""

import pytest

from benchmarks.pairs import describe_machine, side_process


def test_a_machine_has_cores_processor_and_accelerator() -> None:
    words = describe_machine()

    assert "-core " in words
    assert "accelerator" in words or "×" in words


class Counter:
    """One side of a comparison that returns its arguments."""

    def __init__(self, begin: float) -> None:
        self._value = begin

    def add(self, more: float) -> float:
        if more < 0:
            raise ValueError("counts only upwards")
        self._value += more
        return self._value


def test_a_side_in_its_own_process_keeps_its_arguments() -> None:
    with side_process(Counter, 1.0) as one, side_process(Counter, 10.0) as other:
        answers = one("add", 2.0), other("add", 2.0), one("add", 4.0)

        assert answers == (3.0, 12.0, 7.0)
        with pytest.raises(ValueError, match="counts only upwards"):
            one("add", -1.0)
