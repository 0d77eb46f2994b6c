"""A side of a comparison in a process of its own, and the description of the machine."""

import pytest

from benchmarks.pairs import SideProcess, describe_machine


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
    with SideProcess(Counter, 1.0) as one, SideProcess(Counter, 10.0) as other:
        answers = one.call("add", 2.0), other.call("add", 2.0), one.call("add", 4.0)

    assert answers == (3.0, 12.0, 7.0)


def test_the_end_of_a_sides_process_is_reported() -> None:
    with SideProcess(Counter, 1.0) as one, pytest.raises(RuntimeError, match="ended during 'add'"):
        one.call("add", -1.0)
