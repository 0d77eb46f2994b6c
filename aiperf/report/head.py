"""The head of a page in words: on what the score was reached, of which benchmark, by which release."""

from __future__ import annotations

from aiperf import units
from aiperf.report import words
from aiperf.report.facts import Hardware, Report

SIMULATED = "simulated"
"""The device that a simulated worker names; its precision and collective are called so too."""
RELEASE = "aiperf-cluster"
"""The name of this package among a run's versions."""


def lines(report: Report) -> tuple[tuple[str, str], ...]:
    """What a reader needs to compare two pages, as (name, words)."""
    run = report.run
    return (
        ("Machine", hardware(report.hardware)),
        ("Benchmark", benchmark(report)),
        ("Run", f"{words.when(run)} · {words.end(run)}"),
        ("Release", release(report)),
    )


def hardware(there: Hardware) -> str:
    """`8 × NVIDIA A100-SXM4-80GB on 1 host · bf16 · horovod 0.28.1 (nccl)`; on processors
    `2 processes on AMD EPYC 9R14, 1 host · fp32 · …`."""
    if not there.devices:
        return "no worker came up"
    devices = " and ".join(there.devices)
    hosts = f"{units.count(there.hosts)} host{'' if there.hosts == 1 else 's'}"
    if there.devices == (SIMULATED,):
        return f"{units.count(there.accelerators)} simulated accelerators on {hosts}"
    if there.are_accelerators:
        first = f"{units.count(there.accelerators)} × {devices} on {hosts}"
    else:
        processes = "process" if there.accelerators == 1 else "processes"
        first = f"{units.count(there.accelerators)} {processes} on {devices}, {hosts}"
    precisions = " and ".join(there.precisions) or "no precision known"
    return " · ".join((first, precisions, " and ".join(there.collectives)))


def benchmark(report: Report) -> str:
    """`digits, 8×8×1, 10 classes · starts at digits_small · 3 min, of it 20 s of warm-up`."""
    run, images = report.run, report.run.dataset
    shape = [images.get(name) for name in ("image", "channels", "classes")]
    size = (
        f", {shape[0]}×{shape[0]}×{shape[1]}, {shape[2]} classes"
        if all(isinstance(each, int) for each in shape)
        else ""
    )
    noise = words.noise(images)
    return " · ".join(
        (
            f"{images.get('name', 'unknown data set')}{size}{f', {noise}' if noise else ''}",
            f"starts at {start_network(report)}",
            f"{units.duration(run.duration_seconds)}, of it {units.duration(run.warmup_seconds)} of warm-up",
        )
    )


def start_network(report: Report) -> str:
    """The starting graph's name, or what else is known of it."""
    match report.run.start_network:
        case None:
            return "a graph that this release cannot read"
        case "another":
            return f"a graph of its own ({(report.run.start_fingerprint or '')[:12]}…)"
        case name:
            return name


def release(report: Report) -> str:
    """`aiperf 0.2.0 · journal schema 4 · report.json version 1`."""
    version = report.run.versions.get(RELEASE)
    unknown = "none named: it holds nothing of the host" if report.run.is_simulated else "release of AIPerf not known"
    return " · ".join(
        (
            unknown if version is None else f"aiperf {version}",
            f"journal schema {report.run.journal_schema}",
            f"report.json version {report.version}",
        )
    )
