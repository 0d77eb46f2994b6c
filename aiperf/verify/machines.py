"""What a journal says of its machines in several places, held to itself: versions, processor, device, data and precision.

A driver, its preflight and each worker describe their hosts on their own. Whoever exchanges a device, a version or a data set
in one place leaves the others; who exchanges it everywhere is not found by this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiperf.journal.events import NodeChecked, RunResumed, RunStarted, TrialPrepared, TrialStarted, WorkerJoined
from aiperf.system.source import COMMIT, SOURCE
from aiperf.verify.check import Handler, Notes
from aiperf.verify.finding import Checked

LAW = "what is said of a machine in one place is said of it in the others"
VERSIONS = "a host has one version of each library while it is up"
HOST = "a line and the machine in it are of one host, and who is on the driver's host shares its boot"
PROCESSOR = "who shares a boot shares a processor and a kernel"
DEVICE = "a worker without accelerators, which has measured its processor, is of that processor"
DATA = "each node without a fault has the data set of the first line"
PRECISION = "all attempts on one kind of device compute in one precision, that of the configuration where it names one"
MEASURED = "measured_matmul_flops"
"""What a worker without accelerators has measured of its processor."""
OF_A_BOOT = ("cpu_model", "kernel", "architecture")


class Machines:
    """A check."""

    def __init__(self) -> None:
        self._notes = Notes("machines", LAW, "descriptions")
        self._boots: dict[str, Mapping[str, Any]] = {}
        """The first machine that was described on each boot."""
        self._versions: dict[str, Mapping[str, str]] = {}
        """Of each host, as its description or its preflight said last."""
        self._driver_host: object = None
        self._driver_boot: object = None
        self._data: object = None
        self._configured: object = None
        self._devices: dict[int, str] = {}
        self._workers: dict[int, int] = {}
        """Of each trial, who trains it."""
        self._precisions: dict[str, str] = {}

    def handlers(self) -> Mapping[type, Handler]:
        """See `Check`."""
        return {
            RunStarted: self._started,
            RunResumed: self._resumed,
            WorkerJoined: self._joined,
            NodeChecked: self._node,
            TrialStarted: self._trial,
            TrialPrepared: self._prepared,
        }

    def checked(self) -> Checked:
        """See `Check`."""
        return self._notes.checked()

    def _started(self, line: int, event: RunStarted) -> None:
        self._data = event.dataset.get("fingerprint")
        trainer = event.config.get("trainer")
        self._configured = trainer.get("precision") if isinstance(trainer, dict) else None
        self._driver(line, event)

    def _resumed(self, line: int, event: RunResumed) -> None:
        self._driver(line, event)

    def _driver(self, line: int, event: RunStarted | RunResumed) -> None:
        self._driver_host, self._driver_boot = event.machine.get("host"), event.machine.get("boot_id")
        if event.boot_id is not None and self._driver_boot not in (None, event.boot_id):
            self._notes.add(line, HOST, f"boot {event.boot_id!r}; its machine's is {self._driver_boot!r}")
        self._versions.clear()  # an environment may be changed while no driver is there
        said = event.machine.get("versions")
        # Which sources a driver runs stands in its line alone: a host's description knows its libraries.
        libraries = {name: version for name, version in event.versions.items() if name not in (SOURCE, COMMIT)}
        if isinstance(said, dict) and said != libraries:
            self._notes.add(line, VERSIONS, f"the line and its machine differ: {_difference(libraries, said)}")
        self._machine(line, event.machine)

    def _joined(self, line: int, event: WorkerJoined) -> None:
        self._machine(line, event.machine)
        self._devices[event.worker] = event.device
        host, boot = event.machine.get("host", event.host), event.machine.get("boot_id")
        if host != event.host:
            self._notes.add(line, HOST, f"worker {event.worker} is on {event.host!r}; its machine is {host!r}")
        if host == self._driver_host and boot != self._driver_boot:
            self._notes.add(
                line, HOST, f"worker {event.worker}: boot {boot!r}; the driver's, there, is {self._driver_boot!r}"
            )
        model = event.machine.get("cpu_model")
        if MEASURED in event.machine and event.device != model:
            self._notes.add(line, DEVICE, f"worker {event.worker}: {event.device!r}; its processor is {model!r}")

    def _machine(self, line: int, machine: Mapping[str, Any]) -> None:
        if not machine:
            return
        self._notes.examined += 1
        boot, host, versions = machine.get("boot_id"), machine.get("host"), machine.get("versions")
        if isinstance(boot, str):
            first = self._boots.setdefault(boot, machine)
            for name in OF_A_BOOT:
                if first.get(name) != machine.get(name):
                    self._notes.add(
                        line, PROCESSOR, f"{name} {machine.get(name)!r}, on the same boot {first.get(name)!r}"
                    )
        if isinstance(host, str) and isinstance(versions, dict):
            self._same(line, host, versions)

    def _same(self, line: int, host: str, versions: Mapping[str, str]) -> None:
        before = self._versions.setdefault(host, versions)
        if before != versions:
            self._notes.add(line, VERSIONS, f"host {host!r}: {_difference(before, versions)}")

    def _node(self, line: int, event: NodeChecked) -> None:
        self._notes.examined += 1
        packages = _fact(event, "versions", "packages")
        if isinstance(packages, dict):
            self._same(line, event.host, packages)
        data = _fact(event, "data", "fingerprint")
        if data is not None and self._data is not None and data != self._data and not event.faults:
            self._notes.add(
                line, DATA, f"host {event.host!r}: fingerprint {data!r}; the first line's is {self._data!r}"
            )

    def _trial(self, line: int, event: TrialStarted) -> None:
        self._workers[event.trial] = event.worker

    def _prepared(self, line: int, event: TrialPrepared) -> None:
        device = self._devices[self._workers[event.trial]]
        usual = self._precisions.setdefault(device, event.precision)
        if event.precision != usual:
            self._notes.add(line, PRECISION, f"{event.precision!r} on {device!r}, where others had {usual!r}")
        if self._configured not in (None, "auto", event.precision):
            self._notes.add(line, PRECISION, f"{event.precision!r}; the configuration says {self._configured!r}")


def _fact(event: NodeChecked, probe: str, name: str) -> Any:
    reading = event.readings.get(probe)
    facts = reading.get("facts") if isinstance(reading, dict) else None
    return facts.get(name) if isinstance(facts, dict) else None


def _difference(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    return ", ".join(
        f"{name} {one.get(name)!r} and {other.get(name)!r}"
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    )
