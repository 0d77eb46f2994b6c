"""Two runs of one machine have the same system, for any amount of free memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aiperf.comparison.comparability import differing, unequal
from aiperf.report.facts import Report
from aiperf.report.gather import gather
from tests.builders.report_journal import Shape, invented


def with_device_memory(report: Report, *memory: int) -> Report:
    (system, *_) = report.systems
    return replace(report, systems=tuple(replace(system, device_memory_bytes=each) for each in memory))


@pytest.mark.parametrize("memory", [(2 << 30,), (2 << 30, 3 << 30)], ids=["one worker", "two workers"])
def test_free_memory_is_no_difference_without_accelerators(memory: tuple[int, ...]) -> None:
    report = gather(invented(Shape()))
    hosts = sum(system.hosts for system in report.systems)
    report = replace(report, hardware=replace(report.hardware, are_accelerators=False))
    one = with_device_memory(report, 5 << 30)
    other = with_device_memory(report, *memory)
    other = replace(other, systems=tuple(replace(each, hosts=0) for each in other.systems[1:]) + other.systems[:1])
    one = replace(one, systems=(replace(one.systems[0], hosts=hosts),))
    other = replace(other, systems=(*other.systems[:-1], replace(other.systems[-1], hosts=hosts)))

    assert differing(one, other) == ()


def test_announced_repeats_and_predicted_ones_have_no_difference() -> None:
    report = gather(invented(Shape()))

    def repeat(seed: int, **options: object) -> Report:
        return replace(report, run=replace(report.run, config={**report.run.config, "seed": seed, **options}))

    announced = [repeat(seed, announcement=str(seed) * 64, announcement_log="log.jsonl") for seed in (1, 2)]

    assert unequal([*announced, repeat(3), repeat(4, predict="prediction.json")]) == ()
    assert {each.name for each in differing(*announced)} == {"seed"}
    assert [each.name for each in unequal([repeat(1), repeat(2, start="resnet50")])] == ["start"]


def test_total_memory_and_an_accelerators_memory_are_differences() -> None:
    report = gather(invented(Shape()))
    (system, *_) = report.systems
    more = replace(system, machine={**system.machine, "memory_bytes": 7})
    on_processors = replace(report, hardware=replace(report.hardware, are_accelerators=False))
    on_accelerators = replace(report, hardware=replace(report.hardware, are_accelerators=True))

    found = differing(on_processors, replace(on_processors, systems=(more, *report.systems[1:])))
    assert [(each.kind, each.name) for each in found if "memory" in each.name]
    found = differing(with_device_memory(on_accelerators, 1), with_device_memory(on_accelerators, 2))
    assert [each.name for each in found] == ["device_memory_bytes"]
