"""Warnings from a run's telemetry, printed next to the score. A missing measurement gives a warning of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from aiperf.run_warning import RunWarning, Severity
from aiperf.system.load import HostLoad
from aiperf.system.summary import DamagedFile, DeviceTelemetry, Telemetry

MOST_NAMED = 4
IDLE_REASONS = frozenset({"gpu_idle"})
"""Reasons for a low clock that do not reduce speed."""
CHOSEN_REASONS = frozenset(
    {"sw_power_cap", "applications_clocks_setting", "display_clock_setting", "sync_boost", "ppt_pwr"}
)
"""Configured limits. Many accelerators reach their power limit at full load all the time."""


_UNCORRECTED = "take it out of service (nvidia-smi -q -d ECC; reset or replace it), and run again without it"
_CORRECTED = "none needed for this run; watch whether the count grows (nvidia-smi -q -d ECC, amd-smi metric --ecc)"
_COOLING = "check the cooling of that host: fans, filters, temperature of the inlet air"
_ONE_LIMIT = "set one limit on all of them (nvidia-smi -pl WATTS, amd-smi set --power-cap WATTS)"
_GAPS = "check whether that host was overloaded or its recorder restarted"


THROTTLED_SHARE = 0.01
HOT_CELSIUS = 85.0
"""Lowest temperature with a warning. Makers reduce clocks between 83 and 95 °C."""
IDLE_UTILISATION = 0.1
"""Mean utilization over the window. Below it an accelerator counts as idle."""
MISSING_SHARE = 0.05
RECORDER_SECONDS = 60.0
"""Time between a recorder's last sample and its worker's last work. Smaller values are differences of hosts' clocks."""
POWER_CAP_SHARE = 0.01
"""Difference of power limits between accelerators of one model."""
OTHERS_SHARE = 0.05
STOLEN_SHARE = 0.05


def telemetry_warnings(telemetry: Telemetry) -> tuple[RunWarning, ...]:
    """Return the warnings except those of `died`, most critical first. Similar devices share one, which names the worst."""
    accelerators = telemetry.accelerators
    warnings = [
        *_missing(telemetry),
        *_defects(accelerators),
        *_beside(telemetry.loads),
        *_foreign(accelerators),
        *_throttled(accelerators),
        *_hot_or_idle(accelerators),
        *_power_caps(accelerators),
        *damage_warnings(telemetry.damaged),
        *_unmeasured(telemetry),
    ]
    order: tuple[Severity, ...] = ("critical", "warning", "note")
    return tuple(sorted(warnings, key=lambda warning: order.index(warning.severity)))


def _name(one: DeviceTelemetry) -> str:
    device = one.device
    return f"{device.model or device.vendor or repr(device.id)} #{device.index} of worker {one.worker} on {one.host!r}"


def _of(some: Sequence[object], all_: Sequence[object], what: str = "accelerator") -> str:
    return f"{len(some)} of {len(all_)} {what}{'' if len(all_) == 1 else 's'}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0995 or share == 0 else f"{100 * share:.1f} %"


Bad = Sequence[tuple[float, DeviceTelemetry]]


def _where(
    accelerators: Sequence[DeviceTelemetry],
    value: Callable[[DeviceTelemetry], float | None],
    is_bad: Callable[[float], bool],
) -> Bad:
    return [(each, one) for one in accelerators if (each := value(one)) is not None and is_bad(each)]


def _missing(telemetry: Telemetry) -> list[RunWarning]:
    return [
        RunWarning(
            f"{worker.accelerators_expected - worker.accelerators_sampled} of {worker.accelerators_expected} "
            f"accelerators of worker {worker.worker} on {worker.host!r} missing when recording began",
            "critical",
            "check that host (nvidia-smi -L, amd-smi list, dmesg) before it is used again",
        )
        for worker in telemetry.workers
        if worker.accelerators_expected is not None and 0 < worker.accelerators_sampled < worker.accelerators_expected
    ]


def _defects(accelerators: Sequence[DeviceTelemetry]) -> Iterator[RunWarning]:
    if gone := _where(accelerators, lambda one: one.gone_at, lambda at: True):
        at, first = min(gone, key=_value)
        yield RunWarning(
            f"{_of(gone, accelerators)} vanished; first {_name(first)}, last seen at {at:.0f} s ({first.gone})",
            "critical",
            "take that host out of service, and check its kernel log for messages of the driver (dmesg)",
        )
    if failed := _where(accelerators, lambda one: one.ecc_uncorrected, lambda errors: errors > 0):
        errors, worst = max(failed, key=_value)
        text = f"{_of(failed, accelerators)} had uncorrected memory errors: results may be wrong; worst {_name(worst)}"
        yield RunWarning(f"{text}, {errors:.0f} in the window", "critical", _UNCORRECTED)
    if corrected := _where(accelerators, lambda one: one.ecc_corrected, lambda errors: errors > 0):
        errors, worst = max(corrected, key=_value)
        text = f"{_of(corrected, accelerators)} had memory errors that were corrected; worst {_name(worst)}"
        yield RunWarning(f"{text}, {errors:.0f} in the window", "note", _CORRECTED)


def _value(pair: tuple[float, DeviceTelemetry]) -> float:
    return pair[0]


def _throttled(accelerators: Sequence[DeviceTelemetry]) -> Iterator[RunWarning]:
    for reason in sorted({reason for one in accelerators for reason in one.throttled or ()} - IDLE_REASONS):
        shares = [((one.throttled or {}).get(reason, 0.0), one) for one in accelerators]
        if held := [pair for pair in shares if pair[0] > THROTTLED_SHARE]:
            share, worst = max(held, key=_value)
            text = (
                f"{_of(held, accelerators)} throttled ({reason}); worst {_name(worst)}, {_percent(share)} of the time"
            )
            yield RunWarning(text, "note" if reason in CHOSEN_REASONS else "warning", _unthrottled(reason))


def _unthrottled(reason: str) -> str:
    if reason in CHOSEN_REASONS:
        return "none needed if the limit is intended; otherwise raise it (nvidia-smi -pl and -rac, amd-smi set)"
    if "thermal" in reason or "thrm" in reason:
        return _COOLING
    if "power" in reason or reason.startswith("ppt"):
        return "check the power supply of that host, and the power limit of its rack"
    return "find the cause with the vendor's tool on that host (nvidia-smi -q -d PERFORMANCE, amd-smi metric)"


def _beside(loads: Sequence[HostLoad]) -> Iterator[RunWarning]:
    if loaded := [one for one in loads if one.others > OTHERS_SHARE]:
        worst = max(loaded, key=lambda one: one.others)
        text = (
            f"other programs ran beside this run on {_of(loaded, loads, 'host')}; worst {worst.host!r}, "
            f"{_percent(worst.others)} of its processor time in the window (this run {_percent(worst.own)})"
        )
        remedy = "end the other programs, or request whole nodes (sbatch --exclusive), and run again"
        yield RunWarning(text, "warning", remedy)
    if robbed := [one for one in loads if one.stolen > STOLEN_SHARE]:
        worst = max(robbed, key=lambda one: one.stolen)
        text = (
            f"the hypervisor gave processor time of {_of(robbed, loads, 'host')} to other machines (steal); worst "
            f"{worst.host!r}, {_percent(worst.stolen)} of it in the window"
        )
        yield RunWarning(text, "warning", "run again on a machine whose processors are not shared")


def _foreign(accelerators: Sequence[DeviceTelemetry]) -> Iterator[RunWarning]:
    if shared := _where(accelerators, lambda one: min((one.foreign or {}).values(), default=None), lambda at: True):
        at, first = min(shared, key=_value)
        names = ", ".join(sorted(first.foreign or {})[:MOST_NAMED])
        text = (
            f"{_of(shared, accelerators)} computed for other programs too; first {_name(first)}, at {at:.0f} s: {names}"
        )
        remedy = (
            "end them, or request exclusive accelerators (sbatch --exclusive; compute mode exclusive), and run again"
        )
        yield RunWarning(text, "warning", remedy)


def _hot_or_idle(accelerators: Sequence[DeviceTelemetry]) -> Iterator[RunWarning]:
    if hot := _where(accelerators, lambda one: one.temperature_max_celsius, lambda each: each >= HOT_CELSIUS):
        celsius, worst = max(hot, key=_value)
        text = f"{_of(hot, accelerators)} reached {HOT_CELSIUS:.0f} °C; hottest {_name(worst)}, {celsius:.0f} °C"
        yield RunWarning(text, "warning", _COOLING)
    if idle := _where(accelerators, lambda one: one.utilisation_mean, lambda mean: mean < IDLE_UTILISATION):
        mean, worst = min(idle, key=_value)
        text = f"{_of(idle, accelerators)} sat idle; least used {_name(worst)}, mean utilization {_percent(mean)}"
        remedy = "check in the report what its worker did (Workers over time) and what delayed it (Where the time went)"
        yield RunWarning(text, "warning", remedy)


def _power_caps(accelerators: Sequence[DeviceTelemetry]) -> list[RunWarning]:
    by_model: dict[str | None, list[tuple[float, DeviceTelemetry]]] = {}
    for one in accelerators:
        if one.device.power_cap_watts is not None:
            by_model.setdefault(one.device.model, []).append((one.device.power_cap_watts, one))
    warnings: list[RunWarning] = []
    for model, capped in by_model.items():
        least, most = min(capped, key=lambda pair: pair[0]), max(capped, key=lambda pair: pair[0])
        if least[0] < most[0] * (1 - POWER_CAP_SHARE):
            fewer = [pair for pair in capped if pair[0] < most[0] * (1 - POWER_CAP_SHARE)]
            text = (
                f"power limits of {model or 'accelerators'} differ: {len(fewer)} of {len(capped)} below {most[0]:.0f} W"
            )
            warnings.append(RunWarning(f"{text}; lowest {_name(least[1])}, {least[0]:.0f} W", "warning", _ONE_LIMIT))
    return warnings


def died(telemetry: Telemetry, worked_until: Mapping[int, float]) -> tuple[RunWarning, ...]:
    """Return a warning about recorders that ended before their workers, if any. `worked_until`: seconds, by worker number."""
    until: dict[int, float] = {}
    for one in telemetry.workers:  # of several hosts, the earliest end of a record counts
        until[one.worker] = min(until.get(one.worker, math.inf), one.recorded_until or 0.0)
    ended = [
        (worked - until.get(worker, 0.0), worker, worked)
        for worker, worked in worked_until.items()
        if worked - until.get(worker, 0.0) > RECORDER_SECONDS
    ]
    if not ended:
        return ()
    _, worker, worked = max(ended)
    last = until.get(worker)
    recorded_text = f"its last sample is from {last:.0f} s" if last else "it recorded nothing"
    return (
        RunWarning(
            f"recorders that died before their workers ended: {len(ended)} of {len(worked_until)}; worst that of worker "
            f"{worker}: {recorded_text}, while its worker worked until {worked:.0f} s",
            "warning",
            "check the kernel log of that worker's host for the cause (dmesg: the OOM killer)",
        ),
    )


def damage_warnings(damaged: Iterable[DamagedFile], what: str = "telemetry") -> list[RunWarning]:
    """Return one warning for each file with skipped lines. `what`: kind of the files in the text."""
    warnings: list[RunWarning] = []
    for one in damaged:
        others = f", and {one.lines - 1} more of its lines" if one.lines > 1 else ""
        where = f"line {one.line} of {one.file}" if one.line else one.file
        text = f"{what} damaged: {where}{others} left out of every figure ({one.why})"
        warnings.append(
            RunWarning(text, "warning", "restore the file from a copy if there is one; no score depends on it")
        )
    return warnings


def _unmeasured(telemetry: Telemetry) -> list[RunWarning]:
    warnings: list[RunWarning] = []
    blind = [one for one in telemetry.workers if one.accelerators_expected and not one.accelerators_sampled]
    if blind:
        first = blind[0]
        reasons = "; ".join(f"{name}: {reason}" for name, reason in first.not_sampled.items())
        text = f"accelerators of {len(blind)} of {len(telemetry.workers)} workers not measured"
        where = f"worker {first.worker} on {first.host!r}"
        remedy = "install the missing library of the sampler there (docs/report.md)"
        warnings.append(RunWarning(f"{text}; {where}: {reasons or 'no sampler shows one'}", "note", remedy))
    length = telemetry.window[1] - telemetry.window[0]
    present = [one for one in telemetry.accelerators if one.gone_at is None]
    partly = [one for one in present if one.seconds_missing > MISSING_SHARE * length]
    if partly:
        worst = max(partly, key=lambda one: one.seconds_missing)
        text = f"{_of(partly, telemetry.accelerators)} not measured all the time; worst {_name(worst)}"
        warnings.append(RunWarning(f"{text}, {worst.seconds_missing:.0f} of {length:.0f} s missing", "note", _GAPS))
    return warnings
