"""Checks of machines: independent descriptions of a host are equal, ranks, and training rates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, get_args

import msgspec
import numpy as np

from aiperf.accounting.work_log import WorkLog
from aiperf.journal import events
from aiperf.measure.probe import NodeReadings, ProbeReading
from aiperf.preflight import PreflightConf
from aiperf.preflight.node_faults import judge
from aiperf.system.of_run import probe_facts
from aiperf.system.peaks import DataType, WorkerPeak, declared_peak, worker_peak
from aiperf.system.source import COMMIT, SOURCE
from aiperf.units import counted, flops_per_second
from aiperf.verify.check import Check, CheckResult

LAW = "all descriptions of a machine agree"
VERSIONS = "a host has one version of each library while it is up"
HOST = "a line and its machine name one host, and a worker on the driver's host has the driver's boot"
PROCESSOR = "machines of one boot have one processor and one kernel"
DEVICE = "the device of a worker that measured its processor is this processor"
DATA = "each node without a fault has the data set of the first line"
RANKS = "workers present at once on a host have no more ranks than the host has accelerators"
MODEL = "a worker's accelerators are of a model that its host has"
PLANNED_RANKS = "no worker has more ranks than planned"
PRECISION = (
    "all attempts on one kind of device compute in one precision, the configured one if the configuration names one"
)
FAULTS = "a node is excluded for the faults that follow from its readings, and for nothing else"
MEASURED = "measured_matmul_flops"
"""Key of the processor speed that a worker without accelerators measured."""
OF_A_BOOT = ("cpu_model", "kernel", "architecture")


class NodeFaults(Check):
    """Check that each node was excluded or kept as its readings require, beside those of the other nodes."""

    def __init__(self) -> None:
        self._notes = CheckResult("node faults", FAULTS, "nodes")
        self._conf = PreflightConf()
        self._known: list[NodeReadings] = []
        """Nodes of the present driver that were measured before the batch."""
        self._batch: list[tuple[int, events.NodeChecked]] = []
        """Nodes that were measured together."""

    def checked(self) -> CheckResult:
        self._judge()
        return self._notes.close()

    def on_started(self, line: int, event: events.RunStarted) -> None:
        self._conf = msgspec.convert(event.config.get("preflight", {}), PreflightConf)

    def on_resumed(self, line: int, event: events.RunResumed) -> None:
        self._judge()
        self._known.clear()

    def on_node(self, line: int, event: events.NodeChecked) -> None:
        if event.kind is None:
            self._notes.not_checked = "this journal does not record the kinds of its nodes"
            return
        if self._batch and (line > self._batch[-1][0] + 1 or event.at > self._batch[-1][1].at + 1.0):
            self._judge()
        self._batch.append((line, event))

    def _judge(self) -> None:
        batch, self._batch = self._batch, []
        try:
            measured = [_readings(event) for _, event in batch]
            self._known += measured
            verdicts = judge(self._known, self._conf)
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError, AttributeError) as error:
            self._notes.add(batch[0][0], f"readings that no probe gives ({error})")
            return
        for (line, event), one in zip(batch, measured, strict=True):
            self._notes.examined += 1
            verdict = verdicts[one.node]
            due, mild = _probes(verdict.faults), _probes(verdict.notes)
            told, noted = _probes(event.faults), _probes(event.notes)
            for name in sorted(told - due - mild):
                self._notes.add(line, f"{event.host} has the fault {name!r}, but its readings keep the limits")
            # On the user's own machine other programs on the accelerators are noted.
            for name in sorted(due - told - (noted if event.address == event.host else set())):
                self._notes.add(line, f"{event.host} has no fault {name!r}, but its readings break the limits")
            if event.excluded != (bool(event.faults) and self._conf.broken != "keep"):
                self._notes.add(
                    line,
                    f"{event.host} is {'excluded' if event.excluded else 'kept'} with {len(event.faults)} faults and "
                    f"preflight.broken={self._conf.broken}",
                )


def _readings(event: events.NodeChecked) -> NodeReadings:
    return NodeReadings(
        node=f"{event.address} {event.at}",
        address=event.address,
        host=event.host,
        kind=event.kind or "",
        is_head=event.is_head,
        readings=msgspec.convert(event.readings, dict[str, ProbeReading]),
        boot_id=event.boot_id,
    )


def _probes(texts: Iterable[str]) -> set[str]:
    """Return the probes of faults. Their texts may differ in another release."""
    return {text.partition(":")[0] for text in texts}


class Machines(Check):
    def __init__(self) -> None:
        self._notes = CheckResult("machines", LAW, "descriptions")
        self._boots: dict[str, Mapping[str, Any]] = {}
        """First description of a machine of each boot."""
        self._versions: dict[str, Mapping[str, str]] = {}
        """Library versions of each host, from its last description or preflight."""
        self._driver_host: object = None
        self._driver_boot: object = None
        self._data: object = None
        self._configured: object = None
        self._devices: dict[int, str] = {}
        self._workers: dict[int, int] = {}
        """Worker of each trial."""
        self._precisions: dict[str, str] = {}

    def on_started(self, line: int, event: events.RunStarted) -> None:
        self._data = event.dataset.get("fingerprint")
        trainer = event.config.get("trainer")
        self._configured = trainer.get("precision") if isinstance(trainer, dict) else None
        self._driver(line, event)

    def on_resumed(self, line: int, event: events.RunResumed) -> None:
        self._driver(line, event)

    def _driver(self, line: int, event: events.RunStarted | events.RunResumed) -> None:
        self._driver_host, self._driver_boot = event.machine.get("host"), event.machine.get("boot_id")
        if event.boot_id is not None and self._driver_boot not in (None, event.boot_id):
            self._notes.add(line, f"boot {event.boot_id!r}, but {self._driver_boot!r} in its machine", law=HOST)
        self._versions.clear()  # The environment may change while no driver runs.
        described = event.machine.get("versions")
        # A host's description has no version of the driver's sources.
        libraries = {name: version for name, version in event.versions.items() if name not in (SOURCE, COMMIT)}
        if isinstance(described, dict) and described != libraries:
            self._notes.add(line, f"the line and its machine differ: {_difference(libraries, described)}", law=VERSIONS)
        self._machine(line, event.machine)

    def on_joined(self, line: int, event: events.WorkerJoined) -> None:
        self._machine(line, event.machine)
        self._devices[event.worker] = event.device
        host, boot = event.machine.get("host", event.host), event.machine.get("boot_id")
        if host != event.host:
            self._notes.add(line, f"worker {event.worker} is on {event.host!r}, but its machine is {host!r}", law=HOST)
        if host == self._driver_host and boot != self._driver_boot:
            found = f"worker {event.worker}: boot {boot!r}, but the driver on this host has {self._driver_boot!r}"
            self._notes.add(line, found, law=HOST)
        model = event.machine.get("cpu_model")
        if MEASURED in event.machine and event.device != model:
            found = f"worker {event.worker}: device {event.device!r}, but processor {model!r}"
            self._notes.add(line, found, law=DEVICE)

    def _machine(self, line: int, machine: Mapping[str, Any]) -> None:
        if not machine:
            return
        self._notes.examined += 1
        boot, host, versions = machine.get("boot_id"), machine.get("host"), machine.get("versions")
        if isinstance(boot, str):
            first = self._boots.setdefault(boot, machine)
            for name in OF_A_BOOT:
                if first.get(name) != machine.get(name):
                    found = f"{name} {machine.get(name)!r}, but {first.get(name)!r} on the same boot"
                    self._notes.add(line, found, law=PROCESSOR)
        if isinstance(host, str) and isinstance(versions, dict):
            self._same(line, host, versions)

    def _same(self, line: int, host: str, versions: Mapping[str, str]) -> None:
        before = self._versions.setdefault(host, versions)
        if before != versions:
            self._notes.add(line, f"host {host!r}: {_difference(before, versions)}", law=VERSIONS)

    def on_node(self, line: int, event: events.NodeChecked) -> None:
        self._notes.examined += 1
        packages = probe_facts(event, "versions").get("packages")
        if isinstance(packages, dict):
            self._same(line, event.host, packages)
        data = probe_facts(event, "data").get("fingerprint")
        if data is not None and self._data is not None and data != self._data and not event.faults:
            found = f"host {event.host!r}: fingerprint {data!r}, but {self._data!r} in the first line"
            self._notes.add(line, found, law=DATA)

    def on_trial(self, line: int, event: events.TrialStarted) -> None:
        self._workers[event.trial] = event.worker

    def on_prepared(self, line: int, event: events.TrialPrepared) -> None:
        device = self._devices[self._workers[event.trial]]
        usual = self._precisions.setdefault(device, event.precision)
        if event.precision != usual:
            self._notes.add(line, f"{event.precision!r} on {device!r}, but {usual!r} in other attempts", law=PRECISION)
        if self._configured not in (None, "auto", event.precision):
            self._notes.add(line, f"{event.precision!r}, but configured is {self._configured!r}", law=PRECISION)


class Presence(Check):
    """Check that the workers of a host use no more accelerators at once than the host has."""

    def __init__(self) -> None:
        self._notes = CheckResult("workers", RANKS, "workers")
        self._present: dict[int, events.WorkerJoined] = {}
        self._planned: int | None = None
        self._without = 0
        """Number of workers whose host lists no accelerators."""

    def checked(self) -> CheckResult:
        if self._without:
            self._notes.not_checked = (
                f"{counted(self._without, 'worker')} on hosts that list no accelerators (processors, or simulated)"
            )
        return self._notes.close()

    def on_started(self, line: int, event: events.RunStarted) -> None:
        self._planned = None if event.shape is None else event.shape.ranks

    def on_resumed(self, line: int, event: events.RunResumed) -> None:
        self._present.clear()

    def on_lost(self, line: int, event: events.WorkerLost) -> None:
        self._present.pop(event.worker, None)

    def on_joined(self, line: int, event: events.WorkerJoined) -> None:
        notes = self._notes
        notes.examined += 1
        self._present[event.worker] = event
        if self._planned is not None and event.ranks > self._planned:
            found = f"worker {event.worker} has {event.ranks} ranks, planned are {self._planned}"
            notes.add(line, found, law=PLANNED_RANKS)
        accelerators = _accelerators(event.machine)
        if not accelerators:
            self._without += 1
            return
        models = {str(one.get("model")) for one in accelerators}
        if event.device not in models:
            found = f"worker {event.worker} on {event.host}: {event.device!r}, the host has {sorted(models)}"
            notes.add(line, found, law=MODEL)
        if event.hosts:  # The ranks of each host are not recorded for a worker over several hosts.
            return
        present = [one for one in self._present.values() if one.host == event.host and not one.hosts]
        ranks = sum(one.ranks for one in present)
        if ranks > len(accelerators):
            notes.add(
                line,
                f"{event.host} has {len(accelerators)} accelerators, but {ranks} ranks at once, of workers "
                f"{sorted(one.worker for one in present)}",
            )


def _accelerators(machine: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = machine.get("accelerators")
    return [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list | tuple) else []


def _difference(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    return ", ".join(
        f"{name} {one.get(name)!r} and {other.get(name)!r}"
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    )


RATE = "no trial is trained faster than the dense peak of its accelerators"
LEAST_SECONDS = 1.0
"""Shortest examined trial in seconds. In a shorter one the time after its last message is too large a part."""


class Rates(Check):
    """Check that no trial was trained faster than the peak of its accelerators. Call `add_work` after the last line."""

    def __init__(self) -> None:
        self._notes = CheckResult("rates", RATE, "trials")
        self._workers: dict[int, events.WorkerJoined] = {}
        self._precision: dict[int, str] = {}
        """Precision of each trial's last attempt."""
        self._declared: Mapping[str, Any] = {}
        """Peak that the user declared."""

    def add_work(self, work_log: WorkLog) -> None:
        rows = work_log.intervals
        trials, busy, tensor = rows.trial, rows.clock("busy"), rows.tensor_flops
        peaks = {number: self._peak(number, record.worker) for number, record in work_log.trials.items()}
        size = max(peaks, default=-1) + 1
        seconds = np.bincount(trials, busy * rows.ranks, minlength=size)
        length = np.bincount(trials, rows.end - rows.start, minlength=size)
        done = np.bincount(trials, tensor, minlength=size)
        unknown = 0
        for number, at_best in peaks.items():
            if length[number] < LEAST_SECONDS:
                continue
            if at_best is None:
                unknown += 1
                continue
            self._notes.examined += 1
            rate = done[number] / seconds[number] if seconds[number] > 0 else math.inf if done[number] else 0.0
            if rate > at_best.flops:
                found = (
                    f"trial {number}: {done[number]:.6g} operations in {seconds[number]:.6g} s of busy accelerators, "
                    f"{_kind(at_best)} peak {flops_per_second(at_best.flops)}"
                )
                self._notes.add(None, found, "contradiction" if _kind(at_best) == "dense" else "cannot be determined")
        if unknown:
            self._notes.not_checked = f"{unknown} trials: the peak of their devices in their precision is not known"

    def on_started(self, line: int, event: events.RunStarted) -> None:
        self._declared = declared_peak(event.config)

    def on_joined(self, line: int, event: events.WorkerJoined) -> None:
        self._workers[event.worker] = event

    def on_prepared(self, line: int, event: events.TrialPrepared) -> None:
        self._precision[event.trial] = event.precision

    def _peak(self, trial: int, worker: int | None) -> WorkerPeak | None:
        joined, precision = self._workers.get(-1 if worker is None else worker), self._precision.get(trial)
        kind: DataType | None = next((one for one in get_args(DataType) if one == precision), None)
        return (
            None if joined is None or kind is None else worker_peak(joined.device, joined.machine, kind, self._declared)
        )


def _kind(peak: WorkerPeak) -> str:
    return "measured" if peak.is_measured else "declared" if peak.is_declared else "dense"
